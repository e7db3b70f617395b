"""Aggregations: what they say is what a plain look at every row says, from the index or from the rows."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import math
import random
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings

import indextables as it
from indextables.errors import ConfigError, SchemaError
from indextables.split.search.searcher import SplitSearcher

SCHEMA = pa.schema(
    [
        ("part", pa.string()),
        ("message", pa.string()),
        ("i64", pa.int64()),
        ("i8", pa.int8()),
        ("f64", pa.float64()),
        ("f32", pa.float32()),
        ("flag", pa.bool_()),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("short", pa.decimal128(9, 2)),
        ("long", pa.decimal128(38, 3)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("ip", pa.string()),
        ("nothing", pa.null()),
    ]
)
FAST = [name for name in SCHEMA.names if name not in ("message", "nothing")]
NUMBERS = ("i64", "i8", "f64", "f32", "short", "long")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
DAY = 86_400_000_000


def at(*moment: int) -> dt.datetime:
    return dt.datetime(*moment, tzinfo=dt.UTC)


def any_moment(chosen: random.Random) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=chosen.randrange(-60_000 * DAY, 200_000 * DAY))


MOMENTS = [
    EPOCH,
    EPOCH - dt.timedelta(microseconds=1),
    at(1969, 12, 28),
    at(2024, 2, 29, 23, 59),
    at(2, 2, 3),
    any_moment,
]
VALUES: dict[str, list] = {
    "part": ["a", "b", None],
    "message": ["error", "disk error", "login", "", "error error disk"],
    "i64": [0, -1, 7, 2**53 + 1, 2**63 - 1, -(2**63), lambda chosen: chosen.getrandbits(63)],
    "i8": [0, -128, 127],
    "f64": [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, lambda chosen: chosen.gauss(0, 1e9)],
    "f32": [0.0, 1.5, -2.25, math.nan],
    "flag": [True, False],
    "text": ["", "a", "A", "\u00fc", "x" * 300, lambda chosen: f"t{chosen.randrange(9)}"],
    "raw": [b"", b"\x00", b"\xff"],
    "short": [Decimal("0.00"), Decimal("-1.25"), Decimal("9999999.99")],
    "long": [Decimal("0.001"), Decimal("9" * 35), Decimal("-" + "9" * 35)],
    "day": [lambda chosen, moment=moment: of(chosen, moment).date() for moment in MOMENTS],
    "at": MOMENTS,
    "local": [lambda chosen, moment=moment: of(chosen, moment).replace(tzinfo=None) for moment in MOMENTS],
    "ip": ["10.0.0.1", "::ffff:10.0.0.1", "no address"],
    "nothing": [None],
}


def of(chosen: random.Random, value):
    return value(chosen) if callable(value) else value


def random_row(chosen: random.Random, tame: bool) -> dict:
    """Tame rows have no value that the index could not add up."""
    kept = {name: values[:3] if tame and name == "i64" else values for name, values in VALUES.items()}
    return {
        name: None if name != "message" and chosen.random() < 0.2 else of(chosen, chosen.choice(values))
        for name, values in kept.items()
    }


QUERIES = {
    None: lambda row: True,
    "error": lambda row: "error" in row["message"],
    "NOT disk": lambda row: "disk" not in row["message"],
    "absent": lambda row: False,
}
WHERES = {
    None: lambda row: True,
    "part = 'a'": lambda row: row["part"] == "a",
    "part IS NULL": lambda row: row["part"] is None,
    "i8 >= 0": lambda row: row["i8"] is not None and row["i8"] >= 0,
    "part = 'b' OR flag": lambda row: row["part"] == "b" or row["flag"] is True,
}

INTERVALS = ["1d", "1w", "1M", "1y", "2w", "5M", "3d", "1q"]
TIMED = [*INTERVALS, "5m", "1h", "90s", "250ms"]


def make_table(place: Path, appends, *, fast: bool = True, **options) -> it.Table:
    options = {"cache.disk.path": str(place / "cache"), "checkpoint.enabled": "false", **options}
    indexing = {"message": "text", "ip": "ip"}
    properties = {"indexing.fastfields": ",".join(FAST)} if fast else {}
    table = it.Table.create(
        place / "t", SCHEMA, partition_by=("part",), indexing=indexing, properties=properties, options=options
    )
    for rows in appends:
        table.append(pa.Table.from_pylist(rows, schema=SCHEMA))
    return table


@dataclasses.dataclass(repr=False)
class Sample:
    table: it.Table
    rows: list[dict]


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> list[Sample]:
    """Three tables of several splits, and their rows as Arrow gives them."""
    found = []
    for seed, fast in ((1, True), (2, False), (3, True)):
        chosen = random.Random(seed)
        appends = [[random_row(chosen, tame=seed == 3) for _ in range(chosen.randrange(3, 40))] for _ in range(3)]
        table = make_table(tmp_path_factory.mktemp("aggregate"), appends, fast=fast)
        assert table.num_files > 6
        rows = [row for rows in appends for row in rows]
        found.append(Sample(table, pa.Table.from_pylist(rows, schema=SCHEMA).to_pylist()))
    return found


def normal(value):
    """One key for values that are equal: NaN as well, and both zeros."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def order(value):
    return (value == "NaN", 0 if value == "NaN" else value)


