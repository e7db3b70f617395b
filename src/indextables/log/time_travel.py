"""Version at a point in time: the last one committed at or before it.

The commit time of a version is its recorded time, unless the store's clock had not reached it: then a writer's clock
was ahead, and the store's time counts. Times never go back from one version to the next.
"""

from __future__ import annotations

import bisect
import datetime
import logging
from collections.abc import Sequence
from typing import Any

from indextables.clock import format_timestamp_ms, parse_timestamp_ms
from indextables.errors import ConfigError, RetentionError
from indextables.log.reader import LogReader
from indextables.log.replay import VersionFile
from indextables.log.segment import Segment
from indextables.log.store_clock import credible_ms

logger = logging.getLogger(__name__)


def moment_ms(timestamp: str | datetime.datetime | int) -> int:
    """Convert ISO text, a datetime, or milliseconds to milliseconds since 1970."""
    if isinstance(timestamp, int):
        return timestamp
    if isinstance(timestamp, datetime.datetime):
        timestamp = timestamp.isoformat()
    try:
        return parse_timestamp_ms(timestamp)
    except ValueError as error:
        raise ConfigError(
            f"cannot read `{timestamp}` as a timestamp: {error}", hint="write it as in `2026-01-31T12:00:00Z`"
        ) from error


def version_at(reader: LogReader, segment: Segment, moment_ms: int) -> int:
    """Return the newest version committed at or before a point in time.

    The time comes from the version file, or from the state if there is no file.
    """
    versions = range(segment.oldest, segment.newest + 1)
    oldest: tuple[int, int] | None = None
    if versions:
        at, first_ms = _find(reader, versions, moment_ms)
        if at:
            return versions[at - 1]
        oldest = (segment.oldest, first_ms)
    for version in sorted((at for at in segment.checkpoints if at < segment.oldest), reverse=True):
        committed_ms = reader.time_of_state(segment, version)
        if committed_ms is not None:
            if committed_ms <= moment_ms:
                return version
            oldest = (version, committed_ms)
    if oldest is None:
        raise RetentionError(f"cannot read `{reader.url}` by time because none of its versions has a commit time")
    raise RetentionError(
        f"cannot read `{reader.url}` as of {format_timestamp_ms(moment_ms)} because its oldest version, "
        f"{oldest[0]}, is of {format_timestamp_ms(oldest[1])}",
        version=oldest[0],
        path=reader.url,
    )


def times_of(reader: LogReader, files: Sequence[VersionFile]) -> list[int]:
    """Return the commit times of consecutive versions."""
    metas = reader.version_metas(files[0].version) if files else {}
    times: list[int] = []
    for file in files:
        time_ms = credible_ms(file.timestamp_ms, metas.get(file.version))
        times.append(max(time_ms, times[-1]) if times else time_ms)
    return times


def _find(reader: LogReader, versions: range, moment_ms: int) -> tuple[int, int]:
    """Return the number of versions up to a moment, and the first commit time."""
    if _are_dated(reader, versions):
        try:
            claimed = _Claimed(reader, versions)
            return bisect.bisect_right(claimed, moment_ms), claimed[0]
        except _ImplausibleError:
            logger.info("versions of `%s` claim times that the store had not reached: reading all of them", reader.url)
    times = times_of(reader, reader.read_versions(versions))
    return bisect.bisect_right(times, moment_ms), times[0]


def _are_dated(reader: LogReader, versions: range) -> bool:
    """Return True if the writers recorded commit times.

    Version 0 has one in its metadata.
    """
    ends = {max(versions[0], 1), versions[-1]} - {0}
    return all(reader.read_version(version).info is not None for version in ends if version in versions)


class _ImplausibleError(Exception):
    """A version claims a time that the store had not reached when its file was put."""


class _Claimed(Sequence[int]):
    """Recorded times of versions, which never go back, read on demand by the search."""

    def __init__(self, reader: LogReader, versions: range) -> None:
        self._reader = reader
        self._versions = versions
        self._metas = reader.version_metas(versions.start)

    def __len__(self) -> int:
        return len(self._versions)

    def __getitem__(self, at: Any) -> Any:
        version = self._versions[at]
        claimed_ms = self._reader.read_version(version).timestamp_ms
        if credible_ms(claimed_ms, self._metas.get(version)) != claimed_ms:
            raise _ImplausibleError
        return claimed_ms
