"""`Table.state`: the newest state that can be used, whatever its format, and what is wrong with newer ones."""

from __future__ import annotations

import datetime
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from tests.conftest import SCHEMA, make_add
from tests.maintain.checkpoint_files import (
    IN_PARTS,
    damage_state,
    remove_versions,
    write_json_checkpoint,
    write_parquet_checkpoint,
)

import indextables as it
from indextables.config import Config
from indextables.errors import CheckpointError, ConfigError, ProtocolError
from indextables.maintain.describe import STATE_SCHEMA, describe_state
from indextables.protocol.names import state_keys, version_key

COLUMNS = (
    "table_path format version num_files num_manifests num_tombstones tombstone_ratio total_bytes needs_compaction "
    "num_skipped skipped_files status"
)


def state_of(log: it.TransactionLog) -> dict:
    table = describe_state(it.TransactionLog(log.url))
    assert table.schema == STATE_SCHEMA
    (row,) = table.to_pylist()
    return row


def add_and_checkpoint(log: it.TransactionLog, name: str, num_files: int = 1) -> int:
    """Append files, and write the state of that version on the one before it."""
    version = log.add_files([make_add(f"{name}-{number}.split") for number in range(num_files)])
    log._checkpointer.write(version, log.config)
    return version


def test_the_columns_are_those_of_the_command(log) -> None:
    table = it.Table.open(log.url).state()
    assert table.column_names == COLUMNS.split()
    assert [field.name for field in table.schema.field("skipped_files").type.value_type] == [
        *("path", "reason", "skip_count", "retry_after")
    ]
    assert table.schema == STATE_SCHEMA


def test_without_a_state_it_describes_the_newest_version(log) -> None:
    log.add_files([make_add("a.split"), make_add("b.split", size=50)])
    assert state_of(log) == {
        "table_path": log.url,
        "format": "none",
        "version": 1,
        "num_files": 2,
        "num_manifests": 0,
        "num_tombstones": 0,
        "tombstone_ratio": 0.0,
        "total_bytes": 150,
        "needs_compaction": False,
        "num_skipped": 0,
        "skipped_files": [],
        "status": "OK",
    }


def test_a_state_is_described_as_of_its_version(log) -> None:
    add_and_checkpoint(log, "a", 4)
    add_and_checkpoint(log, "b")
    log.add_files([make_add("later.split")])
    state = state_of(log)
    assert (state["format"], state["version"], state["status"]) == ("avro-state", 2, "OK")
    assert (state["num_files"], state["num_manifests"], state["total_bytes"]) == (5, 2, 500)


def test_tombstones_and_whether_they_are_too_many(log) -> None:
    add_and_checkpoint(log, "a", 10)
    log.replace_files(["a-0.split"], [])
    log._checkpointer.write(2, Config.resolve(options={"state.compaction.afterMerge": "false"}))
    state = state_of(log)
    assert (state["num_files"], state["num_tombstones"], state["tombstone_ratio"]) == (9, 1, 0.1)
    assert state["needs_compaction"] is False
    log.set_properties({"state.compaction.tombstoneThreshold": "0.05"})
    assert state_of(log)["needs_compaction"] is True
    option = {"state.compaction.tombstoneThreshold": 0.5}
    assert describe_state(it.TransactionLog(log.url, options=option))["needs_compaction"].to_pylist() == [False]


def test_too_many_manifests(tmp_path) -> None:
    log = it.TransactionLog(tmp_path, options={"state.compaction.maxManifests": 5})
    log.initialize(SCHEMA)
    for number in range(4):
        add_and_checkpoint(log, str(number))
    assert describe_state(log)["needs_compaction"].to_pylist() == [False]
    tighter = it.TransactionLog(tmp_path, options={"state.compaction.maxManifests": 2})
    assert describe_state(tighter)["needs_compaction"].to_pylist() == [True]
    assert describe_state(tighter)["num_manifests"].to_pylist() == [4]
    it.Table.open(tmp_path).compact()
    assert describe_state(tighter)["needs_compaction"].to_pylist() == [False]


def test_the_skips_are_those_in_force_now(log) -> None:
    add_and_checkpoint(log, "a", 3)
    log.record_skipped_file("a-1.split", reason="footer", cooldown_hours=1)
    log.record_skipped_file("a-1.split", reason="footer again", cooldown_hours=2)
    state = state_of(log)
    assert (state["version"], state["num_skipped"]) == (1, 1)
    (skip,) = state["skipped_files"]
    assert (skip["path"], skip["reason"], skip["skip_count"]) == ("a-1.split", "footer again", 2)
    assert skip["retry_after"] > datetime.datetime.now(datetime.UTC)
    table = it.Table.open(log.url)
    assert table.skipped_files().to_pylist() == state["skipped_files"]
    log.replace_files(["a-1.split"], [])
    assert table.state()["num_skipped"].to_pylist() == [0]


@pytest.mark.parametrize(
    ("write", "max_bytes", "kind"),
    [
        (write_json_checkpoint, None, "json"),
        (write_json_checkpoint, IN_PARTS, "json-multipart"),
        (write_parquet_checkpoint, None, "parquet"),
        (write_parquet_checkpoint, 4_000, "parquet"),
    ],
)
def test_older_formats(log, write, max_bytes, kind) -> None:
    log.add_files([make_add(f"{number}.split", tags={"parts": "none"}) for number in range(20)])
    log.record_skipped_file("3.split", reason="footer")
    write(log, **({} if max_bytes is None else {"max_bytes": max_bytes}))
    remove_versions(log, below=2)
    state = state_of(log)
    assert (state["format"], state["version"], state["num_files"], state["total_bytes"]) == (kind, 2, 20, 2000)
    assert (state["num_manifests"], state["num_tombstones"], state["needs_compaction"]) == (0, 0, False)
    assert (state["num_skipped"], state["status"]) == (1, "OK")


