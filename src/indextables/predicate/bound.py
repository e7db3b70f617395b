"""Predicates bound to a schema: names resolved, literals converted, negations pushed into the leaves.

A bound predicate is *true* for exactly the rows for which the SQL condition is true; where that is false or NULL, it is
not true. Because no negation is left above a leaf, nothing else is ever asked of it, and pruning needs one question per
leaf: can it be true?

Values are what the column stores: for whole numbers, decimals, dates and timestamps an `int` (the number, the unscaled
decimal, days, ticks of the column's unit), else a `float`, `str` or `bool`.
"""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa

Kind = Literal["integer", "decimal", "float", "string", "boolean", "date", "timestamp", "other"]
BoundValue = int | float | str | bool
BoundOperator = Literal["=", "<>", "<", "<=", ">", ">="]


@dataclasses.dataclass(frozen=True, slots=True)
class BoundColumn:
    """A column of the schema, as the schema spells it. A field of a struct has a path of several names."""

    path: tuple[str, ...]
    type: pa.DataType

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def kind(self) -> Kind:
        return kind_of(self.type)


@dataclasses.dataclass(frozen=True, slots=True)
class BoundComparison:
    column: BoundColumn
    operator: BoundOperator
    value: BoundValue


@dataclasses.dataclass(frozen=True, slots=True)
class BoundIn:
    """`values` are distinct and, NaN last, in order."""

    column: BoundColumn
    values: tuple[BoundValue, ...]
    negated: bool


@dataclasses.dataclass(frozen=True, slots=True)
class BoundLike:
    """A pattern that holds a wildcard. Whatever matches starts with `prefix`, and `prefix_only` says the converse too.

    `regex` is the whole pattern in RE2's syntax.
    """

    column: BoundColumn
    prefix: str
    prefix_only: bool
    regex: str
    negated: bool


@dataclasses.dataclass(frozen=True, slots=True)
class BoundNull:
    column: BoundColumn
    negated: bool


@dataclasses.dataclass(frozen=True, slots=True)
class BoundAnd:
    terms: tuple[BoundPredicate, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class BoundOr:
    terms: tuple[BoundPredicate, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class BoundConstant:
    value: bool


BoundLeaf = BoundComparison | BoundIn | BoundLike | BoundNull
BoundPredicate = BoundLeaf | BoundAnd | BoundOr | BoundConstant


def bound_columns(bound: BoundPredicate) -> tuple[BoundColumn, ...]:
    """The columns that a bound predicate reads, each once."""
    found: dict[BoundColumn, None] = {}
    pending: list[BoundPredicate] = [bound]
    while pending:
        node = pending.pop()
        if isinstance(node, BoundAnd | BoundOr):
            pending.extend(node.terms)
        elif not isinstance(node, BoundConstant):
            found[node.column] = None
    return tuple(found)


def kind_of(type_: Any) -> Kind:
    """How the values of an Arrow type compare."""
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return kind_of(type_.value_type)
    for matches, kind in _KINDS:
        if matches(type_):
            return kind
    return "other"


def scalar_of(column: BoundColumn, value: BoundValue) -> pa.Scalar[Any]:
    """A bound value as Arrow compares it with the column."""
    type_ = stored_type(column.type)
    if column.kind == "decimal":
        return pa.scalar(Decimal(f"{value}E{-type_.scale}"), type_)
    if column.kind == "date":
        return pa.scalar(value, pa.int32()).cast(type_)
    if column.kind == "timestamp":
        return pa.scalar(value, pa.int64()).cast(type_)
    return pa.scalar(value, type_)


def stored_type(type_: Any) -> Any:
    """The Arrow type in which a column of this type is compared."""
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return stored_type(type_.value_type)
    kind = kind_of(type_)
    if kind == "float":
        return pa.float64()
    if kind == "date":
        return pa.date32()
    if kind == "string" and not pa.types.is_large_string(type_):
        return pa.string()
    return type_


def _is_text(type_: Any) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


_KINDS: tuple[tuple[Any, Kind], ...] = (
    (pa.types.is_integer, "integer"),
    (pa.types.is_floating, "float"),
    (_is_text, "string"),
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_date, "date"),
    (pa.types.is_timestamp, "timestamp"),
    (pa.types.is_decimal, "decimal"),
)