def expected_terms(rows, column) -> list:
    counts = collections.Counter(normal(row[column]) for row in rows if row[column] is not None)
    return sorted(counts.items(), key=lambda item: (-item[1], *order(item[0])))


def check_stats(rows, column, found) -> None:
    assert found.num_rows == 1
    assert found.column_names == ["count", "min", "max", "sum", "mean"]
    (answer,) = found.to_pylist()
    values = [row[column] for row in rows if row[column] is not None]
    assert answer["count"] == len(values)
    ranked = sorted(map(normal, values), key=order)
    for name, place in (("min", 0), ("max", -1)):
        assert found.schema.field(name).type == SCHEMA.field(column).type
        assert normal(answer[name]) == (ranked[place] if ranked else None)
    if column not in NUMBERS or not values:
        assert answer["sum"] is None
        assert answer["mean"] is None
    elif isinstance(values[0], float):
        check_float_sum(values, answer)
    else:
        check_exact_sum(values, answer, found.schema.field("sum").type)


def check_float_sum(values, answer) -> None:
    total = sum(values)
    if not math.isfinite(total):
        assert not math.isfinite(answer["sum"])
        return
    scale = sum(abs(value) for value in values)
    assert answer["sum"] == pytest.approx(total, rel=1e-9, abs=scale * 1e-12)
    assert answer["mean"] == pytest.approx(total / len(values), rel=1e-9, abs=scale * 1e-12)


def check_exact_sum(values, answer, type_) -> None:
    total = sum(Fraction(value) for value in values)
    is_decimal = pa.types.is_decimal(type_)
    limit = Fraction(10**38, 10**type_.scale) if is_decimal else 2**63
    fits = -limit < total < limit or (total == -limit and not is_decimal)
    assert answer["sum"] == (total if fits else None)
    assert answer["mean"] == float(total / len(values))


UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds", "ms": "milliseconds", "w": "weeks"}


