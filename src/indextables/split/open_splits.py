"""The splits of a table that were opened lately: footers and indexes that need not be read and opened again.

Splits never change, so what is known of one stays true. Footers take memory, so their bytes are bounded. Open indexes
are bounded for the whole process, by `split.searcher`.
"""

from __future__ import annotations

import os
import threading
import weakref

from indextables.caching import BoundedCache
from indextables.config import Config
from indextables.config import store_settings as settings
from indextables.split.fields import FieldMap
from indextables.split.index_cache import IndexCache
from indextables.split.searcher import SplitSearcher
from indextables.split.split_file import SplitFile
from indextables.store import ObjectStore

_MOST_TAIL_BYTES = 64 << 20
_LEAST_ROOM = 64 << 10
_CORES = min(8, os.cpu_count() or 1)
_MOST_WAITING = 16

_Key = tuple[str, int]


class OpenSplits:
    """Searchers of splits, those used longest ago let go of first. Threads may share it."""

    def __init__(self, store: ObjectStore, config: Config) -> None:
        """`at_once` is how many splits are best asked side by side: where a store is far, most of them wait for it."""
        waiting = min(config[settings.STORE_PARALLELISM], _MOST_WAITING) if store.is_remote else 0
        self.at_once = max(_CORES, waiting)
        self._store = store
        self._cache = IndexCache(config)
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
        """The searcher of a split, of which the log says so much. `fields` say what queries mean; by default those of
        the split."""
        known = self._known.get((path, size))
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
        opened = SplitSearcher(split, identity, self._cache, fields)
        self._known.put((path, size), opened)
        return opened

    def clear(self) -> int:
        """Let go of all of them, and say how many there were; who uses one goes on with it."""
        num_known = len(self._known)
        self._known.clear()
        return num_known


def _room(searcher: SplitSearcher) -> int:
    """What a split takes of the room for footers; what is made of one is not much smaller where it is small."""
    split = searcher.split
    return max(split.size - split.directory.footer_start_offset, _LEAST_ROOM)


_all_open_splits: weakref.WeakSet[OpenSplits] = weakref.WeakSet()
_registering = threading.Lock()


def all_open_splits() -> list[OpenSplits]:
    """Those of every table that is open in this process."""
    with _registering:
        return list(_all_open_splits)


def _after_fork_in_child() -> None:
    global _registering  # noqa: PLW0603 - a thread that is gone may hold it
    _registering = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)
