"""The intervals of a date histogram: how long a bucket is, and where it starts, in UTC.

    5m 1h 1d    any number of `ms`, `s`, `m`, `h` or `d`, counted from 1970-01-01
    1w 2w       weeks, which start on Monday; several are counted from that before 1970-01-01
    1M 3M 1y    calendar months and years; several are counted from January of the year 0

`millisecond`, `second`, `minute`, `hour`, `day`, `week`, `month`, `quarter` and `year` are other names for one of each,
and with a number before them for several: `1 day`, `12 hours`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from indextables.errors import ConfigError

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
"""Days from the Monday before 1970-01-01, a Thursday, to that day."""
_MOST_MICROSECONDS = 1 << 62


class Interval(NamedTuple):
    """`width` is in microseconds, and where there are `months` or `weeks` a day, of which they are made."""

    width: int
    weeks: int = 0
    months: int = 0

    def start(self, bucket: int) -> int:
        """Where the bucket that holds a piece of `width` starts, in microseconds."""
        if self.weeks:
            length = self.weeks * 7
            return ((bucket + _MONDAY) // length * length - _MONDAY) * DAY
        if self.months:
            return _first_day(_month_of(bucket) // self.months * self.months) * DAY
        return bucket * self.width


def parse_interval(text: str) -> Interval:
    """The interval that a text means, or a `ConfigError`."""
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
            raise ConfigError(f"cannot use `{text}` as an interval: it is longer than timestamps can tell")
        return Interval(number * _FIXED[unit])
    return Interval(DAY, weeks=number) if unit == "w" else Interval(DAY, months=number * _MONTHS[unit])


def _month_of(day: int) -> int:
    """Months from January of the year 0 to the month of a day since 1970, in the calendar of today for all time."""
    shifted = day + 719_468
    era, in_era = divmod(shifted, 146_097)
    year = (in_era - in_era // 1_460 + in_era // 36_524 - in_era // 146_096) // 365
    in_year = in_era - (365 * year + year // 4 - year // 100)
    from_march = (5 * in_year + 2) // 153
    return (year + era * 400) * 12 + from_march + 2


def _first_day(month: int) -> int:
    """The days from 1970-01-01 to the first of a month, counted as `_month_of` does."""
    year, from_march = divmod(month - 2, 12)
    era, in_era = divmod(year, 400)
    return era * 146_097 + in_era * 365 + in_era // 4 - in_era // 100 + (153 * from_march + 2) // 5 - 719_468
