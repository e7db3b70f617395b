"""Checkpoints: automatic ones in the background, and requested ones.

An automatic checkpoint runs every `checkpoint.interval` commits. It never fails or delays its commit; an error is
logged, and the next checkpoint tries again. A process that ends normally waits for running checkpoints. After a
checkpoint the log is cleaned up.

A state that must differ from the existing one (compacted, renormalised, or intact instead of damaged) gets its own,
otherwise empty version; another writer may be first there too, so this is retried.
"""

from __future__ import annotations

import concurrent.futures
import logging
import threading
from collections.abc import Callable, Mapping

import tenacity

from indextables.clock import Clock
from indextables.config import Config, settings
from indextables.errors import IndexTablesError, ObjectNotFoundError
from indextables.log.base import DamagedBaseError
from indextables.log.commit.operations import Empty, Operation, Renormalize, UpgradeProtocol
from indextables.log.commit.put import backoff
from indextables.log.commit.transaction import CommitResult, Transaction
from indextables.log.metrics import LogMetrics
from indextables.log.reader import LogReader
from indextables.log.segment import Segment, refuse_gap
from indextables.log.snapshot import Snapshot
from indextables.protocol.actions import Protocol
from indextables.protocol.avro.state_manifest import StateManifest
from indextables.protocol.doc_mapping import REGISTRY_PREFIX, canonical_references, used_references
from indextables.protocol.features import NEW_TABLE_PROTOCOL, WRITER_VERSION
from indextables.protocol.names import state_keys
from indextables.runtime.pools import CHECKPOINT_CREATION, Pools
from indextables.state.action_checkpoint_writer import write_older
from indextables.state.cleanup.clean_up import CleanedUp, Cleaner
from indextables.state.cleanup.verification import Verifier
from indextables.state.compaction import is_compact
from indextables.state.reader import StateReader
from indextables.state.writer import ComputeBounds, StateWriter
from indextables.state.written import PlaceTakenError, WrittenCheckpoint

logger = logging.getLogger(__name__)

WriteSheets = Callable[[StateManifest, Config], object]
"""Function that writes the filter sheets of a compacted state; it never fails."""

_WORKERS = 2
_COMPACT = "COMPACT"
_SECONDS_BETWEEN_CLEAN_UPS = 600.0


