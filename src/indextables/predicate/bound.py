"""Predicates bound to a schema: names resolved, literals converted, no negations.

A bound predicate is *true* for exactly the rows for which the SQL condition is true; it is not true if the condition is
false or NULL. Negations are pushed into the leaves, so pruning needs to know only one fact per leaf: can it be true?

A value has the stored form of its column: for whole numbers, decimals, dates and timestamps an `int` (the number, the
unscaled decimal, days, ticks of the column's unit), else a `float`, `str` or `bool`.
"""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa

from indextables.arrow_values import to_scalar

Kind = Literal["integer", "decimal", "float", "string", "boolean", "date", "timestamp", "other"]
BoundValue = int | float | str | bool
BoundOperator = Literal["=", "<>", "<", "<=", ">", ">="]


@dataclasses.dataclass(frozen=True, slots=True)
class BoundColumn:
    """Column of the schema, in the schema's spelling.

    A field of a struct has a path of several names.
    """

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
    """Membership in `values`, which are distinct and sorted, with NaN last."""

    column: BoundColumn
    values: tuple[BoundValue, ...]
    negated: bool


@dataclasses.dataclass(frozen=True, slots=True)
class BoundLike:
    """Pattern with a wildcard.

    All matches start with `prefix`. If `prefix_only`, all strings with this prefix match. `regex` is the whole pattern
    in RE2's syntax.
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
    """Return the columns of a bound predicate, without duplicates."""
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
    """Return the kind of comparison for values of an Arrow type."""
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return kind_of(type_.value_type)
    for matches, kind in _KINDS:
        if matches(type_):
            return kind
    return "other"


def scalar_of(column: BoundColumn, value: BoundValue) -> pa.Scalar[Any]:
    """Return a bound value as an Arrow scalar that compares with the column."""
    type_ = stored_type(column.type)
    if column.kind == "decimal":
        return to_scalar(Decimal(f"{value}E{-type_.scale}"), type_)
    if column.kind == "date":
        return to_scalar(value, pa.int32()).cast(type_)
    if column.kind == "timestamp":
        return to_scalar(value, pa.int64()).cast(type_)
    return to_scalar(value, type_)


def stored_type(type_: Any) -> Any:
    """Return the Arrow type in which a column of this type is compared."""
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
