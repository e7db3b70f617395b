"""Count rows per interval of numbers, from the index if exact, else from rows.

Edges are computed exactly, as fractions, for every type. Edges of floats are then rounded to doubles, and a value is in
the last bucket that does not start above it: with an interval of 0.1, 0.3 is in the bucket that starts at 0.3.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar
from indextables.errors import ConfigError, SchemaError
from indextables.scan.aggregate.terms import COUNT, column_to_aggregate
from indextables.scan.split_scan import Split, TableScan
from indextables.split.search.aggregations import histogram_of
from indextables.split.search.combined import Together

Number = int | float | Decimal

_MOST_DIGITS = 38
_INT64_DIGITS = 18
_MOST_WIDTH = 1 << 62
_MOST_EXPONENT = 400
_GREATEST = sys.float_info.max
# Between these widths and up to this quotient, the error of doubles is less than half a bucket.
_QUICK_WIDTHS = (Fraction(1, 10**290), Fraction(10**290))
_MOST_QUOTIENT = float(1 << 50)


def histogram(scan: TableScan, column: str, *, interval: Number, offset: Number = 0) -> pa.Table:
    """Return one row per bucket with rows, in order: its start and its count."""
    field = column_to_aggregate(scan.schema, column)
    width, first = _exact("interval", interval), _exact("offset", offset)
    if width <= 0:
        raise ConfigError(f"cannot use `{interval}` as an interval: it has to be above 0")
    if pa.types.is_floating(field.type):
        return _of_floats(scan, field, width, first % width)
    if pa.types.is_integer(field.type):
        if width.denominator > 1 or first.denominator > 1:
            raise ConfigError(
                f"cannot count the whole numbers of `{column}` in fractions: interval and offset have to be whole"
            )
        return _of_digits(scan, field, width, first, 0)
    if pa.types.is_decimal(field.type):
        scale = max(int(field.type.scale), _scale(width), _scale(first))
        return _of_digits(scan, field, width, first, scale)
    raise SchemaError(
        f"cannot make a histogram of the column `{column}` because its type is `{field.type}`",
        hint="it takes numbers; `date_histogram` takes dates and timestamps",
    )


def _exact(name: str, number: Number) -> Fraction:
    """Convert a number exactly; a float counts as its shortest decimal."""
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
        raise ConfigError(f"cannot use `{number!r:.60}` as an {name}: expected a number")
    exact = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    if not exact.is_finite() or abs(exact.adjusted()) > _MOST_EXPONENT:
        raise ConfigError(f"cannot use `{number!r:.60}` as an {name}: it is too large, too small or not a number")
    return Fraction(exact)


def _scale(number: Fraction) -> int:
    """Return the number of decimal places of a fraction."""
    digits = 0
    while (number * 10**digits).denominator > 1:
        digits += 1
    return digits


def _of_digits(scan: TableScan, field: pa.Field[Any], width: Fraction, first: Fraction, scale: int) -> pa.Table:
    """Count integers, and decimals as integers of their smallest unit."""
    digits = 10**scale
    step, start = int(width * digits), int(first * digits) % int(width * digits)
    if step > _MOST_WIDTH and pa.types.is_integer(field.type):
        raise ConfigError(f"cannot use `{step}` as an interval: it is longer than the range of whole numbers")
    own_scale = 0 if pa.types.is_integer(field.type) else int(field.type.scale)
    is_in_index = scale == own_scale

    def count_in(split: Split) -> dict[int, int]:
        tree, where = scan.asked(split)
        if where is None and is_in_index:
            found = histogram_of(scan.searcher(split), tree, scan.text, field, step, start)
            if found is not None:
                return found
        return _count_digits(scan.rows(split, [field.name])[field.name], step, start, scale)

    def count_together(index: Together) -> dict[int, int] | None:
        return histogram_of(index, scan.tree, scan.text, field, step, start) if is_in_index else None

    buckets: Counter[int] = Counter()
    for found in scan.ask_together(count_together, count_in):
        buckets.update(found)
    scan.warn()
    starts = sorted(buckets)
    edges = _edges([number * step + start for number in starts], field, scale)
    return _answer(field.name, edges, [buckets[number] for number in starts])


def _count_digits(values: pa.ChunkedArray[Any], step: int, start: int, scale: int) -> dict[int, int]:
    values = values.drop_null()
    if pa.types.is_decimal(values.type):
        precision = values.type.precision + scale - values.type.scale
        if precision > _INT64_DIGITS or step > _MOST_WIDTH:
            return _count_one_by_one(values, step, start, scale)
        values = pc.multiply(values, to_scalar(Decimal(10**scale), pa.decimal128(scale + 1, 0)))
    numbers = pc.cast(values, pa.int64())
    width = to_scalar(step)
    quotients = pc.divide(numbers, width)  # rounds towards zero
    rests = pc.subtract(numbers, pc.multiply(quotients, width))
    is_negative = pc.less(rests, to_scalar(0))
    rests = pc.if_else(is_negative, pc.add(rests, width), rests)
    below = pc.add(pc.cast(is_negative, pa.int64()), pc.cast(pc.less(rests, to_scalar(start)), pa.int64()))
    return dict(_counts(pc.subtract(quotients, below)))


def _count_one_by_one(values: pa.ChunkedArray[Any], step: int, start: int, scale: int) -> dict[int, int]:
    """Count decimals that do not fit a machine integer, one distinct value at a time."""
    buckets: Counter[int] = Counter()
    for value, count in _counts(values):
        buckets[(int(Fraction(value) * 10**scale) - start) // step] += count
    return buckets


def _counts(values: Any) -> list[tuple[Any, int]]:
    """Return the distinct values and their counts; the two zeros are distinct."""
    counted = pc.value_counts(values)
    return list(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))


def _edges(starts: list[int], field: pa.Field[Any], scale: int) -> pa.Array[Any]:
    """Return the starts of buckets in a fitting type, or raise a `ConfigError`."""
    is_integer = pa.types.is_integer(field.type)
    least, most = (-(1 << 63), 1 << 63) if is_integer else (1 - 10**_MOST_DIGITS, 10**_MOST_DIGITS)
    if scale > _MOST_DIGITS or any(not least <= start < most for start in starts):
        raise ConfigError(
            f"cannot make this histogram of `{field.name}` because a bucket starts outside of the range of its type",
            hint="choose another interval or offset, or leave the outermost values out by `where`",
        )
    if is_integer:
        return to_array(starts, pa.int64())
    scaled = [Decimal((int(start < 0), tuple(map(int, str(abs(start)))), -scale)) for start in starts]
    return to_array(scaled, pa.decimal128(_MOST_DIGITS, scale))


def _of_floats(scan: TableScan, field: pa.Field[Any], width: Fraction, first: Fraction) -> pa.Table:
    """Count floats from their column: the index has no NaN and merges the two zeros."""
    buckets: Counter[float] = Counter()
    for _, found in scan.ask(
        lambda split: _count_floats(scan.rows(split, [field.name])[field.name], width, first), scan.found()
    ):
        buckets.update(found)
    scan.warn()
    num_nans = sum(count for start, count in buckets.items() if math.isnan(start))
    starts = sorted(start for start in buckets if not math.isnan(start))
    counts = [buckets[start] for start in starts]
    if num_nans:
        starts, counts = [*starts, math.nan], [*counts, num_nans]
    return _answer(field.name, to_array(starts, pa.float64()), counts)


def _count_floats(values: pa.ChunkedArray[Any], width: Fraction, first: Fraction) -> Counter[float]:
    """Count values per bucket start; NaN and infinities are their own bucket."""
    numbers = pc.cast(values.drop_null(), pa.float64())
    least, most = _QUICK_WIDTHS
    if not least < width < most:
        return _count_far(numbers, width, first)
    quotients = pc.divide(pc.subtract(numbers, to_scalar(float(first))), to_scalar(float(width)))
    is_near = pc.less(pc.abs(quotients), to_scalar(_MOST_QUOTIENT))
    found = _count_far(numbers.filter(pc.invert(is_near)), width, first)
    found.update(_count_near(numbers.filter(is_near), quotients.filter(is_near), width, first))
    return found


def _count_far(numbers: pa.ChunkedArray[Any], width: Fraction, first: Fraction) -> Counter[float]:
    """Count numbers that doubles cannot divide exactly enough, one value at a time."""
    buckets: Counter[float] = Counter()
    for value, count in _counts(numbers):
        buckets[_start(value, width, first)] += count
    return buckets


def _count_near(
    numbers: pa.ChunkedArray[Any], quotients: pa.ChunkedArray[Any], width: Fraction, first: Fraction
) -> Counter[float]:
    """Count numbers whose bucket is the one of their quotient or a neighbour.

    The exact edges decide.
    """
    if not len(quotients):
        return Counter()
    said = pc.cast(pc.floor(quotients), pa.int64()).combine_chunks().dictionary_encode()
    lows = [_double(width * number + first) for number in said.dictionary.to_pylist()]
    highs = [_double(width * (number + 1) + first) for number in said.dictionary.to_pylist()]
    is_below = pc.less(numbers, to_array(lows, pa.float64()).take(said.indices))
    is_above = pc.greater_equal(numbers, to_array(highs, pa.float64()).take(said.indices))
    moves = pc.subtract(pc.cast(is_above, pa.int64()), pc.cast(is_below, pa.int64()))
    buckets: Counter[float] = Counter()
    for number, count in _counts(pc.add(said.dictionary_decode(), moves)):
        buckets[_double(width * number + first)] += count
    return buckets


def _start(value: float, width: Fraction, first: Fraction) -> float:
    """Return the start of a value's bucket."""
    if not math.isfinite(value):
        return value
    number = (Fraction(value) - first) // width
    above = _double(width * (number + 1) + first)
    return above if above <= value else _double(width * number + first)


def _double(edge: Fraction) -> float:
    """Return the nearest double, with a single zero.

    No finite bucket starts at an infinity, since infinities are their own buckets.
    """
    try:
        return float(edge) + 0.0
    except OverflowError:
        return math.inf if edge > 0 else -_GREATEST


def _answer(name: str, edges: pa.Array[Any], counts: list[int]) -> pa.Table:
    schema = pa.schema([(name, edges.type), (COUNT, pa.int64())])
    return pa.Table.from_arrays([edges, to_array(counts, pa.int64())], schema=schema)
