"""Rank rows by score or by a column; choose row numbers before reading rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import numbers_below, repeated, to_array, to_scalar
from indextables.scan.split_scan import ROW, Split, SplitScan
from indextables.split.query.tree import All
from indextables.split.search.searcher import Hits

_SPLIT = "_split"
_KEY = "_key"
_SCORE = "_score"
_PLACES = [(_SPLIT, "ascending"), (ROW, "ascending")]


class Order:
    """Order by a column, or by score with the best first.

    Null comes last, NaN before it; equal rows keep the table's order.
    """

    def __init__(self, column: str | None, *, descending: bool, score: bool) -> None:
        self.column = column
        self.score = score
        first = (_SCORE, "descending") if column is None else (_KEY, "descending" if descending else "ascending")
        self._keys = [first, *_PLACES]

    def best(self, tables: Sequence[pa.Table], limit: int | None) -> Chosen:
        """Return the best rows of all tables."""
        if not tables:
            return Chosen(pa.table({_SPLIT: to_array([], pa.int32()), ROW: to_array([], pa.uint64())}), self.score)
        return Chosen(self.first(pa.concat_tables(tables), limit), self.score)

    def first(self, table: pa.Table, limit: int | None) -> pa.Table:
        """Return the best rows of one table."""
        return table.take(pc.sort_indices(table, sort_keys=self._keys).slice(0, limit))


class Chosen:
    """The chosen rows in result order, by split and row number."""

    def __init__(self, table: pa.Table, score: bool) -> None:
        self._table = table
        self._splits = frozenset(pc.unique(table[_SPLIT]).to_pylist())
        self.scores: pa.ChunkedArray[Any] | None = None
        if score:
            self.scores = table[_SCORE] if _SCORE in table.column_names else pa.chunked_array([], pa.float32())

    def has(self, position: int) -> bool:
        return position in self._splits

    def rows_of(self, position: int) -> pa.Array[Any]:
        """Return the chosen rows of a split, in row order."""
        rows = self._table.filter(pc.equal(self._table[_SPLIT], to_scalar(position)))[ROW].combine_chunks()
        return rows.take(pc.sort_indices(rows))

    def arrange(self, fetched: pa.Table) -> pa.Table:
        """Reorder the fetched rows, which are sorted by split and row, to result order."""
        places = pc.sort_indices(self._table, sort_keys=_PLACES)
        return fetched.take(pc.sort_indices(places))


def rank(scan: SplitScan, split: Split, order: Order, limit: int | None) -> pa.Table:
    """Return the best rows of one split: their numbers and sort keys."""
    table = scan.numbered(split, _columns(order), _scored(scan, split, order, limit))
    named = {_SPLIT: repeated(split.position, table.num_rows, pa.int32()), ROW: table[ROW]}
    if order.score:
        named[_SCORE] = table[_SCORE]
    if order.column is not None:
        named[_KEY] = table[order.column]
    return order.first(pa.table(named), limit)


def scored_rows(scan: SplitScan, split: Split, limit: int | None = None) -> Hits:
    """Return the best hits of a split, or all hits, in row order."""
    if scan.scores is not None:
        return scan.scores[split.position]
    hits = scan.searcher(split).best(scan.tree or All(), scan.text, limit=limit)
    in_order = pc.sort_indices(hits.rows)
    return Hits(hits.rows.take(in_order), hits.scores.take(in_order))


def _columns(order: Order) -> list[str]:
    return [] if order.column is None else [order.column]


def _scored(scan: SplitScan, split: Split, order: Order, limit: int | None) -> pa.Table | None:
    """Return the hits with scores in row order.

    Returns at most `limit` hits if only the score decides.
    """
    if not order.score:
        return None
    if scan.tree is None:
        num_rows = scan.searcher(split).split.num_rows
        return pa.table({ROW: numbers_below(num_rows), _SCORE: repeated(1.0, num_rows, pa.float32())})
    alone = scan.where is None and order.column is None
    hits = scored_rows(scan, split, limit if alone else None)
    return pa.table({ROW: hits.rows, _SCORE: hits.scores})
