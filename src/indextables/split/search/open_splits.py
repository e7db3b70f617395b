"""Cache of recently opened splits of a table: footers and indexes.

Splits never change, so a cached split stays valid. Footers take memory, so their bytes are limited. `split.searcher`
limits the open indexes of the whole process.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from indextables.config import Config
from indextables.config import store_settings as settings
from indextables.runtime import tally
from indextables.runtime.caching import BoundedCache
from indextables.runtime.pools import SHARED_POOLS
from indextables.split.index.cache_entries import COMBINED
from indextables.split.index.fields import FieldMap
from indextables.split.index.index_cache import IndexCache
from indextables.split.rows.row_copies import RowCopies
from indextables.split.search.cold_indexes import ColdIndexes
from indextables.split.search.combined import CannotCombineError, CombinedIndex
from indextables.split.search.fetching import fetch_later
from indextables.split.search.groups import ListedSplit
from indextables.split.search.searcher import SplitSearcher
from indextables.split.split_file import SplitFile
from indextables.store import ObjectStore

_MOST_TAIL_BYTES = 64 << 20
_LEAST_ROOM = 64 << 10
_MOST_GROUPED = 64
_MOST_SHEET_BYTES = 64 << 20
_FAR_BYTES_PER_QUESTION = 1 << 20
# To copy an index of local disk takes as long as some hundred questions to its split.
_NEAR_BYTES_PER_QUESTION = 256 << 10
_MOST_BYTES_AT_ONCE = 1 << 20
_COMBINING = "combining"
_CORES = min(8, os.cpu_count() or 1)
_MOST_WAITING = 32

_Key = tuple[str, int]


class OpenSplits:
    """Searchers of splits, least recently used dropped first; safe for threads."""

    def __init__(self, store: ObjectStore, config: Config) -> None:
        """Set `at_once`, the best number of splits to search in parallel.

        With a remote store, most of them wait for it.
        """
        waiting = min(config[settings.STORE_PARALLELISM], _MOST_WAITING) if store.is_remote else 0
        self.at_once = max(_CORES, waiting)
        self.is_remote = store.is_remote
        self._store = store
        self._cache = IndexCache(config)
        self._cold = ColdIndexes.of(config)
        self._copies = RowCopies(config)
        self._combined = IndexCache(config, kind=COMBINED)
        self.groups: BoundedCache[Hashable, Any] = BoundedCache(_MOST_GROUPED)
        """Groups of splits of recent scans, by their files."""
        self.sheets: BoundedCache[Hashable, Any] = BoundedCache(_MOST_SHEET_BYTES, weigh=_weight)
        """Parts of filter sheets, which weigh as many bytes as `nbytes` or their length."""
        self.left_files: BoundedCache[Hashable, Any] = BoundedCache(1)
        """Files that predicates leave of the snapshot that was asked last."""
        self._known: BoundedCache[_Key, SplitSearcher] = BoundedCache(_MOST_TAIL_BYTES, weigh=_room)
        with _registering:
            _all_open_splits.add(self)

    def get(
        self,
        path: str,
        *,
        size: int,
        footer_start_offset: int | None,
        footer_end_offset: int | None,
        num_records: int | None = None,
        fields: FieldMap | None = None,
    ) -> SplitSearcher:
        """Return the searcher of a split from the facts in the log.

        `fields` define the meaning of queries; by default the split's own.
        """
        known = self._known.get((path, size))
        with tally.stage(tally.FOOTERS, path):
            if known is not None and known.means(fields):
                return known
            split = (
                known.split
                if known is not None
                else SplitFile.open(
                    self._store,
                    path,
                    size=size,
                    footer_start_offset=footer_start_offset,
                    footer_end_offset=footer_end_offset,
                    num_records=num_records,
                )
            )
        identity = f"{self._store.location.url}/{path}:{size}:{split.directory.split_id}"
        opened = SplitSearcher(split, identity, self._cache, fields, cold=self._cold, copies=self._copies)
        self._known.put((path, size), opened)
        return opened

    @property
    def store(self) -> ObjectStore:
        """Store of the table."""
        return self._store

    def combine_warm(
        self, splits: Sequence[ListedSplit], num_asked: int, when_fetched: Callable[[], None]
    ) -> CombinedIndex | None:
        """Combine splits; None if too many bytes of indexes are not on local disk yet.

        The more often the splits were asked, the more bytes may be fetched. All but a few bytes of local disk are
        fetched in the background, so that no question waits for them.
        """
        found = [self._known.get((split.path, split.size)) for split in splits]
        searchers = [searcher for searcher in found if searcher is not None]
        if len(searchers) < len(splits):
            return None
        missing = [searcher for searcher in searchers if searcher.whole_bytes_to_fetch]
        allowed = num_asked * (_FAR_BYTES_PER_QUESTION if self._store.is_remote else _NEAR_BYTES_PER_QUESTION)
        num_bytes = sum(searcher.whole_bytes_to_fetch for searcher in missing)
        if num_bytes > allowed:
            return None
        index = self.combine(searchers)
        if num_bytes > (0 if self._store.is_remote else _MOST_BYTES_AT_ONCE):
            fetch_later(missing, when_fetched)
            return None
        SHARED_POOLS.map(_COMBINING, lambda searcher: searcher.fetch_whole(), missing, workers=self.at_once)
        return index

    def combine(self, searchers: Sequence[SplitSearcher]) -> CombinedIndex:
        """Combine splits, or raise a `CannotCombineError`."""
        if self._combined.place is None:
            raise CannotCombineError("there is no cache on disk")
        return CombinedIndex(searchers, self._cache, self._combined)

    def clear(self) -> int:
        """Drop all searchers and return their number; callers keep the ones in use."""
        num_known = len(self._known)
        self._known.clear()
        self.groups.clear()
        self.sheets.clear()
        self.left_files.clear()
        return num_known


def _weight(part: Any) -> int:
    return int(getattr(part, "nbytes", 0)) or len(part)


def _room(searcher: SplitSearcher) -> int:
    """Return the weight of a split: its footer's size, but at least a minimum."""
    split = searcher.split
    return max(split.size - split.directory.footer_start_offset, _LEAST_ROOM)


_all_open_splits: weakref.WeakSet[OpenSplits] = weakref.WeakSet()
_registering = threading.Lock()


def all_open_splits() -> list[OpenSplits]:
    """Return the open splits of every table in this process."""
    with _registering:
        return list(_all_open_splits)


def _after_fork_in_child() -> None:
    global _registering  # noqa: PLW0603 - a thread that did not survive the fork may hold it
    _registering = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)
