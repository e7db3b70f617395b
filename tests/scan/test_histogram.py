"""Histograms of numbers: what they say is what a plain look at every row says, from the index or from the rows."""

from __future__ import annotations

import collections
import math
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings

import indextables as it
from indextables.errors import ConfigError, SchemaError
from indextables.scan.aggregate.date_histogram import parse_interval
from indextables.scan.aggregate.histogram import _count_digits, _count_floats

SCHEMA = pa.schema(
    [
        ("part", pa.string()),
        ("message", pa.string()),
        ("i64", pa.int64()),
        ("small", pa.int64()),
        ("i8", pa.int8()),
        ("f64", pa.float64()),
        ("f32", pa.float32()),
        ("short", pa.decimal128(9, 2)),
        ("long", pa.decimal128(38, 3)),
    ]
)
FLOATS = st.floats() | st.sampled_from([0.1, 0.2, 0.3, -0.1, -0.0, 1e300, 5e-324, -5e-324, sys.float_info.max])
DECIMALS = st.decimals(-9_999_999, 9_999_999, places=2)
ROWS = st.fixed_dictionaries(
    {
        "part": st.sampled_from(["a", "b"]),
        "message": st.sampled_from(["error", "disk error", "login"]),
        "i64": st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-50, 50),
        "small": st.none() | st.integers(-1_000, 1_000),
        "i8": st.none() | st.integers(-128, 127),
        "f64": st.none() | FLOATS | st.integers(-30, 30).map(lambda tenth: tenth / 10),
        "f32": st.none() | st.floats(width=32),
        "short": st.none() | DECIMALS,
        "long": st.none() | DECIMALS | st.decimals(-(10**34), 10**34, places=3),
    }
)
WIDTHS = st.integers(1, 500) | st.sampled_from([1, 7, 2**40, 2**53, 2**62])
PARTS = st.sampled_from([0.1, 0.5, Decimal("0.01"), Decimal("0.003"), 2.5, 1e-9, 1e12]) | st.floats(1e-6, 1e6)
OFFSETS = st.integers(-600, 600) | st.sampled_from([0, 2**62, -(2**62)])
PROPERTY = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


def fraction(number) -> Fraction:
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def to_double(edge: Fraction) -> float:
    try:
        return float(edge) + 0.0
    except OverflowError:
        return math.inf if edge > 0 else -sys.float_info.max


