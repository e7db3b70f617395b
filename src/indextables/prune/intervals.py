"""Intervals of values that a leaf accepts, and the texts of their numbers.

Bounds computed on text contain every value's *text*. They exclude an interval of numbers only if no number in it has a
text between the bounds. Comparing the literal's text is not enough: `100000` lies between `10` and `20` as text, and is
greater than `50`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from indextables.predicate.bound import BoundColumn, BoundComparison, BoundIn, BoundValue
from indextables.predicate.convert import limits

_MAX_RUNS = 16
_BEFORE_DIGITS = "."
_AFTER_DIGITS = ":"
_AFTER_MINUS = "."


@dataclasses.dataclass(frozen=True, slots=True)
class Interval:
    """Values from `low` to `high`; None is no limit.

    `open_low` and `open_high` exclude the limit itself.
    """

    low: BoundValue | None = None
    high: BoundValue | None = None
    open_low: bool = False
    open_high: bool = False

    def is_empty(self) -> bool:
        return self.low is not None and self.high is not None and self.low > self.high  # type: ignore[operator]

    def holds_nan(self) -> bool:
        """Return whether NaN is inside: NaN is greater than any number.

        It is inside every interval of doubles without an upper limit, or with NaN as one.
        """
        return self.high is None or self.high != self.high


def interval_of(leaf: BoundComparison) -> Interval:
    """Return the values that satisfy a comparison other than `<>`."""
    match leaf.operator:
        case "=":
            return Interval(leaf.value, leaf.value)
        case "<" | "<=":
            return Interval(high=leaf.value, open_high=leaf.operator == "<")
        case _:
            return Interval(leaf.value, open_low=leaf.operator == ">")


def intervals_of(leaf: BoundIn) -> tuple[Interval, ...]:
    """Return a few intervals that cover a list: single values, or runs of many values."""
    size = -(-len(leaf.values) // _MAX_RUNS)
    runs = [leaf.values[i : i + size] for i in range(0, len(leaf.values), size)]
    return tuple(Interval(run[0], run[-1]) for run in runs)


def intersect(column: BoundColumn, leaves: Sequence[BoundComparison]) -> Interval:
    """Return the integers that satisfy every comparison; empty if there are none."""
    low, high = limits(column)
    for leaf in leaves:
        value = int(leaf.value)
        if leaf.operator in {"=", ">", ">="}:
            low = max(low, value + (leaf.operator == ">"))
        if leaf.operator in {"=", "<", "<="}:
            high = min(high, value - (leaf.operator == "<"))
    return Interval(low, high)


def text_range(column: BoundColumn, interval: Interval) -> tuple[str, str]:
    """Return the least and greatest text, in text order, of numbers in the interval."""
    if column.kind == "integer":
        return _integer_texts(column, interval)
    if interval.low is not None and interval.low > 0:  # type: ignore[operator]
        # Java and Python write `Infinity`, `inf` and `NaN` for doubles: letters sort behind digits.
        return _BEFORE_DIGITS, "\U0010ffff" if column.kind == "float" else _AFTER_DIGITS
    if interval.high is not None and interval.high < 0:  # type: ignore[operator]
        return "-", _AFTER_MINUS
    return "", "\U0010ffff"


def _integer_texts(column: BoundColumn, interval: Interval) -> tuple[str, str]:
    """Return the exact range of texts of integers in the interval.

    Numbers of one sign and length are in text order, so only the ends of such runs matter.
    """
    low, high = limits(column)
    low = low if interval.low is None else int(interval.low) + interval.open_low
    high = high if interval.high is None else int(interval.high) - interval.open_high
    powers = [10**i for i in range(len(str(max(abs(low), abs(high)))) + 1)]
    ends = [0, low, high, *powers, *(power - 1 for power in powers)]
    texts = [str(number) for end in ends for number in (end, -end) if low <= number <= high]
    return (min(texts), max(texts)) if texts else ("\U0010ffff", "")
