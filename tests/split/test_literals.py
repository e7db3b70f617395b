"""Values as the index holds them: exact, and in order."""

from __future__ import annotations

import datetime as dt
import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.split.split_columns import SCALARS, is_nan, literal

from indextables.config import Config
from indextables.split.index.fields import IndexField, map_fields
from indextables.split.index.literals import index_value, json_text, parse_literal


def field_of(type_, **options) -> IndexField:
    config = Config.resolve(options={f"indexing.typemap.{name}": value for name, value in options.items()})
    return map_fields(pa.schema([("c", type_)]), config).fields[0]


@pytest.mark.parametrize("type_", SCALARS, ids=str)
def test_order_is_kept(type_):
    field = field_of(type_)

    @given(
        SCALARS[type_].filter(lambda value: not is_nan(value)), SCALARS[type_].filter(lambda value: not is_nan(value))
    )
    def check(left, right):
        first, second = index_value(field, left), index_value(field, right)
        assert (first < second, first == second) == (left < right, left == right)

    check()


@pytest.mark.parametrize("type_", SCALARS, ids=str)
def test_a_literal_means_what_the_row_holds(type_):
    field = field_of(type_)

    @given(SCALARS[type_].filter(lambda value: not is_nan(value)))
    def check(value):
        expected = index_value(field, value)
        assert parse_literal(field, literal(value)) == expected
        assert index_value(field, pa.array([value], type_)[0]) == expected

    check()


@pytest.mark.parametrize("type_", [*SCALARS, pa.null()], ids=str)
def test_nulls_are_not_indexed(type_):
    assert index_value(field_of(type_), None) is None
    assert index_value(field_of(type_), pa.nulls(1, type_)[0]) is None


def test_floats():
    double, single = field_of(pa.float64()), field_of(pa.float32())
    assert index_value(double, math.nan) is None
    assert parse_literal(double, "NaN") is None
    assert math.copysign(1, index_value(double, -0.0)) == 1
    assert parse_literal(double, "-Infinity") == -math.inf
    assert parse_literal(single, "0.1") == pa.scalar(0.1, pa.float32()).as_py()
    assert parse_literal(single, "1e300") == math.inf
    assert parse_literal(single, "-1e300") == -math.inf
    assert parse_literal(double, "1e999") == math.inf


def test_nanoseconds_are_kept():
    field = field_of(pa.timestamp("ns", tz="UTC"))
    assert parse_literal(field, "1970-01-01T00:00:01.123456789Z") == 1_123_456_789
    assert parse_literal(field, "1970-01-01T00:00:01.5Z") == 1_500_000_000
    assert index_value(field, pa.scalar(1_123_456_789, field_type := pa.timestamp("ns", tz="UTC"))) == 1_123_456_789
    assert index_value(field, dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)) == 1_000_000_000
    assert field.type == str(field_type)
    clock = field_of(pa.time64("ns"))
    assert parse_literal(clock, "00:00:00.000000001") == 1
    assert index_value(clock, dt.time(0, 0, 1)) == 1_000_000_000


def test_zones():
    zoned, local = field_of(pa.timestamp("us", tz="Asia/Tokyo")), field_of(pa.timestamp("us"))
    assert parse_literal(zoned, "1970-01-01T09:00:00+09:00") == 0
    assert parse_literal(zoned, "1970-01-01") == 0
    assert parse_literal(local, "1970-01-01 00:00:00.000001") == 1


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        (" 10.0.0.1 ", "10.0.0.1"),
        ("::FFFF:10.0.0.1", "10.0.0.1"),
        ("2001:DB8:0:0::1", "2001:db8::1"),
        ("fe80::1%eth0", None),
        ("10.0.0", None),
        ("-", None),
    ],
)
def test_addresses(text, address):
    field = field_of(pa.string(), c="ip")
    assert index_value(field, text) == address
    if address is None:
        with pytest.raises(ValueError, match="expected an IP address such as"):
            parse_literal(field, text)


@pytest.mark.parametrize(
    ("type_", "text", "reason"),
    [
        (pa.int32(), "x", "expected a whole number such as 42, not `x`"),
        (pa.int32(), "1.5", "expected a whole number"),
        (pa.int32(), "inf", "expected a whole number"),
        (pa.int64(), str(2**63), "64 bits"),
        (pa.uint64(), "-1", "64 bits"),
        (pa.float64(), "one", "expected a number such as 1.5"),
        (pa.bool_(), "maybe", "expected `true` or `false`"),
        (pa.date32(), "yesterday", "expected a date such as 2026-01-31"),
        (pa.timestamp("us"), "now", "expected a timestamp such as"),
        (pa.time64("us"), "25:00", "expected a time such as 12:30:00"),
        (pa.time64("us"), "noon", "expected a time such as 12:30:00"),
        (pa.decimal128(4, 2), "1.005", "at most 2 digits behind the point"),
        (pa.decimal128(4, 2), "100", "does not fit"),
        (pa.decimal128(4, 2), "nan", "neither infinite nor NaN"),
        (pa.decimal128(4, 2), "a", "expected a number such as 12.50"),
        (pa.binary(), "0af", "pairs of hex digits"),
        (pa.string(), "\ud800", "lone surrogate"),
    ],
)
def test_bad_literals_say_what_was_expected(type_, text, reason):
    with pytest.raises(ValueError, match=reason):
        parse_literal(field_of(type_), text)


def test_values_of_another_type_are_refused():
    with pytest.raises(ValueError, match="a `list` is no value of column `c`"):
        index_value(field_of(pa.int64()), [1])


def test_numbers_in_other_spellings():
    assert parse_literal(field_of(pa.int64()), "1e3") == 1000
    assert parse_literal(field_of(pa.decimal128(10, 2)), "1e1") == 1000
    assert index_value(field_of(pa.decimal128(10, 2)), 7) == 700
    assert parse_literal(field_of(pa.binary()), "0xFF00") == b"\xff\x00"


@given(st.datetimes(timezones=st.just(dt.UTC)))
def test_no_time_stamp_in_json_looks_like_one(moment):
    assert json_text(moment.isoformat()).endswith(" ")
    assert json_text(moment.date().isoformat()) == moment.date().isoformat()
