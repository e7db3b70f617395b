"""Damaged, strange and hostile logs: the clear error or the tolerated read, never a wrong list of files."""

from __future__ import annotations

import gzip
import json
import os

import pytest
from tests.conftest import live_paths, make_add

import indextables as it
from indextables.errors import CorruptLogError, ProtocolError
from indextables.protocol.names import version_key


def line(**action) -> bytes:
    return json.dumps(action).encode() + b"\n"


def add_line(path: str, **fields) -> bytes:
    values = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    return line(add={**values, **fields})


@pytest.fixture
def put(log, tmp_path):
    """Write a version file by hand, on top of version 1, which holds `good.split`."""
    log.add_files([make_add("good.split")])

    def write(data: bytes, version: int = 2) -> it.TransactionLog:
        (tmp_path / "table" / version_key(version)).write_bytes(data)
        return it.TransactionLog(log.url)

    return write


TOLERATED = {
    "unknown action": add_line("new.split") + line(future={"a": 1}),
    "unknown field": add_line("new.split", shiny={"deep": [1, 2]}),
    "no final newline": add_line("new.split").rstrip(b"\n"),
    "blank lines": b"\n\n" + add_line("new.split") + b"\n",
    "windows line ends": add_line("new.split").replace(b"\n", b"\r\n"),
    "gzip": gzip.compress(add_line("new.split")),
    "old prefix before gzip": b"\x01\x01" + gzip.compress(add_line("new.split")),
    "two gzip members": gzip.compress(add_line("other.split")) + gzip.compress(add_line("new.split")),
    "ten million characters in a line": add_line("new.split", stats="x" * 10_000_000),
    "a foreign commit line": line(commitInfo={"operation": "WRITE", "timestamp": "yesterday"}) + add_line("new.split"),
    "null for what is optional": add_line("new.split", stats=None, minValues=None, numRecords=None),
    "null partition value": add_line("new.split", partitionValues={"day": None}),
    "absolute path inside": None,
}


@pytest.mark.parametrize("case", TOLERATED)
def test_tolerated(case, put, log) -> None:
    data = TOLERATED[case] or add_line(f"file://{log.url}/new.split")
    reopened = put(data)
    assert "new.split" in live_paths(reopened)
    assert "good.split" in live_paths(reopened)
    assert reopened.add_files([make_add("next.split")]) == 3
    assert {"good.split", "new.split", "next.split"} <= set(live_paths(it.TransactionLog(log.url)))


