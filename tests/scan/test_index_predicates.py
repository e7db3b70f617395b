"""Predicates that the index decides: the same rows, counts and groups as a plain look at every row."""

from __future__ import annotations

import collections
import datetime as dt
import math
import random
from decimal import Decimal

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import indextables as it
from indextables.predicate import bind, parse_predicate
from indextables.predicate.arrow import matching
from indextables.scan import split_scan
from indextables.split.search.searcher import SplitSearcher

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("u64", pa.uint64()),
        ("f64", pa.float64()),
        ("f32", pa.float32()),
        ("word", pa.string()),
        ("fast", pa.string()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(9, 2)),
        ("wide", pa.decimal128(30, 2)),
        ("message", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("Dotted.name", pa.int32()),
    ]
)
LONG = "z" * 65_531
COMPARED = {
    "id": ["-9223372036854775808", "-1", "0", "7", "9223372036854775807", "2.5", "1e30"],
    "u64": ["0", "7", "18446744073709551615", "-1"],
    "f64": ["0.0", "-0.0", "1.5", "'NaN'", "'Infinity'", "'-Infinity'", "0.1"],
    "f32": ["0.1", "1.5", "'NaN'"],
    "word": ["''", "'a'", "'ab'", "'\u00fc'", f"'{LONG}'", f"'{LONG}y'", f"'{'z' * 65_525}'"],
    "fast": ["''", "'a'", "'ab'"],
    "flag": ["true", "false"],
    "day": ["'2026-01-02'", "'1969-12-31'"],
    "at": ["'2026-01-01'", "'2026-01-01T00:00:03Z'", "'1969-12-31T23:59:59.999999Z'"],
    "price": ["0", "1.25", "1.255", "-3"],
    "wide": ["0", "1.25"],
    "message": ["'disk'", "''"],
    "`Dotted.name`": ["0", "3"],
}
OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
PATTERNS = ("a%", "", "%", "ab", "a_", "%b", "\u00fc%", "z%", "a%b")
QUERIES = {
    None: lambda row: True,
    "disk": lambda row: "disk" in row["message"].split(),
    "NOT disk": lambda row: "disk" not in row["message"].split(),
}


def random_leaf(chosen: random.Random) -> str:
    column = chosen.choice([*COMPARED])
    kind = chosen.random()
    values = COMPARED[column]
    if kind < 0.55:
        return f"{column} {chosen.choice(OPERATORS)} {chosen.choice(values)}"
    if kind < 0.7:
        listed = ", ".join(chosen.sample(values, chosen.randrange(1, len(values) + 1)))
        return f"{column} {chosen.choice(['', 'NOT '])}IN ({listed})"
    if kind < 0.85:
        column = chosen.choice([column, "tags"])
        return f"{column} IS {chosen.choice(['', 'NOT '])}NULL"
    return f"{chosen.choice(['word', 'fast'])} {chosen.choice(['', 'NOT '])}LIKE '{chosen.choice(PATTERNS)}'"


def random_where(chosen: random.Random, depth: int = 2) -> str:
    if not depth or chosen.random() < 0.4:
        return random_leaf(chosen)
    parts = [f"({random_where(chosen, depth - 1)})" for _ in range(chosen.randrange(2, 4))]
    joined = f" {chosen.choice(['AND', 'OR'])} ".join(parts)
    return f"NOT ({joined})" if chosen.random() < 0.2 else joined


