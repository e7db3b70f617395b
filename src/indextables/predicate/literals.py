"""Literals: text to values, casts between values, and comparisons of two literals.

Every function raises `ValueError` with a reason that can follow *because*. Time and memory are proportional to the
input.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any

from indextables.predicate.values import Operator, Value

_MAX_NUMBER_LENGTH = 1_000
_MAX_EXPONENT = 1_000
_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,9}))?")
_SPECIAL_NUMBERS = {
    "nan": math.nan,
    "inf": math.inf,
    "+inf": math.inf,
    "-inf": -math.inf,
    "infinity": math.inf,
    "+infinity": math.inf,
    "-infinity": -math.inf,
}
_TRUE = frozenset({"true", "t", "yes", "y", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "0"})
_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{1,2}-[0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{0,9}))?)?"
    r"(?: ?(Z|z|UTC|GMT|[+-][0-9]{1,2}(?::?[0-9]{2})?))?)?"
)
_INTEGER_BITS = {"BYTE": 8, "TINYINT": 8, "Y": 8, "SHORT": 16, "SMALLINT": 16, "S": 16, "INT": 32, "INTEGER": 32}
_INTEGER_BITS |= {"BIGINT": 64, "LONG": 64, "L": 64}
_FLOATS = {"FLOAT": "f", "REAL": "f", "F": "f", "DOUBLE": "d", "D": "d"}
_DECIMALS = frozenset({"DECIMAL", "DEC", "NUMERIC"})
_STRINGS = frozenset({"STRING", "TEXT", "VARCHAR", "CHAR"})
_TIMESTAMPS = frozenset({"TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TIMESTAMPTZ", "TIMESTAMPLTZ"})
_WIDE = Context(prec=3 * _MAX_NUMBER_LENGTH)


def parse_number(text: str) -> int | Decimal | float:
    """Parse a number exactly; use a float only for NaN, infinity and huge exponents."""
    text = text.strip()
    if text.lower() in _SPECIAL_NUMBERS:
        return _SPECIAL_NUMBERS[text.lower()]
    match = _NUMBER.fullmatch(text) if len(text) <= _MAX_NUMBER_LENGTH else None
    if match is None or not (match.group(2) or match.group(3)):
        raise ValueError(f"`{_short(text)}` is not a number")
    if match.group(3) is None and match.group(4) is None:
        return int(text)
    if abs(int(match.group(4) or 0)) > _MAX_EXPONENT:
        return float(text)
    return Decimal(text)


def parse_boolean(text: str) -> bool:
    word = text.strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise ValueError(f"`{_short(text)}` is not a boolean")


def parse_date(text: str) -> dt.date:
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"`{_short(text)}` is not a date such as `2024-01-31`")
    day: dt.date = _checked(dt.date, text, *(int(part) for part in match.groups()))
    return day


def is_day(value: Value) -> bool:
    """Return True for a date without a time of day.

    Compared with a timestamp, it means the whole day in UTC.
    """
    if isinstance(value, str):
        return _DATE.fullmatch(value.strip()) is not None
    return isinstance(value, dt.date) and not isinstance(value, dt.datetime)


def parse_timestamp(text: str) -> dt.datetime:
    """Parse a point in time, in UTC unless the text has an offset.

    Digits after the microsecond are dropped.
    """
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"`{_short(text)}` is not a timestamp such as `2024-01-31 12:30:00` or `2024-01-31T12:30:00Z`")
    day, hour, minute, second, fraction, zone = match.groups()
    micros = int(((fraction or "") + "000000")[:6])
    parts = parse_date(day), int(hour or 0), int(minute or 0), int(second or 0)
    time = _checked(dt.time, text, *parts[1:], micros)
    try:
        return dt.datetime.combine(parts[0], time, dt.UTC) - _offset(zone, text)
    except OverflowError as error:
        raise ValueError(f"`{_short(text)}` is not between the years 1 and 9999") from error


def cast(value: Value, kind: str, arguments: tuple[int, ...]) -> Value:
    """Cast a literal to another SQL type like Spark; refuse a value that does not fit."""
    if value is None:
        return None
    if kind in _INTEGER_BITS:
        return _cast_to_integer(value, _INTEGER_BITS[kind])
    if kind in _FLOATS:
        return _cast_to_float(value, _FLOATS[kind])
    if kind in _DECIMALS:
        return _cast_to_decimal(value, *(arguments or (10, 0)))
    if kind == "BD":
        return _exact(_number(value))
    if kind in _STRINGS:
        return _cast_to_string(value)
    if kind == "BOOLEAN":
        return value if isinstance(value, bool) else parse_boolean(_text(value))
    if kind == "DATE":
        return value.date() if isinstance(value, dt.datetime) else _cast_to_date(value)
    if kind in _TIMESTAMPS:
        return as_timestamp(value)
    raise ValueError(f"a cast to `{kind}` is not supported")


def as_timestamp(value: Value) -> dt.datetime:
    """Convert a date (at midnight) or text to a point in time in UTC."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
    return parse_timestamp(_text(value))


