"""What stands in the log is what the documents of the format say: hints, counts, definitions, doc mappings."""

from __future__ import annotations

import gzip
import json

import pytest
from tests.conftest import SCHEMA, live_paths, make_add
from tests.foreign_writer import StateWriter

import indextables as it
from indextables.protocol.actions import Metadata, Protocol
from indextables.protocol.doc_mapping import REGISTRY_PREFIX, doc_mapping_hash
from indextables.protocol.schema import schema_to_json
from indextables.protocol.version_file import encode_version

OPTIONS = {
    "checkpoint.interval": 10**6,
    "cache.disk.enabled": "false",
    "cleanup.enabled": "false",
    "state.compaction.tombstoneThreshold": 1.0,
    "state.compaction.afterMerge": "false",
}
KINDS = ["avro", "json", "json-multipart", "parquet"]
MAPPING = json.dumps([{"name": "msg", "type": "text"}])


def opened(table, kind: str = "avro", **options) -> it.TransactionLog:
    in_parts = {"state.format": "json", "checkpoint.maxFileSize": 400}
    chosen = in_parts if kind == "json-multipart" else {"state.format": kind}
    return it.TransactionLog(table, options={**OPTIONS, **chosen, **options})


@pytest.fixture
def table(tmp_path):
    log = opened(tmp_path / "t")
    log.initialize(SCHEMA)
    for number in range(4):
        log.add_files([make_add(f"splits/{number}.split", size=10 + number, doc_mapping_json=MAPPING)])
    return tmp_path / "t"


def hint(table) -> dict:
    return json.loads((table / "_transaction_log" / "_last_checkpoint").read_text())


@pytest.mark.parametrize("damage", [None, b"", b"{", b'{"version": 999}', b'{"version": 1}'])
@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_writes_a_lost_hint_again(table, kind, damage) -> None:
    opened(table, kind).checkpoint()
    before = hint(table)
    path = table / "_transaction_log" / "_last_checkpoint"
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    opened(table, kind).checkpoint()
    found = hint(table)
    assert {**found, "createdTime": 0} == {**before, "createdTime": 0}
    assert found["format"] == ("avro-state" if kind == "avro" else kind)
    assert (found["numFiles"], found["sizeInBytes"]) == (4, 46)


def test_an_older_checkpoint_takes_the_hint_from_no_newer_one(table) -> None:
    log = opened(table)
    log.checkpointer.write(3, log.config)
    log.checkpoint()
    newest = hint(table)
    log.checkpointer.write(3, log.config)
    assert hint(table) == newest


def test_parts_are_named_and_counted(table) -> None:
    opened(table, "json-multipart").checkpoint()
    found = hint(table)
    manifest = json.loads((table / "_transaction_log" / f"{4:020d}.checkpoint.json").read_text())
    assert found["parts"] == len(manifest["parts"]) > 1
    assert found["checkpointId"] == manifest["checkpointId"]
    assert len(live_paths(opened(table, "json-multipart"))) == 4
    assert opened(table, "json-multipart").snapshot().source == "json"


def test_live_and_dead_entries_are_counted(table) -> None:
    log, reader = opened(table), StateWriter(table)

    def counts() -> list[tuple[int, int, int]]:
        state = reader.read_state(log.checkpointer.write(log.snapshot().version, log.config).hint.version)
        assert sum(info["liveEntryCount"] for info in state["manifests"]) == state["numFiles"]
        return [(each["numEntries"], each["liveEntryCount"], each["tombstoneCount"]) for each in state["manifests"]]

    assert counts() == [(4, 4, 0)]
    log.replace_files(["splits/0.split"], [make_add("splits/4.split"), make_add("splits/5.split")])
    assert counts() == [(4, 3, 1), (2, 2, 0)]
    log.add_files([make_add("splits/6.split")])
    assert counts() == [(4, 3, 1), (2, 2, 0), (1, 1, 0)]
    log.set_properties({"note": "nothing of files"})
    assert counts() == [(4, 3, 1), (2, 2, 0), (1, 1, 0)]
    log.replace_files(["splits/1.split", "splits/4.split"], [])
    assert counts() == [(4, 2, 2), (2, 1, 1), (1, 1, 0)]


def test_a_state_holds_the_whole_metadata(table) -> None:
    log, reader = opened(table), StateWriter(table)
    log.set_properties({"note": "kept"})
    log.checkpoint()
    state = reader.read_state(max(reader.states()))
    metadata = json.loads(state["metadata"])["metaData"]
    reference = doc_mapping_hash(MAPPING)
    assert metadata["configuration"] == {REGISTRY_PREFIX + reference: MAPPING, "note": "kept"}
    assert state["schemaRegistry"] == {reference: MAPPING}
    assert metadata["schemaString"] == schema_to_json(SCHEMA)


@pytest.mark.parametrize(("reader_version", "is_inline"), [(None, True), (1, True), (2, True), (3, False), (4, False)])
def test_mappings_are_named_by_reference_from_protocol_3_on(tmp_path, reader_version, is_inline) -> None:
    place = tmp_path / "t" / "_transaction_log"
    place.mkdir(parents=True)
    metadata = Metadata(
        id="x",
        schema_string=schema_to_json(SCHEMA),
        partition_columns=(),
        configuration={REGISTRY_PREFIX + "known": MAPPING},
    )
    protocol = [] if reader_version is None else [Protocol(min_reader_version=reader_version, min_writer_version=2)]
    (place / f"{0:020d}.json").write_bytes(encode_version([*protocol, metadata], compress=False))
    log = opened(tmp_path / "t")
    log.add_files([make_add("a.split", doc_mapping_json=MAPPING), make_add("b.split", doc_mapping_ref="known")])
    lines = [json.loads(line) for line in gzip.decompress((place / f"{1:020d}.json").read_bytes()).splitlines()]
    adds = [line["add"] for line in lines if "add" in line]
    inline = [(add.get("docMappingJson") is not None, "docMappingRef" in add) for add in adds]
    assert inline == ([(True, False)] * 2 if is_inline else [(False, True)] * 2)
    assert opened(tmp_path / "t").list_files()["doc_mapping_json"].to_pylist() == [MAPPING] * 2
