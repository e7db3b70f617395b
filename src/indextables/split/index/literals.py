"""Convert a value of a row or a query to index form, in the order of the values.

| type | in the index |
|---|---|
| date | days since 1970 |
| timestamp, time | microseconds, or nanoseconds if the type counts them; in UTC if there is a zone |
| decimal of at most 18 digits | its digits as an integer, without the point |
| longer decimal | text of one width: that integer plus ten to the precision, so that it is never negative |
| float | a double; -0.0 is 0.0, and NaN is not indexed: the engine would sort it among the numbers |
| ip | the shortest spelling of the address; other text is not indexed |

Nulls are not indexed. A literal of a query is rounded to a 32-bit float if the column holds such floats.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import ipaddress
import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from indextables.predicate import literals
from indextables.split.index.fields import IndexField, Kind

IndexValue = int | float | str | bool | bytes
JSON_ROOT = "$"
"""Key of a JSON value that is not an object."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROS_PER_DAY = 86_400_000_000
_MICROSECOND = dt.timedelta(microseconds=1)
_DECIMAL = re.compile(r"decimal[0-9]+\(([0-9]+), (-?[0-9]+)\)")
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?")
_NANOSECONDS = re.compile(r":[0-9]{1,2}\.[0-9]{6}([0-9]{1,3})")
_RFC_3339 = re.compile(r"[+-]?[0-9]{4,}-[0-9]{2}-[0-9]{2}[Tt _][0-9]{2}:[0-9]{2}.*")
_HEX = re.compile(r"(?:0x)?((?:[0-9a-fA-F]{2})*)")
_FLOAT_CODES = {"halffloat": "e", "float": "f"}
_I64 = (-(1 << 63), (1 << 63) - 1)
_U64 = (0, (1 << 64) - 1)


def index_value(field: IndexField, value: object) -> IndexValue | None:
    """Convert a Python or Arrow value to index form; None if it is not indexed."""
    if isinstance(value, pa.Scalar):
        value = _from_arrow(value)
    if value is None or field.type == "null":
        return None
    if field.kind is Kind.IP:
        return normal_ip(str(value))
    if isinstance(value, str):
        return parse_literal(field, value)
    return _from_python(field, value)


def parse_literal(field: IndexField, text: str) -> IndexValue | None:
    """Convert a query's literal to index form; a `ValueError` names the expected form."""
    if field.kind in {Kind.TEXT, Kind.JSON}:
        return _encodable(text)
    return _reader(field.kind, field.type)(text)


def parse_span(field: IndexField, text: str) -> tuple[IndexValue, IndexValue] | None:
    """Return the range of values that a literal covers, or None for a single value.

    A date compared with a timestamp covers the whole day.
    """
    if field.kind is not Kind.INT or not field.type.startswith("timestamp") or not literals.is_day(text):
        return None
    start = _ticks(field.type, text)
    return start, start + _MICROS_PER_DAY * (1_000 if counts_nanoseconds(field.type) else 1) - 1


def normal_ip(text: str) -> str | None:
    """Return the canonical spelling of an address, or None for other text.

    An IPv4 address inside an IPv6 address becomes the IPv4 address.
    """
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.scope_id is not None:
        return None
    return str(address.ipv4_mapped or address)


def normal_float(value: float) -> float | None:
    """Return a double in index form."""
    return None if value != value else value + 0.0


def wide_decimal(unscaled: int, precision: int) -> str:
    """Return a long decimal as text that sorts like the number."""
    return f"{unscaled + 10**precision:0{precision + 1}d}"


def json_text(text: str) -> str:
    """Return JSON text in index form.

    A space behind a date keeps the engine from converting it to a date and truncating it to seconds.
    """
    return f"{text} " if _RFC_3339.fullmatch(text) else text


def decimal_shape(type_: str) -> tuple[int, int] | None:
    """Return precision and scale of a decimal type's text."""
    match = _DECIMAL.fullmatch(type_)
    return None if match is None else (int(match.group(1)), int(match.group(2)))


def counts_nanoseconds(type_: str) -> bool:
    """Return whether a timestamp or time type counts nanoseconds."""
    return type_.startswith(("timestamp[ns", "time64[ns"))


def _from_arrow(scalar: Any) -> object:
    """Return a Python value; return times as ticks, since Python may not hold them."""
    if not scalar.is_valid:
        return None
    if not pa.types.is_timestamp(scalar.type) and not pa.types.is_time(scalar.type):
        return scalar.as_py()
    scale = {"s": 1_000_000, "ms": 1_000}.get(scalar.type.unit, 1)
    return int(scalar.value) * scale


def _from_python(field: IndexField, value: Any) -> IndexValue | None:
    if field.kind is Kind.FLOAT:
        return normal_float(float(value))
    if isinstance(value, Decimal):
        return _decimal(field.type, value)
    if isinstance(value, dt.datetime):
        micros = (literals.as_timestamp(value) - _EPOCH) // _MICROSECOND
        return micros * 1_000 if counts_nanoseconds(field.type) else micros
    if isinstance(value, dt.date):
        return (value - _EPOCH.date()).days
    if isinstance(value, dt.time):
        micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        return micros * 1_000 if counts_nanoseconds(field.type) else micros
    if isinstance(value, int) and decimal_shape(field.type) is not None:
        return _decimal(field.type, Decimal(value))
    if isinstance(value, bool | int | float | bytes):
        return value
    raise ValueError(f"a `{type(value).__name__}` is no value of column `{field.column}` of type `{field.type}`")