def random_rows(chosen: random.Random, num_rows: int, nulls: float | None = None) -> pa.Table:
    nulls = chosen.choice([0.0, 0.2]) if nulls is None else nulls
    floats = [0.0, -0.0, 1.5, 0.1, math.inf, -math.inf, *([math.nan] if chosen.random() < 0.5 else [])]
    words = ["", "a", "ab", "b", "\u00fc", *(["z" * 65_525, LONG, LONG + "y"] if chosen.random() < 0.1 else [])]
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    made = {
        "id": lambda: chosen.choice([0, -1, 7, 2**63 - 1, -(2**63), chosen.randrange(9)]),
        "u64": lambda: chosen.choice([0, 7, 2**64 - 1, 2**63]),
        "f64": lambda: chosen.choice(floats),
        "f32": lambda: chosen.choice(floats),
        "word": lambda: chosen.choice(words),
        "fast": lambda: chosen.choice(["", "a", "ab", "b"]),
        "flag": lambda: chosen.random() < 0.5,
        "day": lambda: dt.date(2026, 1, chosen.randrange(1, 4)),
        "at": lambda: start + dt.timedelta(seconds=chosen.randrange(5)),
        "price": lambda: Decimal(chosen.choice(["0.00", "1.25", "1.26", "-3.00"])),
        "wide": lambda: Decimal(chosen.choice(["0.00", "1.25"])),
        "tags": lambda: ["x"] * chosen.randrange(3),
        "Dotted.name": lambda: chosen.randrange(5),
    }
    rows = [
        {
            **{name: None if chosen.random() < nulls else make() for name, make in made.items()},
            "message": chosen.choice(["disk", "disk full", "login", ""]),
        }
        for _ in range(num_rows)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def make_table(place, rows, cold: str = "whole", **properties) -> it.Table:
    fast = {"indexing.fastfields": ",".join(name for name in SCHEMA.names if name not in ("word", "message", "tags"))}
    options = {"cache.disk.path": str(place / "cache"), "checkpoint.enabled": "false", "search.cold": cold}
    table = it.Table.create(
        place / "t", SCHEMA, indexing={"message": "text"}, properties={**fast, **properties}, options=options
    )
    for part in rows:
        table.append(part)
    return table


def plain(rows: list[dict], column: str) -> list[tuple]:
    counts = collections.Counter(row[column] for row in rows if row[column] is not None)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32))
def test_answers_are_those_of_a_plain_look(tmp_path_factory, monkeypatch, seed) -> None:
    chosen = random.Random(seed)
    monkeypatch.setattr(split_scan, "_ROWS_PER_HIT", chosen.choice([0, 0, 2]))
    parts = [random_rows(chosen, chosen.randrange(1, 60)) for _ in range(chosen.randrange(1, 3))]
    table = make_table(tmp_path_factory.mktemp("index"), parts, chosen.choice(["whole", "whole", "partial"]))
    if chosen.random() < 0.8:
        assert table.count("NOT word:nowhere") == sum(part.num_rows for part in parts)  # fetches the indexes
    rows = table.to_arrow()  # in the order of the splits
    assert rows.num_rows == sum(part.num_rows for part in parts)
    for _ in range(20):
        where, query = random_where(chosen), chosen.choice([*QUERIES])
        matched = rows.filter(matching(rows, bind(parse_predicate(where), rows.schema)))
        kept = [row for row in matched.to_pylist() if QUERIES[query](row)]
        assert table.count(query, where=where) == len(kept), (query, where)
        found = table.search(query, where=where)
        assert repr(found.to_pylist()) == repr(kept), (query, where)
        assert repr(table.search(query, where=where, limit=2).to_pylist()) == repr(kept[:2])
        assert repr([row for batch in table.to_batches(query, where=where) for row in batch.to_pylist()]) == repr(kept)
        for column in ("word", "fast", "id"):
            groups = table.aggregate(column, query=query, where=where)
            assert list(zip(*groups.to_pydict().values(), strict=True)) == plain(kept, column), (query, where)
        days = [row["day"] for row in kept if row["day"] is not None]
        (stats,) = table.stats("day", query=query, where=where).to_pylist()
        assert (stats["count"], stats["min"]) == (len(days), min(days, default=None))
        assert sum(table.date_histogram("day", query=query, where=where)["count"].to_pylist()) == len(days)
        check_scores(table, query, where, found)


def check_scores(table: it.Table, query: str | None, where: str, found: pa.Table) -> None:
    """Scores are those of the query alone: a predicate adds nothing."""
    scored = table.search(query, where=where, columns=["message"], score=True)
    alone = table.search(query, columns=["message"], score=True)
    known = set(zip(alone["message"].to_pylist(), alone["_score"].to_pylist(), strict=True))
    assert set(zip(scored["message"].to_pylist(), scored["_score"].to_pylist(), strict=True)) <= known
    assert scored.num_rows == found.num_rows


