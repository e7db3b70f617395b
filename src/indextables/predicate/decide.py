"""Decide a predicate for many rows at once, by the bounds of their columns.

The answer is True if the predicate is true of every row, False if it is true of none, and None if rows have to decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

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
)

Verdict = bool | None


class Extent(NamedTuple):
    """Bounds of a column in some rows; None is unknown.

    `low` and `high` have the form of bound values. They bound every value that is not null.
    """

    num_rows: int
    num_nulls: int | None = None
    low: BoundValue | None = None
    high: BoundValue | None = None


def decide(bound: BoundPredicate, extent_of: Callable[[BoundColumn], Extent]) -> Verdict:
    """Return whether a predicate is true of all rows, of none, or None."""
    if isinstance(bound, BoundConstant):
        return bound.value
    if isinstance(bound, BoundAnd | BoundOr):
        decisive = isinstance(bound, BoundOr)
        found = [decide(term, extent_of) for term in bound.terms]
        if decisive in found:
            return decisive
        return None if None in found else not decisive
    return _leaf(bound, extent_of(bound.column))


def _leaf(leaf: BoundLeaf, extent: Extent) -> Verdict:
    nulls, rows = extent.num_nulls, extent.num_rows
    if isinstance(leaf, BoundNull):
        if nulls == rows:
            return not leaf.negated
        return leaf.negated if nulls == 0 else None
    if nulls is not None and nulls == rows:
        return False
    if extent.low is None or extent.high is None:
        return None
    found = _values(leaf, extent.low, extent.high)
    return found if nulls == 0 or not found else None


def _values(leaf: BoundComparison | BoundIn | BoundLike, low: Any, high: Any) -> Verdict:
    """Decide a leaf for all values between two bounds."""
    if isinstance(leaf, BoundComparison):
        return _compared(leaf, low, high)
    found = _listed(leaf.values, low, high) if isinstance(leaf, BoundIn) else _like(leaf, low, high)
    return found if found is None or not leaf.negated else not found


def _compared(leaf: BoundComparison, low: Any, high: Any) -> Verdict:
    value: Any = leaf.value
    if leaf.operator in {"=", "<>"}:
        found = _listed((value,), low, high)
        return found if found is None or leaf.operator == "=" else not found
    if leaf.operator in {"<", "<="}:
        is_equal_in = leaf.operator == "<="
        if high < value or (is_equal_in and high == value):
            return True
        return False if low > value or (not is_equal_in and low == value) else None
    is_equal_in = leaf.operator == ">="
    if low > value or (is_equal_in and low == value):
        return True
    return False if high < value or (not is_equal_in and high == value) else None


def _listed(values: tuple[Any, ...], low: Any, high: Any) -> Verdict:
    if low == high:
        return low in values
    return None if any(low <= value <= high for value in values) else False


def _like(leaf: BoundLike, low: str, high: str) -> Verdict:
    prefix = leaf.prefix
    if high < prefix or (low > prefix and not low.startswith(prefix)):
        return False
    return True if leaf.prefix_only and low.startswith(prefix) and high.startswith(prefix) else None
