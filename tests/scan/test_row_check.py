"""Predicates on rows: bounds of row groups, codes of texts and row numbers change no answer."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import HealthCheck, given, settings

import indextables as it
from indextables.predicate import bind, parse_predicate
from indextables.predicate.arrow import matching
from indextables.scan import row_check
from indextables.split import split_file

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int8()),
        ("number", pa.float64()),
        ("word", pa.string()),
        ("unique", pa.string()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("seconds", pa.timestamp("ms")),
        ("count", pa.uint16()),
        ("inner", pa.struct([("a", pa.int64())])),
        ("items", pa.list_(pa.string())),
    ]
)
LEAVES = [
    *("id < 50", "id >= 50", "id = 7", "id <> 7", "id IN (3, 70, 900)", "id NOT IN (3, 4)", "id > -1"),
    *("small = 1", "small IS NULL", "small IS NOT NULL", "small <= -5", "count > 2", "seconds >= '1970-01-02'"),
    *("number > 1.5", "number <= 0", "number <> 1", "number = 'NaN'", "number IS NULL"),
    *(
        "word = 'a'",
        "word <> 'a'",
        "word < 'b'",
        "word >= 'b'",
        "word LIKE 'a%'",
        "word NOT LIKE 'a%'",
        "word LIKE '%b'",
    ),
    *(
        "word IN ('a', 'ab')",
        "word NOT IN ('a', 'z')",
        "word IS NULL",
        "word = ''",
        "unique LIKE 'u1%'",
        "unique > 'u5'",
    ),
    *("flag", "NOT flag", "flag IS NULL", "day = '2026-01-03'", "at < '2026-01-02'", "at >= '2026-01-01T00:00:50Z'"),
    *("inner.a > 3", "inner IS NULL", "items IS NULL", "items IS NOT NULL", "id IS NULL", "word <=> NULL"),
]
WORDS = [None, "", "a", "ab", "b", "\u00fc", "z" * 5_000]


def random_rows(chosen: random.Random, num_rows: int) -> pa.Table:
    sorted_ids = chosen.random() < 0.5
    words = chosen.sample(WORDS, chosen.randrange(1, len(WORDS)))
    rare = chosen.choice([0.0, 0.0, 0.3, 1.0])

    def maybe(value):
        return None if chosen.random() < rare else value

    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    rows = [
        {
            "id": number if sorted_ids else maybe(chosen.randrange(100)),
            "small": maybe(chosen.randrange(-6, 3)),
            "number": maybe(chosen.choice([0.0, -0.0, 1.0, 2.5, float("nan"), float("inf")])),
            "word": chosen.choice(words),
            "unique": maybe(f"u{chosen.randrange(1000)}"),
            "flag": maybe(chosen.random() < 0.5),
            "day": maybe(dt.date(2026, 1, 1 + number % 4)),
            "at": maybe(start + dt.timedelta(seconds=number)),
            "seconds": maybe(dt.datetime(1970, 1, 1 + number % 3, tzinfo=dt.UTC).replace(tzinfo=None)),
            "count": maybe(number % 5),
            "inner": maybe({"a": maybe(number % 7)}),
            "items": maybe([maybe("x")] * (number % 3)),
        }
        for number in range(num_rows)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def random_where(chosen: random.Random) -> str:
    leaves = chosen.sample(LEAVES, chosen.randrange(1, 4))
    return f" {chosen.choice(['AND', 'OR'])} ".join(f"({leaf})" for leaf in leaves)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32))
def test_answers_are_those_of_all_rows(tmp_path_factory, monkeypatch, seed) -> None:
    chosen = random.Random(seed)
    for name, value in (("_LEAST_GROUP_ROWS", 7), ("_FIRST_GROUP_BYTES", 64), ("_PAGED_GROUP_BYTES", 64)):
        monkeypatch.setattr(split_file, name, value)  # some row groups
    monkeypatch.setattr(split_file, "_LEAST_CHUNK_BYTES", 16)
    place = tmp_path_factory.mktemp("rows")
    table = it.Table.create(place / "t", SCHEMA, options={"cache.disk.path": str(place / "cache")})
    rows = random_rows(chosen, chosen.randrange(1, 120))
    table.append(rows)
    for _ in range(25):
        where = random_where(chosen)
        expected = rows.filter(matching(rows, bind(parse_predicate(where), SCHEMA)))
        assert table.count(where=where) == expected.num_rows, where
        columns = chosen.sample(SCHEMA.names, chosen.randrange(1, 4))
        assert same(table.search(where=where, columns=columns), expected.select(columns)), where
        assert same(table.search(where=where, columns=columns, limit=3), expected.select(columns).slice(0, 3)), where
        scored = table.search(where=where, columns=columns, score=True)
        assert scored["_score"].to_pylist() == [1.0] * expected.num_rows
        assert same(scored.select(columns), expected.select(columns)), where
        ranked = table.search(where=where, columns=["id"], order_by="id", limit=5)["id"]
        assert (
            ranked.to_pylist()
            == pc.take(expected["id"], pc.sort_indices(expected, [("id", "ascending")])[:5]).to_pylist()
        )


def same(found: pa.Table, expected: pa.Table) -> bool:
    return repr(found.to_pylist()) == repr(expected.to_pylist())  # NaN equals NaN


def make_sorted(place: Path, monkeypatch) -> it.Table:
    monkeypatch.setattr(split_file, "_FIRST_GROUP_BYTES", 1 << 15)
    monkeypatch.setattr(split_file, "_PAGED_GROUP_BYTES", 1 << 15)
    schema = pa.schema([("id", pa.int64()), ("word", pa.string()), ("note", pa.string())])
    table = it.Table.create(place / "t", schema, options={"cache.disk.path": str(place / "cache")})
    numbers = range(20_000)
    table.append({"id": list(numbers), "word": [f"w{n % 9}" for n in numbers], "note": [f"n{n}" for n in numbers]})
    return table


def read_of(monkeypatch) -> list[tuple[list[str], int]]:
    """Which columns are read, and how many row groups of each."""
    read: list[tuple[list[str], int]] = []
    whole = split_file.SplitFile.coded_rows

    def coded_rows(self, columns, groups):
        read.append((list(columns), len(groups)))
        return whole(self, columns, groups)

    monkeypatch.setattr(split_file.SplitFile, "coded_rows", coded_rows)
    return read


def test_bounds_of_row_groups_decide_without_their_rows(tmp_path, monkeypatch) -> None:
    table = make_sorted(tmp_path, monkeypatch)
    read = read_of(monkeypatch)
    assert table.count(where="id >= 10000 AND id < 15000") == 5_000
    assert [columns for columns, _ in read] == [["id"]] * len(read)
    assert sum(groups for _, groups in read) <= 2
    read.clear()
    assert table.count(where="id IS NOT NULL AND word >= 'w0'") == 20_000
    assert table.count(where="id < 0 OR word = 'x'") == 0
    assert not read


def test_repeated_texts_are_compared_once_each(tmp_path, monkeypatch) -> None:
    table = make_sorted(tmp_path, monkeypatch)
    kinds: list[pa.DataType] = []
    whole = row_check.matching

    def look(rows, where):
        kinds.extend(field.type for field in rows.schema)
        return whole(rows, where)

    monkeypatch.setattr(row_check, "matching", look)
    assert table.count(where="word = 'w3'") == 2_222
    assert table.count(where="word IN ('w3', 'w4')") == 4_444
    assert {str(kind) for kind in kinds} == {"dictionary<values=string, indices=int32, ordered=0>"}
    kinds.clear()
    assert table.count(where="note = 'n5'") == 1
    assert set(kinds) == {pa.string()}


def test_columns_are_read_only_for_matching_rows(tmp_path, monkeypatch) -> None:
    table = make_sorted(tmp_path, monkeypatch)
    asked: list[tuple[list[str], int]] = []
    whole = split_file.SplitFile.rows

    def rows(self, numbers=None, columns=None):
        asked.append((list(columns), -1 if numbers is None else len(numbers)))
        return whole(self, numbers, columns)

    monkeypatch.setattr(split_file.SplitFile, "rows", rows)
    found = table.search(where="id = 777", columns=["note", "word"])
    assert found.to_pylist() == [{"note": "n777", "word": "w3"}]
    assert asked == [(["note", "word"], 1)]
