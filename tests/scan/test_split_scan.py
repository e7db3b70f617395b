"""What is wrong with a query is said also where no split is there to say it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import BadSplitWarning, QueryError

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("message", pa.string())])
ROW = {"id": 1, "day": dt.date(2026, 1, 1), "message": "one word"}
BAD = [
    ("nosuch:1", "there is no field `nosuch`"),
    ("id:x", "`x` is no value of `id`"),
    ("id:5*", "a prefix does not work on `id`"),
    ("message:/^a/", "the pattern is refused"),
    ("word AND", "nothing behind `AND`"),
    ("_exists_:nosuch", "there is no field `nosuch`"),
]


@pytest.fixture
def table(tmp_path) -> it.Table:
    options = {"cache.disk.path": str(tmp_path / "cache")}
    return it.Table.create(tmp_path / "t", SCHEMA, partition_by=("day",), indexing={"message": "text"}, options=options)


def message_of(ask) -> str:
    with pytest.raises(QueryError) as refused:
        ask()
    return str(refused.value)


@pytest.mark.parametrize(("query", "message"), BAD)
def test_a_bad_query_is_as_bad_without_splits(table, query, message) -> None:
    asked = [
        lambda **where: table.search(query, **where),
        lambda **where: table.count(query, **where),
        lambda **where: table.search(query, score=True, limit=1, **where),
        lambda **where: table.aggregate("message", query=query, **where),
        lambda **where: table.stats("id", query=query, **where),
        lambda **where: table.date_histogram("day", query=query, **where),
    ]
    empty = [message_of(ask) for ask in asked]
    table.append(pa.Table.from_pylist([ROW], schema=SCHEMA))
    assert [message_of(ask) for ask in asked] == empty
    assert [message_of(lambda ask=ask: ask(where="day = '2020-01-01'")) for ask in asked] == empty
    assert message in empty[0]


def test_a_good_query_finds_nothing_where_nothing_is(table) -> None:
    assert table.search("message:word AND id:[1 TO 5]").num_rows == 0
    assert table.search("word", snippet="message").schema.names[-1] == "_snippet"
    assert table.count("NOT word") == 0
    table.append(pa.Table.from_pylist([ROW], schema=SCHEMA))
    assert table.count("word", where="day IS NULL") == 0


def test_a_bad_query_is_told_where_all_splits_are_bad_too(table) -> None:
    table.append(pa.Table.from_pylist([ROW], schema=SCHEMA))
    (path,) = table.files()["path"].to_pylist()
    Path(table.url, path).unlink()
    assert "there is no field" in message_of(lambda: table.count("nosuch:1", bad_splits="skip"))
    with pytest.warns(BadSplitWarning, match="1 of 1 splits"):
        assert table.count("word", bad_splits="skip") == 0


def test_the_settings_of_a_handle_say_what_its_searches_mean(tmp_path) -> None:
    place = {"cache.disk.path": str(tmp_path / "cache")}
    it.Table.create(tmp_path / "t", SCHEMA, options=place)
    writer = it.Table.open(tmp_path / "t", options={**place, "indexing.typemap.message": "text"})
    writer.append(pa.Table.from_pylist([ROW], schema=SCHEMA))
    assert writer.count("word") == 1
    reader = it.Table.open(tmp_path / "t", options=place)
    assert "the table has no text field" in message_of(lambda: reader.count("word"))
    assert reader.count("message:word") == 0
    assert reader.count(f'message:"{ROW["message"]}"') == 1