def no_rows(*_args, **_kwargs):
    raise AssertionError("rows were read")


DECIDED = [
    *(
        "id < 5",
        "id <> 7",
        "id IN (1, 2)",
        "id NOT IN (1, 2)",
        "id IS NULL",
        "id IS NOT NULL",
        "price <= 1.25",
    ),
    *("day = '2026-01-02'", "at >= '2026-01-01T00:00:03Z'", "f64 < 1", "f64 > 1", "f32 >= 1.5", "`Dotted.name` = 3"),
    *("word = 'a'", "word IN ('a', 'b')", "word LIKE 'a%'", "fast <> 'a'", "fast IS NULL", "flag", "NOT flag"),
    "id < 5 AND (word = 'a' OR flag)",
]
LEFT = [
    "u64 > 3",
    "word < 'b'",
    "word <> 'a'",
    "wide = 1.25",
    "tags IS NULL",
    "message = 'disk'",
    "word LIKE '%b'",
    "flag IS NULL",
]


@pytest.fixture(scope="module")
def warm(tmp_path_factory) -> it.Table:
    rows = random_rows(random.Random(3), 300, nulls=0.2).to_pylist()
    for row in rows:
        row["f64"], row["f32"] = 1.5, 0.5
    table = make_table(tmp_path_factory.mktemp("warm"), [pa.Table.from_pylist(rows, schema=SCHEMA)])
    table.count("NOT word:nowhere")
    return table


@pytest.mark.parametrize("where", DECIDED)
def test_the_index_decides_without_rows(warm, monkeypatch, where) -> None:
    monkeypatch.setattr("indextables.split.split_file.SplitFile.rows", no_rows)
    monkeypatch.setattr("indextables.split.split_file.SplitFile.coded_rows", no_rows)
    assert warm.count(where=where) <= 300
    assert warm.count("disk", where=where) <= warm.count(where=where)


@pytest.mark.parametrize("where", LEFT)
def test_rows_decide_the_rest(warm, monkeypatch, where) -> None:
    (split,) = warm._ask(None, None, "fail").splits
    asked = warm._ask(None, f"id < 5 AND {where}", "fail").asked(split)
    assert asked.tree is not None
    assert asked.where is not None
    monkeypatch.setattr("indextables.split.split_file.SplitFile.rows", no_rows)
    monkeypatch.setattr("indextables.split.split_file.SplitFile.coded_rows", no_rows)
    with pytest.raises(AssertionError, match="rows were read"):
        warm.count(where=f"id < 5 AND {where}")


def test_a_cold_index_is_not_fetched_for_a_predicate(tmp_path) -> None:
    table = make_table(tmp_path, [random_rows(random.Random(1), 50)])
    table.count(where="id < 5")
    table.search(where="word = 'a'", columns=["id"])
    held = [file for file in (tmp_path / "cache").rglob("*") if file.is_file() and file.suffix != ".spent"]
    assert not held


def test_many_rows_are_not_fetched_from_the_index(warm, monkeypatch) -> None:
    asked: list[int | None] = []
    whole = SplitSearcher.row_numbers
    monkeypatch.setattr(
        SplitSearcher, "row_numbers", lambda self, *given, **more: (asked.append(1), whole(self, *given, **more))[1]
    )
    assert warm.search(where="f64 > 1", columns=["id"]).num_rows == 300
    assert not asked


def test_a_split_that_is_indexed_otherwise_is_decided_by_its_rows(tmp_path) -> None:
    table = make_table(tmp_path, [random_rows(random.Random(1), 50)])
    number = table.count(where="word = 'a'")
    table.set_properties({"indexing.typemap.word": "text"})
    table.append(random_rows(random.Random(1), 50))
    table.count("NOT disk")
    assert table.count(where="word = 'a'") == 2 * number
