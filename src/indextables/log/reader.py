"""Reader of the log: versions, heads and snapshots, each built on cached ones.

Threads may share a reader. Plain mode (`transaction.useOptimized=false`) reads every version in order, one by one, and
caches nothing; its results are the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa

from indextables.clock import Clock
from indextables.config import Config, settings
from indextables.errors import (
    CheckpointCorruptionError,
    CheckpointError,
    CorruptLogError,
    ObjectNotFoundError,
    RetentionError,
)
from indextables.log.base import BaseChoice, BaseSource, DamagedBaseError, refuse_unread_state
from indextables.log.cache import LogCache
from indextables.log.files import Keep, LiveFiles
from indextables.log.metrics import REPLAY, LogMetrics
from indextables.log.replay import (
    BrokenChainError,
    VersionFile,
    advance,
    check_chain,
    fold,
    head_of,
    leap,
    newest_definitions,
)
from indextables.log.segment import (
    Files,
    Segment,
    find_version,
    grow_segment,
    list_from,
    reachable_text,
    version_files,
)
from indextables.log.snapshot import NAMELESS, Head, Snapshot, refuse_purged
from indextables.log.store_clock import StoreClock, credible_ms
from indextables.log.versions import FoundVersion, VersionReader, walk_back
from indextables.protocol.actions import Metadata, Protocol
from indextables.protocol.features import check_readable
from indextables.protocol.names import LOG_DIRECTORY
from indextables.runtime.pools import NEXT_VERSION, InlinePools, Pools
from indextables.runtime.turns import Turns
from indextables.store import ObjectMeta, ObjectStore

logger = logging.getLogger(__name__)

_READS_DURING_CLEAN_UP = 5
_FEWEST_FOR_A_PROOF = 2
_NEXT_READERS = 8
_FAR_VERSIONS = 64

_Read = TypeVar("_Read")


class LogReader:
    """Open log, for reading."""

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
        self.turns = Turns(clock)
        self._plain = not config[settings.TRANSACTION_USE_OPTIMIZED]
        self._most_files = config[settings.STATE_READ_MAX_FILES]
        self._replays = not config[settings.CHECKPOINT_ENABLED]
        self._keeps = not self._plain and config[settings.TRANSACTION_CACHE_ENABLED]
        ttl_seconds = config[settings.TRANSACTION_CACHE_EXPIRATION_SECONDS]
        self.cache = LogCache(ttl_seconds, clock.monotonic, enabled=self._keeps)
        self._pools = pools if store.is_remote and not self._plain else InlinePools()
        self._versions = VersionReader(store, config, self.cache, InlinePools() if self._plain else pools)
        self._lock = threading.RLock()
        self._choice = BaseChoice(bases, self.identity_at, self.read_versions, self.url)
        self._segment: Segment | None = None
        self._head: Head | None = None
        self._tip: Snapshot | None = None
        self._source = ""
        self.listed_at = 0.0
        with _registering:
            _all_readers.add(self)

    def segment(self, max_staleness_seconds: float = 0) -> Segment:
        """Return the newest segment from the store, or a cached one of the allowed age."""
        with self._lock:
            known: tuple[Segment, float] | None = self.cache.versions_list.get("newest")
            if known is not None and self._clock.monotonic() - known[1] < max_staleness_seconds:
                return known[0]
            return self._renewed()

    def _renewed(self, files: Files = None) -> Segment:
        """Return the newest segment of the store, or of `files`, a whole listing."""
        asked_at = self._clock.monotonic()
        segment = self._grown(files)
        self.listed_at = self._clock.monotonic()
        if segment is None:
            self.forget()
            is_whole = self._replays or files is not None
            choice, store = self._choice, self.store
            segment = choice.whole_segment(store, files) if is_whole else choice.newest_segment(store)
        self._versions.newest = segment
        self._segment = segment if self._keeps else None
        self.cache.versions_list.put("newest", (segment, asked_at))
        return segment

    def _grown(self, files: Files) -> Segment | None:
        """Return the known segment extended by later versions.

        Return None for a new state of another writer, as it may contain a commit without a version file: a new base is
        needed.
        """
        if self._segment is None:
            return None
        grown = grow_segment(self.store, self._segment, files)
        known = self._segment.checkpoints
        fresh = [] if grown is None else [at for at in grown.checkpoints if at not in known and grown.has_state(at)]
        return None if fresh and self._choice.is_of_another_writer(max(fresh)) else grown

    def whole_segment(self) -> Segment:
        """Return the newest segment including all files before the newest checkpoint."""
        with self._lock:
            return self._completed(self.segment())

    def listed_segment(self) -> tuple[Segment, Sequence[ObjectMeta]]:
        """Return the newest segment, whole, and all files of the log, from one list call."""
        with self._lock:
            files = list(self.store.list(LOG_DIRECTORY))
            return self._completed(self._renewed(files), files), files

    def _completed(self, segment: Segment, files: Files = None) -> Segment:
        if not segment.is_partial:
            return segment
        whole = self._choice.whole_segment(self.store, files)
        if whole.oldest <= segment.oldest <= whole.newest + 1:
            # Only the past was requested: the newest version must not change during a read.
            checkpoints = {**whole.checkpoints, **segment.checkpoints}
            whole = dataclasses.replace(segment, oldest=whole.oldest, checkpoints=checkpoints, is_partial=False)
        if self._segment is segment:
            self._segment = whole
        return whole

    def committed(self, segment: Segment | None, head: Head, file: VersionFile) -> None:
        """Record a commit of this process: later reads see it; drop stale cache entries."""
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
        """Drop all knowledge: the table was recreated, or the caller requests it."""
        with self._lock:
            self._segment = self._head = self._tip = None
            self.cache.clear()

    def start_from(self, segment: Segment, head: Head) -> None:
        """Take what another reader of this log knew, if nothing is known here.

        A commit trusts it as its own knowledge: if it is old, the put loses and the log is read.
        """
        with self._lock:
            if self._keeps and self._segment is None and segment.newest == head.version:
                self._segment, self._head = segment, head

    def known_head(self) -> tuple[Segment, Head] | None:
        """Return the newest known version without a store call."""
        with self._lock:
            if self._segment is None:
                return None
            newest = self._segment.newest
            if self._head is not None and self._head.version == newest:
                return self._segment, self._head
            if self._tip is not None and self._tip.version == newest:
                return self._segment, head_of(self._tip)
            return None

    def read_version(self, version: int) -> VersionFile:
        """Return one version file, decoded and checked."""
        return self._versions.read(version)

    def read_versions(self, versions: Iterable[int]) -> list[VersionFile]:
        """Return several version files, read in parallel if that pays off."""
        return self._versions.read_many(versions)

    def cached_versions(self, versions: Iterable[int]) -> list[VersionFile]:
        """Return those of several version files that are in memory."""
        return [file for version in versions if (file := self.cache.versions.get(version)) is not None]

    def keep(self, file: VersionFile) -> None:
        """Keep a version file that a commit has read, so that it is not read again."""
        self.cache.versions.put(file.version, file)

    def head_to_extend(self) -> tuple[Segment, Head]:
        """Return the newest version like `head`, and one that appeared after its listing.

        The next version is requested together with the listed ones, so that less time passes from the newest knowledge
        to a commit on top of it.
        """

        def read() -> tuple[Segment, Head, FoundVersion | None]:
            segment = self.segment()
            search = self.find_meanwhile(segment.newest + 1)
            return segment, self._head_of(segment), search()

        segment, head, found = self._despite_clean_up(read)
        return (found is not None and self.follow(segment, head, found)) or (segment, head)

    def find_meanwhile(self, version: int) -> Callable[[], FoundVersion | None]:
        """Begin to read a version that may exist soon; return a function that waits."""
        if not self._pools.is_parallel:
            return lambda: None
        found: list[FoundVersion | None] = []
        search = self._pools.submit(
            NEXT_VERSION, lambda: found.append(self._versions.find(version)), workers=_NEXT_READERS
        )

        def result() -> FoundVersion | None:
            search.result()
            return found[0]

        return result

    def follow(self, segment: Segment, head: Head, found: FoundVersion) -> tuple[Segment, Head] | None:
        """Return the known version extended by the next one, found without a listing.

        Return None if that does not follow. A commit on top of it is checked by a listing like every commit.
        """
        if found.file.version != head.version + 1 or segment.newest != head.version or segment.gap is not None:
            return None
        try:
            grown_head = advance(head, [found.file])
        except BrokenChainError:
            return None
        grown = dataclasses.replace(segment, newest=found.file.version, newest_file=found.meta)
        with self._lock:
            if self._keeps and self._segment is not None and self._segment.newest < grown.newest:
                self._segment, self._head = grown, grown_head
                self.cache.after_write()
                self.cache.versions.put(found.file.version, found.file)
        return grown, grown_head

    def identity_at(self, version: int) -> str | None:
        """Return the name by which the next version refers to this one, if it has one."""
        return self._versions.identity_at(version)

    def head(self) -> tuple[Segment, Head]:
        """Return the newest version with its protocol and metadata, without its files."""
        return self._despite_clean_up(self._newest_head)

    def snapshot(self, version: int | None = None, *, max_staleness_seconds: float = 0) -> Snapshot:
        """Return the table at a version, by default the newest, with its files."""

        def read() -> Snapshot:
            segment = self.segment(max_staleness_seconds)
            if version is not None and version < segment.newest:
                # If the newest version is damaged, older ones can still be read by number.
                with contextlib.suppress(CorruptLogError, CheckpointError):
                    refuse_purged(version, self._head_of(segment), self.url)
            return self._with_files(segment, version)

        return self._despite_clean_up(read)

    def own_snapshot(self, version: int) -> Snapshot:
        """Return the newest known version after a commit of this handle."""

        def read() -> Snapshot:
            known = self._segment
            return self._with_files(known if known is not None and known.newest >= version else self.segment(), None)

        return self._despite_clean_up(read)

    def recent_snapshot(self, version: int, max_age_seconds: float) -> Snapshot | None:
        """Return a version if a listing of at most this age has it as newest, else None."""
        with self._lock:
            known: tuple[Segment, float] | None = self.cache.versions_list.get("newest")
            if known is None or known[0].newest != version or self._clock.monotonic() - known[1] >= max_age_seconds:
                return None
            snapshot = self.own_snapshot(version)
            return snapshot if snapshot.version == version else None

    def file_tables(
        self, choose: Callable[[Snapshot], Keep | None], *, max_staleness_seconds: float = 0
    ) -> tuple[Snapshot, list[pa.Table]]:
        """Return the newest version, and its files in the parts that `choose` keeps."""

        def read() -> tuple[Snapshot, list[pa.Table]]:
            snapshot = self._snapshot(self.segment(max_staleness_seconds), None)
            return snapshot, list(snapshot.live_files.tables(choose(snapshot)))

        return self._despite_clean_up(read)

    def stream_tables(self, choose: Callable[[Snapshot], Keep | None]) -> tuple[Snapshot, Iterator[pa.Table]]:
        """Return the newest version, and an iterator of its files in parts.

        Damage of the first part leads to another base; damage of a later part is an error.
        """

        def read() -> tuple[Snapshot, Iterator[pa.Table]]:
            snapshot = self._snapshot(self.segment(), None)
            tables = snapshot.live_files.tables(choose(snapshot))
            return snapshot, itertools.chain(list(itertools.islice(tables, 1)), tables)

        return self._despite_clean_up(read)

    def newest_snapshot(self) -> tuple[Segment, Snapshot]:
        """Return the newest version with its files, and its segment."""

        def read() -> tuple[Segment, Snapshot]:
            segment = self.segment()
            return segment, self._with_files(segment, None)

        return self._despite_clean_up(read)

    def lazy_snapshot(self, version: int | None = None, *, listed: Segment | None = None) -> tuple[Segment, Snapshot]:
        """Return a version, by default the newest, whose files are read on demand.

        The caller handles damaged files itself, and reports them by `distrust`. `listed` is a segment of a recent list
        call; the store is listed again only if a file of it is gone.
        """
        segments = [] if listed is None else [listed]

        def read() -> tuple[Segment, Snapshot]:
            segment = segments.pop() if segments else self.segment()
            return segment, self._snapshot(segment, version)

        return self._despite_clean_up(read)

    def distrust(self, error: DamagedBaseError) -> None:
        """Drop all knowledge, and never start again from the damaged state."""
        self._choice.distrust(error)
        self.forget()

    def belongs(self, state: Snapshot, segment: Segment) -> bool:
        """Return True if a state and its version file have the same identity."""
        return self._choice.belongs(state, segment)

    def time_of_state(self, segment: Segment, version: int) -> int | None:
        """Return the commit time of the version of a state, if the state can be read."""
        keys = segment.checkpoints[version]
        state = self._bases.load({version: keys})
        return None if state is None else credible_ms(state.timestamp_ms, self.store.head(keys[0]))

    def is_of_another_writer(self, version: int) -> bool:
        """Return True if the state of a version has no transaction id: another writer's."""
        return self._choice.is_of_another_writer(version)

    def version_metas(self, first: int) -> dict[int, ObjectMeta]:
        """Return the facts of the version files from `first` on."""
        return list_from(self.store, first)[0]

    def metadata(self) -> Metadata:
        """Return the metadata in force, by walking back from the newest version."""
        newest = self.segment().newest
        found: Metadata | None = self.cache.metadata.get(newest)
        if found is None:
            found = self.definitions().metadata
            self.cache.metadata.put(newest, found)
        return found

    def protocol(self) -> Protocol:
        """Return the protocol in force, by walking back from the newest version."""
        newest = self.segment().newest
        found: Protocol | None = self.cache.protocol.get(newest)
        if found is None:
            found = self.definitions().protocol
            self.cache.protocol.put(newest, found)
        return found

    def definitions(self) -> Head:
        """Return the head; if its states cannot be read, the definitions of version 0.

        States do not change these definitions.
        """
        try:
            return self.head()[1]
        except CheckpointError:
            if 0 not in version_files(self.store, self.segment()):
                raise
            return fold(None, [self.read_version(0)])

    def _despite_clean_up(self, read: Callable[[], _Read]) -> _Read:
        """Retry a read with a new listing if a clean-up deleted a file during the read."""
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
            self._head = self._advanced(self._head, range(self._head.version + 1, segment.newest + 1))
        else:
            self._head = self._walk_back(segment)
        head = self._head
        if not self._keeps:
            self._head = None
        return head

    def _advanced(self, head: Head, missed: range) -> Head:
        """Return the head after the missed versions; read as few of them as prove it."""
        if len(missed) > _FEWEST_FOR_A_PROOF:
            leaped = leap(head, self.read_versions(missed[-_FEWEST_FOR_A_PROOF:]))
            if leaped is not None:
                return leaped
        return advance(head, self.read_versions(missed))

    def _walk_back(self, segment: Segment) -> Head:
        base = self._chosen_base(segment, segment.newest)
        floor = 0 if base is None else base.version + 1
        if floor < segment.oldest and floor <= segment.newest:
            if segment.is_partial:
                return self._walk_back(self._completed(segment))
            refuse_unread_state(segment, self.url)
        return walk_back(segment.newest, base, self.read_versions)

    def _with_files(self, segment: Segment, version: int | None) -> Snapshot:
        """Return the snapshot with its files: damage must show while the base can change.

        Files of a large table are read when they are needed; damage then leads to another base.
        """
        started = self._clock.monotonic()
        self._source = ""
        snapshot = self._snapshot(segment, version)
        if snapshot.live_files.num_stored <= self._most_files and not snapshot.live_files.is_in_memory:
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
            if cached.live_files.num_stored > self._most_files:
                recover = functools.partial(self._other_files, wanted)
                cached = dataclasses.replace(cached, live_files=cached.live_files.recovering(recover))
            self.cache.snapshots.put(wanted, cached)
            if self._keeps and wanted == segment.newest:
                self._tip = cached
        check_readable(cached.protocol, self.url)
        return cached

    def _other_files(self, version: int, error: CheckpointCorruptionError) -> LiveFiles:
        """Return the files of a version from another base than the damaged one."""
        if not isinstance(error, DamagedBaseError):
            raise error
        self.distrust(error)
        return self.snapshot(version).live_files

    def _load(self, segment: Segment, wanted: int) -> Snapshot:
        if wanted < segment.oldest:
            segment = self._completed(segment)
        if not 0 <= wanted <= segment.newest:
            raise self._unreachable(segment, wanted)
        base = self._base_for(segment, wanted)
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
            assert base is not None  # noqa: S101 - the range is empty only if there is a base
            return base
        return fold(base, self.read_versions(range(start, wanted + 1)))

    def _base_for(self, segment: Segment, wanted: int) -> Snapshot | None:
        """Return the known snapshot, or a state if none is known or a state is much newer."""
        tip = self._tip if self._tip is not None and self._tip.version <= wanted else None
        if tip is not None and not self._is_far(tip, segment, wanted):
            return tip
        base = self._chosen_base(segment, wanted)
        if tip is not None and (base is None or base.version < tip.version):
            return tip
        self._source = REPLAY if base is None else base.source
        return base

    def _is_far(self, tip: Snapshot, segment: Segment, wanted: int) -> bool:
        """Return True if a state needs fewer requests than the known snapshot."""
        if wanted - tip.version <= _FAR_VERSIONS:
            return False
        return any(tip.version + _FAR_VERSIONS < at <= wanted and segment.has_state(at) for at in segment.checkpoints)

    def _check_follower(self, segment: Segment, wanted: int) -> None:
        """Refuse an old version that the next one does not follow.

        Its writer died before taking it back. A clean-up may have made room for it since the listing, so check every
        log.
        """
        if not (segment.covers(wanted) and segment.covers(wanted + 1)):
            return
        try:
            follower = self.read_version(wanted + 1)
        except CorruptLogError:
            return
        if follower.info is None:
            return
        try:
            check_chain(wanted, self.identity_at(wanted) or NAMELESS, follower)
        except BrokenChainError as error:
            raise self._unreachable(segment, wanted) from error

    def _chosen_base(self, segment: Segment, wanted: int) -> Snapshot | None:
        """Return a snapshot to fold on.

        None if there is none, or a full replay is possible.
        """
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
    """Return the open readers of this process."""
    with _registering:
        return list(_all_readers)


def _after_fork_in_child() -> None:
    global _registering  # noqa: PLW0603 - a dead thread may hold it
    _registering = threading.Lock()
    for reader in _all_readers:
        reader._lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork_in_child)
