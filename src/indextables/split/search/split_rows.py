"""Rows of a split by number: from its decoded copy, else by pages.

Reading by pages counts towards a copy. Once a copy pays, it is made in the background, one at a time in a process. All
rows of a split are always read by pages, which are verified.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from indextables.errors import IndexTablesError
from indextables.runtime.background import BACKGROUND
from indextables.runtime.cancellation import Cancellation
from indextables.split.rows.row_copies import Piece, RowCopies, take_pieces
from indextables.split.split_file import SplitFile

_PURPOSE = "copies of rows"
_SECONDS_AT_EXIT = 5

logger = logging.getLogger(__name__)

_waiting: dict[str, SplitRows] = {}


class SplitRows:
    """Rows of one split; `room` receives the size of a new copy."""

    def __init__(self, split: SplitFile, identity: str, copies: RowCopies | None, room: Callable[[int], None]) -> None:
        self._split = split
        self._identity = identity
        self._copies = copies if copies is not None and copies.is_on else None
        self._room = room

    def read(self, numbers: pa.Array[Any] | None, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of rows in the order of the numbers, or all."""
        pieces = None if numbers is None else self.pieces(numbers, columns)
        if pieces is None:
            return self.by_pages(numbers, columns)
        return (batch for piece in pieces for batch in take_pieces([piece], columns).to_batches())

    def pieces(self, numbers: pa.Array[Any], columns: Sequence[str]) -> list[Piece] | None:
        """Return where the rows are in the copy; None if they are read by pages."""
        if not len(numbers) or not columns or self._copies is None:
            return None
        copy = self._copies.find(self._identity, self._split.schema, self._split.num_rows)
        if copy is None or not copy.columns.issuperset(columns) or not pa.types.is_uint64(numbers.type):
            return None
        return copy.pieces(numbers)

    def by_pages(self, numbers: pa.Array[Any] | None, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of rows by pages, and count the decoding."""
        if numbers is not None and len(numbers) and columns and self._copies is not None:
            share = self._split.share_of_decoding(len(numbers), columns)
            if self._copies.spend(self._identity, share):
                self._begin_copy()
        return self._split.rows(numbers, columns)

    def _begin_copy(self) -> None:
        if self._identity in _waiting:
            return
        _waiting[self._identity] = self
        try:
            BACKGROUND.begin(_PURPOSE, _make_copies, wait_seconds=_SECONDS_AT_EXIT)
        except (RuntimeError, MemoryError) as error:  # no more threads, or the interpreter is exiting
            logger.info("cannot make a row copy of the split %s: %s", self._split.key, error)
            _waiting.pop(self._identity, None)

    def make_copy(self, cancellation: Cancellation) -> None:
        """Make the copy of the split, unless there is one."""
        if self._copies is None:
            return

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in self._split.rows():
                if cancellation.is_cancelled:
                    return
                yield batch

        try:
            size = self._copies.make(self._identity, self._split.schema, batches(), self._split.num_rows)
        except (IndexTablesError, pa.ArrowException, OSError, MemoryError) as error:
            logger.info("cannot make a row copy of the split %s: %s", self._split.key, error)
            return
        if size:
            self._copies.files.shrink()
            self._room(size)


def _make_copies(cancellation: Cancellation) -> None:
    while _waiting and not cancellation.is_cancelled:
        identity, rows = next(iter(_waiting.items()))
        try:
            rows.make_copy(cancellation)
        finally:
            _waiting.pop(identity, None)


def wait_for_copies(timeout_seconds: float | None = None) -> bool:
    """Wait until no copy is being made; return False after `timeout_seconds`."""
    return BACKGROUND.wait(_PURPOSE, timeout_seconds)


os.register_at_fork(after_in_child=_waiting.clear)