def plain_start(value, width: Fraction, first: Fraction):
    """Where the bucket of a value starts, by fractions."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else value
    edge = (Fraction(value) - first) // width * width + first
    if not isinstance(value, float):
        return edge
    return max(start for start in map(to_double, (edge, edge + width)) if start <= value)


def plain_histogram(values, interval, offset) -> list:
    width, first = fraction(interval), fraction(offset)
    counts = collections.Counter(plain_start(value, width, first) for value in values if value is not None)
    return sorted(counts.items(), key=lambda item: (item[0] == "NaN", 0 if item[0] == "NaN" else item[0]))


def pairs(found: pa.Table) -> list:
    starts, counts = (column.to_pylist() for column in found.columns)
    named = ["NaN" if isinstance(start, float) and math.isnan(start) else start for start in starts]
    assert all(math.copysign(1, start) > 0 for start in named if start == 0)
    return list(zip(named, counts, strict=True))


def make_table(place: Path, appends) -> it.Table:
    options = {"cache.disk.path": str(place / "cache"), "checkpoint.enabled": "false"}
    fast = {"indexing.fastfields": ",".join(name for name in SCHEMA.names if name != "message")}
    table = it.Table.create(
        place / "t", SCHEMA, partition_by=("part",), indexing={"message": "text"}, properties=fast, options=options
    )
    for rows in appends:
        table.append(pa.Table.from_pylist(rows, schema=SCHEMA))
    return table


def check(table: it.Table, rows, column: str, interval, offset, **asked) -> None:
    expected = plain_histogram([row[column] for row in rows], interval, offset)
    edges = [start for start, _ in expected]
    if column.startswith("i") and any(not -(2**63) <= edge < 2**63 for edge in edges):
        with pytest.raises(ConfigError, match="outside of the range of its type"):
            table.histogram(column, interval=interval, offset=offset, **asked)
        return
    assert pairs(table.histogram(column, interval=interval, offset=offset, **asked)) == expected


@PROPERTY
@given(st.lists(st.lists(ROWS, max_size=15), min_size=1, max_size=2), WIDTHS, OFFSETS, PARTS, PARTS)
def test_histograms_are_those_of_a_plain_look(tmp_path_factory, appends, width, first, part, other) -> None:
    table = make_table(tmp_path_factory.mktemp("histogram"), appends)
    rows = pa.Table.from_pylist([row for rows in appends for row in rows], schema=SCHEMA).to_pylist()
    for column in ("i64", "small", "i8", "short", "long", "f64", "f32"):
        check(table, rows, column, width, first)
    for column in ("f64", "f32"):
        check(table, rows, column, part, other)
    errors = [row for row in rows if "error" in row["message"]]
    some = [row for row in errors if row["part"] == "a"]
    for column in ("small", "short"):
        check(table, errors, column, width, first, query="error")
        check(table, some, column, width, first, query="error", where="part = 'a'")
        small = [row for row in errors if row["i8"] is not None and row["i8"] >= 0]
        check(table, small, column, width, first, query="error", where="i8 >= 0")


@settings(max_examples=500, deadline=None)
@given(st.lists(FLOATS, max_size=20), PARTS | st.floats(5e-324, 1e308), PARTS | st.floats(-1e308, 1e308))
@example([0.1 * number for number in range(40)], 0.1, 0)
@example([number / 10 for number in range(-40, 40)], 0.1, 0.3)
@example([math.nextafter(number / 10, -1) for number in range(40)], 0.1, 0)
@example([sys.float_info.max, -sys.float_info.max, -math.inf], 1e308, 0)
def test_floats_lie_in_the_last_bucket_that_does_not_start_above_them(values, interval, offset) -> None:
    width, first = fraction(interval), fraction(offset) % fraction(interval)
    found = _count_floats(pa.chunked_array([values], pa.float64()), width, first)
    counts = collections.Counter()
    for start, count in found.items():
        counts["NaN" if math.isnan(start) else start] += count
    assert counts == collections.Counter(plain_start(value, width, first) for value in values)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1])),
    st.integers(1, 2**62),
    st.data(),
)
def test_whole_numbers_of_all_64_bits(values, step, data) -> None:
    start = data.draw(st.integers(0, step - 1))
    found = _count_digits(pa.chunked_array([values], pa.int64()), step, start, 0)
    assert found == collections.Counter((value - start) // step for value in values)


def test_the_example_that_people_try(tmp_path) -> None:
    rows = [{"part": "a", "message": "error", "f64": number / 10, "short": Decimal(number)} for number in range(4)]
    table = make_table(tmp_path, [rows])
    assert pairs(table.histogram("f64", interval=0.1)) == [(0.0, 1), (0.1, 1), (0.2, 1), (0.3, 1)]
    found = table.histogram("short", interval=Decimal("1.5"), offset=Decimal("0.5"))
    assert found.schema == pa.schema([("short", pa.decimal128(38, 2)), ("count", pa.int64())])
    assert pairs(found) == [(Decimal("-1.00"), 1), (Decimal("0.50"), 1), (Decimal("2.00"), 2)]


def test_exact_answers_come_from_the_index_alone(tmp_path, monkeypatch) -> None:
    rows = [{"part": "ab"[n % 2], "message": "error", "small": n - 20, "short": Decimal(n) / 4} for n in range(40)]
    table = make_table(tmp_path, [rows])

    def no_rows(*_args, **_kwargs):
        raise AssertionError("rows were read")

    monkeypatch.setattr("indextables.split.split_file.SplitFile.rows", no_rows)
    small = plain_histogram([row["small"] for row in rows], 7, 3)
    assert pairs(table.histogram("small", interval=7, offset=3, query="error")) == small
    short = plain_histogram([row["short"] for row in rows if row["part"] == "a"], Decimal("1.25"), -1)
    assert pairs(table.histogram("short", interval=1.25, offset=-1, where="part = 'a'")) == short
    with pytest.raises(AssertionError, match="rows were read"):
        table.histogram("short", interval=Decimal("0.001"))


def test_what_has_no_histogram_is_refused(tmp_path) -> None:
    table = make_table(tmp_path, [])
    assert table.histogram("i64", interval=10).schema == pa.schema([("i64", pa.int64()), ("count", pa.int64())])
    for bad in (0, -1, math.nan, math.inf, "1", None, True, Decimal("1e999")):
        with pytest.raises(ConfigError, match="interval"):
            table.histogram("f64", interval=bad)
    with pytest.raises(ConfigError, match="offset"):
        table.histogram("f64", interval=1, offset=math.inf)
    with pytest.raises(ConfigError, match="have to be whole"):
        table.histogram("i64", interval=2.5)
    with pytest.raises(ConfigError, match="longer than the range of whole numbers"):
        table.histogram("i64", interval=2**63)
    with pytest.raises(SchemaError, match="its type is `string`"):
        table.histogram("message", interval=1)
    with pytest.raises(SchemaError, match="no such column"):
        table.histogram("absent", interval=1)


@pytest.mark.parametrize(("named", "short"), [("1 day", "1d"), ("12 Hours", "12h"), ("month", "1M"), ("2weeks", "2w")])
def test_intervals_of_time_by_name(named, short) -> None:
    assert parse_interval(named) == parse_interval(short)