REFUSED = {
    "zero bytes": (b"", "is empty"),
    "only white space": (b"\n \n", "is empty"),
    "zeros": (b"\0" * 512, "line 1"),
    "truncated last line": (add_line("a.split") + add_line("b.split")[:-9], "line 2"),
    "gzip garbage": (b"\x1f\x8b" + os.urandom(60), "not a whole gzip file"),
    "gzip cut off": (gzip.compress(add_line("a.split") * 50)[:-10], "not a whole gzip file"),
    "gzip with a flipped bit": (None, "not a whole gzip file"),
    "no object": (b"[1, 2]\n", "line 1"),
    "metadata without a schema": (
        line(metaData={"id": "x", "partitionColumns": [], "configuration": {}}),
        "line 1, field `metaData.schemaString`: it is required and missing",
    ),
    "metadata with an empty schema": (
        line(metaData={"id": "x", "schemaString": "", "partitionColumns": [], "configuration": {}}),
        "field `metaData.schemaString`",
    ),
    "add without a size": (
        line(add={"path": "a", "partitionValues": {}, "modificationTime": 1, "dataChange": True}),
        "field `add.size`: it is required and missing",
    ),
    "size as text": (add_line("a.split", size="big"), "field `add.size`"),
    "negative size": (add_line("a.split", size=-1), "field `add.size`"),
    "dotted path": (add_line("../outside.split"), "field `add.path`"),
    "dots inside": (add_line("a/../../outside.split"), "field `add.path`"),
    "absolute path outside": (add_line("/etc/passwd"), "field `add.path`"),
    "other bucket": (add_line("s3://elsewhere/x.split"), "field `add.path`"),
    "path into the log": (add_line("_transaction_log/00000000000000000000.json"), "field `add.path`"),
    "remove with dots": (line(remove={"path": "../x", "dataChange": True}), "field `remove.path`"),
    "two actions in one object": (
        b'{"remove":{"path":"good.split","dataChange":true},"mergeskip":{"path":"p","skipTimestamp":1,'
        b'"reason":"r","operation":"o"}}\n',
        "2 actions",
    ),
    "not utf-8": (b'{"add":{"path":"\xff\xfe"}}\n', "line 1"),
    "nested too deeply": (b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "line 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, put, log) -> None:
    data, what = REFUSED[case]
    if data is None:
        data = bytearray(gzip.compress(add_line("a.split") * 50, mtime=0))
        data[40] ^= 4
    reopened = put(bytes(data))
    for read in (reopened.list_files, reopened.snapshot, lambda: reopened.add_files([make_add("x.split")])):
        with pytest.raises(CorruptLogError) as caught:
            read()
        assert version_key(2) in str(caught.value)
        assert what in str(caught.value)
        assert "hint: " in str(caught.value)
    assert live_paths(reopened, version=1) == ["good.split"]
    assert not os.path.exists(f"{log.url}/{version_key(3)}")


def test_a_plain_file_cut_at_a_line_is_noticed(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "t", options={"transaction.compression.enabled": "false"})
    log.initialize(it.Table.create(tmp_path / "other", log_schema()).schema)
    log.add_files([make_add("a.split"), make_add("b.split")])
    path = tmp_path / "t" / version_key(1)
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 4
    path.write_bytes(b"".join(lines[:2]))
    with pytest.raises(CorruptLogError, match="cut off"):
        it.TransactionLog(tmp_path / "t").list_files()
    path.write_bytes(b"".join([*lines[:2], lines[3]]))
    with pytest.raises(CorruptLogError, match="does not fit the checksum in its last line"):
        it.TransactionLog(tmp_path / "t").list_files()


def log_schema():
    from tests.conftest import SCHEMA

    return SCHEMA


def protocol_line(reader: int, writer: int, **fields) -> bytes:
    return line(protocol={"minReaderVersion": reader, "minWriterVersion": writer, **fields})


def test_protocol_99_is_refused_with_what_to_do(put) -> None:
    log = put(protocol_line(99, 99) + add_line("new.split"))
    with pytest.raises(ProtocolError, match="reader version 99"):
        log.list_files()
    with pytest.raises(ProtocolError, match="upgrade indextables"):
        log.add_files([make_add("x.split")])
    assert log.protocol().min_reader_version == 99
    assert live_paths(log, version=1) == ["good.split"]


def test_a_table_too_new_to_write_stays_readable(put) -> None:
    log = put(protocol_line(4, 5))
    assert live_paths(log) == ["good.split"]
    for write in (
        lambda: log.add_files([make_add("x.split")]),
        lambda: log.overwrite_files([]),
        lambda: log.set_properties({"a": "b"}),
        log.upgrade_protocol,
    ):
        with pytest.raises(ProtocolError, match="writer version 5"):
            write()
    assert log.versions() == [0, 1, 2]


@pytest.mark.parametrize("role", ["readerFeatures", "writerFeatures"])
def test_unknown_features_are_refused(put, role) -> None:
    log = put(protocol_line(3, 3, **{role: ["avroState", "telepathy"]}))
    with pytest.raises(ProtocolError, match="telepathy"):
        log.list_files() if role == "readerFeatures" else log.add_files([make_add("x.split")])


def test_a_table_without_a_protocol_action_is_version_1(tmp_path) -> None:
    directory = tmp_path / "t" / "_transaction_log"
    directory.mkdir(parents=True)
    schema = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
    metadata = {"id": "x", "format": {"provider": "indextables"}, "schemaString": schema, "partitionColumns": []}
    (tmp_path / "t" / version_key(0)).write_bytes(line(metaData={**metadata, "configuration": {}}))
    log = it.TransactionLog(tmp_path / "t")
    assert (log.protocol().min_reader_version, log.protocol().min_writer_version) == (1, 1)
    assert log.add_files([make_add("a.split")]) == 1
    assert log.upgrade_protocol().min_reader_version == 4


def test_a_log_without_metadata_is_an_error(tmp_path) -> None:
    (tmp_path / "t" / "_transaction_log").mkdir(parents=True)
    (tmp_path / "t" / version_key(0)).write_bytes(add_line("a.split"))
    log = it.TransactionLog(tmp_path / "t")
    for read in (log.list_files, log.metadata, log.schema):
        with pytest.raises(CorruptLogError, match="metadata"):
            read()


def test_an_unreadable_schema_is_an_error_where_it_is_needed(put) -> None:
    log = put(line(metaData={"id": "x", "schemaString": "{broken", "partitionColumns": [], "configuration": {}}))
    with pytest.raises(CorruptLogError, match="schema"):
        log.schema()
    assert live_paths(log) == ["good.split"]
