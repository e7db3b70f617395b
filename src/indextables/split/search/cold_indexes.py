"""Open indexes that are fetched in part: sparse files in the local cache.

A search fetches what it needs of an index before the engine reads it. If this is not possible, the caller fetches the
whole index: the split is of the older layout or small, the file system has no sparse files, or the disk is full.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterable, Iterator, Sequence

from indextables.config import Config, settings
from indextables.split.partial.fetch_pieces import fetch_pieces
from indextables.split.partial.needs import Needs
from indextables.split.partial.partial_index import PartialIndex, Pieces
from indextables.split.partial.sparse_cache import NotKeptError, SparseCache, SparseEntry
from indextables.split.split_file import SplitFile

logger = logging.getLogger(__name__)

PARTIAL, WHOLE = "partial", "whole"
SMALL_INDEX_BYTES = 1 << 20
"""An index of this size is fetched whole: that takes fewer requests, and hardly more time."""


class ColdIndexes:
    """Indexes that are fetched in part."""

    def __init__(self, config: Config) -> None:
        self._cache = SparseCache(config)
        self._gap = config[settings.SEARCH_COLD_GAP]

    @classmethod
    def of(cls, config: Config) -> ColdIndexes | None:
        """Return None if the settings ask for whole indexes."""
        return cls(config) if config[settings.SEARCH_COLD] == PARTIAL else None

    def holds(self, identity: str) -> bool:
        """Return whether parts of an index seem to be in the local cache."""
        return self._cache.holds(identity)

    def can_open(self, split: SplitFile) -> bool:
        """Return whether the index of a split is large, and in pieces."""
        start, end = split.directory.index_range
        return split.directory.pieces is not None and end - start > SMALL_INDEX_BYTES

    def open(self, split: SplitFile, identity: str) -> ColdIndex | None:
        """Open an index for fetches in part; None if it must be fetched whole."""
        if not self.can_open(split):
            return None
        table, tails = split.piece_table()
        entry = self._cache.open(identity, table)
        if entry is None:
            return None
        with contextlib.ExitStack() as undo:
            undo.callback(entry.close)
            try:
                from_tails = functools.partial(_from_memory, tails, table.tails_offset)
                fetch_pieces(entry, table.tails, from_tails, split.key, gap=0)
                index = ColdIndex(entry, split, self._gap)
            except NotKeptError as error:
                logger.info("fetching the index of %s whole: %s", split.key, error)
                return None
            undo.pop_all()
            return index


class ColdIndex:
    """One index in sparse files, whose entry is locked until `held` ends."""

    def __init__(self, entry: SparseEntry, split: SplitFile, gap: int) -> None:
        self._entry = entry

        def fetch(pieces: Iterable[int]) -> None:
            fetch_pieces(entry, pieces, split.read_ranges, split.key, gap=gap)

        self._index = PartialIndex(Pieces(entry.table, entry.missing, fetch, entry.read), split.key)

    @contextlib.contextmanager
    def held(self) -> Iterator[str]:
        """Provide the directory of the files until the block ends."""
        try:
            yield self._entry.directory
        finally:
            self._entry.close()

    @property
    def is_current(self) -> bool:
        """Whether the files in the directory are still those that are filled."""
        return self._entry.is_current

    @property
    def is_complete(self) -> bool:
        """Whether the whole index was fetched here."""
        return self._index.is_complete

    def fetch(self, needs: Needs | None) -> None:
        """Fetch what a search needs, or everything.

        Raises `NotKeptError` if there is no place for it.
        """
        self._index.fetch(needs)


def _from_memory(data: bytes, offset: int, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    return [data[start - offset : end - offset] for start, end in ranges]
