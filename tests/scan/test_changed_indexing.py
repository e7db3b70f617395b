"""Splits that are indexed in another way than the table says: every search means what the table says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import QueryError, SchemaError
from indextables.log.commit.operations import ChangeMetadata

SCHEMA = pa.schema(
    [("id", pa.int64()), ("day", pa.string()), ("msg", pa.string()), ("note", pa.string()), ("n", pa.int64())]
)
OLD = [
    {"id": 1, "day": "a", "msg": "foo bar", "note": "x", "n": 5},
    {"id": 2, "day": "a", "msg": "foo", "note": "foo", "n": 6},
    {"id": 3, "day": "b", "msg": "Foo, the BAR", "note": None, "n": None},
    {"id": 4, "day": "b", "msg": None, "note": "x", "n": 5},
    {"id": 5, "day": "b", "msg": "!!", "note": "x y", "n": 7},
]
NEW = [{**row, "id": row["id"] + 10} for row in OLD]


def rows(given) -> pa.Table:
    return pa.Table.from_pylist(given, schema=SCHEMA)


def options(place: Path) -> dict[str, str]:
    return {"cache.disk.path": str(place / "cache")}


def changed_table(place: Path, before=None, after=None, **created) -> it.Table:
    """Rows that were appended before and after a change of properties."""
    table = it.Table.create(place / "changed", SCHEMA, properties=before or {}, options=options(place), **created)
    table.append(rows(OLD))
    table.set_properties(after or {"indexing.msg": "text"})
    table.append(rows(NEW))
    return table


def plain_table(place: Path, properties, **created) -> it.Table:
    """The same rows under the properties in force from the start."""
    table = it.Table.create(place / "plain", SCHEMA, properties=properties, options=options(place), **created)
    table.append(rows(OLD))
    table.append(rows(NEW))
    return table


def found(table: it.Table, query: str, **asked) -> list[int]:
    return table.search(query, **asked)["id"].to_pylist()


CHANGES = [
    ({}, {"indexing.msg": "text"}),
    ({"indexing.msg": "text"}, {"indexing.msg": "string"}),
    ({"indexing.msg": "text"}, {"indexing.msg": None, "indexing.note": "text"}),
    ({"indexing.msg": "text", "indexing.tokenizer.msg": "raw"}, {"indexing.tokenizer.msg": None}),
    ({"indexing.msg": "text", "indexing.text.indexRecordOption": "basic"}, {"indexing.text.indexRecordOption": None}),
    ({"indexing.msg": "text", "indexing.text.maxTokenLength": "2"}, {"indexing.text.maxTokenLength": "255"}),
    ({"indexing.msg": "text"}, {"indexing.fastfields": "msg,n"}),
    ({"indexing.msg": "text", "indexing.fastfields": "msg,n"}, {"indexing.fastfields": None}),
    ({"indexing.msg": "json"}, {"indexing.msg": "text"}),
]
QUERIES = [
    "foo",
    "msg:foo",
    'msg:"foo bar"',
    "msg:fo*",
    "msg:*",
    "NOT msg:*",
    "NOT msg:foo",
    "msg:foo AND n:5",
    "n:5",
    "note:x",
    "note:x OR msg:bar",
    "msg:IN [foo bar]",
    "msg:[bar TO foo]",
    "_exists_:note",
    "*",
]


def outcome(ask) -> object:
    try:
        return ask()
    except (QueryError, SchemaError) as error:
        return error.message


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_answers_are_those_of_a_table_that_was_always_indexed_so(tmp_path, before, after) -> None:
    changed = changed_table(tmp_path, before, after)
    kept = {key: value for key, value in {**before, **after}.items() if value is not None}
    plain = plain_table(tmp_path, kept)
    for query in QUERIES:
        for ask in (
            lambda table, q=query: table.search(q).to_pylist(),
            lambda table, q=query: table.count(q),
            lambda table, q=query: table.count(q, where="id <> 2"),
            lambda table, q=query: table.search(q, score=True, limit=4).to_pylist(),
            lambda table, q=query: table.search(q, order_by="id", descending=True, limit=3, score=True).to_pylist(),
            lambda table, q=query: table.aggregate("n", query=q).to_pylist(),
            lambda table, q=query: table.aggregate("msg", query=q).to_pylist(),
            lambda table, q=query: table.histogram("n", interval=2, query=q).to_pylist(),
            lambda table, q=query: table.stats("n", query=q).to_pylist(),
            lambda table, q=query: table.search(q, snippet="msg").to_pylist(),
        ):
            assert outcome(lambda ask=ask: ask(changed)) == outcome(lambda ask=ask: ask(plain)), query


def test_a_bare_word_is_looked_for_in_rows_of_before_too(tmp_path) -> None:
    assert found(changed_table(tmp_path), "foo") == [1, 2, 3, 11, 12, 13]


def test_an_old_version_means_what_it_said(tmp_path) -> None:
    table = changed_table(tmp_path)
    old = it.Table.open(table.url, version=1, options=options(tmp_path))
    assert found(old, "msg:foo") == [2]
    with pytest.raises(QueryError, match="no text field"):
        old.search("foo")


def test_a_handle_that_moves_on_changes_its_meaning(tmp_path) -> None:
    table = it.Table.create(tmp_path / "t", SCHEMA, options=options(tmp_path))
    table.append(rows(OLD))
    assert found(table, "msg:foo") == [2]
    table.set_properties({"indexing.msg": "text"})
    assert found(table, "msg:foo") == [1, 2, 3]
    table.set_properties({"indexing.msg": None})
    assert found(table, "msg:foo") == [2]


def test_rows_are_indexed_again_once_and_only_where_the_query_needs_it(tmp_path, monkeypatch) -> None:
    table = changed_table(tmp_path)
    made: list[str] = []
    monkeypatch.setattr(
        "indextables.split.search.searcher.index_again", _noting("indextables.split.reindexing", "index_again", made)
    )
    assert found(table, "n:5 AND note:x") == [1, 4, 11, 14]
    assert made == []
    assert found(table, "foo") == [1, 2, 3, 11, 12, 13]
    again = it.Table.open(table.url, options=options(tmp_path))
    assert found(again, "foo AND n:5") == [1, 11]
    assert len(made) == 1


def _noting(module: str, name: str, made: list[str]):
    import importlib

    real = getattr(importlib.import_module(module), name)

    def noting(split, *arguments):
        made.append(split.key)
        return real(split, *arguments)

    return noting


@pytest.mark.parametrize(
    "properties",
    [
        {"indexing.mesg": "text"},
        {"indexing.typemap.mesg": "text"},
        {"spark.indextables.indexing.tokenizer.mesg": "raw"},
        {"indexing.fastfields": "id,mesg"},
        {"indexing.n": "text"},
        {"indexing.tokenizer.msg": "whitespace"},
    ],
)
def test_a_property_that_does_not_fit_the_columns_is_refused_when_it_is_set(tmp_path, properties) -> None:
    table = it.Table.create(tmp_path / "t", SCHEMA)
    with pytest.raises(SchemaError, match=r"mesg|`n`|`msg`"):
        table.set_properties(properties)
    with pytest.raises(SchemaError):
        it.TransactionLog(table.url).set_properties(properties)
    assert table.refresh().version == 0
    table.set_properties({"indexing.MSG": "text", "indexing.tokenizer.msg": "whitespace"})
    table.append(rows(OLD))
    assert found(table, "foo") == [1, 2]


def test_a_property_that_does_not_fit_can_be_taken_away(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "t", options=options(tmp_path))
    log.initialize(SCHEMA, configuration={"indexing.mesg": "text", "indexing.msg": "text"})
    table = it.Table.open(tmp_path / "t", options=options(tmp_path))
    assert table.search().num_rows == 0
    table.set_properties({"checkpoint.interval": "7"})
    table.set_properties({"indexing.mesg": None})
    table.append(rows(OLD))
    assert found(table, "foo") == [1, 2, 3]


def test_settings_of_a_handle_that_fit_another_table_do_not_stop_a_search(tmp_path) -> None:
    table = changed_table(tmp_path)
    other = it.Table.open(table.url, options={**options(tmp_path), "indexing.other": "text"})
    assert found(other, "foo") == [1, 2, 3, 11, 12, 13]


@pytest.mark.parametrize(
    "key", ["indexing.msg", "indexing.typemap.msg", "indexing.MSG", "spark.indextables.indexing.msg"]
)
def test_a_property_replaces_every_other_spelling_of_it(tmp_path, key) -> None:
    table = it.Table.create(tmp_path / "t", SCHEMA, indexing={"msg": "text"}, options=options(tmp_path))
    table.append(rows(OLD))
    table.set_properties({key: "string"})
    assert found(table, "msg:foo") == [2]
    table.set_properties({"indexing.msg": "text"})
    table.append(rows(NEW))
    assert found(table, "msg:foo") == [1, 2, 3, 11, 12, 13]
    table.set_properties({key: None})
    assert found(table, "msg:foo") == [2, 12]


def test_properties_that_disagree_can_be_mended(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "t", options=options(tmp_path))
    log.initialize(SCHEMA)
    log.commit(ChangeMetadata({"indexing.msg": "text", "indexing.typemap.msg": "string"}))
    table = it.Table.open(tmp_path / "t", options=options(tmp_path))
    table.set_properties({"indexing.msg": "text"})
    table.append(rows(OLD))
    assert found(table, "foo") == [1, 2, 3]
