"""Bound predicates as Arrow computations: an expression to filter rows with, or a mask over arrays.

Rows are kept where the result is true; false and null drop them. NaN equals NaN and is greater than any number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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
    scalar_of,
    stored_type,
)

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def to_arrow(bound: BoundPredicate) -> pc.Expression:
    """An expression for `Table.filter` and the like, with SQL's meaning of NULL and Spark's of NaN."""
    if isinstance(bound, BoundConstant):
        return pc.scalar(bound.value)
    if isinstance(bound, BoundAnd | BoundOr):
        join = pc.and_kleene if isinstance(bound, BoundAnd) else pc.or_kleene
        return balanced(join, [to_arrow(term) for term in bound.terms])
    return leaf_mask(bound, _field(bound.column))


def leaf_mask(leaf: BoundLeaf, operand: Any) -> Any:
    """Where a leaf is true; `operand` is an expression or an array of the column's values."""
    if isinstance(leaf, BoundNull):
        return pc.is_valid(operand) if leaf.negated else pc.invert(pc.is_valid(operand))
    if operand_type(leaf.column) != leaf.column.type:
        operand = operand.cast(operand_type(leaf.column))
    if isinstance(leaf, BoundComparison):
        return _comparison(leaf, operand)
    found = _membership(leaf, operand) if isinstance(leaf, BoundIn) else _pattern(leaf, operand)
    if not leaf.negated:
        return found
    # A list's test calls NULL "not in it", and so its negation would call it a match.
    return pc.and_kleene(pc.is_valid(operand), pc.invert(found))


def operand_type(column: BoundColumn) -> Any:
    """The type in which a column's values must be given to `leaf_mask`; others are cast to it."""
    return stored_type(column.type)


def balanced(join: Callable[[Any, Any], Any], terms: Sequence[Any]) -> Any:
    """All terms joined, in a tree of little depth: a long chain would exhaust the stack of whoever walks it."""
    while len(terms) > 1:
        pairs = [join(terms[i], terms[i + 1]) for i in range(0, len(terms) - 1, 2)]
        terms = [*pairs, terms[-1]] if len(terms) % 2 else pairs
    return terms[0]


def _field(column: BoundColumn) -> pc.Expression:
    return pc.field(column.path[0]) if len(column.path) == 1 else pc.field(*column.path)


def _comparison(leaf: BoundComparison, operand: Any) -> Any:
    if leaf.column.kind != "float":
        return _COMPARE[leaf.operator](operand, scalar_of(leaf.column, leaf.value))
    if math.isnan(leaf.value):  # type: ignore[arg-type]
        return _beside_nan(leaf, operand)
    found = _COMPARE[leaf.operator](operand, scalar_of(leaf.column, leaf.value))
    return pc.or_kleene(found, pc.is_nan(operand)) if leaf.operator in {">", ">="} else found


def _beside_nan(leaf: BoundComparison, operand: Any) -> Any:
    """Nothing is greater than NaN, so `=` and `>=` say the same, and so do `<>` and `<`."""
    if leaf.operator in {"=", ">="}:
        return pc.is_nan(operand)
    return pc.invert(pc.is_nan(operand))


def _membership(leaf: BoundIn, operand: Any) -> Any:
    values = set(leaf.values)
    has_nan = any(value != value for value in values)
    # The set is hashed by bits, in which the two zeros differ.
    zeros = [0.0, -0.0] if leaf.column.kind == "float" and 0.0 in values else []
    scalars = [scalar_of(leaf.column, value) for value in [*leaf.values, *zeros] if value == value]
    found = pc.is_in(operand, pa.array(scalars, operand_type(leaf.column)))
    return pc.or_kleene(found, pc.is_nan(operand)) if has_nan else found


def _pattern(leaf: BoundLike, operand: Any) -> Any:
    if leaf.prefix_only:
        return pc.starts_with(operand, leaf.prefix)
    return pc.match_substring_regex(operand, leaf.regex)
