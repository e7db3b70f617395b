"""Predicates as queries: the conditions on values that an index decides exactly.

| column | conditions |
|---|---|
| fast whole numbers, dates, timestamps, short decimals | all |
| fast floats | all, if no row has NaN, which the index omits; else those that NaN never fulfils |
| booleans | equality |
| keywords | equality and prefixes; the index tells values apart by their first 65,525 bytes |

Rows decide everything else. NULL has no value in an index, so a negation also asks for a value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tantivy

from indextables.predicate.bound import (
    BoundAnd,
    BoundComparison,
    BoundConstant,
    BoundIn,
    BoundLeaf,
    BoundLike,
    BoundNull,
    BoundOr,
    BoundPredicate,
)
from indextables.split.index.fields import MAX_WHOLE_BYTES, FieldMap, IndexField, Kind
from indextables.split.query import patterns
from indextables.split.query.tree import And, Holds, Node, Not, Or
from indextables.split.query.value_leaves import GREATEST, LEAST, TYPES
from indextables.split.query.values import any_of

HasNan = Callable[[str], bool]
"""Returns whether a column of floats may have NaN."""

_WHOLE = frozenset({Kind.INT, Kind.UINT})
# Each number of a list is a walk of its fast column.
_MOST_NUMBERS = 8
_MOST_TEXTS = 200
_MOST_PREFIX_BYTES = 200


def decided_part(bound: BoundPredicate, fields: FieldMap, has_nan: HasNan) -> tuple[Node | None, BoundPredicate | None]:
    """Split a predicate into a query, and the rest that rows decide; both must hold."""
    terms = _needed_terms(bound.terms) if isinstance(bound, BoundAnd) else (bound,)
    found = [(term, _node(term, fields, has_nan)) for term in terms]
    nodes = tuple(node for _, node in found if node is not None)
    rest = tuple(term for term, node in found if node is None)
    left = None if not rest else rest[0] if len(rest) == 1 else BoundAnd(rest)
    return (None if not nodes else nodes[0] if len(nodes) == 1 else And(nodes)), left


def _needed_terms(terms: Sequence[BoundPredicate]) -> Sequence[BoundPredicate]:
    """Leave out `IS NOT NULL` on columns whose values another term compares.

    Spark adds it to every comparison, and no comparison is true for NULL.
    """
    compared = {term.column.path for term in terms if isinstance(term, BoundComparison | BoundIn | BoundLike)}
    return [
        term for term in terms if not (isinstance(term, BoundNull) and term.negated and term.column.path in compared)
    ]


def _node(bound: BoundPredicate, fields: FieldMap, has_nan: HasNan) -> Node | None:
    """Return the query of a predicate; None if rows have to decide a part of it."""
    if isinstance(bound, BoundConstant):
        return None
    if isinstance(bound, BoundAnd | BoundOr):
        parts = [_node(term, fields, has_nan) for term in bound.terms]
        kept = tuple(part for part in parts if part is not None)
        join = And if isinstance(bound, BoundAnd) else Or
        return join(kept) if len(kept) == len(parts) else None
    field = fields.find(bound.column.path[0]) if len(bound.column.path) == 1 else None
    if field is None or field.column != bound.column.path[0] or field.type != str(bound.column.type):
        return None
    return _leaf(bound, field, has_nan)


def _leaf(leaf: BoundLeaf, field: IndexField, has_nan: HasNan) -> Node | None:
    if field.kind is Kind.STRING and leaf.column.kind == "string":
        return _on_text(leaf, field)
    if field.kind is Kind.BOOL and leaf.column.kind == "boolean":
        return _on_boolean(leaf)
    if not field.fast or isinstance(leaf, BoundLike):
        return None
    if field.kind in _WHOLE:
        is_other = leaf.column.kind == "timestamp" and leaf.column.type.unit not in {"us", "ns"}
        return None if is_other and not isinstance(leaf, BoundNull) else _on_numbers(leaf)
    if field.kind is not Kind.FLOAT:
        return None
    return None if _may_be_nan(leaf) and has_nan(field.column) else _on_numbers(leaf)


def _may_be_nan(leaf: BoundComparison | BoundIn | BoundNull) -> bool:
    """Return whether NaN decides or fulfils a condition on floats."""
    if isinstance(leaf, BoundNull):
        return True
    if isinstance(leaf, BoundIn):
        return leaf.negated or any(value != value for value in leaf.values)
    return leaf.operator in {">", ">=", "<>"} or leaf.value != leaf.value


def _on_numbers(leaf: BoundComparison | BoundIn | BoundNull) -> Node | None:
    there = _holds(BoundNull(leaf.column, negated=True))
    if isinstance(leaf, BoundNull):
        return there if leaf.negated else Not(there)
    if isinstance(leaf, BoundIn):
        if len(leaf.values) > _MOST_NUMBERS or any(value != value for value in leaf.values):
            return None
        listed = _holds(dataclasses.replace(leaf, negated=False))
        return And((there, Not(listed))) if leaf.negated else listed
    if leaf.value != leaf.value:
        return None
    if leaf.operator == "<>":
        return Or((_holds(dataclasses.replace(leaf, operator="<")), _holds(dataclasses.replace(leaf, operator=">"))))
    return _holds(leaf)


def _on_boolean(leaf: BoundLeaf) -> Node | None:
    if not isinstance(leaf, BoundComparison) or leaf.operator not in {"=", "<>"}:
        return None
    return _holds(BoundComparison(leaf.column, "=", bool(leaf.value) is (leaf.operator == "=")))


def _on_text(leaf: BoundLeaf, field: IndexField) -> Node | None:
    if isinstance(leaf, BoundNull):
        there = _holds(BoundNull(leaf.column, negated=True))
        return None if not field.fast else there if leaf.negated else Not(there)
    if isinstance(leaf, BoundComparison):
        if leaf.operator not in {"=", "<>"} or not _is_whole(leaf.value):
            return None
        found, is_negated = _holds(dataclasses.replace(leaf, operator="=")), leaf.operator == "<>"
    elif isinstance(leaf, BoundIn):
        if len(leaf.values) > _MOST_TEXTS or not all(map(_is_whole, leaf.values)):
            return None
        found, is_negated = _holds(dataclasses.replace(leaf, negated=False)), leaf.negated
    else:
        if not leaf.prefix_only or not 0 < len(leaf.prefix.encode()) <= _MOST_PREFIX_BYTES:
            return None
        found, is_negated = _holds(dataclasses.replace(leaf, negated=False)), leaf.negated
    if not is_negated:
        return found
    return And((_holds(BoundNull(leaf.column, negated=True)), Not(found))) if field.fast else None


def _is_whole(value: Any) -> bool:
    return len(value.encode()) <= MAX_WHOLE_BYTES


def _holds(test: BoundLeaf) -> Holds:
    return Holds(test, path=test.column.path)


def query_of(test: BoundLeaf, field: Any, schema: tantivy.Schema) -> tantivy.Query:
    """Compile the condition of a `Holds` that `decided_part` has made."""
    if isinstance(test, BoundNull):
        return tantivy.Query.exists_query(field.name)
    if isinstance(test, BoundLike):
        return tantivy.Query.regex_query(schema, field.name, patterns.escape(test.prefix) + patterns.EVERYTHING)
    if field.kind == Kind.STRING:
        if isinstance(test, BoundIn):
            return tantivy.Query.term_set_query(schema, field.name, list(test.values))
        return tantivy.Query.term_query(schema, field.name, test.value, "basic")
    if field.kind == Kind.BOOL and isinstance(test, BoundComparison):
        return tantivy.Query.term_query(schema, field.name, test.value)
    if isinstance(test, BoundIn):
        return any_of(_between(schema, field, value, value) for value in map(_one_zero, test.values))
    value = _one_zero(test.value)
    if test.operator == "=":
        return _between(schema, field, value, value)
    if test.operator in {"<", "<="}:
        return _between(schema, field, LEAST[field.kind], value, includes_high=test.operator == "<=")
    return _between(schema, field, value, GREATEST[field.kind], includes_low=test.operator == ">=")


def _one_zero(value: Any) -> Any:
    """Return a number with the zero of the index, which holds no negative one."""
    return value + 0.0 if isinstance(value, float) else value


def _between(
    schema: tantivy.Schema, field: Any, low: Any, high: Any, *, includes_low: bool = True, includes_high: bool = True
) -> tantivy.Query:
    return tantivy.Query.range_query(schema, field.name, TYPES[field.kind], low, high, includes_low, includes_high)