def test_a_damaged_newest_state_is_passed_over(log) -> None:
    add_and_checkpoint(log, "a", 3)
    add_and_checkpoint(log, "b")
    damage_state(log, 2)
    state = state_of(log)
    assert (state["version"], state["num_files"], state["format"]) == (1, 3, "avro-state")
    assert state["status"] == "the state of version 2 is damaged and passed over"
    damage_state(log, 1)
    state = state_of(log)
    assert (state["version"], state["num_files"], state["format"]) == (2, 4, "none")
    assert state["status"] == (
        "the state of version 2 is damaged and passed over; the state of version 1 is damaged and passed over"
    )


def test_a_state_whose_manifest_is_gone_is_passed_over(log, caplog) -> None:
    add_and_checkpoint(log, "a", 3)
    add_and_checkpoint(log, "b")
    _, newest = sorted(Path(log.url, "_transaction_log/manifests").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    newest.unlink()
    uncached = it.TransactionLog(log.url, options={"cache.disk.enabled": "false"})
    (state,) = describe_state(uncached).to_pylist()
    assert (state["version"], state["status"]) == (1, "the state of version 2 is damaged and passed over")
    assert f"{newest.name}` because it does not exist" in caplog.text


def test_a_damaged_state_beside_a_good_checkpoint_of_the_same_version(log) -> None:
    add_and_checkpoint(log, "a", 3)
    write_json_checkpoint(log)
    damage_state(log, 1)
    state = state_of(log)
    assert (state["format"], state["version"], state["status"]) == ("json", 1, "OK")


def test_a_state_of_a_former_table_is_passed_over(log, tmp_path) -> None:
    add_and_checkpoint(log, "a", 3)
    kept = shutil.copytree(Path(log.url, "_transaction_log"), tmp_path / "kept")
    shutil.rmtree(log.url)
    again = it.TransactionLog(log.url)
    again.initialize(SCHEMA)
    again.add_files([make_add("new.split")])
    for name in ("manifests", f"state-v{1:020d}"):
        shutil.copytree(kept / name, Path(log.url, "_transaction_log", name))
    state = state_of(log)
    assert (state["format"], state["version"], state["num_files"]) == ("none", 1, 1)
    assert state["status"] == "the state of version 1 belongs to another version and is passed over"


@pytest.mark.parametrize("name", ["01_single_write", "05_many_transactions", "12_partition_drop"])
def test_tables_of_the_original_product(shared, name) -> None:
    place = shared / "fixtures" / "upstream-0.5.4"
    expected = json.loads((place / "expected.json").read_text())[name]
    state = state_of(it.TransactionLog(place / name))
    assert (state["format"], state["status"]) == ("avro-state", "OK")
    assert {key: state[key] for key in ("version", "num_files", "total_bytes")} == {
        key: expected[key] for key in ("version", "num_files", "total_bytes")
    }


def test_a_table_that_stands_in_a_damaged_state_alone_is_still_described(shared, tmp_path) -> None:
    shutil.copytree(shared / "fixtures/upstream-0.5.4/05_many_transactions", tmp_path / "t")
    (tmp_path / "t" / state_keys(15)[0]).write_bytes(b"Obj\x01" + b"\xff" * 100)
    state = state_of(it.TransactionLog(tmp_path / "t"))
    assert (state["format"], state["version"]) == ("avro-state", 14)
    passed_over, unreadable = state["status"].split("; ")
    assert passed_over == "the state of version 15 is damaged and passed over"
    assert unreadable.startswith("cannot read `")


def test_a_table_of_which_nothing_can_be_read(log) -> None:
    add_and_checkpoint(log, "a", 3)
    damage_state(log, 1)
    remove_versions(log, below=2)
    with pytest.raises(CheckpointError, match="cannot be read"):
        describe_state(it.TransactionLog(log.url))


def test_a_hole_in_the_log_is_told(log) -> None:
    add_and_checkpoint(log, "a", 3)
    for name in ("b", "c", "d"):
        log.add_files([make_add(f"{name}.split")])
    Path(log.url, version_key(3)).unlink()
    state = state_of(log)
    assert (state["version"], state["status"]) == (1, "version 3 is missing, and later versions are not read")


def test_a_state_of_a_newer_format_asks_for_a_newer_library(log) -> None:
    add_and_checkpoint(log, "a")
    (Path(log.url) / state_keys(1)[0]).write_text(
        '{"formatVersion":99,"stateVersion":1,"createdAt":1,"numFiles":0,"totalBytes":0,"manifests":[]}'
    )
    with pytest.raises(ProtocolError, match="newer than"):
        describe_state(it.TransactionLog(log.url))


def test_a_log_whose_bases_are_made_by_somebody_else(log) -> None:
    class NoStates:
        def load(self, candidates):
            return None

        def txn_id_at(self, version):
            return None

        def hinted_version(self):
            return None

    with pytest.raises(ConfigError, match="the caller supplies"):
        describe_state(it.TransactionLog(log.url, bases=NoStates()))


def test_a_handle_at_an_older_version_describes_the_newest_state(log) -> None:
    add_and_checkpoint(log, "a", 3)
    assert it.Table.open(log.url, version=0).state()["version"].to_pylist() == [1]


def test_skips_have_one_schema(log) -> None:
    skipped = it.Table.open(log.url).skipped_files()
    assert STATE_SCHEMA.field("skipped_files").type.value_type == pa.struct(list(skipped.schema))
