"""`Table.describe_log`: what is in force, from the newest checkpoint on, or every version that is there."""

from __future__ import annotations

import shutil
from pathlib import Path

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
from indextables.maintain.describe import LOG_SCHEMA, describe_log
from indextables.protocol.names import state_keys, version_key


@pytest.fixture
def described(tmp_path) -> it.TransactionLog:
    """Two files, a property, a skip and a checkpoint at version 3; one more file and a removal after it."""
    log = it.TransactionLog(tmp_path / "described")
    log.initialize(SCHEMA, partition_columns=("day",))
    full = {
        "partition_values": {"day": "1"},
        "tags": {"a": "b"},
        "min_values": {"id": "1"},
        "split_tags": ("x", "y"),
        "stats": "{}",
        "num_merge_ops": 2,
    }
    log.add_files([make_add("a.split", **full), make_add("b.split", num_records=None)])
    log.set_properties({"owner": "me"})
    log.record_skipped_file("b.split", reason="footer")
    log.checkpoint()
    log.add_files([make_add("c.split")])
    log.replace_files(["a.split"], [])
    return log


def kinds(table) -> list[tuple[int, str, bool]]:
    columns = ("version", "action_type", "is_checkpoint")
    return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


def test_by_default_the_newest_checkpoint_and_what_follows(described) -> None:
    table = it.Table.open(described.url).describe_log()
    assert table.schema == LOG_SCHEMA
    assert kinds(table) == [
        *[(3, "protocol", True), (3, "metadata", True), (3, "add", True), (3, "add", True), (3, "skip", True)],
        *[(4, "commit_info", False), (4, "add", False)],
        *[(5, "commit_info", False), (5, "remove", False)],
    ]
    assert table["log_file_path"].to_pylist() == [state_keys(3)[0]] * 5 + [version_key(4)] * 2 + [version_key(5)] * 2


def test_everything_is_every_version(described) -> None:
    table = it.Table.open(described.url).describe_log(include_all=True)
    assert table.to_pylist() == described.describe().to_pylist()
    assert set(table["is_checkpoint"].to_pylist()) == {False}
    assert sorted(set(table["version"].to_pylist())) == [0, 1, 2, 3, 4, 5]


def test_rows_of_a_checkpoint_say_the_same_as_those_of_versions(described) -> None:
    places = ("version", "log_file_path", "is_checkpoint")
    in_checkpoint = [row for row in describe_log(described).to_pylist() if row["is_checkpoint"]]
    written = {
        (row["action_type"], row["path"]): row
        for row in describe_log(described, include_all=True).to_pylist()
        if row["version"] <= 3
    }
    assert len(in_checkpoint) == 5
    for row in in_checkpoint:
        same = written[row["action_type"], row["path"]]
        assert [row[name] for name in row if name not in places] == [same[name] for name in row if name not in places]


def test_without_a_checkpoint_both_are_the_same(log) -> None:
    log.add_files([make_add("a.split")])
    assert (
        describe_log(log).to_pylist() == describe_log(log, include_all=True).to_pylist() == log.describe().to_pylist()
    )


def test_versions_that_were_cleaned_up(described) -> None:
    remove_versions(described, below=3)
    log = it.TransactionLog(described.url)
    assert {row[0] for row in kinds(describe_log(log))} == {3, 4, 5}
    assert {row[0] for row in kinds(describe_log(log, include_all=True))} == {3, 4, 5}


def test_a_damaged_checkpoint_is_passed_over(described) -> None:
    described.checkpoint()
    damage_state(described, 5)
    assert kinds(describe_log(it.TransactionLog(described.url)))[0] == (3, "protocol", True)
    damage_state(described, 3)
    log = it.TransactionLog(described.url)
    assert describe_log(log).to_pylist() == log.describe().to_pylist()


@pytest.mark.parametrize(
    ("write", "key"),
    [
        (write_json_checkpoint, f"_transaction_log/{2:020d}.checkpoint.json"),
        (
            lambda log: write_json_checkpoint(log, max_bytes=IN_PARTS),
            f"_transaction_log/{2:020d}.checkpoint.json",
        ),
        (write_parquet_checkpoint, f"_transaction_log/_checkpoints/{2:020d}.checkpoint.parquet"),
        (
            lambda log: write_parquet_checkpoint(log, max_bytes=4_000),
            f"_transaction_log/_checkpoints/{2:020d}.checkpoint.parquet",
        ),
    ],
)
def test_older_formats(log, write, key) -> None:
    log.add_files([make_add(f"{number}.split") for number in range(20)])
    log.record_skipped_file("3.split", reason="footer")
    write(log)
    log.add_files([make_add("later.split")])
    table = describe_log(it.TransactionLog(log.url))
    assert table.num_rows == 2 + 20 + 1 + 2
    assert set(table["log_file_path"].to_pylist()) == {key, version_key(3)}


def test_tables_of_the_original_product(shared) -> None:
    for place in sorted(path for path in (shared / "fixtures/upstream-0.5.4").iterdir() if path.is_dir()):
        table = it.Table.open(place)
        described = table.describe_log()
        adds = [row for row in described.to_pylist() if row["action_type"] == "add"]
        assert sorted(row["path"] for row in adds) == sorted(table.files()["path"].to_pylist())
        assert {row[0] for row in kinds(described)} == {table.version}
        assert [row[1] for row in kinds(table.describe_log(include_all=True))] == ["protocol", "metadata"]


def test_where_nothing_names_the_metadata_the_version_files_are_shown(shared, tmp_path, caplog) -> None:
    shutil.copytree(shared / "fixtures/upstream-0.5.4/01_single_write", tmp_path / "t")
    Path(tmp_path, "t", version_key(0)).unlink()
    assert describe_log(it.TransactionLog(tmp_path / "t")).num_rows == 0
    assert "describing the version files" in caplog.text


def test_a_state_of_a_newer_format_leaves_the_version_files(described, caplog) -> None:
    (Path(described.url) / state_keys(3)[0]).write_text(
        '{"formatVersion":99,"stateVersion":3,"createdAt":1,"numFiles":0,"totalBytes":0,"manifests":[]}'
    )
    log = it.TransactionLog(described.url)
    assert describe_log(log).to_pylist() == log.describe().to_pylist()
    assert "newer than" in caplog.text
