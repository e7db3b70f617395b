"""Clock of the store, and bounds of commit times.

The store dates every object, by one clock for all writers. A host whose clock is ahead would date its commits in the
future, and every later commit too, as times of versions never go back. A commit therefore never has a time that the
store's clock has not reached. Every commit of a handle shows without cost how far the host is ahead. Before the first
commit, the store's time is measured only if the newest version file is older than a day by the host's clock: with a
probe, which is put, read and deleted. All readers ignore the probe.
"""

from __future__ import annotations

import logging

from indextables.clock import Clock, format_timestamp_ms
from indextables.errors import StorageError
from indextables.log.segment import Segment
from indextables.protocol.names import LOG_DIRECTORY
from indextables.store import ObjectMeta, ObjectStore

logger = logging.getLogger(__name__)

PROBE_PREFIX = f"{LOG_DIRECTORY}/_purge_probe-"
TOLERANCE_MS = 60_000
"""Tolerance between clocks.

Stores date objects by seconds, and good clocks differ less.
"""
_TRUSTED_MS = 24 * 3_600_000


class StoreClock:
    """Time of this host, bounded by the clock of one store."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._ahead_ms: int | None = None
        self._warned = False

    def now_ms(self, newest: Segment) -> int:
        """Return the host's time for a commit; the store's time if the host is ahead."""
        host_ms = self._clock.now_ms()
        if self._ahead_ms is None and self._is_doubtful(host_ms, newest.newest_file):
            self._ahead_ms = self._measure()
        ahead_ms = self._ahead_ms or 0
        if ahead_ms <= TOLERANCE_MS:
            return host_ms
        if not self._warned:
            self._warned = True
            logger.warning(
                "the clock of this host is %d seconds ahead of the clock of `%s`: commits are dated by the store's",
                ahead_ms // 1000,
                self._store.location.url,
            )
        return host_ms - ahead_ms

    def committed(self, host_ms: int, file: ObjectMeta | None) -> None:
        """Learn the store's time from our version file, put at or after `host_ms`."""
        if file is not None and file.modified_ms > 0:
            self._ahead_ms = host_ms - file.modified_ms

    def _is_doubtful(self, host_ms: int, newest: ObjectMeta | None) -> bool:
        return newest is not None and 0 < newest.modified_ms < host_ms - _TRUSTED_MS

    def _measure(self) -> int | None:
        host_ms = self._clock.now_ms()
        try:
            return host_ms - store_time_ms(self._store, self._clock)
        except StorageError as error:
            logger.info("cannot read the clock of `%s`: %s", self._store.location.url, error.message)
            return None


def credible_ms(claimed_ms: int, file: ObjectMeta | None) -> int:
    """Return the claimed commit time, or the file's time if that is earlier.

    The file's time is from the store's clock.
    """
    if file is None or file.modified_ms <= 0 or claimed_ms <= file.modified_ms + TOLERANCE_MS:
        return claimed_ms
    return file.modified_ms


def ahead_text(claimed_ms: int, file: ObjectMeta | None) -> str | None:
    """Return the fault of the time that a version claims, or None."""
    if file is None or credible_ms(claimed_ms, file) == claimed_ms:
        return None
    claimed, dated = format_timestamp_ms(claimed_ms), format_timestamp_ms(file.modified_ms)
    return (
        f"it claims {claimed}, and the store dates it {dated}: the clock of its writer, or of one before it, was ahead"
    )


def store_time_ms(store: ObjectStore, clock: Clock) -> int:
    """Return the time of the store's clock."""
    key = f"{PROBE_PREFIX}{clock.uuid()}"
    store.put(key, b"")
    try:
        return store.head(key).modified_ms
    finally:
        delete_probes(store, [key])


def delete_probes(store: ObjectStore, keys: list[str]) -> None:
    """Delete probes, also those of dead processes. A remaining probe does no harm."""
    try:
        store.delete_many(keys)
    except StorageError as error:
        logger.info("a probe of the clock of `%s` is left for the next purge: %s", store.location.url, error.message)
