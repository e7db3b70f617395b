"""`Table.checkpoint` and `Table.compact`: one command with two names."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.conftest import SCHEMA, live_paths, make_add
from tests.maintain.checkpoint_files import damage_state

import indextables as it
from indextables.errors import TableNotFoundError
from indextables.maintain import checkpoint as checkpoint_module
from indextables.maintain.checkpoint import CHECKPOINT_SCHEMA, make_checkpoint
from indextables.protocol.checkpoint.last_checkpoint import LastCheckpoint
from indextables.protocol.names import version_key

COLUMNS = "table_path status checkpoint_version num_actions num_files protocol_version is_multi_part"


@pytest.mark.parametrize("name", ["checkpoint", "compact"])
def test_one_row_of_the_columns_of_the_command(log, name) -> None:
    log.add_files([make_add(f"{number}.split") for number in range(3)])
    log.record_skipped_file("1.split", reason="footer")
    table = it.Table.open(log.url)
    made = getattr(table, name)()
    assert made.schema == CHECKPOINT_SCHEMA
    assert made.column_names == COLUMNS.split()
    assert made.to_pylist() == [
        {
            "table_path": log.url,
            "status": "SUCCESS",
            "checkpoint_version": 2,
            "num_actions": 6,
            "num_files": 3,
            "protocol_version": 4,
            "is_multi_part": False,
        }
    ]
    assert table.state()["format"].to_pylist() == ["avro-state"]


def test_the_handle_moves_to_the_checkpoint(log) -> None:
    log.add_files([make_add("a.split")])
    table = it.Table.open(log.url)
    log.replace_files(["a.split"], [make_add("b.split")])
    log._checkpointer.write(2, log.config)
    log.add_files([make_add("c.split")])
    log._checkpointer.write(3, log.config)
    made = table.checkpoint()
    assert made["checkpoint_version"].to_pylist() == [4]
    assert (table.version, table.num_files) == (4, 2)
    assert table.history(limit=1)["operation"].to_pylist() == ["COMPACT"]
    assert table.compact().to_pylist() == made.to_pylist()
    (state,) = table.state().to_pylist()
    assert (state["num_manifests"], state["num_tombstones"]) == (1, 0)


def test_a_handle_at_an_older_version_moves_too(log) -> None:
    log.add_files([make_add("a.split")])
    table = it.Table.open(log.url, version=0)
    assert table.checkpoint()["num_files"].to_pylist() == [1]
    assert table.version == 1


def test_a_table_without_files(log) -> None:
    (made,) = make_checkpoint(log).to_pylist()
    assert (made["checkpoint_version"], made["num_files"], made["num_actions"]) == (0, 0, 2)


def test_a_damaged_state_is_replaced_in_a_version_of_its_own(log) -> None:
    log.add_files([make_add("a.split")])
    log.checkpoint()
    damage_state(log, 1)
    table = it.Table.open(log.url)
    assert table.checkpoint()["checkpoint_version"].to_pylist() == [2]
    assert table.state()["status"].to_pylist() == ["OK"]
    assert live_paths(table.log) == ["a.split"]


def test_an_older_protocol_is_raised_and_named(log) -> None:
    Path(log.url, version_key(1)).write_bytes(b'{"protocol":{"minReaderVersion":2,"minWriterVersion":2}}\n')
    (made,) = make_checkpoint(it.TransactionLog(log.url)).to_pylist()
    assert (made["checkpoint_version"], made["protocol_version"]) == (2, 4)


@pytest.mark.parametrize(("parts", "expected"), [(None, False), (1, False), (2, True)])
def test_parts_are_what_the_hint_says(log, monkeypatch, parts, expected) -> None:
    monkeypatch.setattr(
        checkpoint_module.TransactionLog, "checkpoint", lambda self: LastCheckpoint(version=0, parts=parts)
    )
    assert make_checkpoint(log)["is_multi_part"].to_pylist() == [expected]


def test_tables_of_the_original_product_are_compacted(shared, tmp_path) -> None:
    shutil.copytree(shared / "fixtures/upstream-0.5.4/05_many_transactions", tmp_path / "t")
    table = it.Table.open(tmp_path / "t")
    before = (table.num_files, table.num_records)
    made = table.checkpoint()
    assert made["checkpoint_version"].to_pylist() == [16]
    assert (table.num_files, table.num_records) == before


def test_a_table_that_is_not_there(tmp_path) -> None:
    with pytest.raises(TableNotFoundError, match="No transaction log found"):
        make_checkpoint(it.TransactionLog(tmp_path / "nothing"))


def test_a_checkpoint_needs_no_version_files_below_it(log) -> None:
    it.Table.open(log.url).checkpoint()
    Path(log.url, version_key(0)).unlink()
    assert it.Table.open(log.url).schema == SCHEMA
