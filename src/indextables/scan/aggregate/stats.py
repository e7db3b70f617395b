"""Count, minimum, maximum, sum and mean of a column.

They come from the index if it is exact, else from the column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar
from indextables.scan.aggregate.terms import column_to_aggregate
from indextables.scan.split_scan import Split, TableScan
from indextables.split.index.fields import is_text
from indextables.split.query.tree import Node
from indextables.split.search.aggregations import Searcher, from_index, numbers_of, terms_of

_MOST_DIGITS = 38


class _Part(NamedTuple):
    """Statistics of one split; `ends` holds minimum and maximum.

    The sum is exact except for floats.
    """

    number: int
    ends: pa.Array[Any]
    total: Fraction | float | None


def stats(scan: TableScan, column: str) -> pa.Table:
    """Return one row: `count` of values other than null, `min`, `max`, `sum`, `mean`."""
    field = column_to_aggregate(scan.schema, column)

    def by_index(searcher: Searcher, tree: Node | None) -> _Part | None:
        is_summed = not pa.types.is_temporal(field.type)
        found = numbers_of(searcher, tree, scan.text, field, is_sum_wanted=is_summed)
        if found is not None:
            ends = [found.least, found.greatest] if found.number else []
            return _Part(found.number, from_index(ends, field.type), _from_digits(found.total, field.type))
        words = terms_of(searcher, tree, scan.text, field) if is_text(field.type) else None
        if words is None:
            return None
        return _Part(int(pc.sum(words["count"], min_count=0).as_py()), _of_values(words["value"]).ends, None)

    def look(split: Split) -> _Part:
        tree, where = scan.asked(split)
        found = by_index(scan.searcher(split), tree) if where is None else None
        return _of_values(scan.rows(split, [column])[column]) if found is None else found

    parts = scan.ask_together(lambda index: by_index(index, scan.tree), look)
    scan.warn()
    return _row(parts, field.type)


def _of_values(values: pa.ChunkedArray[Any]) -> _Part:
    type_ = values.type
    count = len(values) - values.null_count
    if not count:
        return _Part(0, to_array([], type_), Fraction(0))
    return _Part(count, _ends(values), _total(values))


def _ends(values: pa.Array[Any] | pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """Return minimum and maximum; NaN is the greatest number, but Arrow skips it."""
    ends = pc.min_max(values)
    has_nan = pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py()
    greatest = to_scalar(float("nan"), values.type) if has_nan else ends["max"]
    return to_array([ends["min"], greatest], values.type)


def _total(values: pa.ChunkedArray[Any]) -> Fraction | float | None:
    if pa.types.is_floating(values.type):
        return float(pc.sum(pc.cast(values, pa.float64())).as_py())
    if pa.types.is_decimal(values.type):
        return Fraction(pc.sum(pc.cast(values, pa.decimal256(76, values.type.scale))).as_py())
    if pa.types.is_integer(values.type):
        return Fraction(int(pc.sum(pc.cast(values, pa.decimal128(20, 0))).as_py()))
    return None


def _from_digits(total: int, type_: Any) -> Fraction | None:
    if pa.types.is_decimal(type_):
        return Fraction(total, 10 ** int(type_.scale))
    return Fraction(total) if pa.types.is_integer(type_) else None


def _row(parts: Sequence[_Part], type_: Any) -> pa.Table:
    count = sum(part.number for part in parts)
    ends = _ends(pa.concat_arrays([to_array([], type_), *(part.ends for part in parts)]))
    total, mean = _sum_and_mean([part.total for part in parts if part.number], count)
    return pa.table(
        {
            "count": to_array([count], pa.int64()),
            "min": ends.slice(0, 1),
            "max": ends.slice(1, 1),
            "sum": _sum_column(total, type_),
            "mean": to_array([mean], pa.float64()),
        }
    )


def _sum_and_mean(
    totals: Sequence[Fraction | float | None], count: int
) -> tuple[Fraction | float | None, float | None]:
    numbers = [total for total in totals if total is not None]
    if not numbers:
        return None, None
    if any(isinstance(number, float) for number in numbers):
        total = _float_sum([float(number) for number in numbers])
        return total, total / count
    exact = sum((Fraction(number) for number in numbers), Fraction(0))
    return exact, float(exact / count)


def _float_sum(numbers: Sequence[float]) -> float:
    try:
        return math.fsum(numbers)
    except (OverflowError, ValueError):  # beyond the greatest double, or infinities of both signs
        return sum(numbers)


def _sum_column(total: Fraction | float | None, type_: Any) -> pa.Array[Any]:
    """Return the sum as a column; null if it does not fit its type."""
    if isinstance(total, Fraction) and pa.types.is_decimal(type_):
        digits = int(total * Fraction(10) ** type_.scale)
        fits = abs(digits) < 10**_MOST_DIGITS
        scaled = Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -type_.scale)) if fits else None
        return to_array([scaled], pa.decimal128(_MOST_DIGITS, type_.scale))
    if pa.types.is_decimal(type_):
        return pa.nulls(1, pa.decimal128(_MOST_DIGITS, type_.scale))
    if pa.types.is_integer(type_):
        fits = total is not None and -(1 << 63) <= total < 1 << 63
        return to_array([int(total) if fits and total is not None else None], pa.int64())
    return to_array([None if total is None else float(total)], pa.float64())
