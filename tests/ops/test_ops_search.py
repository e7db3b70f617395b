"""Searching a table: what is found is what a plain look at every row finds."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import ConfigError, CorruptSplitError, QueryError, SchemaError

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("level", pa.string()), ("message", pa.string())])
WORDS = ["error", "timeout", "login", "disk", "user", "königin"]


def make_rows(first: int, count: int) -> list[dict]:
    chosen = random.Random(first)
    return [
        {
            "id": number,
            "day": dt.date(2026, 1, 1 + number % 3),
            "level": chosen.choice(["INFO", "WARN", None]),
            "message": " ".join(chosen.sample(WORDS, k=2)),
        }
        for number in range(first, first + count)
    ]


ROWS = [make_rows(0, 200), make_rows(200, 150), make_rows(350, 50)]


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> it.Table:
    place = tmp_path_factory.mktemp("search")
    options = {"cache.disk.path": str(place / "cache")}
    table = it.Table.create(place / "t", SCHEMA, partition_by=("day",), indexing={"message": "text"}, options=options)
    for rows in ROWS:
        table.append(pa.Table.from_pylist(rows, schema=SCHEMA))
    return table


def ids(found: pa.Table) -> list[int]:
    return sorted(found["id"].to_pylist())


def expected(is_hit) -> list[int]:
    return [row["id"] for rows in ROWS for row in rows if is_hit(row)]


@pytest.mark.parametrize(
    ("query", "where", "is_hit"),
    [
        (None, None, lambda row: True),
        ("error", None, lambda row: "error" in row["message"]),
        ("error AND NOT timeout", None, lambda row: "error" in row["message"] and "timeout" not in row["message"]),
        ('"login disk"', None, lambda row: row["message"] == "login disk"),
        ("KÖNIGIN", None, lambda row: "königin" in row["message"]),
        (None, "id BETWEEN 190 AND 360", lambda row: 190 <= row["id"] <= 360),
        (None, "level IS NULL", lambda row: row["level"] is None),
        ("error", "day = DATE '2026-01-02'", lambda row: "error" in row["message"] and row["day"].day == 2),
        (
            "user",
            "level = 'WARN' AND id < 100",
            lambda r: "user" in r["message"] and r["level"] == "WARN" and r["id"] < 100,
        ),
        ("nothing", None, lambda row: False),
        ("level:INFO", "id > 1000", lambda row: False),
    ],
)
def test_what_is_found_is_what_a_plain_look_finds(table, query, where, is_hit) -> None:
    assert ids(table.search(query, where=where)) == expected(is_hit)
    assert table.count(query, where=where) == len(expected(is_hit))


def test_rows_and_columns_come_as_they_were_written(table) -> None:
    found = table.search("error", where="id < 50")
    assert found.schema == SCHEMA
    by_id = {row["id"]: row for rows in ROWS for row in rows}
    assert found.num_rows
    assert all(by_id[row["id"]] == row for row in found.to_pylist())
    some = table.search("error", where="level = 'INFO'", columns=["message", "id"])
    assert some.column_names == ["message", "id"]


def test_a_limit_is_kept(table) -> None:
    assert table.search("error", limit=3).num_rows == 3
    assert table.search("error", limit=10**6).num_rows == table.count("error")
    with pytest.raises(ConfigError, match="at least 1"):
        table.search("error", limit=0)


def test_an_older_version_is_searched_as_it_was(table) -> None:
    old = it.Table.open(table.url, version=1)
    assert old.count() == 200
    assert old.count("error") == sum("error" in row["message"] for row in ROWS[0])


def test_bad_questions_are_named(table) -> None:
    with pytest.raises(QueryError):
        table.search("a AND")
    with pytest.raises(QueryError, match="nowhere"):
        table.count("nowhere:1")
    with pytest.raises(QueryError):
        table.search(where="nowhere = 1")
    with pytest.raises(SchemaError, match="`nowhere`"):
        table.search(columns=["nowhere"])


def test_an_empty_table_has_nothing(tmp_path) -> None:
    table = it.Table.create(tmp_path / "t", SCHEMA)
    assert table.search("x").to_pylist() == []
    assert table.search().schema == SCHEMA
    assert table.count("x") == 0


def test_a_damaged_split_is_an_error_that_names_it(tmp_path) -> None:
    table = it.Table.create(
        tmp_path / "t", SCHEMA, indexing={"message": "text"}, options={"cache.disk.enabled": "false"}
    )
    table.append(pa.Table.from_pylist(ROWS[0], schema=SCHEMA))
    (path,) = table.files()["path"].to_pylist()
    place = Path(table.url, path)
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 1
    place.write_bytes(data)
    with pytest.raises(CorruptSplitError, match=path):
        table.search("error")
