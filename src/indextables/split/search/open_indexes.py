"""Open indexes of this process: as many as its limits allow.

An open index takes a descriptor for its lock, a thread that the engine starts, some mappings for each segment, and
address space for its files. Each of them has a limit for the process, of which open indexes take a share. The least
recently used indexes are closed first. If the machine refuses the mappings or the thread of one more, all are closed,
and from then on half as many stay open.
"""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import tantivy

from indextables.arrow_values import to_array
from indextables.clock import SYSTEM_CLOCK
from indextables.errors import CorruptSplitError, IndexTablesError
from indextables.runtime.caching import BoundedCache, in_turn
from indextables.runtime.resources import comes_back_late, give_back, is_room_short, on_shortage
from indextables.split.index.builder import engine_errors, open_index
from indextables.split.index.fields import FieldMap
from indextables.split.search.cold_indexes import ColdIndex
from indextables.split.search.query_plan import QueryPlan

_WHOLE = 1_000_000
"""Sum of the weights of all open indexes; a weight is a share in millionths."""
_MOST_MAPPINGS = 20_000
_SHARE_OF_MAPPINGS = 3
_MAPPINGS_PER_SEGMENT = 6
_MAPPINGS_PER_INDEX = 3
_SPARE_DESCRIPTORS = 512
_LEAST_SHARE_OF_DESCRIPTORS = 8
_SHARE_OF_THREADS = 4
_SHARE_OF_ADDRESSES = 4
_BYTES_PER_INDEX = 4 << 20
_LEAST_WHOLE = 1_000
_PAUSES = (0.1, 0.25, 0.5)


class Closable(Protocol):
    """A holder of an open index."""

    @property
    def is_open(self) -> bool: ...

    def let_go(self) -> None:
        """Close the index after its last use."""


class OpenIndex:
    """An open index; its files are locked in the cache until it is closed."""

    def __init__(
        self,
        what: str,
        num_rows: int,
        fields: FieldMap,
        directory: contextlib.AbstractContextManager[str],
        rows_of_segments: Callable[[str], Sequence[int]],
        cold: ColdIndex | None = None,
    ) -> None:
        """Open and check an index of `num_rows` rows; errors say `what` is searched.

        `cold` fetches the parts of an index before they are read.
        """
        self.cold = cold
        with contextlib.ExitStack() as held:
            place = held.enter_context(directory)
            self.first_rows = rows_of_segments(place)
            with engine_errors(f"search {what}", CorruptSplitError):
                self.searcher = open_index(place, fields).searcher()
            self._check(what, num_rows)
            self.num_bytes = _num_bytes(place) if _limits().addresses is not None else 0
            weakref.finalize(self, held.pop_all().close)

    @property
    def is_whole(self) -> bool:
        """Whether nothing of the index needs to be fetched."""
        return self.cold is None or self.cold.is_complete

    @property
    def weight(self) -> int:
        """Greatest share of the limits of this process, in millionths."""
        limits = _limits()
        shares = [
            1 / limits.descriptors,
            1 / limits.threads,
            (len(self.first_rows) * _MAPPINGS_PER_SEGMENT + _MAPPINGS_PER_INDEX) / limits.mappings,
        ]
        if limits.addresses is not None:
            shares.append((self.num_bytes + _BYTES_PER_INDEX) / limits.addresses)
        return min(_WHOLE, max(1, int(_WHOLE * max(shares))))

    def at_most(self, limit: int | None) -> int:
        """Return the number of hits to request; the engine refuses 0."""
        most = max(1, self.searcher.num_docs)
        return most if limit is None else min(limit, most)

    def count(self, plan: QueryPlan) -> int:
        """Count the rows of a query; no row is ever deleted from an index."""
        if plan.term is not None:
            return int(self.searcher.doc_freq(*plan.term))
        found: Any = self.searcher.search(plan.flat, 1)
        return int(found.count)

    def rows(self, hits: Sequence[tuple[Any, tantivy.DocAddress]]) -> pa.Array[Any]:
        """Convert hits to row numbers: segments and their documents are in row order."""
        first = self.first_rows
        if len(first) == 1:
            return to_array([place.doc for _, place in hits], pa.uint64())
        return to_array([first[place.segment_ord] + place.doc for _, place in hits], pa.uint64())

    def _check(self, what: str, num_rows: int) -> None:
        searcher = self.searcher
        if searcher.num_docs != num_rows:
            raise CorruptSplitError(
                f"cannot search {what} because its index holds {searcher.num_docs} rows of {num_rows}"
            )
        if searcher.num_segments > len(self.first_rows):
            raise CorruptSplitError(
                f"cannot search {what} because its index has {searcher.num_segments} segments of {len(self.first_rows)}"
            )


