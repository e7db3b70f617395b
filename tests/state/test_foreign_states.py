"""Tables that the original product wrote, which commits in states alone: they open, list, and go on."""

from __future__ import annotations

import json
import os
import shutil

import fastavro
import pytest
from tests.conftest import SCHEMA, live_paths, make_add
from tests.foreign_writer import StateWriter, VersionWriter

import indextables as it
from indextables.errors import CheckpointError, CorruptLogError, ProtocolError
from indextables.protocol.schema import schema_to_json

TABLES = ["01_single_write", "04_partitioned", "05_many_transactions", "12_partition_drop", "16_with_skip_actions"]


@pytest.fixture(params=TABLES)
def table(request, shared, tmp_path):
    """A copy of one table, and what is expected of it."""
    source = shared / "fixtures" / "upstream-0.5.4"
    shutil.copytree(source / request.param, tmp_path / "table")
    return tmp_path / "table", json.loads((source / "expected.json").read_text())[request.param]


def partition_values(snapshot) -> list[str]:
    return sorted(
        {json.dumps(dict(values), sort_keys=True) for values in snapshot.files["partition_values"].to_pylist()}
    )


@pytest.mark.parametrize("optimized", ["true", "false"])
def test_they_are_read_exactly(table, optimized) -> None:
    url, expected = table
    log = it.TransactionLog(url, options={"transaction.useOptimized": optimized})
    snapshot = log.snapshot()
    assert snapshot.version == expected["version"]
    assert snapshot.num_files == expected["num_files"]
    assert snapshot.num_records == expected["num_records"]
    assert snapshot.total_bytes == expected["total_bytes"]
    assert sorted(snapshot.files["path"].to_pylist()) == sorted(expected["paths"])
    assert partition_values(snapshot) == sorted(expected["partition_values"])
    assert set(snapshot.files["doc_mapping_ref"].to_pylist()) <= set(snapshot.doc_mappings)
    assert (log.protocol().min_reader_version, log.metadata().format.provider) == (4, "indextables")
    assert log.versions() == [0]


def test_every_version_with_a_state_is_reachable(table) -> None:
    url, expected = table
    log = it.TransactionLog(url)
    counts = [log.snapshot(version=version).num_files for version in range(expected["version"] + 1)]
    assert counts[0] == 0
    assert counts[-1] == expected["num_files"]
    assert log.snapshot(timestamp="2030-01-01").version == expected["version"]


def test_a_commit_continues_them(table) -> None:
    url, expected = table
    log = it.TransactionLog(url)
    assert log.checkpoint().version == expected["version"] + 1
    assert log.add_files([make_add("splits/split-new.split", num_records=7)]) == expected["version"] + 2
    first = sorted(expected["paths"])[0]
    assert log.replace_files([first], [make_add("splits/split-merged.split")]) == expected["version"] + 3
    log.set_properties({"note": "ours"})
    for handle in (log, it.TransactionLog(url), it.TransactionLog(url, options={"transaction.useOptimized": "false"})):
        snapshot = handle.snapshot()
        assert snapshot.version == expected["version"] + 4
        assert set(snapshot.files["path"].to_pylist()) == (
            set(expected["paths"]) - {first} | {"splits/split-new.split", "splits/split-merged.split"}
        )
        assert snapshot.metadata.configuration["note"] == "ours"
    assert live_paths(log, version=expected["version"]) == sorted(expected["paths"])
    log.overwrite_files([])
    assert live_paths(it.TransactionLog(url)) == []


def test_two_writers_continue_them_one_after_the_other(table) -> None:
    url, expected = table
    handles = [it.TransactionLog(url), it.TransactionLog(url)]
    for handle in handles:
        handle.snapshot()
    handles[0].upgrade_protocol()
    versions = [handles[number % 2].add_files([make_add(f"splits/{number}.split")]) for number in range(4)]
    assert versions == [expected["version"] + number for number in range(2, 6)]


def test_they_are_not_written_before_they_are_taken_over(table) -> None:
    url, expected = table
    log = it.TransactionLog(url)
    writes = (
        lambda: log.add_files([make_add("splits/split-new.split")]),
        lambda: log.overwrite_files([]),
        lambda: log.set_properties({"note": "ours"}),
        lambda: log.replace_files(sorted(expected["paths"])[:1], [make_add("splits/split-merged.split")]),
    )
    for write in writes:
        with pytest.raises(ProtocolError, match="CHECKPOINT INDEXTABLES"):
            write()
    assert log.versions() == [0]
    log.checkpoint()
    assert log.versions() == [0, expected["version"] + 1]
    writes[0]()
    assert "splits/split-new.split" in live_paths(it.TransactionLog(url))


def test_a_damaged_manifest_gives_no_wrong_list(table) -> None:
    url, _ = table
    for manifest in (url / "_transaction_log" / "manifests").glob("*.avro"):
        manifest.write_bytes(manifest.read_bytes()[:-30])
    with pytest.raises((CheckpointError, CorruptLogError)):
        it.TransactionLog(url).list_files()


