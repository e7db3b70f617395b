"""Columns of every type that can be indexed, with random values."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

DAYS = st.dates()
EPOCH = dt.datetime.fromtimestamp(0, dt.UTC).replace(tzinfo=None)
MOMENTS = st.datetimes(min_value=EPOCH.replace(year=1700), max_value=EPOCH.replace(year=2200))
WIDE = Context(prec=100)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def whole(bits: int, *, signed: bool = True) -> st.SearchStrategy[int]:
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else st.integers(0, (1 << bits) - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(lambda number: Decimal(number).scaleb(-scale, context=WIDE))


SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    pa.int8(): whole(8),
    pa.int16(): whole(16),
    pa.int32(): whole(32),
    pa.int64(): whole(64),
    pa.uint8(): whole(8, signed=False),
    pa.uint32(): whole(32, signed=False),
    pa.uint64(): whole(64, signed=False),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
    pa.date32(): DAYS,
    pa.date64(): DAYS,
    pa.timestamp("s"): MOMENTS.map(lambda moment: moment.replace(microsecond=0)),
    pa.timestamp("us"): MOMENTS,
    pa.timestamp("us", tz="UTC"): MOMENTS.map(lambda moment: moment.replace(tzinfo=dt.UTC)),
    pa.timestamp("ms", tz="America/New_York"): MOMENTS.map(lambda moment: moment.replace(microsecond=0, tzinfo=dt.UTC)),
    pa.time64("us"): st.times(),
    pa.time32("s"): st.times().map(lambda time: time.replace(microsecond=0)),
    pa.decimal128(10, 2): decimals(10, 2),
    pa.decimal128(18, 0): decimals(18, 0),
    pa.decimal128(18, 18): decimals(18, 18),
    pa.decimal128(19, 4): decimals(19, 4),
    pa.decimal128(38, 10): decimals(38, 10),
    pa.decimal256(60, 20): decimals(60, 20),
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.string_view(): TEXTS,
    pa.dictionary(pa.int32(), pa.string()): TEXTS,
    pa.binary(): st.binary(max_size=12),
}


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def literal(value: Any) -> str:
    """The text of a value, as a query would spell it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    return f"{value:f}" if isinstance(value, Decimal) else repr(value) if isinstance(value, float) else str(value)