def compare(left: Value, operator: Operator, right: Value) -> bool | None:
    """Compare two literals by SQL's rules."""
    if operator == "<=>":
        return left is None and right is None if left is None or right is None else compare(left, "=", right)
    if left is None or right is None:
        return None
    first, second = _comparable(left), _comparable(right)
    if first[0] != second[0]:
        raise ValueError("two literals of different types are compared")
    below, equal = first[1:] < second[1:], first[1:] == second[1:]
    answers = {"=": equal, "<>": not equal, "<": below, "<=": below or equal}
    return answers.get(operator, not (below or equal) if operator == ">" else not below)


def _comparable(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, int | Decimal | float):
        return ("number", True, 0) if value != value else ("number", False, value)
    if isinstance(value, dt.date):
        return "time", as_timestamp(value)
    return "string", value


def _cast_to_integer(value: Value, bits: int) -> int:
    number = int(value) if isinstance(value, bool) else _number(value)
    if isinstance(number, float) and not math.isfinite(number):
        raise ValueError(f"`{number}` is not a whole number")
    whole = int(Decimal(number).to_integral_value(ROUND_DOWN, _WIDE))
    if not -(1 << (bits - 1)) <= whole < 1 << (bits - 1):
        raise ValueError(f"`{_short(str(number))}` does not fit into {bits} bits")
    return whole


def _cast_to_float(value: Value, code: str) -> float:
    number = float(value) if isinstance(value, bool) else _to_float(_number(value))
    if code == "f":
        try:
            return float(struct.unpack("f", struct.pack("f", number))[0])
        except OverflowError:
            return math.copysign(math.inf, number)
    return number


def _to_float(number: int | Decimal | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.copysign(math.inf, number)


def _cast_to_decimal(value: Value, precision: int = 10, scale: int = 0, *rest: int) -> Decimal:
    if rest or not (0 < precision <= 38 and 0 <= scale <= precision):
        raise ValueError("a decimal has at most 38 digits, and no more of them behind the point")
    number = _exact(int(value) if isinstance(value, bool) else _number(value))
    rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _WIDE)
    if abs(rounded) >= Decimal(10) ** (precision - scale):
        raise ValueError(f"`{_short(str(number))}` does not fit into `decimal({precision},{scale})`")
    return rounded


def _exact(number: int | Decimal | float) -> Decimal:
    if isinstance(number, float):
        if not math.isfinite(number):
            raise ValueError(f"`{number}` is not a decimal number")
        return Decimal(repr(number))
    return Decimal(number)


def _cast_to_string(value: Value) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value.isoformat()
    if isinstance(value, int):
        return str(value)
    raise ValueError("only a whole number, a boolean or a date has one text form: write the string itself")


def _cast_to_date(value: Value) -> dt.date:
    if isinstance(value, dt.date):
        return value
    text = _text(value)
    return parse_date(text) if _DATE.fullmatch(text.strip()) else parse_timestamp(text).date()


def _number(value: Value) -> int | Decimal | float:
    if isinstance(value, str):
        return parse_number(value)
    if isinstance(value, int | Decimal | float) and not isinstance(value, bool):
        return value
    raise ValueError("a number is needed")


def _text(value: Value) -> str:
    if isinstance(value, str):
        return value
    raise ValueError("text is needed")


def _offset(zone: str | None, text: str) -> dt.timedelta:
    if zone is None or zone.upper() in {"Z", "UTC", "GMT"}:
        return dt.timedelta()
    digits = zone[1:].replace(":", "")
    hours, minutes = (int(digits), 0) if len(digits) <= 2 else (int(digits[:-2]), int(digits[-2:]))
    if hours > 18 or minutes > 59:
        raise ValueError(f"`{_short(text)}` has an offset of more than 18 hours")
    offset = dt.timedelta(hours=hours, minutes=minutes)
    return -offset if zone[0] == "-" else offset


def _checked(kind: Any, text: str, *parts: int) -> Any:
    try:
        return kind(*parts)
    except ValueError as error:
        raise ValueError(f"`{_short(text)}` is not in the calendar") from error


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
