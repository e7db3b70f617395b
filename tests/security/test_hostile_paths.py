"""Paths that leave the table are refused wherever a table can name a file, and cost nothing to refuse."""

from __future__ import annotations

import dataclasses
import json
import time

import pytest
from tests.protocol.checkpoint_examples import VERSION, example_content

import indextables as it
from indextables.errors import CheckpointCorruptionError, ConfigError, CorruptLogError
from indextables.location import parse_location
from indextables.protocol.avro.state_manifest import resolve_manifest_path
from indextables.protocol.checkpoint.json_checkpoint import decode_json_checkpoint, json_checkpoint_key
from indextables.protocol.checkpoint.parquet_checkpoint import decode_parquet_checkpoint, encode_parquet_checkpoint
from indextables.protocol.file_columns import from_wire
from indextables.protocol.names import version_key
from indextables.protocol.paths import normalize_path
from indextables.store.base import check_key

LEAVING = [
    "../outside.split",
    "a/../../outside.split",
    "a/..",
    "/etc/passwd",
    "//etc/passwd",
    "file:///etc/passwd",
    "file:/etc/passwd",
    "s3://elsewhere/x.split",
    "s3a://elsewhere/x.split",
    "hdfs://elsewhere/x.split",
    "https://elsewhere/x.split",
    "a\0b.split",
    "a\nb.split",
    "a\x1b[2Jb.split",
    "half\ud800.split",
    "./a.split",
    "a//b.split",
    "_transaction_log/00000000000000000000.json",
    "x" * 5000,
]
TABLES = [parse_location("/data/table"), parse_location("s3://bucket/table"), parse_location("az://box/table")]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.family)
@pytest.mark.parametrize("path", LEAVING, ids=range(len(LEAVING)))
def test_a_path_that_leaves_the_table_is_refused(path, table) -> None:
    with pytest.raises(ValueError, match=r"it |its address"):
        normalize_path(path, table)


@pytest.mark.parametrize("path", ["%2e%2e/x.split", "a\\..\\x.split", "..x/y.split", "a/...", "~/x.split", "a;rm -rf"])
def test_what_only_looks_like_leaving_is_a_name_like_any_other(path) -> None:
    """Nothing is ever decoded: `%2e%2e` is a directory of that very name, inside the table."""
    for table in TABLES:
        assert normalize_path(path, table) == path
        assert check_key(path) == path


def adds_with(path: str) -> dict:
    content = json.loads(json.dumps({"metaData": {"id": "1", "schemaString": "{}"}}))
    add = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    return {**content, "version": VERSION, "add": [add]}


@pytest.mark.parametrize("path", LEAVING[:-1], ids=range(len(LEAVING) - 1))
def test_checkpoints_may_not_name_it_either(path) -> None:
    table = TABLES[0]
    with pytest.raises(CheckpointCorruptionError):
        decode_json_checkpoint(json.dumps(adds_with(path)).encode(), json_checkpoint_key(VERSION), table)
    if "\ud800" in path:
        return  # Arrow has no such text
    files = example_content(1).files
    named = files.set_column(files.column_names.index("path"), files.schema.field("path"), [[path]])
    with pytest.raises(ValueError, match=r"it |its address"):
        from_wire(named, table)
    written = encode_parquet_checkpoint(_with_files(named), codec="snappy", max_bytes=1 << 20, created_time_ms=1)
    with pytest.raises(CheckpointCorruptionError):
        decode_parquet_checkpoint({written[0].key: written[0].data}, table)


def _with_files(files):
    return dataclasses.replace(example_content(1), files=files)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "manifests/../../x", "s3://b/x", "a\\b", "a\0"])
def test_manifests_lie_in_the_log(path) -> None:
    with pytest.raises(CheckpointCorruptionError):
        resolve_manifest_path(path, 3)


@pytest.mark.parametrize("path", ["../../victim.split", "{outside}", "file://{outside}"])
def test_no_command_touches_what_lies_outside(tmp_path, log, path) -> None:
    """A version that names a file outside is damaged, for reading, purging and repairing alike."""
    victim = tmp_path / "victim.split"
    victim.write_bytes(b"precious")
    named = path.replace("{outside}", str(victim))
    add = {"path": named, "partitionValues": {}, "size": 8, "modificationTime": 1, "dataChange": True}
    remove = {"path": named, "dataChange": True, "deletionTimestamp": 1}
    place = tmp_path / "table" / version_key(1)
    for action in ({"add": add}, {"remove": remove}):
        place.write_text(json.dumps(action) + "\n")
        table = it.TransactionLog(log.url)
        with pytest.raises(CorruptLogError, match="is refused because"):
            table.list_files()
        with pytest.raises(CorruptLogError):
            it.Table.open(log.url).purge(older_than="0 hours")
    assert victim.read_bytes() == b"precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table", "victim.split"]


@pytest.mark.parametrize(
    "text", ["foo://" + ":" * 300_000, "foo://" + ":@" * 100_000, "s3://" + "a/" * 200_000 + "../x"]
)
def test_long_addresses_are_refused_at_once(text) -> None:
    started = time.process_time()
    with pytest.raises((ConfigError, ValueError)):
        normalize_path(text, TABLES[1])
    with pytest.raises(ConfigError):
        parse_location(text)
    assert time.process_time() - started < 5


def test_a_long_path_does_not_make_a_long_message(tmp_path, log) -> None:
    add = {"path": "s3://" + "x" * 1_000_000, "partitionValues": {}, "size": 8, "modificationTime": 1}
    (tmp_path / "table" / version_key(1)).write_text(json.dumps({"add": {**add, "dataChange": True}}) + "\n")
    with pytest.raises(CorruptLogError) as caught:
        it.TransactionLog(log.url).list_files()
    assert len(str(caught.value)) < 2000
