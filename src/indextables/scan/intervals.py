"""What a leaf asks of a column's bounds, as intervals, and the text that numbers of an interval can have.

Bounds that were computed on text hold text in order: every value's *text* lies between them. They exclude an interval
of numbers only if no number of it has a text there, and that is not what comparing the literal's text would say:
between `10` and `20` lies `100000`, which is greater than `50`.
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
    """Values from `low` to `high`; None is no limit. `open_low` and `open_high` leave the limit itself out."""

    low: BoundValue | None = None
    high: BoundValue | None = None
    open_low: bool = False
    open_high: bool = False

    def is_empty(self) -> bool:
        return self.low is not None and self.high is not None and self.low > self.high  # type: ignore[operator]

    def holds_nan(self) -> bool:
        """NaN is greater than any number: it is in every interval of doubles that has no upper limit, or NaN as one."""
        return self.high is None or self.high != self.high


def interval_of(leaf: BoundComparison) -> Interval:
    """The values for which a comparison other than `<>` is true."""
    match leaf.operator:
        case "=":
            return Interval(leaf.value, leaf.value)
        case "<" | "<=":
            return Interval(high=leaf.value, open_high=leaf.operator == "<")
        case _:
            return Interval(leaf.value, open_low=leaf.operator == ">")


def intervals_of(leaf: BoundIn) -> tuple[Interval, ...]:
    """A few intervals that cover a list: each value by itself, or runs of neighbours where there are many."""
    size = -(-len(leaf.values) // _MAX_RUNS)
    runs = [leaf.values[i : i + size] for i in range(0, len(leaf.values), size)]
    return tuple(Interval(run[0], run[-1]) for run in runs)


def intersect(column: BoundColumn, leaves: Sequence[BoundComparison]) -> Interval:
    """The whole numbers for which every comparison is true; an empty interval if there are none."""
    low, high = limits(column)
    for leaf in leaves:
        value = int(leaf.value)
        if leaf.operator in {"=", ">", ">="}:
            low = max(low, value + (leaf.operator == ">"))
        if leaf.operator in {"=", "<", "<="}:
            high = min(high, value - (leaf.operator == "<"))
    return Interval(low, high)


def text_range(column: BoundColumn, interval: Interval) -> tuple[str, str]:
    """The least and the greatest text, in the order of text, that a number of the interval can have."""
    if column.kind == "integer":
        return _integer_texts(column, interval)
    if interval.low is not None and interval.low > 0:  # type: ignore[operator]
        # Java and Python write `Infinity`, `inf` and `NaN` for doubles: letters sort behind digits.
        return _BEFORE_DIGITS, "\U0010ffff" if column.kind == "float" else _AFTER_DIGITS
    if interval.high is not None and interval.high < 0:  # type: ignore[operator]
        return "-", _AFTER_MINUS
    return "", "\U0010ffff"


def _integer_texts(column: BoundColumn, interval: Interval) -> tuple[str, str]:
    """Exact: among numbers of one sign and as many digits, text is in order, so only the ends of such runs matter."""
    low, high = limits(column)
    low = low if interval.low is None else int(interval.low) + interval.open_low
    high = high if interval.high is None else int(interval.high) - interval.open_high
    powers = [10**i for i in range(len(str(max(abs(low), abs(high)))) + 1)]
    ends = [0, low, high, *powers, *(power - 1 for power in powers)]
    texts = [str(number) for end in ends for number in (end, -end) if low <= number <= high]
    return (min(texts), max(texts)) if texts else ("\U0010ffff", "")
