"""Literals as values of a column: exact if the column is exact, or a `QueryError`."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from indextables.errors import QueryError
from indextables.predicate import literals
from indextables.predicate.bound import BoundColumn, BoundValue, stored_type
from indextables.predicate.values import Value

_MICROS_PER_UNIT = {"s": Fraction(1_000_000), "ms": Fraction(1_000), "us": Fraction(1), "ns": Fraction(1, 1_000)}
_MICROS_PER_DAY = 86_400_000_000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def convert(column: BoundColumn, value: Value) -> Fraction | BoundValue:
    """Convert a literal to the units of the column.

    For a column of whole numbers, decimals, dates or timestamps the result is a `Fraction`, or an infinite or NaN
    `float`.
    """
    try:
        match column.kind:
            case "integer":
                return _exact(_number(value))
            case "decimal":
                number = _exact(_number(value))
                return number * 10 ** stored_type(column.type).scale if isinstance(number, Fraction) else number
            case "float":
                return _nearest_float(_number(value))
            case "date":
                return Fraction(_micros(value), _MICROS_PER_DAY)
            case "timestamp":
                return _micros(value) / _MICROS_PER_UNIT[stored_type(column.type).unit]
            case "boolean":
                return _boolean(value)
            case "string":
                return _string(value)
    except ValueError as error:
        raise QueryError(f"cannot compare column `{column.name}` of type `{column.type}`: {error}") from error
    raise QueryError(
        f"cannot compare column `{column.name}` because its type is `{column.type}`",
        hint="such a column supports only `IS NULL` and `IS NOT NULL`",
    )


def next_day(column: BoundColumn, day: Fraction) -> Fraction:
    """Return the next midnight in the units of a column of timestamps."""
    return day + _MICROS_PER_DAY / _MICROS_PER_UNIT[stored_type(column.type).unit]


def limits(column: BoundColumn) -> tuple[int, int]:
    """Return the least and the greatest value of the column, in its units."""
    type_: Any = stored_type(column.type)
    if column.kind == "decimal":
        return 1 - 10**type_.precision, 10**type_.precision - 1
    bits = 64 if column.kind == "timestamp" else type_.bit_width
    if column.kind == "integer" and pa.types.is_unsigned_integer(type_):
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _number(value: Value) -> int | Decimal | float:
    if isinstance(value, str):
        return literals.parse_number(value)
    if isinstance(value, int | Decimal | float) and not isinstance(value, bool):
        return value
    raise ValueError(f"{_described(value)} is not a number")


def _exact(number: int | Decimal | float) -> Fraction | float:
    if isinstance(number, float):
        # A double means the decimal of its shortest text: `0.1D` compared with a decimal column is a tenth.
        return Fraction(repr(number)) if math.isfinite(number) else number
    if isinstance(number, Decimal) and not number.is_finite():
        return float(number)
    return Fraction(number)


def _nearest_float(number: int | Decimal | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _micros(value: Value) -> Fraction:
    if not isinstance(value, str | dt.date):
        raise ValueError(f"{_described(value)} is neither a date nor a timestamp")
    return Fraction((literals.as_timestamp(value) - _EPOCH) // dt.timedelta(microseconds=1))


def _boolean(value: Value) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return literals.parse_boolean(value)
    raise ValueError(f"{_described(value)} is not a boolean")


def _string(value: Value) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{_described(value)} is not a string; put it in quotes to compare text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError("the text has a lone surrogate") from error
    return value


def _described(value: Value) -> str:
    return f"the literal `{str(value)[:60]}`"
