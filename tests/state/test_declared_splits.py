"""Our splits in the log: declared as a feature, and no field of an add used in another meaning."""

from __future__ import annotations

import gzip
import json

import fastavro
import msgspec
import pyarrow as pa
import pytest
from tests.conftest import SCHEMA

import indextables as it
from indextables.protocol.actions import Metadata, Protocol
from indextables.protocol.features import PARQUET_SPLITS
from indextables.protocol.schema import schema_to_json
from indextables.protocol.version_file import encode_version

OPTIONS = {"checkpoint.interval": 10**6, "cache.disk.enabled": "false"}
OFFSETS = ("footerStartOffset", "footerEndOffset", "hotcacheStartOffset", "hotcacheLength")
ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def table(tmp_path) -> it.Table:
    table = it.Table.create(tmp_path / "t", ROWS.schema, options=OPTIONS)
    table.append(ROWS)
    return table


def actions(place, version: int) -> list[dict]:
    data = (place / "_transaction_log" / f"{version:020d}.json").read_bytes()
    return [json.loads(line) for line in gzip.decompress(data).splitlines()]


def places(log: it.TransactionLog) -> list[tuple]:
    files = log.list_files()
    names = ["size", "footer_start_offset", "footer_end_offset", "has_footer_offsets"]
    return [tuple(row.values()) for row in files.select(names).to_pylist()]


def test_no_offset_of_a_split_of_ours_stands_in_the_log(table, tmp_path) -> None:
    (add,) = [line["add"] for line in actions(tmp_path / "t", 1) if "add" in line]
    assert not set(OFFSETS) & add.keys()
    assert not add.get("hasFooterOffsets", False)
    table.checkpoint()
    for path in (tmp_path / "t" / "_transaction_log" / "manifests").glob("*.avro"):
        with path.open("rb") as file:
            for entry in fastavro.reader(file):
                assert [entry[name] for name in OFFSETS] == [None] * len(OFFSETS)
                assert entry["hasFooterOffsets"] is False


@pytest.mark.parametrize("kind", ["avro", "json", "parquet"])
def test_the_footer_is_known_to_our_readers(table, kind) -> None:
    fresh = it.TransactionLog(table.url, options=OPTIONS)
    ((size, start, end, has_offsets),) = expected = places(fresh)
    assert 0 < start < end == size
    assert has_offsets
    log = it.TransactionLog(table.url, options={**OPTIONS, "state.format": kind})
    assert log.checkpoint().version >= 1
    assert places(log) == expected
    fresh = it.TransactionLog(table.url, options=OPTIONS)
    assert fresh.snapshot().source != "replay"
    assert places(fresh) == expected
    assert table.fsck().to_pylist() == []


def test_adds_with_offsets_of_ours_as_they_were_are_read(table) -> None:
    (add,) = [action for action in table.log.read_version(1) if isinstance(action, it.actions.Add)]
    tags = {key: value for key, value in add.tags.items() if not key.endswith("footerOffset")}
    table.log.replace_files([add.path], [msgspec.structs.replace(add, tags=tags)])
    assert places(it.TransactionLog(table.url))[0][1:] == (add.footer_start_offset, add.size, True)
    fresh = it.Table.open(table.url, options=OPTIONS)
    assert fresh.search()["id"].to_pylist() == [1, 2, 3]
    assert fresh.fsck().to_pylist() == []


@pytest.mark.parametrize("text", ["", "x", "-1", "9" * 30, "99999999"])
def test_a_tag_that_says_nothing_is_no_offset(table, text) -> None:
    (add,) = [action for action in table.log.read_version(1) if isinstance(action, it.actions.Add)]
    tags = {**add.tags, "indextables.footerOffset": text}
    table.log.replace_files([add.path], [msgspec.structs.replace(add, tags=tags)])
    for _ in range(2):
        fresh = it.Table.open(table.url, options=OPTIONS)
        assert places(fresh.log)[0][1:] == (None, None, False)
        assert fresh.search()["id"].to_pylist() == [1, 2, 3]
        fresh.checkpoint()


def test_a_new_table_declares_them(table, tmp_path) -> None:
    (protocol,) = [line["protocol"] for line in actions(tmp_path / "t", 0) if "protocol" in line]
    assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (4, 4)
    assert PARQUET_SPLITS in protocol["readerFeatures"]
    assert PARQUET_SPLITS in protocol["writerFeatures"]
    assert not any("protocol" in line for line in actions(tmp_path / "t", 1))


def test_a_log_without_splits_of_ours_declares_nothing(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "t")
    log.initialize(SCHEMA)
    assert log.protocol().reader_features == ("avroState", "schemaDeduplication")


@pytest.mark.parametrize(("version", "is_declared"), [(4, True), (3, True), (2, False)])
def test_the_first_split_of_ours_is_declared_with_it(tmp_path, version, is_declared) -> None:
    place = tmp_path / "t"
    (place / "_transaction_log").mkdir(parents=True)
    schema = schema_to_json(ROWS.schema)
    metadata = Metadata(id="x", schema_string=schema, partition_columns=(), configuration={})
    protocol = Protocol(min_reader_version=version, min_writer_version=version)
    first = encode_version([protocol, metadata], compress=True)
    (place / "_transaction_log" / f"{0:020d}.json").write_bytes(first)
    table = it.Table.open(place, options=OPTIONS)
    table.append(ROWS)
    table.append(ROWS)
    declared = [any("protocol" in line for line in actions(place, number)) for number in (1, 2)]
    assert declared == [is_declared, False]
    features = it.TransactionLog(place).protocol().reader_features
    assert features == ((PARQUET_SPLITS,) if is_declared else None)
    assert it.Table.open(place, options=OPTIONS).count() == 6
