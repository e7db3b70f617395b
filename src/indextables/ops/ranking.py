"""Rows in an order of their own, by score or by a column: chosen by number, before they are read in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.ops.questions import ROW, Split, SplitQuestion
from indextables.split.query.tree import All
from indextables.split.searcher import Hits

_SPLIT = "_split"
_KEY = "_key"
_SCORE = "_score"
_PLACES = [(_SPLIT, "ascending"), (ROW, "ascending")]


class Order:
    """By a column, else by score, best first. NULL comes last, NaN before it; equal rows keep the table's order."""

    def __init__(self, column: str | None, *, descending: bool, score: bool) -> None:
        self.column = column
        self.score = score
        first = (_SCORE, "descending") if column is None else (_KEY, "descending" if descending else "ascending")
        self._keys = [first, *_PLACES]

    def best(self, tables: Sequence[pa.Table], limit: int | None) -> Chosen:
        """The best rows of all tables."""
        if not tables:
            return Chosen(pa.table({_SPLIT: pa.array([], pa.int32()), ROW: pa.array([], pa.uint64())}), self.score)
        return Chosen(self.first(pa.concat_tables(tables), limit), self.score)

    def first(self, table: pa.Table, limit: int | None) -> pa.Table:
        """The best rows of one table."""
        return table.take(pc.sort_indices(table, sort_keys=self._keys).slice(0, limit))


class Chosen:
    """The rows of an answer in its order, by split and number."""

    def __init__(self, table: pa.Table, score: bool) -> None:
        self._table = table
        self._splits = frozenset(pc.unique(table[_SPLIT]).to_pylist())
        self.scores: pa.ChunkedArray[Any] | None = None
        if score:
            self.scores = table[_SCORE] if _SCORE in table.column_names else pa.chunked_array([], pa.float32())

    def has(self, position: int) -> bool:
        return position in self._splits

    def rows_of(self, position: int) -> pa.Array[Any]:
        """The rows to read of a split, in their order."""
        rows = self._table.filter(pc.equal(self._table[_SPLIT], position))[ROW].combine_chunks()
        return rows.take(pc.sort_indices(rows))

    def arrange(self, fetched: pa.Table) -> pa.Table:
        """What was read, split by split and row by row, in the order of the answer."""
        places = pc.sort_indices(self._table, sort_keys=_PLACES)
        return fetched.take(pc.sort_indices(places))


def rank(question: SplitQuestion, split: Split, order: Order, limit: int | None) -> pa.Table:
    """The best rows of one split: their numbers, and by what they are ranked."""
    table = question.numbered(split, _columns(order), _scored(question, split, order, limit))
    named = {_SPLIT: pa.array([split.position] * table.num_rows, pa.int32()), ROW: table[ROW]}
    if order.score:
        named[_SCORE] = table[_SCORE]
    if order.column is not None:
        named[_KEY] = table[order.column]
    return order.first(pa.table(named), limit)


def scored_rows(question: SplitQuestion, split: Split, limit: int | None = None) -> Hits:
    """The best rows that the query finds in a split, or all, in the order of rows."""
    hits = question.searcher(split).best(question.tree or All(), question.text, limit=limit)
    in_order = pc.sort_indices(hits.rows)
    return Hits(hits.rows.take(in_order), hits.scores.take(in_order))


def _columns(order: Order) -> list[str]:
    return [] if order.column is None else [order.column]


def _scored(question: SplitQuestion, split: Split, order: Order, limit: int | None) -> pa.Table | None:
    """The hits with their scores in the order of rows; no more than the answer has where the score alone decides."""
    if not order.score:
        return None
    if question.tree is None:
        num_rows = question.searcher(split).split.num_rows
        ones = pa.array([1.0] * num_rows, pa.float32())
        return pa.table({ROW: pa.array(range(num_rows), pa.uint64()), _SCORE: ones})
    alone = question.where is None and order.column is None
    hits = scored_rows(question, split, limit if alone else None)
    return pa.table({ROW: hits.rows, _SCORE: hits.scores})