class Checkpointer:
    """Writer of the checkpoints of one table."""

    def __init__(
        self,
        reader: LogReader,
        clock: Clock,
        states: StateReader,
        bounds: ComputeBounds,
        pools: Pools,
        metrics: LogMetrics,
        write_sheets: WriteSheets | None = None,
    ) -> None:
        self._write_sheets = write_sheets
        self._reader = reader
        self._pools = pools
        self._bounds = bounds
        self._clock = clock
        self._states = states
        self._metrics = metrics
        self._cleaner = Cleaner(reader, states, metrics)
        self._verifier = Verifier(reader, states)
        self._cleaned_at = float("-inf")
        self._lock = threading.Lock()
        self._under_way: concurrent.futures.Future[None] | None = None

    @property
    def cleaner(self) -> Cleaner:
        """Cleaner of the log, for commands."""
        return self._cleaner

    def after_commit(self, result: CommitResult, config: Config) -> None:
        """Start a checkpoint in the background if one is due."""
        interval = config[settings.CHECKPOINT_INTERVAL]
        if not result.committed or not config[settings.CHECKPOINT_ENABLED] or result.version % interval:
            return
        with self._lock:
            if self._under_way is None or self._under_way.done():
                self._under_way = self._pools.submit(
                    CHECKPOINT_CREATION, lambda: self._quietly(result.version, config), workers=_WORKERS
                )

    def wait(self) -> None:
        """Wait for the running checkpoint, if there is one."""
        with self._lock:
            under_way = self._under_way
        if under_way is not None:
            under_way.result()

    def write(self, version: int, config: Config) -> WrittenCheckpoint:
        """Write the checkpoint of a version, on top of the previous one if possible.

        Use the newest version if the protocol is upgraded first, or the existing state is damaged.
        """
        wanted: int | None = version

        def attempt() -> WrittenCheckpoint:
            nonlocal wanted
            segment, snapshot = self._reader.lazy_snapshot(wanted)
            if self._upgrade(snapshot.protocol, config):
                wanted = None
                segment, snapshot = self._reader.lazy_snapshot()
            refuse_gap(segment, self._reader.url)
            references = self._confirmed_references(snapshot, config)
            if references:
                return self._write_renormalised(snapshot, references, config)
            try:
                return self._write(segment, snapshot, config)
            except PlaceTakenError:
                self._commit(Empty("CHECKPOINT"), config)
                wanted = None
                raise

        return self._several_times(attempt, config)

    def compact(self, config: Config) -> WrittenCheckpoint:
        """Write a compacted checkpoint of the newest version.

        It gets its own version if there is another checkpoint.
        """
        self._upgrade(self._reader.head()[1].protocol, config)

        def attempt() -> WrittenCheckpoint:
            segment, snapshot = self._reader.lazy_snapshot()
            refuse_gap(segment, self._reader.url)
            references = self._confirmed_references(snapshot, config)
            if references:
                return self._write_renormalised(snapshot, references, config)
            if self._is_taken(segment, snapshot, config):
                self._commit(Empty(_COMPACT), config)
                segment, snapshot = self._reader.lazy_snapshot()
            try:
                written = self._write(segment, snapshot, config, compact=True)
            except PlaceTakenError:
                self._commit(Empty(_COMPACT), config)
                raise
            if written.state is not None and not is_compact(written.state, config):
                raise PlaceTakenError(f"cannot compact version {snapshot.version}: another writer was first")
            return written

        written = self._several_times(attempt, config)
        if written.state is not None and self._write_sheets is not None:
            self._write_sheets(written.state, config)
        self.clean_up(config)
        return written

    def clean_up(self, config: Config) -> CleanedUp:
        """Delete files that are not retained, if clean-up is enabled."""
        if not config[settings.CLEANUP_ENABLED]:
            return CleanedUp()
        self._cleaned_at = self._clock.monotonic()
        return self._cleaner.run(config)

    def _several_times(self, attempt: Callable[[], WrittenCheckpoint], config: Config) -> WrittenCheckpoint:
        """Retry as configured by `state.retry`, also if the base is damaged."""

        def distrust(state: tenacity.RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome is not None else None
            if isinstance(error, DamagedBaseError):
                self._reader.distrust(error)

        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(config[settings.STATE_RETRY_MAX_ATTEMPTS]),
            wait=backoff(
                config[settings.STATE_RETRY_BASE_DELAY_MS], config[settings.STATE_RETRY_MAX_DELAY_MS], self._clock
            ),
            retry=tenacity.retry_if_exception_type((PlaceTakenError, DamagedBaseError, ObjectNotFoundError)),
            after=distrust,
            sleep=self._clock.sleep,
            reraise=True,
        )
        started = self._clock.monotonic()
        written = retrying(attempt)
        seconds = self._clock.monotonic() - started
        if written.is_new:
            self._metrics.checkpointed(seconds, written.num_bytes, written.plain_bytes)
            logger.info(
                "created a checkpoint at version %d: %d files, %.2f MB in %.0f ms",
                written.hint.version,
                written.hint.num_files or 0,
                written.num_bytes / 1e6,
                seconds * 1000,
            )
        self._reader.cache.clear()
        return written

    def _write(
        self,
        segment: Segment,
        snapshot: Snapshot,
        config: Config,
        *,
        compact: bool = False,
        references: Mapping[str, str] | None = None,
    ) -> WrittenCheckpoint:
        if config[settings.STATE_FORMAT] != "avro":
            return write_older(self._reader.store, self._states, snapshot, config, self._clock)
        writer = StateWriter(self._reader.store, config, self._clock, self._states, self._bounds)
        return writer.write(self._reader, segment, snapshot, compact=compact, references=references)

    def _write_renormalised(
        self, snapshot: Snapshot, references: Mapping[str, str], config: Config
    ) -> WrittenCheckpoint:
        """Write a state with canonical doc mapping references, in a version that has them."""
        entries = {REGISTRY_PREFIX + new: snapshot.doc_mappings[old] for old, new in references.items()}
        self._commit(Renormalize(entries), config)
        segment, newest = self._reader.lazy_snapshot()
        written = self._write(segment, newest, config, compact=True, references=references)
        # Cached snapshots have the former references: start again from the state.
        self._reader.forget()
        return written

    def _confirmed_references(self, snapshot: Snapshot, config: Config) -> dict[str, str]:
        """Return the references to renormalise, checked again on the newest state.

        Another process may have renormalised it, which an open handle does not see in the versions that it follows.
        """
        if not self._stale_references(snapshot, config):
            return {}
        self._reader.forget()
        return self._stale_references(self._reader.lazy_snapshot(snapshot.version)[1], config)

    def _stale_references(self, snapshot: Snapshot, config: Config) -> dict[str, str]:
        """Return the references to renormalise: if too many are used, those not canonical."""
        most = config[settings.STATE_SCHEMA_RENORMALIZE_THRESHOLD]
        registry = snapshot.doc_mappings
        if config[settings.STATE_FORMAT] != "avro" or len(registry) <= most:
            return {}
        used = used_references(snapshot.live_files.tables(columns=["doc_mapping_ref"]))
        return canonical_references(registry, used) if len(used) > most else {}

    def _is_taken(self, segment: Segment, snapshot: Snapshot, config: Config) -> bool:
        """Return True if a state exists that differs from the compacted one.

        Also if the version is only a state: other engines commit so.
        """
        if segment.newest_file is None:
            return True
        keys = [key for key in segment.checkpoints.get(snapshot.version, ()) if key in state_keys(snapshot.version)]
        if config[settings.STATE_FORMAT] != "avro" or not keys:
            return False
        state = self._states.state_at(snapshot.version)
        if state is None or not is_compact(state, config) or not self._is_sorted(state, snapshot):
            return True
        return self._verifier.verify(snapshot.version, keys) is None

    def _is_sorted(self, state: StateManifest, snapshot: Snapshot) -> bool:
        """Return True if the files of a state are surely sorted by partition."""
        if len(state.manifests) <= 1 or not snapshot.partition_columns:
            return True
        info = self._reader.read_version(snapshot.version).info
        return info is not None and info.operation == _COMPACT

    def _upgrade(self, protocol: Protocol, config: Config) -> bool:
        """Upgrade an older table to protocol 4, which Avro states need, in its own commit."""
        if config[settings.STATE_FORMAT] != "avro":
            return False
        if min(protocol.min_writer_version, protocol.min_reader_version) >= WRITER_VERSION:
            return False
        return self._commit(UpgradeProtocol(NEW_TABLE_PROTOCOL), config).committed

    def _commit(self, operation: Operation, config: Config) -> CommitResult:
        return Transaction(self._reader, self._states, config, self._clock, operation).run()

    def _quietly(self, version: int, config: Config) -> None:
        try:
            self.write(version, config)
            if self._clock.monotonic() - self._cleaned_at > _SECONDS_BETWEEN_CLEAN_UPS:
                self.clean_up(config)
        except IndexTablesError as error:
            self._metrics.checkpoint_failed()
            logger.warning("no checkpoint of `%s`, the next one will try again: %s", self._reader.url, error.message)
        except Exception:
            self._metrics.checkpoint_failed()
            logger.exception("no checkpoint of `%s`, because of an unexpected error", self._reader.url)
