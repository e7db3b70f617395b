"""Handles of tables: how they open, what they say of a table, and what they are to Python."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from tests.table.logs_table import SCHEMA, make_logs, rows

import indextables as it
from indextables.errors import ConfigError, RetentionError, TableNotFoundError


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> str:
    return make_logs(tmp_path_factory.mktemp("tables") / "logs").url


def test_a_table_is_opened_by_its_class_and_by_a_function(url) -> None:
    for open_table in (it.Table, it.open, it.Table.open):
        assert (open_table(url).version, len(open_table(url))) == (2, 4)
        assert len(open_table(url, version=1)) == 3
        assert len(open_table(url, version=0)) == 0
        created = it.open(url).history()["timestamp"].to_pylist()[-1]
        assert open_table(url, timestamp=created).version == 0
        assert isinstance(open_table(url), it.Table)


def test_a_path_object_opens_a_table(url, tmp_path) -> None:
    from pathlib import Path

    assert len(it.Table(Path(url.removeprefix("file://")))) == 4
    with pytest.raises(TableNotFoundError):
        it.Table(tmp_path / "none")
    with pytest.raises(RetentionError):
        it.Table(url, version=9)
    with pytest.raises(ConfigError, match="give one of them"):
        it.Table(url, version=1, timestamp="2026-01-01")


def test_an_open_log_and_its_snapshot_make_a_table(url) -> None:
    log = it.TransactionLog(url)
    assert it.Table(log).version == 2
    assert it.Table(log, version=1).version == 1
    assert it.Table(log, log.snapshot(version=0)).version == 0
    assert it.Table(log).log is log
    for wrong in (
        lambda: it.Table(url, 1),
        lambda: it.Table(url, log.snapshot()),
        lambda: it.Table(log, log.snapshot(), version=1),
        lambda: it.Table(log, log.snapshot(), timestamp=0),
        lambda: it.Table(log, options={"a": "b"}),
    ):
        with pytest.raises(ConfigError, match="cannot open"):
            wrong()


def test_a_version_in_the_second_place_is_explained(url) -> None:
    with pytest.raises(ConfigError) as refused:
        it.Table(url, 1)
    assert "version=" in refused.value.hint


def test_what_a_handle_says(url) -> None:
    table = it.open(url)
    assert table.columns == SCHEMA.names
    assert table.indexing == {"id": "int", "at": "int", "level": "string", "message": "text", "day": "string"}
    assert table.columns is not table.columns
    assert table.schema == SCHEMA


def test_the_indexing_in_force_is_told(url) -> None:
    assert it.open(url, options={"indexing.typemap.level": "text"}).indexing["level"] == "text"


def test_a_table_without_rows_is_no_nothing(tmp_path) -> None:
    table = it.Table.create(tmp_path / "empty", SCHEMA)
    assert len(table) == 0
    assert table  # `if table:` asks for a handle
    table.append(rows())
    assert len(table) == 4
    assert len(it.open(table.url, version=0)) == 0


def test_truth_costs_no_request(url, monkeypatch) -> None:
    table = it.open(url)
    table._known = None
    monkeypatch.setattr(table._log, "snapshot", lambda: pytest.fail("the log was read"))
    assert table


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_pickled_handle_stays_at_its_version(url, version) -> None:
    table = pickle.loads(pickle.dumps(it.Table(url, version=version)))
    assert type(table) is it.Table
    assert (table.version, len(table)) == (version, (0, 3, 4)[version])
    assert table.refresh().version == 2
    assert table.to_arrow().num_rows == 4


def test_a_handle_is_not_iterated_by_mistake(url) -> None:
    with pytest.raises(TypeError, match="not iterable"):
        list(it.open(url))


def test_heads(url) -> None:
    table = it.open(url)
    assert table.head().num_rows == 4
    assert table.head(2)["id"].to_pylist() == [1, 2]
    assert table.head(0) == SCHEMA.empty_table()
    assert table.head(100).schema == SCHEMA
    assert it.open(url, version=0).head() == SCHEMA.empty_table()
    for wrong in (-1, True, False, "5", 2.0):
        with pytest.raises(ConfigError, match="expected a whole number"):
            table.head(wrong)


def test_other_names_do_the_same(url) -> None:
    table = it.open(url)
    assert table.value_counts("level", where="id > 1") == table.aggregate("level", where="id > 1")
    assert table.vacuum(dry_run=True).schema == table.purge(dry_run=True).schema
    assert table.optimize(dry_run=True) == table.merge_splits(dry_run=True)


def test_tables_with_unknown_numbers_of_records_are_counted(tmp_path) -> None:
    table = make_logs(tmp_path / "logs")
    adds = [action for action in table.log.read_version(2) if isinstance(action, it.actions.Add)]
    import msgspec

    table.log.overwrite_files([msgspec.structs.replace(add, num_records=None) for add in adds])
    assert table.refresh().num_records == 0
    assert len(table) == 1
    table.append(rows(1, 2, 3))
    assert (len(table), table.count(where="day = '2026-01-02'")) == (4, 2)


def test_rows_are_counted_by_the_log_alone(url, monkeypatch) -> None:
    table = it.open(url)
    monkeypatch.setattr(type(table._opened), "get", lambda *_, **__: pytest.fail("a split was opened"))
    assert (len(table), table.count(where="day = '2026-01-02'")) == (4, 2)


def test_schemas_are_given_without_rows(url) -> None:
    assert pa.schema(it.open(url)) == SCHEMA