def opened(open_it: Callable[[], OpenIndex]) -> OpenIndex:
    """Open an index; close the others and repeat it if the machine has no room left.

    The engine's threads end up to half a second after their index is closed.
    """
    try:
        return open_it()
    except (OSError, IndexTablesError) as error:
        if not is_room_short(error):
            raise
        pauses = _PAUSES if comes_back_late(error) else ()
    with in_turn("opening an index without room"):
        if pauses:
            fewer = min(_open_indexes.max_weight, _open_indexes.weight()) // 2
            _open_indexes.max_weight = max(_LEAST_WHOLE, fewer or _open_indexes.max_weight)
        for seconds in pauses:
            give_back()
            try:
                return open_it()
            except (OSError, IndexTablesError) as error:
                if not is_room_short(error):
                    raise
            SYSTEM_CLOCK.sleep(seconds)
        give_back()
        return open_it()


def keep_open(holder: Closable, index: OpenIndex) -> None:
    """Keep an index open; close those that were used least if there are too many."""
    for unused in _open_indexes.put(id(holder), _Kept(weakref.ref(holder), index.weight)):
        unused.let_go()


def note_use(holder: Closable) -> bool:
    """Mark an open index as used; return False if it was closed meanwhile."""
    return _open_indexes.get(id(holder)) is not None


class _Kept(NamedTuple):
    holder: weakref.ref[Closable]
    weight: int

    def let_go(self) -> int:
        """Close the index; return the number closed."""
        found = self.holder()
        if found is None or not found.is_open:
            return 0
        found.let_go()
        return 1


class _Limits(NamedTuple):
    descriptors: int
    threads: int
    mappings: int
    addresses: int | None


def _limits() -> _Limits:
    """Return what open indexes may take; limits may be set after the start."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    return _shares(files, _num_threads(), space, _most_mappings())


@functools.lru_cache(maxsize=8)
def _shares(files: int, threads: int | None, space: int, mappings: int) -> _Limits:
    unlimited = resource.RLIM_INFINITY
    few = files // _LEAST_SHARE_OF_DESCRIPTORS
    return _Limits(
        descriptors=_WHOLE if files == unlimited else max(1, few, min(files // 2, files - _SPARE_DESCRIPTORS)),
        threads=_WHOLE if threads is None else max(1, threads // _SHARE_OF_THREADS),
        mappings=max(1, min(_MOST_MAPPINGS, mappings // _SHARE_OF_MAPPINGS)),
        addresses=None if space == unlimited else max(1, space // _SHARE_OF_ADDRESSES),
    )


@functools.cache
def _num_threads() -> int | None:
    """Return the number of threads that the user or the container may run, or None."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    found = [] if limit == resource.RLIM_INFINITY else [limit]
    for path in ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"):
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            found.append(int(file.read()))
    return min(found, default=None)


@functools.cache
def _most_mappings() -> int:
    try:
        with open("/proc/sys/vm/max_map_count") as file:
            return int(file.read())
    except (OSError, ValueError):  # other systems have no such limit
        return _MOST_MAPPINGS * _SHARE_OF_MAPPINGS


def _num_bytes(directory: str) -> int:
    with os.scandir(directory) as files:
        return sum(file.stat().st_size for file in files)


def _let_go_of_all() -> int:
    kept = _open_indexes.values()
    _open_indexes.clear()
    return sum(each.let_go() for each in kept)


_open_indexes: BoundedCache[int, _Kept] = BoundedCache(_WHOLE, weigh=lambda kept: kept.weight)
on_shortage(_let_go_of_all)
