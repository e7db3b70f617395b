"""Arrow computations of bound predicates: a filter expression or a mask.

Rows with the result true are kept; rows with false or null are dropped. NaN equals NaN and is greater than any number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar
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
    """Return an expression for `Table.filter`; NULL is as in SQL, NaN as in Spark."""
    if isinstance(bound, BoundConstant):
        return pc.scalar(to_scalar(bound.value, pa.bool_()))
    if isinstance(bound, BoundAnd | BoundOr):
        join = pc.and_kleene if isinstance(bound, BoundAnd) else pc.or_kleene
        return balanced(join, [to_arrow(term) for term in bound.terms])
    return leaf_mask(bound, _field(bound.column))


def matching(table: pa.Table, bound: BoundPredicate) -> Any:
    """Return a mask, true for the rows that match a predicate, else false or null.

    `Table.filter` of an expression would give the same, but imports the engine of datasets, and pandas with it. Columns
    of text may be dictionaries: then each of their values is compared once.
    """
    if isinstance(bound, BoundConstant):
        return pa.repeat(to_scalar(bound.value, pa.bool_()), table.num_rows)
    if isinstance(bound, BoundAnd | BoundOr):
        join = pc.and_kleene if isinstance(bound, BoundAnd) else pc.or_kleene
        return balanced(join, [matching(table, term) for term in bound.terms])
    name, *inner = bound.column.path
    if pa.types.is_dictionary(table[name].type) and not pa.types.is_dictionary(bound.column.type):
        return pa.chunked_array([_coded_mask(bound, chunk) for chunk in table[name].chunks], pa.bool_())
    return leaf_mask(bound, pc.struct_field(table[name], inner) if inner else table[name])


def _coded_mask(leaf: BoundLeaf, codes: Any) -> Any:
    """Return the mask of a leaf on a dictionary; a missing code is null."""
    if isinstance(leaf, BoundNull):
        is_there = pc.is_valid(codes.indices)
        return is_there if leaf.negated else pc.invert(is_there)
    mask = leaf_mask(leaf, codes.dictionary)
    wanted = pc.indices_nonzero(mask)
    if len(wanted) > 1:
        return mask.take(codes.indices)
    code = wanted[0] if len(wanted) else to_scalar(-1)
    return pc.equal(codes.indices, code.cast(codes.indices.type))


def leaf_mask(leaf: BoundLeaf, operand: Any) -> Any:
    """Return the mask of a leaf; `operand` is its column as an expression or an array."""
    if isinstance(leaf, BoundNull):
        return pc.is_valid(operand) if leaf.negated else pc.invert(pc.is_valid(operand))
    if operand_type(leaf.column) != leaf.column.type:
        operand = operand.cast(operand_type(leaf.column))
    if isinstance(leaf, BoundComparison):
        return _comparison(leaf, operand)
    found = _membership(leaf, operand) if isinstance(leaf, BoundIn) else _pattern(leaf, operand)
    if not leaf.negated:
        return found
    # `is_in` returns false for NULL, so its negation would match NULL.
    return pc.and_kleene(pc.is_valid(operand), pc.invert(found))


def operand_type(column: BoundColumn) -> Any:
    """Return the type of the operand of `leaf_mask`; other types are cast to it."""
    return stored_type(column.type)


def balanced(join: Callable[[Any, Any], Any], terms: Sequence[Any]) -> Any:
    """Join all terms in a balanced tree.

    A long chain would exhaust the stack of recursive functions.
    """
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
    """Compare with NaN, the greatest value: `=` equals `>=`, and `<>` equals `<`."""
    if leaf.operator in {"=", ">="}:
        return pc.is_nan(operand)
    return pc.invert(pc.is_nan(operand))


def _membership(leaf: BoundIn, operand: Any) -> Any:
    values = set(leaf.values)
    has_nan = any(value != value for value in values)
    # The set hashes bits, and the two zeros have different bits.
    zeros = [0.0, -0.0] if leaf.column.kind == "float" and 0.0 in values else []
    scalars = [scalar_of(leaf.column, value) for value in [*leaf.values, *zeros] if value == value]
    found = pc.is_in(operand, to_array(scalars, operand_type(leaf.column)))
    return pc.or_kleene(found, pc.is_nan(operand)) if has_nan else found


def _pattern(leaf: BoundLike, operand: Any) -> Any:
    if leaf.prefix_only:
        return pc.starts_with(operand, leaf.prefix)
    return pc.match_substring_regex(operand, leaf.regex)
