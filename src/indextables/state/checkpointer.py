"""When checkpoints are made: every so many commits, in the background, and whenever somebody asks.

A checkpoint never fails or delays the commit after which it is made; what goes wrong is logged, and the next one tries
again. A process that ends cleanly waits for those under way.
"""

from __future__ import annotations

import concurrent.futures
import logging
import threading

from indextables.clock import Clock
from indextables.config import Config, settings
from indextables.errors import IndexTablesError
from indextables.log.operations import Empty, Operation, UpgradeProtocol
from indextables.log.pools import CHECKPOINT_CREATION, Pools
from indextables.log.reader import LogReader
from indextables.log.segment import Segment
from indextables.log.snapshot import Snapshot
from indextables.log.transaction import CommitResult, Transaction
from indextables.protocol.features import NEW_TABLE_PROTOCOL, WRITER_VERSION
from indextables.state.compaction import is_compact
from indextables.state.reader import StateReader
from indextables.state.writer import ComputeBounds, StateWriter, WrittenState

logger = logging.getLogger(__name__)

_WORKERS = 2


class Checkpointer:
    """Makes the checkpoints of one table."""

    def __init__(
        self, reader: LogReader, clock: Clock, states: StateReader, bounds: ComputeBounds, pools: Pools
    ) -> None:
        self._reader = reader
        self._pools = pools
        self._bounds = bounds
        self._clock = clock
        self._states = states
        self._lock = threading.Lock()
        self._under_way: concurrent.futures.Future[None] | None = None

    def after_commit(self, result: CommitResult, config: Config) -> None:
        """Begin a checkpoint where one is due. Returns at once."""
        interval = config[settings.CHECKPOINT_INTERVAL]
        if not result.committed or not config[settings.CHECKPOINT_ENABLED] or result.version % interval:
            return
        with self._lock:
            if self._under_way is None or self._under_way.done():
                self._under_way = self._pools.submit(
                    CHECKPOINT_CREATION, lambda: self._quietly(result.version, config), workers=_WORKERS
                )

    def wait(self) -> None:
        """Until the checkpoint that is under way has ended, if there is one."""
        with self._lock:
            under_way = self._under_way
        if under_way is not None:
            under_way.result()

    def write_state(self, version: int, config: Config) -> WrittenState:
        """Write the state of a version on the one before it; of the newest version where the table is raised first."""
        if self._upgrade(config):
            version = self._reader.head()[0].newest
        segment = self._reader.segment()
        return self._write(segment, self._reader.snapshot(version), config, compact=False)

    def compact(self, config: Config) -> WrittenState:
        """Write a compacted state of the newest version, in a version of its own where another state stands there."""
        self._upgrade(config)
        segment, snapshot = self._reader.newest_snapshot()
        if self._is_taken(segment, snapshot, config):
            self._commit(Empty("COMPACT"), config)
            segment, snapshot = self._reader.newest_snapshot()
        return self._write(segment, snapshot, config, compact=True)

    def _write(self, segment: Segment, snapshot: Snapshot, config: Config, *, compact: bool) -> WrittenState:
        writer = StateWriter(self._reader.store, config, self._clock, self._states, self._bounds)
        written = writer.write(self._reader, segment, snapshot, compact=compact)
        self._reader.cache.clear()
        logger.info("checkpoint of version %d: %d files", written.state.state_version, written.state.num_files)
        return written

    def _is_taken(self, segment: Segment, snapshot: Snapshot, config: Config) -> bool:
        if snapshot.version not in segment.checkpoints:
            return False
        state = self._states.state_at(snapshot.version)
        return state is None or not is_compact(state, config)

    def _upgrade(self, config: Config) -> bool:
        """Avro states need protocol 4: an older table is raised first, in a commit of its own."""
        protocol = self._reader.head()[1].protocol
        if min(protocol.min_writer_version, protocol.min_reader_version) >= WRITER_VERSION:
            return False
        return self._commit(UpgradeProtocol(NEW_TABLE_PROTOCOL), config).committed

    def _commit(self, operation: Operation, config: Config) -> CommitResult:
        return Transaction(self._reader, self._states, config, self._clock, operation).run()

    def _quietly(self, version: int, config: Config) -> None:
        try:
            self.write_state(version, config)
        except IndexTablesError as error:
            logger.warning("no checkpoint of `%s`, the next one will try again: %s", self._reader.url, error.message)
        except Exception:
            logger.exception("no checkpoint of `%s`, for a reason that nobody foresaw", self._reader.url)
