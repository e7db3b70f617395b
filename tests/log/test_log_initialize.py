"""Creating a table: version 0, once, whatever happens."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from tests.conftest import SCHEMA, make_add
from tests.doubles.faulty_store import Fault, FaultyStore, SharedFate
from tests.servers.proxy import careless_proxy

import indextables as it
from indextables.config import Config
from indextables.errors import ConfigError, SchemaError, StorageError, TableExistsError, TableNotFoundError
from indextables.protocol.actions import Metadata, Protocol
from indextables.store import open_store


def test_version_0_holds_one_protocol_and_one_metadata(log) -> None:
    protocol, metadata = log.read_version(0)
    assert isinstance(protocol, Protocol)
    assert isinstance(metadata, Metadata)
    assert (protocol.min_reader_version, protocol.min_writer_version) == (4, 4)
    assert protocol.reader_features == protocol.writer_features == ("avroState", "schemaDeduplication")
    assert log.schema() == SCHEMA
    assert log.versions() == [0]
    assert log.list_files().num_rows == 0


def test_initialising_again_changes_nothing(log) -> None:
    before = log.read_version(0)
    assert log.initialize(SCHEMA) is False
    assert it.TransactionLog(log.url).read_version(0) == before


@pytest.mark.parametrize(
    ("schema", "partition_columns", "what"),
    [
        (pa.schema([("id", pa.int32())]), (), "another schema"),
        (SCHEMA, ("day",), "partitioned by"),
    ],
)
def test_initialising_another_table_in_its_place_is_refused(log, schema, partition_columns, what) -> None:
    with pytest.raises(SchemaError, match=what):
        log.initialize(schema, partition_columns=partition_columns)
    assert log.versions() == [0]


@pytest.mark.parametrize("columns", [("nothing",), ("day", "day"), ("id", "message", "day"), "day"])
def test_partition_columns_must_fit(tmp_path, columns) -> None:
    with pytest.raises(SchemaError):
        it.TransactionLog(tmp_path / "t").initialize(SCHEMA, partition_columns=columns)
    assert not (tmp_path / "t").exists()


def test_spark_json_is_a_schema_too(tmp_path) -> None:
    text = '{"type":"struct","fields":[{"name":"a","type":"long","nullable":false,"metadata":{}}]}'
    log = it.TransactionLog(tmp_path / "t")
    log.initialize(text)
    assert log.schema() == pa.schema([pa.field("a", pa.int64(), nullable=False)])
    assert log.metadata().schema_string == text


def test_a_bad_property_is_refused_before_anything_is_written(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"checkpoint\.interval"):
        it.TransactionLog(tmp_path / "t").initialize(SCHEMA, configuration={"checkpoint.interval": "often"})
    assert not (tmp_path / "t").exists()


def test_nothing_there_is_an_error_with_the_known_words(tmp_path) -> None:
    with pytest.raises(TableNotFoundError, match="No transaction log found"):
        it.TransactionLog(tmp_path / "none").list_files()
    with pytest.raises(FileNotFoundError):
        it.Table.open(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_create_refuses_a_table_that_is_there(tmp_path) -> None:
    it.Table.create(tmp_path / "t", SCHEMA)
    with pytest.raises(TableExistsError):
        it.Table.create(tmp_path / "t", SCHEMA)


class _Overwriting:
    """A server that ignores the condition of a conditional put."""

    def __init__(self, inner) -> None:
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def put_if_absent(self, key: str, data: bytes, *, once: bool = False) -> None:
        self._inner.put(key, data)


def test_a_store_that_ignores_put_if_absent_is_refused(tmp_path) -> None:
    inner = open_store(str(tmp_path / "t"), Config.resolve())
    with pytest.raises(StorageError, match="ignores put-if-absent"):
        it.TransactionLog(tmp_path / "t", store=_Overwriting(inner)).initialize(SCHEMA)
    assert list(inner.list()) == []


@pytest.mark.parametrize(
    "kind", ["ministack", "seaweedfs", "gcs"]
)  # Azure signs the condition: it cannot be taken away
def test_a_server_that_ignores_put_if_absent_is_refused(servers, kind) -> None:
    server = servers(kind)
    url = f"{server.url}/{uuid.uuid4()}"
    with careless_proxy(server.endpoint) as endpoint:
        options = server.behind(endpoint)
        with pytest.raises(StorageError, match="ignores put-if-absent"):
            it.Table.create(url, SCHEMA, options=options)
        assert list(open_store(url, Config.resolve(options=options)).list()) == []
    assert it.Table.create(url, SCHEMA, options=server.options).version == 0


@pytest.mark.parametrize("first", [[Fault.FALSE_CONFLICT], [Fault.FALSE_CONFLICT, Fault.RETRIED]], ids=len)
def test_a_conflict_where_nothing_is_does_not_make_the_probe_fail(tmp_path, first) -> None:
    inner, faults = open_store(str(tmp_path / "t"), Config.resolve()), iter(first)

    def script(call):
        return next(faults, Fault.NONE) if call.verb == "put_if_absent" else Fault.NONE

    assert it.TransactionLog(tmp_path / "t", store=FaultyStore(inner, script)).initialize(SCHEMA) is True
    assert next(faults, None) is None
    assert [meta.key for meta in inner.list()] == ["_transaction_log/00000000000000000000.json"]


@pytest.mark.parametrize(
    "fault", [Fault.ANSWER_LOST, Fault.RETRIED, Fault.DELAYED, Fault.FALSE_CONFLICT, Fault.DROPPED]
)
def test_a_lost_answer_of_version_0_is_settled_by_its_id(fault, tmp_path) -> None:
    inner = open_store(str(tmp_path / "t"), Config.resolve())
    faults = iter([fault])

    def script(call):
        first = call.verb == "put_if_absent" and call.key.endswith("000.json")
        return next(faults, Fault.NONE) if first else Fault.NONE

    fate = SharedFate()
    options = {"transaction.retry.baseDelayMs": 0}
    log = it.TransactionLog(tmp_path / "t", store=FaultyStore(inner, script, fate), options=options)
    assert log.initialize(SCHEMA) is True
    while fate.pending:
        fate.deliver()
    assert it.TransactionLog(tmp_path / "t").versions() == [0]
    assert log.add_files([make_add("a.split")]) == 1


def test_probes_leave_nothing_behind(log) -> None:
    keys = [meta.key for meta in open_store(log.url, Config.resolve()).list()]
    assert keys == ["_transaction_log/00000000000000000000.json"]


@pytest.mark.parametrize("fields", [{"name": 5}, {"description": ["x"]}, {"configuration": {"a": 1}}])
def test_a_table_that_nobody_could_open_is_not_created(tmp_path, fields) -> None:
    with pytest.raises(ConfigError):
        it.TransactionLog(tmp_path / "t").initialize(SCHEMA, **fields)
    assert not (tmp_path / "t").exists()
