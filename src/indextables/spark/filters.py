"""Predicates as Spark's columns, with the meaning that they have without Spark."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from indextables.predicate.bound import (
    BoundAnd,
    BoundColumn,
    BoundComparison,
    BoundConstant,
    BoundIn,
    BoundLeaf,
    BoundLike,
    BoundNull,
    BoundOr,
    BoundPredicate,
    BoundValue,
    scalar_of,
)

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def filter_column(bound: BoundPredicate) -> Column:
    """A column that is true for exactly the rows that a predicate is true of."""
    if isinstance(bound, BoundConstant):
        return F.lit(bound.value)
    if isinstance(bound, BoundAnd | BoundOr):
        join = operator.and_ if isinstance(bound, BoundAnd) else operator.or_
        return functools.reduce(join, map(filter_column, bound.terms))
    return _leaf(bound, F.col(".".join(f"`{name.replace('`', '``')}`" for name in bound.column.path)))


def _leaf(leaf: BoundLeaf, column: Column) -> Column:
    if isinstance(leaf, BoundNull):
        return column.isNotNull() if leaf.negated else column.isNull()
    if isinstance(leaf, BoundComparison):
        compared: Column = _COMPARE[leaf.operator](column, _literal(leaf.column, leaf.value))
        return compared
    found = _membership(leaf, column) if isinstance(leaf, BoundIn) else _pattern(leaf, column)
    return ~found if leaf.negated else found


def _membership(leaf: BoundIn, column: Column) -> Column:
    return column.isin([_literal(leaf.column, value) for value in leaf.values])


def _pattern(leaf: BoundLike, column: Column) -> Column:
    return column.startswith(leaf.prefix) if leaf.prefix_only else column.rlike(leaf.regex)


def _literal(column: BoundColumn, value: BoundValue) -> Column:
    """Days and ticks stay numbers on their way: Python has no date before the year 1 and no time zone of its own."""
    if column.kind == "date":
        return F.date_from_unix_date(F.lit(value))
    if column.kind == "timestamp" and column.type.tz is not None:
        return F.timestamp_micros(F.lit(value))
    if column.kind == "timestamp":
        text = pa.scalar(value, pa.int64()).cast(pa.timestamp("us")).cast(pa.string()).as_py()
        return F.lit(text).cast("timestamp_ntz")
    return F.lit(scalar_of(column, value).as_py())
