"""Fetch of the missing pieces of an index: few reads, every byte verified.

Pieces that are close together are read by one request. Threads that need pieces of the same index take turns, so that
each piece is fetched once.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from indextables.runtime.caching import in_turn
from indextables.runtime.pools import SHARED_POOLS
from indextables.split.format.layout import corrupt
from indextables.split.format.members import ReadRanges
from indextables.split.partial.packing import unpack_piece
from indextables.split.partial.piece_table import PieceTable
from indextables.split.partial.sparse_cache import SparseEntry

_FETCHING = "piece-fetching"
_READERS = 32  # they wait for a store; all searches of the process share them
_MOST_SPAN_BYTES = 4 << 20


class Fetched(NamedTuple):
    """What a fetch cost."""

    num_requests: int
    num_bytes: int


class Span(NamedTuple):
    """Range of a split with pieces to fetch, in the order of their places."""

    start: int
    end: int
    pieces: Sequence[int]


def fetch_pieces(entry: SparseEntry, pieces: Iterable[int], read: ReadRanges, key: str, *, gap: int) -> Fetched:
    """Make the pieces of the split `key` available in the files of an entry.

    `read` fetches ranges of the split. Up to `gap` unneeded bytes between two pieces are read with them.
    """
    wanted = list(pieces)
    if not entry.missing(wanted):
        return Fetched(0, 0)
    with in_turn(("pieces", entry.directory)):
        found = spans(entry.table, entry.missing(wanted), gap)
        work = functools.partial(_fetch_span, entry=entry, read=read, key=key)
        SHARED_POOLS.map(_FETCHING, work, found, workers=_READERS)
    return Fetched(len(found), sum(span.end - span.start for span in found))


def fill_stored(entry: SparseEntry, pieces: Sequence[int], stored: bytes | memoryview, start: int, key: str) -> None:
    """Fill in pieces from bytes of the split `key` at hand, which begin at `start`."""
    try:
        entry.fill(_unpacked(pieces, memoryview(stored), start, entry.table, key))
    except ValueError as error:
        raise corrupt(key, str(error)) from error


def spans(table: PieceTable, pieces: Iterable[int], gap: int) -> list[Span]:
    """Group pieces into ranges for one read each.

    A range is limited in size, so that long reads run in parallel and take little memory.
    """
    found: list[tuple[int, int, list[int]]] = []
    for piece in sorted(pieces, key=table.stored_start.__getitem__):
        start = table.stored_start[piece]
        end = start + table.stored_length[piece]
        if found:
            first, last, group = found[-1]
            if start - last <= gap and end - first <= _MOST_SPAN_BYTES:
                group.append(piece)
                found[-1] = first, end, group
                continue
        found.append((start, end, [piece]))
    return [Span(*span) for span in found]


def _fetch_span(span: Span, *, entry: SparseEntry, read: ReadRanges, key: str) -> None:
    (stored,) = read([(span.start, span.end)])
    fill_stored(entry, span.pieces, stored, span.start, key)


def _unpacked(
    pieces: Sequence[int], stored: memoryview, start: int, table: PieceTable, key: str
) -> Iterator[tuple[int, memoryview]]:
    for piece in sorted(pieces, key=table.member.__getitem__):  # so that each file is opened once
        place = table.stored_start[piece] - start
        part = stored[place : place + table.stored_length[piece]]
        yield piece, unpack_piece(table, piece, part, key)
