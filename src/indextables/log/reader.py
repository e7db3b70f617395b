"""Reading the log: versions, heads and snapshots, each from the newest thing known before.

One reader may be shared by threads. Plain mode (`transaction.useOptimized=false`) reads every version in order, one by
one, and keeps nothing; its answers are the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pyarrow as pa

from indextables.clock import Clock
from indextables.config import Config, settings
from indextables.errors import CheckpointError, CorruptLogError, ObjectNotFoundError, RetentionError
from indextables.log.base import BaseChoice, BaseSource, DamagedBaseError, refuse_unread_state
from indextables.log.cache import LogCache
from indextables.log.files import Keep
from indextables.log.metrics import REPLAY, LogMetrics
from indextables.log.pools import InlinePools, Pools
from indextables.log.replay import (
    BrokenChainError,
    VersionFile,
    advance,
    check_chain,
    fold,
    head_of,
    newest_definitions,
)
from indextables.log.restoring import refuse_purged
from indextables.log.segment import (
    Segment,
    find_version,
    grow_segment,
    list_from,
    reachable_text,
    version_files,
)
from indextables.log.snapshot import NAMELESS, Head, Snapshot
from indextables.log.store_clock import StoreClock, credible_ms
from indextables.log.versions import VersionReader
from indextables.log.walk_back import walk_back
from indextables.protocol.actions import Metadata, Protocol
from indextables.protocol.features import check_readable
from indextables.store import ObjectMeta, ObjectStore

logger = logging.getLogger(__name__)

_READS_DURING_CLEAN_UP = 5

_Read = TypeVar("_Read")


class LogReader:
    """An open log, for reading."""

    def __init__(
        self,
        store: ObjectStore,
        config: Config,
        clock: Clock,
        pools: Pools,
        bases: BaseSource,
        metrics: LogMetrics | None = None,
    ) -> None:
        self.store = store
        self.url = store.location.url
        self._clock = clock
        self._bases = bases
        self.metrics = metrics or LogMetrics()
        self.store_clock = StoreClock(store, clock)
        self._plain = not config[settings.TRANSACTION_USE_OPTIMIZED]
        self._replays = not config[settings.CHECKPOINT_ENABLED]
        self._keeps = not self._plain and config[settings.TRANSACTION_CACHE_ENABLED]
        ttl_seconds = config[settings.TRANSACTION_CACHE_EXPIRATION_SECONDS]
        self.cache = LogCache(ttl_seconds, clock.monotonic, enabled=self._keeps)
        self._versions = VersionReader(store, config, self.cache, InlinePools() if self._plain else pools)
        self._lock = threading.RLock()
        self._choice = BaseChoice(bases, self.mark_at, self.read_versions, self.url)
        self._segment: Segment | None = None
        self._head: Head | None = None
        self._tip: Snapshot | None = None
        self._source = ""
        with _registering:
            _all_readers.add(self)

    def segment(self, max_staleness_seconds: float = 0) -> Segment:
        """The newest segment: asked of the store, unless an answer of the given age will do."""
        with self._lock:
            known: tuple[Segment, float] | None = self.cache.versions_list.get("newest")
            if known is not None and self._clock.monotonic() - known[1] < max_staleness_seconds:
                return known[0]
            asked_at = self._clock.monotonic()
            segment = self._grown()
            if segment is None:
                self.forget()
                newest = self._choice.whole_segment if self._replays else self._choice.newest_segment
                segment = newest(self.store)
            self._versions.newest = segment
            self._segment = segment if self._keeps else None
            self.cache.versions_list.put("newest", (segment, asked_at))
            return segment

    def _grown(self) -> Segment | None:
        """The segment that is known and what came since. A new state of another writer is a base to start from again:
        it may hold a commit that no version file holds."""
        if self._segment is None:
            return None
        grown = grow_segment(self.store, self._segment)
        known = self._segment.checkpoints
        fresh = [] if grown is None else [at for at in grown.checkpoints if at not in known and grown.has_state(at)]
        return None if fresh and self._choice.is_of_another_writer(max(fresh)) else grown

    def whole_segment(self) -> Segment:
        """The newest segment with everything that is there, also what is older than the newest checkpoint."""
        with self._lock:
            return self._completed(self.segment())

    def _completed(self, segment: Segment) -> Segment:
        if not segment.is_partial:
            return segment
        whole = self._choice.whole_segment(self.store)
        if whole.oldest <= segment.oldest <= whole.newest + 1:
            # Only the past was asked for: the present must stay the same in the middle of a reading.
            checkpoints = {**whole.checkpoints, **segment.checkpoints}
            whole = dataclasses.replace(segment, oldest=whole.oldest, checkpoints=checkpoints, is_partial=False)
        if self._segment is segment:
            self._segment = whole
        return whole

    def committed(self, segment: Segment | None, head: Head, file: VersionFile) -> None:
        """A commit of our own: seen by every later read, and dropped from the caches is what it has made old."""
        metadata, protocol = newest_definitions(file.actions)
        with self._lock:
            self.cache.after_write()
            if metadata is not None:
                self.cache.after_schema_change()
            if protocol is not None:
                self.cache.after_upgrade()
            if segment is None:
                self.forget()
            elif self._keeps and (self._segment is None or self._segment.newest < segment.newest):
                self._segment, self._head = segment, head
                self.cache.versions.put(file.version, file)

    def forget(self) -> None:
        """Start from nothing: the table was made anew, or the caller wants it so."""
        with self._lock:
            self._segment = self._head = self._tip = None
            self.cache.clear()

    def known_head(self) -> tuple[Segment, Head] | None:
        """The newest version as far as it is known without a call."""
        with self._lock:
            if self._segment is None or self._head is None or self._segment.newest != self._head.version:
                return None
            return self._segment, self._head

    def read_version(self, version: int) -> VersionFile:
        """One version file, decoded and checked."""
        return self._versions.read(version)

    def read_versions(self, versions: Iterable[int]) -> list[VersionFile]:
        """Several version files, side by side where that pays."""
        return self._versions.read_many(versions)

    def mark_at(self, version: int) -> str | None:
        """By what the next version knows this one, if it can."""
        return self._versions.mark_at(version)

    def head(self) -> tuple[Segment, Head]:
        """The newest version, its protocol and metadata; never its files."""
        return self._despite_clean_up(self._newest_head)

    def snapshot(self, version: int | None = None, *, max_staleness_seconds: float = 0) -> Snapshot:
        """The table at a version, the newest by default, with its files."""

        def read() -> Snapshot:
            segment = self.segment(max_staleness_seconds)
            if version is not None and version < segment.newest:
                # Where the newest version is damaged, older ones can still be read by number.
                with contextlib.suppress(CorruptLogError, CheckpointError):
                    refuse_purged(version, self._head_of(segment), self.url)
            return self._with_files(segment, version)

        return self._despite_clean_up(read)

    def file_tables(
        self, choose: Callable[[Snapshot], Keep | None], *, max_staleness_seconds: float = 0
    ) -> tuple[Snapshot, list[pa.Table]]:
        """The newest version, and those of its files that stand in parts which may hold what is sought."""

        def read() -> tuple[Snapshot, list[pa.Table]]:
            snapshot = self._snapshot(self.segment(max_staleness_seconds), None)
            return snapshot, list(snapshot.live_files.tables(choose(snapshot)))

        return self._despite_clean_up(read)

    def stream_tables(self, choose: Callable[[Snapshot], Keep | None]) -> tuple[Snapshot, Iterator[pa.Table]]:
        """The same part by part, without holding them all. Damage of the first part leads to another base; of a later
        one it is an error."""

        def read() -> tuple[Snapshot, Iterator[pa.Table]]:
            snapshot = self._snapshot(self.segment(), None)
            tables = snapshot.live_files.tables(choose(snapshot))
            return snapshot, itertools.chain(list(itertools.islice(tables, 1)), tables)

        return self._despite_clean_up(read)

    def newest_snapshot(self) -> tuple[Segment, Snapshot]:
        """The newest version with its files, and where it stands."""

        def read() -> tuple[Segment, Snapshot]:
            segment = self.segment()
            return segment, self._with_files(segment, None)

        return self._despite_clean_up(read)

    def lazy_snapshot(self, version: int | None = None) -> tuple[Segment, Snapshot]:
        """A version whose files are read when they are asked for, the newest by default, and where it stands. Who reads
        them meets damage alone, and tells of it by `distrust`."""

        def read() -> tuple[Segment, Snapshot]:
            segment = self.segment()
            return segment, self._snapshot(segment, version)

        return self._despite_clean_up(read)

    def distrust(self, error: DamagedBaseError) -> None:
        """Start from nothing, and never again from the state that is damaged."""
        self._choice.distrust(error)
        self.forget()

    def belongs(self, state: Snapshot, segment: Segment) -> bool:
        """Whether a state stands for the version that is there, where both say who they are."""
        return self._choice.belongs(state, segment)

    def time_of_state(self, segment: Segment, version: int) -> int | None:
        """When the version was committed that a state stands for, if that state can be read."""
        keys = segment.checkpoints[version]
        state = self._bases.load({version: keys})
        return None if state is None else credible_ms(state.timestamp_ms, self.store.head(keys[0]))

    def is_of_another_writer(self, version: int) -> bool:
        """Whether the state of a version names no transaction, as those of other writers."""
        return self._choice.is_of_another_writer(version)

    def version_metas(self, first: int) -> dict[int, ObjectMeta]:
        """The version files from `first` on as the store describes them."""
        return list_from(self.store, first)[0]

    def metadata(self) -> Metadata:
        """The metadata in force, found by walking back from the newest version."""
        newest = self.segment().newest
        found: Metadata | None = self.cache.metadata.get(newest)
        if found is None:
            found = self.definitions().metadata
            self.cache.metadata.put(newest, found)
        return found

    def protocol(self) -> Protocol:
        """The protocol in force, found by walking back from the newest version."""
        newest = self.segment().newest
        found: Protocol | None = self.cache.protocol.get(newest)
        if found is None:
            found = self.definitions().protocol
            self.cache.protocol.put(newest, found)
        return found

    def definitions(self) -> Head:
        """The head; of a table whose states cannot be read, what version 0 says, which they leave as it is."""
        try:
            return self.head()[1]
        except CheckpointError:
            if 0 not in version_files(self.store, self.segment()):
                raise
            return fold(None, [self.read_version(0)])

    def _despite_clean_up(self, read: Callable[[], _Read]) -> _Read:
        """Read again from a new listing where a clean-up took a file away in the middle of the reading."""
        for attempt in range(1, _READS_DURING_CLEAN_UP + 1):
            try:
                with self._lock:
                    return read()
            except (ObjectNotFoundError, CheckpointError, BrokenChainError) as error:
                self.forget()
                if isinstance(error, DamagedBaseError):
                    self.distrust(error)
                if attempt < _READS_DURING_CLEAN_UP:
                    continue
                if not isinstance(error, ObjectNotFoundError):
                    raise
                raise CorruptLogError(
                    f"cannot read the log of `{self.url}`: {error.message}", path=error.path or self.url
                ) from error
        raise AssertionError("unreachable")

    def _newest_head(self) -> tuple[Segment, Head]:
        segment = self.segment()
        return segment, self._head_of(segment)

    def _head_of(self, segment: Segment) -> Head:
        if self._tip is not None and self._tip.version == segment.newest:
            self._head = head_of(self._tip)
        elif self._head is not None and self._head.version <= segment.newest:
            self._head = advance(self._head, self.read_versions(range(self._head.version + 1, segment.newest + 1)))
        else:
            self._head = self._walk_back(segment)
        head = self._head
        if not self._keeps:
            self._head = None
        return head

    def _walk_back(self, segment: Segment) -> Head:
        base = self._chosen_base(segment, segment.newest)
        floor = 0 if base is None else base.version + 1
        if floor < segment.oldest and floor <= segment.newest:
            if segment.is_partial:
                return self._walk_back(self._completed(segment))
            refuse_unread_state(segment, self.url)
        return walk_back(segment.newest, base, self.read_versions)

    def _with_files(self, segment: Segment, version: int | None) -> Snapshot:
        """The snapshot, once its files are read: damage must show while another base can still take its place."""
        started = self._clock.monotonic()
        self._source = ""
        snapshot = self._snapshot(segment, version)
        _ = snapshot.files
        if self._source:
            seconds = self._clock.monotonic() - started
            self.metrics.loaded(self._source, seconds)
            logger.debug("version %d was loaded from %s in %.1f ms", snapshot.version, self._source, seconds * 1000)
        return snapshot

    def _snapshot(self, segment: Segment, version: int | None) -> Snapshot:
        wanted = segment.newest if version is None else version
        cached: Snapshot | None = self.cache.snapshots.get(wanted)
        if cached is None:
            cached = self._load(segment, wanted)
            self.cache.snapshots.put(wanted, cached)
            if self._keeps and wanted == segment.newest:
                self._tip = cached
        check_readable(cached.protocol, self.url)
        return cached

    def _load(self, segment: Segment, wanted: int) -> Snapshot:
        if wanted < segment.oldest:
            segment = self._completed(segment)
        if not 0 <= wanted <= segment.newest:
            raise self._unreachable(segment, wanted)
        if self._tip is not None and self._tip.version <= wanted:
            base: Snapshot | None = self._tip
        else:
            base = self._chosen_base(segment, wanted)
            self._source = REPLAY if base is None else base.source
        start = 0 if base is None else base.version + 1
        if start < segment.oldest and start <= wanted and not (wanted == 0 and find_version(self.store, 0)):
            if segment.is_partial:
                return self._load(self._completed(segment), wanted)
            if wanted == segment.newest:
                refuse_unread_state(segment, self.url)
            raise self._unreachable(segment, wanted)
        if wanted < segment.newest:
            self._check_follower(segment, wanted)
        if self._plain:
            for version in range(start, wanted + 1):
                base = fold(base, [self.read_version(version)])
            assert base is not None  # noqa: S101 - the range is empty only where there is a base
            return base
        return fold(base, self.read_versions(range(start, wanted + 1)))

    def _check_follower(self, segment: Segment, wanted: int) -> None:
        """Refuse an old version on which the one after it does not stand: its writer died before taking it back. A
        clean-up may have made room for it since the listing, so this is asked of every log."""
        if not (segment.covers(wanted) and segment.covers(wanted + 1)):
            return
        try:
            follower = self.read_version(wanted + 1)
        except CorruptLogError:
            return
        if follower.info is None:
            return
        try:
            check_chain(wanted, self.mark_at(wanted) or NAMELESS, follower)
        except BrokenChainError as error:
            raise self._unreachable(segment, wanted) from error

    def _chosen_base(self, segment: Segment, wanted: int) -> Snapshot | None:
        """A snapshot to fold on; None where there is none, or replay is asked for and every version is there."""
        base = self._choice.newest_for(segment, wanted)
        return None if self._replays and segment.oldest == 0 and (base is None or base.txn_id) else base

    def _unreachable(self, segment: Segment, wanted: int) -> RetentionError:
        segment = self._completed(segment) if segment.is_partial else segment
        return RetentionError(
            f"cannot read version {wanted} of `{self.url}` because it has the versions {reachable_text(segment)}",
            version=wanted,
            path=self.url,
        )


_all_readers: weakref.WeakSet[LogReader] = weakref.WeakSet()
_registering = threading.Lock()


def open_readers() -> list[LogReader]:
    """The readers that are open in this process."""
    with _registering:
        return list(_all_readers)


def _after_fork_in_child() -> None:
    global _registering  # noqa: PLW0603 - a thread that is gone may hold it
    _registering = threading.Lock()
    for reader in _all_readers:
        reader._lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork_in_child)
