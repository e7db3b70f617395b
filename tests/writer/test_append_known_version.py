"""Writes for the version that a handle knows: one list call, and still right where another writer changed the table."""

from __future__ import annotations

import itertools
import shutil

import pyarrow as pa
import pytest
from tests.doubles.metered_store import MeteredStore

import indextables as it
from indextables.config import Config
from indextables.errors import CommitConflictError, SchemaError, TableNotFoundError
from indextables.store import open_store

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string())])
OTHER = pa.schema([("id", pa.int64()), ("text", pa.string())])
_places = itertools.count()


def metered(url: str) -> tuple[it.Table, MeteredStore]:
    store = MeteredStore(open_store(url, Config.resolve()))
    return it.Table(it.TransactionLog(url, store=store)), store


@pytest.fixture
def url() -> str:
    place = f"memory://append-{next(_places)}/table"
    it.Table.create(place, SCHEMA, indexing={"message": "string"}).append([{"id": 0, "message": "first row"}])
    return place


@pytest.fixture
def other_url(tmp_path) -> str:
    place = str(tmp_path / "table")
    it.Table.create(place, SCHEMA).append([{"id": 0}])
    return place


@pytest.mark.parametrize(
    "data",
    [
        [{"id": 1, "message": "one"}],
        {"id": [1], "message": ["one"]},
        pa.table({"id": [1], "message": ["one"]}),
        pa.record_batch({"id": [1], "message": ["one"]}),
    ],
    ids=["rows", "columns", "table", "batch"],
)
def test_one_list_call(url, data) -> None:
    table, store = metered(url)
    store.calls.clear()
    assert table.append(data) == table.version == 2
    assert table.append(data) == table.version == 3
    assert store.calls == {"put_file": 2, "put_if_absent": 2, "list": 2}
    assert table.count() == 3


def test_commits_of_others_are_no_conflict(url) -> None:
    table, _ = metered(url)
    it.open(url).append([{"id": 1}])
    assert table.append([{"id": 2}]) == 3
    assert sorted(table.search()["id"].to_pylist()) == [0, 1, 2]


def test_new_properties_are_in_force(url) -> None:
    table, _ = metered(url)
    it.open(url).set_properties({"indexing.typemap.message": "text"})
    table.append([{"id": 1, "message": "second row"}])
    added = table.log.read_version(table.version)[-1]
    assert [field.kind for field in fields_of(table, added) if field.column == "message"] == ["text"]


def fields_of(table: it.Table, add: it.actions.Add):
    from indextables.split.index.fields import FieldMap

    return FieldMap.from_json(table.snapshot.doc_mappings[add.doc_mapping_ref]).fields


def test_a_new_schema_is_in_force(tmp_path) -> None:
    place = tmp_path / "table"
    table = it.Table.create(place, SCHEMA)
    table.append([{"id": 0}])
    shutil.rmtree(place)
    it.Table.create(place, OTHER).append([{"id": 0, "text": "zero"}])
    table.append([{"id": 1, "text": "one"}])
    assert sorted(table.search()["text"].to_pylist()) == ["one", "zero"]
    assert not table.fsck().num_rows


def test_rows_that_fit_only_the_known_schema_are_refused(tmp_path) -> None:
    place = tmp_path / "table"
    table = it.Table.create(place, SCHEMA)
    table.append([{"id": 0}])
    shutil.rmtree(place)
    it.Table.create(place, OTHER).append([{"id": 0}])
    with pytest.raises(SchemaError, match="`message`"):
        table.append([{"id": 1, "message": "one"}])
    assert not list(place.rglob("*.split"))[1:]
    assert it.open(place).count() == 1


def test_rows_that_fit_no_schema_are_refused_once(url) -> None:
    table, store = metered(url)
    store.calls.clear()
    with pytest.raises(SchemaError, match="`wrong`"):
        table.append([{"id": 1, "wrong": 2}])
    assert set(store.calls) <= {"list", "delete_many"}


def test_a_table_that_is_gone_stays_gone(tmp_path) -> None:
    place = tmp_path / "table"
    table = it.Table.create(place, SCHEMA)
    table.append([{"id": 0}])
    shutil.rmtree(place)
    with pytest.raises(TableNotFoundError):
        table.append([{"id": 1}])
    assert not [path for path in place.rglob("*") if path.is_file()]


def test_a_stream_is_written_for_the_newest_version(url) -> None:
    table, store = metered(url)
    it.open(url).set_properties({"indexing.typemap.message": "text"})
    store.calls.clear()
    table.append(iter([{"id": 1, "message": "second row"}]))
    assert store.calls["list"] == 2
    assert table.count() == 2


def test_an_overwrite_of_an_expected_version_still_fails(url) -> None:
    table, _ = metered(url)
    it.open(url).append([{"id": 1}])
    with pytest.raises(CommitConflictError, match="not at version 1"):
        table.overwrite([{"id": 2}], if_version=1)
    assert it.open(url).count() == 2