@functools.lru_cache(maxsize=1024)
def _reader(kind: Kind, type_: str) -> Callable[[str], IndexValue | None]:
    plain: dict[Kind, Callable[[str], IndexValue]] = {Kind.BOOL: _boolean, Kind.BYTES: _bytes, Kind.IP: _ip}
    if kind in plain:
        return plain[kind]
    if kind is Kind.FLOAT:
        return functools.partial(_float, type_)
    if decimal_shape(type_) is not None:
        return lambda text: _decimal(type_, _number(text, "a number such as 12.50"))
    for start, read in (("date", _days), ("timestamp", _ticks), ("time", _time_of_day)):
        if type_.startswith(start):
            return functools.partial(read, type_)
    if kind is Kind.STRING:
        return _encodable
    return functools.partial(_whole, _U64 if kind is Kind.UINT else _I64)


def _whole(limits: tuple[int, int], text: str) -> int:
    number = _number(text, "a whole number such as 42")
    if isinstance(number, float) or number != int(number):
        raise ValueError(f"expected a whole number such as 42, not `{text[:60]}`")
    if not limits[0] <= number <= limits[1]:
        raise ValueError(f"`{text[:60]}` does not fit into 64 bits")
    return int(number)


def _float(type_: str, text: str) -> float | None:
    with contextlib.suppress(OverflowError):
        value = float(_number(text, "a number such as 1.5"))
        code = _FLOAT_CODES.get(type_)
        return normal_float(value if code is None else struct.unpack(code, struct.pack(code, value))[0])
    return -math.inf if text.strip().startswith("-") else math.inf


def _decimal(type_: str, number: int | Decimal | float) -> IndexValue:
    precision, scale = decimal_shape(type_) or (0, 0)
    if isinstance(number, float) or not Decimal(number).is_finite():
        raise ValueError("a decimal is neither infinite nor NaN")
    unscaled = _shifted(Decimal(number), scale)
    if abs(unscaled) >= 10**precision:
        raise ValueError(f"`{str(number)[:60]}` does not fit into `{type_}`")
    return unscaled if precision <= 18 else wide_decimal(unscaled, precision)


def _shifted(number: Decimal, scale: int) -> int:
    sign, digits, exponent = number.as_tuple()
    power = int(exponent) + scale
    whole = int("".join(map(str, digits)))
    if power < 0 and whole % 10**-power:
        raise ValueError(f"expected at most {max(scale, 0)} digits behind the point")
    shifted: int = whole * 10**power if power >= 0 else whole // 10**-power
    return -shifted if sign else shifted


def _days(_type: str, text: str) -> int:
    try:
        return (literals.parse_date(text) - _EPOCH.date()).days
    except ValueError as error:
        raise ValueError(f"expected a date such as 2026-01-31, not `{text[:60]}`") from error


def _ticks(type_: str, text: str) -> int:
    try:
        micros = (literals.parse_timestamp(text) - _EPOCH) // _MICROSECOND
    except ValueError as error:
        raise ValueError(f"expected a timestamp such as 2026-01-31T12:30:00Z, not `{text[:60]}`") from error
    if not counts_nanoseconds(type_):
        return micros
    rest = _NANOSECONDS.search(text)
    return micros * 1_000 + (int(rest.group(1).ljust(3, "0")) if rest else 0)


def _time_of_day(type_: str, text: str) -> int:
    match = _TIME.fullmatch(text.strip())
    hour, minute, second, fraction = (match.group(i) or "0" for i in range(1, 5)) if match else ("24",) * 4
    if int(hour) > 23 or int(minute) > 59 or int(second) > 59:
        raise ValueError(f"expected a time such as 12:30:00, not `{text[:60]}`")
    nanos = ((int(hour) * 60 + int(minute)) * 60 + int(second)) * 1_000_000_000 + int(fraction.ljust(9, "0"))
    return nanos if counts_nanoseconds(type_) else nanos // 1_000


def _boolean(text: str) -> bool:
    try:
        return literals.parse_boolean(text)
    except ValueError as error:
        raise ValueError(f"expected `true` or `false`, not `{text[:60]}`") from error


def _bytes(text: str) -> bytes:
    match = _HEX.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"expected bytes as pairs of hex digits such as 00ff, not `{text[:60]}`")
    return bytes.fromhex(match.group(1))


def _ip(text: str) -> str:
    address = normal_ip(text)
    if address is None:
        raise ValueError(f"expected an IP address such as 10.0.0.1, not `{text[:60]}`")
    return address


def _number(text: str, expected: str) -> int | Decimal | float:
    try:
        return literals.parse_number(text)
    except ValueError as error:
        raise ValueError(f"expected {expected}, not `{text[:60]}`") from error


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("the text holds a lone surrogate") from error
    return text
