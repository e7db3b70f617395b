"""How many rows lie in each stretch of numbers: from the index where that is exact, else from that column.

Edges are computed exactly, as fractions, whatever the type. Those of floats are then rounded to doubles, and a value is
in the last bucket that does not start above it: so 0.3 is in the bucket of 0.3 where the interval is 0.1.
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

from indextables.errors import ConfigError, SchemaError
from indextables.ops.aggregate import COUNT, column_to_aggregate
from indextables.ops.questions import Question, Split
from indextables.split.aggregations import histogram_of

Number = int | float | Decimal

_MOST_DIGITS = 38
_INT64_DIGITS = 18
_MOST_WIDTH = 1 << 62
_MOST_EXPONENT = 400
_GREATEST = sys.float_info.max
# Between these widths and up to this quotient, what doubles say is off by less than half a bucket.
_QUICK_WIDTHS = (Fraction(1, 10**290), Fraction(10**290))
_MOST_QUOTIENT = float(1 << 50)


def histogram(question: Question, column: str, *, interval: Number, offset: Number = 0) -> pa.Table:
    """A row per bucket that holds rows, in order: where it starts, and its count."""
    field = column_to_aggregate(question.schema, column)
    width, first = _exact("interval", interval), _exact("offset", offset)
    if width <= 0:
        raise ConfigError(f"cannot use `{interval}` as an interval: it has to be above 0")
    if pa.types.is_floating(field.type):
        return _of_floats(question, field, width, first % width)
    if pa.types.is_integer(field.type):
        if width.denominator > 1 or first.denominator > 1:
            raise ConfigError(
                f"cannot count the whole numbers of `{column}` in parts: interval and offset have to be whole"
            )
        return _of_digits(question, field, width, first, 0)
    if pa.types.is_decimal(field.type):
        scale = max(int(field.type.scale), _scale(width), _scale(first))
        return _of_digits(question, field, width, first, scale)
    raise SchemaError(
        f"cannot make a histogram of the column `{column}` because its type is `{field.type}`",
        hint="it takes numbers; `date_histogram` takes dates and timestamps",
    )


def _exact(name: str, number: Number) -> Fraction:
    """A number as it is written: a float as the shortest decimal that is that float."""
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
        raise ConfigError(f"cannot use `{number!r:.60}` as an {name}: expected a number")
    exact = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    if not exact.is_finite() or abs(exact.adjusted()) > _MOST_EXPONENT:
        raise ConfigError(f"cannot use `{number!r:.60}` as an {name}: it is too large, too small or no number")
    return Fraction(exact)


def _scale(number: Fraction) -> int:
    """How many digits behind the point a fraction has that was a decimal."""
    digits = 0
    while (number * 10**digits).denominator > 1:
        digits += 1
    return digits


def _of_digits(question: Question, field: pa.Field[Any], width: Fraction, first: Fraction, scale: int) -> pa.Table:
    """Whole numbers, and decimals as whole numbers of digits."""
    digits = 10**scale
    step, start = int(width * digits), int(first * digits) % int(width * digits)
    if step > _MOST_WIDTH and pa.types.is_integer(field.type):
        raise ConfigError(f"cannot use `{step}` as an interval: it is longer than whole numbers can tell")
    own_scale = 0 if pa.types.is_integer(field.type) else int(field.type.scale)
    is_in_index = scale == own_scale

    def count_in(split: Split) -> dict[int, int]:
        if question.where is None and is_in_index:
            found = histogram_of(question.searcher(split), question.tree, question.text, field, step, start)
            if found is not None:
                return found
        return _count_digits(question.rows(split, [field.name])[field.name], step, start, scale)

    buckets: Counter[int] = Counter()
    for _, found in question.ask(count_in):
        buckets.update(found)
    question.warn()
    starts = sorted(buckets)
    edges = _edges([number * step + start for number in starts], field, scale)
    return _answer(field.name, edges, [buckets[number] for number in starts])


def _count_digits(values: pa.ChunkedArray[Any], step: int, start: int, scale: int) -> dict[int, int]:
    values = values.drop_null()
    if pa.types.is_decimal(values.type):
        precision = values.type.precision + scale - values.type.scale
        if precision > _INT64_DIGITS or step > _MOST_WIDTH:
            return _count_one_by_one(values, step, start, scale)
        values = pc.multiply(values, pa.scalar(Decimal(10**scale), pa.decimal128(scale + 1, 0)))
    numbers = pc.cast(values, pa.int64())
    quotients = pc.divide(numbers, step)  # towards zero
    rests = pc.subtract(numbers, pc.multiply(quotients, step))
    is_negative = pc.less(rests, 0)
    rests = pc.if_else(is_negative, pc.add(rests, step), rests)
    below = pc.add(pc.cast(is_negative, pa.int64()), pc.cast(pc.less(rests, start), pa.int64()))
    return dict(_counts(pc.subtract(quotients, below)))


def _count_one_by_one(values: pa.ChunkedArray[Any], step: int, start: int, scale: int) -> dict[int, int]:
    """Decimals that no machine number holds, each different one by itself."""
    buckets: Counter[int] = Counter()
    for value, count in _counts(values):
        buckets[(int(Fraction(value) * 10**scale) - start) // step] += count
    return buckets


def _counts(values: Any) -> list[tuple[Any, int]]:
    """Values and how often each is there; two zeros are two values."""
    counted = pc.value_counts(values)
    return list(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))


def _edges(starts: list[int], field: pa.Field[Any], scale: int) -> pa.Array[Any]:
    """Where buckets start, in a type that holds it, or a `ConfigError`."""
    is_integer = pa.types.is_integer(field.type)
    least, most = (-(1 << 63), 1 << 63) if is_integer else (1 - 10**_MOST_DIGITS, 10**_MOST_DIGITS)
    if scale > _MOST_DIGITS or any(not least <= start < most for start in starts):
        raise ConfigError(
            f"cannot make this histogram of `{field.name}` because a bucket starts where its type has no numbers",
            hint="choose another interval or offset, or leave the outermost values out by `where`",
        )
    if is_integer:
        return pa.array(starts, pa.int64())
    scaled = [Decimal((int(start < 0), tuple(map(int, str(abs(start)))), -scale)) for start in starts]
    return pa.array(scaled, pa.decimal128(_MOST_DIGITS, scale))


def _of_floats(question: Question, field: pa.Field[Any], width: Fraction, first: Fraction) -> pa.Table:
    """Floats are read from their column: the index has no NaN, and one zero for two."""
    buckets: Counter[float] = Counter()
    for _, found in question.ask(
        lambda split: _count_floats(question.rows(split, [field.name])[field.name], width, first)
    ):
        buckets.update(found)
    question.warn()
    num_nans = sum(count for start, count in buckets.items() if math.isnan(start))
    starts = sorted(start for start in buckets if not math.isnan(start))
    counts = [buckets[start] for start in starts]
    if num_nans:
        starts, counts = [*starts, math.nan], [*counts, num_nans]
    return _answer(field.name, pa.array(starts, pa.float64()), counts)


def _count_floats(values: pa.ChunkedArray[Any], width: Fraction, first: Fraction) -> Counter[float]:
    """Counts by the start of the bucket; NaN and infinities start at themselves."""
    numbers = pc.cast(values.drop_null(), pa.float64())
    least, most = _QUICK_WIDTHS
    if not least < width < most:
        return _count_far(numbers, width, first)
    quotients = pc.divide(pc.subtract(numbers, float(first)), float(width))
    is_near = pc.less(pc.abs(quotients), _MOST_QUOTIENT)
    found = _count_far(numbers.filter(pc.invert(is_near)), width, first)
    found.update(_count_near(numbers.filter(is_near), quotients.filter(is_near), width, first))
    return found


def _count_far(numbers: pa.ChunkedArray[Any], width: Fraction, first: Fraction) -> Counter[float]:
    """Numbers that doubles cannot divide well enough, each different one by itself."""
    buckets: Counter[float] = Counter()
    for value, count in _counts(numbers):
        buckets[_start(value, width, first)] += count
    return buckets


def _count_near(
    numbers: pa.ChunkedArray[Any], quotients: pa.ChunkedArray[Any], width: Fraction, first: Fraction
) -> Counter[float]:
    """Numbers whose bucket is the one that their quotient says, or the one beside it: the edges tell."""
    said = pc.cast(pc.floor(quotients), pa.int64()).combine_chunks().dictionary_encode()
    lows = [_double(width * number + first) for number in said.dictionary.to_pylist()]
    highs = [_double(width * (number + 1) + first) for number in said.dictionary.to_pylist()]
    is_below = pc.less(numbers, pa.array(lows, pa.float64()).take(said.indices))
    is_above = pc.greater_equal(numbers, pa.array(highs, pa.float64()).take(said.indices))
    moves = pc.subtract(pc.cast(is_above, pa.int64()), pc.cast(is_below, pa.int64()))
    buckets: Counter[float] = Counter()
    for number, count in _counts(pc.add(said.dictionary_decode(), moves)):
        buckets[_double(width * number + first)] += count
    return buckets


def _start(value: float, width: Fraction, first: Fraction) -> float:
    """Where the bucket of one value starts."""
    if not math.isfinite(value):
        return value
    number = (Fraction(value) - first) // width
    above = _double(width * (number + 1) + first)
    return above if above <= value else _double(width * number + first)


def _double(edge: Fraction) -> float:
    """The nearest double, with one zero. No bucket starts at an infinity, which is one of its own."""
    try:
        return float(edge) + 0.0
    except OverflowError:
        return math.inf if edge > 0 else -_GREATEST


def _answer(name: str, edges: pa.Array[Any], counts: list[int]) -> pa.Table:
    schema = pa.schema([(name, edges.type), (COUNT, pa.int64())])
    return pa.Table.from_arrays([edges, pa.array(counts, pa.int64())], schema=schema)
