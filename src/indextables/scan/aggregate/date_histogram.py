"""Count rows per interval of time, from the index if exact, else from the column.

An interval is the length of a bucket; buckets start in UTC.

    5m 1h 1d    any number of `ms`, `s`, `m`, `h` or `d`, counted from 1970-01-01
    1w 2w       weeks, which start on Monday; several are counted from the Monday before 1970-01-01
    1M 3M 1y    calendar months and years; several are counted from January of the year 0

`millisecond`, `second`, `minute`, `hour`, `day`, `week`, `month`, `quarter` and `year` also name one unit, or several
with a number before them: `1 day`, `12 hours`.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar
from indextables.errors import ConfigError, SchemaError
from indextables.scan.aggregate.terms import COUNT, column_to_aggregate
from indextables.scan.split_scan import Split, TableScan
from indextables.split.search.aggregations import from_index, histogram_of

DAY = 86_400_000_000

_FIXED = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": DAY}
_MONTHS = {"M": 1, "q": 3, "y": 12}
_NAMES = {
    "millisecond": "ms",
    "second": "s",
    "minute": "m",
    "hour": "h",
    "day": "d",
    "week": "w",
    "month": "M",
    "quarter": "q",
    "year": "y",
}
_NUMBER = r"([1-9][0-9]{0,8})\s*"
_INTERVAL = re.compile(rf"{_NUMBER}(ms|s|m|h|d|w|M|q|y)", re.ASCII)
_NAMED = re.compile(rf"(?:{_NUMBER})?({'|'.join(_NAMES)})s?", re.ASCII | re.IGNORECASE)
_MONDAY = 3
"""Days from the Monday before 1970-01-01 to that day, a Thursday."""
_MOST_MICROSECONDS = 1 << 62


class Interval(NamedTuple):
    """Length of a bucket: `width` in microseconds, or a number of weeks or months.

    With `weeks` or `months`, `width` is one day.
    """

    width: int
    weeks: int = 0
    months: int = 0

    def start(self, bucket: int) -> int:
        """Return the start of the bucket with this piece of `width`, in microseconds."""
        if self.weeks:
            length = self.weeks * 7
            return ((bucket + _MONDAY) // length * length - _MONDAY) * DAY
        if self.months:
            return _first_day(_month_of(bucket) // self.months * self.months) * DAY
        return bucket * self.width


def parse_interval(text: str) -> Interval:
    """Parse an interval, or raise a `ConfigError`."""
    named = _NAMED.fullmatch(text.strip()) if isinstance(text, str) else None
    if named is not None:
        return parse_interval(f"{named[1] or 1}{_NAMES[named[2].lower()]}")
    match = _INTERVAL.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ConfigError(
            f"cannot use `{text!r:.60}` as an interval",
            hint="write a number and a unit, as in `5m`, `1h`, `1d`, `1w`, `1M` (a month) or `1y`",
        )
    number, unit = int(match[1]), match[2]
    if unit in _FIXED:
        if number * _FIXED[unit] > _MOST_MICROSECONDS:
            raise ConfigError(f"cannot use `{text}` as an interval: it is longer than the range of timestamps")
        return Interval(number * _FIXED[unit])
    return Interval(DAY, weeks=number) if unit == "w" else Interval(DAY, months=number * _MONTHS[unit])


def _month_of(day: int) -> int:
    """Return the month of a day since 1970, counted from January of the year 0.

    Uses the Gregorian calendar for all times.
    """
    shifted = day + 719_468
    era, in_era = divmod(shifted, 146_097)
    year = (in_era - in_era // 1_460 + in_era // 36_524 - in_era // 146_096) // 365
    in_year = in_era - (365 * year + year // 4 - year // 100)
    from_march = (5 * in_year + 2) // 153
    return (year + era * 400) * 12 + from_march + 2


def _first_day(month: int) -> int:
    """Return the days from 1970-01-01 to the first of a month of `_month_of`."""
    year, from_march = divmod(month - 2, 12)
    era, in_era = divmod(year, 400)
    return era * 146_097 + in_era * 365 + in_era // 4 - in_era // 100 + (153 * from_march + 2) // 5 - 719_468


def date_histogram(scan: TableScan, column: str, *, interval: str) -> pa.Table:
    """Return one row per bucket with rows, in order: its start and its count."""
    wanted = parse_interval(interval)
    field = column_to_aggregate(scan.schema, column)
    width = _pieces(field, wanted, interval)

    def count_in(split: Split) -> dict[int, int]:
        tree, where = scan.asked(split)
        if where is None:
            found = histogram_of(scan.searcher(split), tree, scan.text, field, width)
            if found is not None:
                return found
        return _count_pieces(scan.rows(split, [column])[column], width)

    buckets: Counter[int] = Counter()
    for pieces in scan.ask_together(lambda index: histogram_of(index, scan.tree, scan.text, field, width), count_in):
        for piece, count in pieces.items():
            buckets[wanted.start(piece) // _unit(field)] += count
    scan.warn()
    starts = sorted(buckets)
    counts = to_array([buckets[start] for start in starts], pa.int64())
    return pa.Table.from_arrays(
        [from_index(starts, field.type), counts], schema=pa.schema([field, (COUNT, pa.int64())])
    )


def _pieces(field: pa.Field[Any], wanted: Interval, interval: str) -> int:
    """Return the length of a piece of the interval, in the column's unit."""
    if not pa.types.is_date32(field.type) and not pa.types.is_timestamp(field.type):
        raise SchemaError(
            f"cannot make a date histogram of the column `{field.name}` because its type is `{field.type}`",
            hint="it takes dates and timestamps",
        )
    if wanted.width % _unit(field):
        raise ConfigError(
            f"cannot use the interval `{interval}` for the dates of `{field.name}`: it has to be whole days"
        )
    return wanted.width // _unit(field)


def _unit(field: pa.Field[Any]) -> int:
    return DAY if pa.types.is_date32(field.type) else 1


def _count_pieces(values: pa.ChunkedArray[Any], width: int) -> dict[int, int]:
    plain = pc.cast(values.drop_null(), pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    counts = pc.cast(plain, pa.int64())
    quotients = pc.divide(counts, to_scalar(width))
    # Arrow divides towards zero; times before 1970 belong to the piece below.
    is_above = pc.less(counts, pc.multiply(quotients, to_scalar(width)))
    counted = pc.value_counts(pc.subtract(quotients, pc.cast(is_above, pa.int64())))
    return dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))