def test_a_damaged_newest_state_is_an_error_never_an_older_table(table) -> None:
    url, expected = table
    state = url / "_transaction_log" / f"state-v{expected['version']:020d}" / "_manifest.avro"
    state.write_bytes(b"Obj\x01" + b"\xff" * 100)
    with pytest.raises(CheckpointError, match="which cannot be read"):
        it.TransactionLog(url).list_files()
    with pytest.raises(CheckpointError, match="which cannot be read"):
        it.TransactionLog(url).add_files([])


def test_without_version_0_there_is_no_schema(table) -> None:
    url, _ = table
    (url / "_transaction_log" / "00000000000000000000.json").unlink()
    with pytest.raises(CorruptLogError, match="version 0"):
        it.TransactionLog(url).list_files()


# States without version files, or without definitions

METADATA = {
    "id": "550e8400-e29b-41d4-a716-446655440000",
    "format": {"provider": "indextables", "options": {}},
    "schemaString": schema_to_json(SCHEMA),
    "partitionColumns": [],
    "configuration": {"note": "theirs"},
    "createdTime": 1704067200000,
}


@pytest.fixture
def purged(tmp_path):
    """A table of which another engine has left one state, with its metadata, and no version file."""
    writer = StateWriter(tmp_path / "t")
    writer.log.mkdir(parents=True)
    writer.write_state(41, None, ["splits/a.split", "splits/b.split"], metadata=METADATA)
    return tmp_path / "t"


def as_json(table) -> None:
    """The state in the form of JSON."""
    (path,) = table.glob("_transaction_log/state-v*/_manifest.avro")
    with path.open("rb") as file:
        record = next(iter(fastavro.reader(file)))
    path.with_suffix(".json").write_text(json.dumps(record))
    path.unlink()


@pytest.mark.parametrize("change", [None, as_json])
@pytest.mark.parametrize("options", [{}, {"transaction.useOptimized": "false"}, {"checkpoint.enabled": "false"}])
def test_a_state_with_metadata_needs_no_version_file(purged, change, options) -> None:
    if change is not None:
        change(purged)
    log = it.TransactionLog(purged, options=options)
    assert live_paths(log) == ["splits/a.split", "splits/b.split"]
    assert log.snapshot().version == 41
    assert log.metadata().configuration["note"] == "theirs"
    assert (log.protocol().min_reader_version, log.protocol().min_writer_version) == (4, 4)
    assert log.checkpoint().version == 42
    assert log.add_files([make_add("splits/c.split")]) == 43
    assert live_paths(it.TransactionLog(purged)) == ["splits/a.split", "splits/b.split", "splits/c.split"]


def test_a_protocol_that_only_a_state_names_is_obeyed(purged) -> None:
    writer = StateWriter(purged)
    (path,) = purged.glob("_transaction_log/state-v*/_manifest.avro")
    record = {**writer.read_state(41), "protocolVersion": 5}
    path.with_suffix(".json").write_text(json.dumps(record))
    path.unlink()
    with pytest.raises(ProtocolError, match="reader version 5"):
        it.TransactionLog(purged).list_files()


def test_definitions_are_the_last_before_a_state_without_them(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "t", options={"checkpoint.interval": 10**6})
    log.initialize(SCHEMA)
    log.set_properties({"note": "first"})
    log.set_properties({"note": "last"})
    VersionWriter(tmp_path / "t").commit(["splits/theirs.split"])
    other = it.TransactionLog(tmp_path / "t")
    assert live_paths(other) == ["splits/theirs.split"]
    assert other.metadata().configuration["note"] == "last"
    for handle in (log, other):
        assert handle.protocol().reader_features == log.protocol().reader_features
        assert handle.snapshot().metadata.configuration["note"] == "last"


def test_definitions_in_an_older_state_count(purged) -> None:
    writer = StateWriter(purged)
    newer = {**METADATA, "configuration": {"note": "newer"}}
    writer.commit(["splits/c.split"], metadata=newer)
    base = {**writer.read_state(42), "metadata": None}
    writer.write_state(43, base, ["splits/d.split"])
    assert it.TransactionLog(purged).metadata().configuration["note"] == "newer"


def test_versions_that_hold_definitions_of_a_state_stay(tmp_path) -> None:
    options = {"checkpoint.interval": 10**6, "cleanup.enabled": "true", "cache.disk.enabled": "false"}
    log = it.TransactionLog(tmp_path / "t", options=options)
    log.initialize(SCHEMA)
    log.set_properties({"note": "last"})
    writer = VersionWriter(tmp_path / "t")
    for number in range(4):
        writer.commit([f"splits/{number}.split"])
    for path in (tmp_path / "t").rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    log.checkpoint()
    assert it.TransactionLog(tmp_path / "t").metadata().configuration["note"] == "last"
    assert it.TransactionLog(tmp_path / "t").snapshot(version=4).metadata.configuration["note"] == "last"