def bucket_start(moment: dt.datetime, interval: str) -> dt.datetime:
    """Where the bucket of a moment starts, by the calendar of Python."""
    number, unit = int(interval.rstrip("mshdwMyq")), interval.lstrip("0123456789")
    if unit in ("M", "q", "y"):
        months = number * {"M": 1, "q": 3, "y": 12}[unit]
        first = (moment.year * 12 + moment.month - 1) // months * months
        return at(first // 12, first % 12 + 1, 1)
    first = at(1969, 12, 29) if unit == "w" else EPOCH
    width = dt.timedelta(**{UNITS[unit]: number})
    return first + (moment - first) // width * width


def expected_histogram(rows, column, interval) -> list:
    counts: collections.Counter = collections.Counter()
    for row in rows:
        if row[column] is not None:
            value = row[column]
            moment = value if column == "at" else at(*value.timetuple()[:6], getattr(value, "microsecond", 0))
            start = bucket_start(moment, interval)
            counts[{"at": start, "local": start.replace(tzinfo=None), "day": start.date()}[column]] += 1
    return sorted(counts.items())


def pairs(table) -> list:
    return [
        (normal(value), count) for value, count in zip(*(column.to_pylist() for column in table.columns), strict=True)
    ]


PROPERTY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ASKED = {
    "number": st.integers(0, 2),
    "query": st.sampled_from([*QUERIES]),
    "where": st.sampled_from([*WHERES]),
}


def rows_of(tables, number, query, where) -> tuple[it.Table, list[dict]]:
    sample = tables[number]
    return sample.table, [row for row in sample.rows if QUERIES[query](row) and WHERES[where](row)]


@PROPERTY
@given(column=st.sampled_from(SCHEMA.names), **ASKED)
def test_terms_and_stats_of_every_type_are_those_of_a_plain_look(tables, number, query, where, column) -> None:
    table, rows = rows_of(tables, number, query, where)
    found = table.aggregate(column, query=query, where=where)
    assert found.schema == pa.schema([(column, SCHEMA.field(column).type), ("count", pa.int64())])
    assert pairs(found) == expected_terms(rows, column)
    assert pairs(found.slice(0, 2)) == pairs(table.aggregate(column, query=query, where=where, limit=2))
    check_stats(rows, column, table.stats(column, query=query, where=where))


@PROPERTY
@given(column=st.sampled_from(["at", "local", "day"]), interval=st.sampled_from(TIMED), **ASKED)
def test_histograms_are_those_of_a_plain_look(tables, number, query, where, column, interval) -> None:
    assume(column != "day" or interval in INTERVALS)
    table, rows = rows_of(tables, number, query, where)
    found = table.date_histogram(column, interval=interval, query=query, where=where)
    assert found.schema == pa.schema([(column, SCHEMA.field(column).type), ("count", pa.int64())])
    assert pairs(found) == expected_histogram(rows, column, interval)


def row(**values) -> dict:
    return {**dict.fromkeys(SCHEMA.names), "message": "error", **values}


def test_an_exact_answer_comes_from_the_index_alone(tmp_path, monkeypatch) -> None:
    rows = [row(part="ab"[n % 2], i64=n - 5, text=f"t{n % 3}", at=EPOCH + dt.timedelta(hours=n)) for n in range(40)]
    table = make_table(tmp_path, [rows])
    asked: list[str] = []
    whole = SplitSearcher.aggregate

    def aggregate(self, tree, text, wanted):
        asked.extend(wanted)
        return whole(self, tree, text, wanted)

    def no_rows(*_args, **_kwargs):
        raise AssertionError("rows were read")

    monkeypatch.setattr(SplitSearcher, "aggregate", aggregate)
    monkeypatch.setattr("indextables.split.split_file.SplitFile.rows", no_rows)
    counts = collections.Counter(one["text"] for one in rows if one["part"] == "a")
    assert dict(pairs(table.aggregate("text", where="part = 'a'"))) == counts
    assert table.stats("i64", where="part IN ('a', 'b')").to_pylist()[0]["sum"] == sum(n - 5 for n in range(40))
    assert table.date_histogram("at")["count"].to_pylist() == [24, 16]
    assert table.count("error", where="part = 'b'") == 20
    assert set(asked) == {"terms", "count", "stats", "buckets"}


def test_more_terms_than_the_engine_counts(tmp_path) -> None:
    number = 70_000
    schema = pa.schema([("id", pa.int64()), ("word", pa.string())])
    options = {"cache.disk.path": str(tmp_path / "cache")}
    table = it.Table.create(tmp_path / "t", schema, properties={"indexing.fastfields": "id,word"}, options=options)
    table.append(pa.table({"id": range(number), "word": [f"w{n // 2:05}" for n in range(number)]}, schema=schema))
    assert table.aggregate("id")["count"].to_pylist() == [1] * number
    words = table.aggregate("word", limit=3)
    assert words.to_pylist() == [{"word": f"w{n:05}", "count": 2} for n in range(3)]


def test_texts_longer_than_the_index_holds_are_told_apart(tmp_path) -> None:
    long = "x" * 70_000
    table = make_table(tmp_path, [[row(text=long + "a"), row(text=long + "b"), row(text="short")]])
    assert dict(pairs(table.aggregate("text"))) == {long + "a": 1, long + "b": 1, "short": 1}


def test_sums_beyond_doubles_are_exact(tmp_path) -> None:
    values = [2**53 + 1, 2**53 + 3, -7]
    table = make_table(tmp_path, [[row(i64=value) for value in values]])
    (answer,) = table.stats("i64").to_pylist()
    assert answer == {
        "count": 3,
        "min": -7,
        "max": 2**53 + 3,
        "sum": sum(values),
        "mean": float(Fraction(sum(values), 3)),
    }
    table.append(pa.Table.from_pylist([row(i64=2**63 - 1)], schema=SCHEMA))
    assert table.stats("i64")["sum"].to_pylist() == [None]


def test_bad_questions_are_named(tmp_path) -> None:
    table = make_table(tmp_path, [[row()]])
    with pytest.raises(SchemaError, match="`nowhere`"):
        table.aggregate("nowhere")
    with pytest.raises(SchemaError, match="`nowhere`"):
        table.stats("nowhere")
    with pytest.raises(ConfigError, match="at least 1"):
        table.aggregate("text", limit=0)
    with pytest.raises(SchemaError, match="its type is `int64`"):
        table.date_histogram("i64")
    with pytest.raises(ConfigError, match="whole days"):
        table.date_histogram("day", interval="1h")
    nested = it.Table.create(tmp_path / "nested", pa.schema([("id", pa.int64()), ("l", pa.list_(pa.int64()))]))
    for ask in (nested.aggregate, nested.stats, nested.date_histogram):
        with pytest.raises(SchemaError, match="its type is `list"):
            ask("l")


@pytest.mark.parametrize("interval", ["", "1", "d", "0d", "-1d", "1.5h", "1 fortnight", "1D", "99999999999s", None, 5])
def test_bad_intervals_are_refused(tmp_path, interval) -> None:
    table = make_table(tmp_path, [])
    with pytest.raises(ConfigError, match="interval"):
        table.date_histogram("at", interval=interval)


def test_an_empty_table_has_nothing_to_aggregate(tmp_path) -> None:
    table = make_table(tmp_path, [])
    assert table.aggregate("text").num_rows == 0
    assert table.date_histogram("at").num_rows == 0
    assert table.stats("i64").to_pylist() == [{"count": 0, "min": None, "max": None, "sum": None, "mean": None}]
