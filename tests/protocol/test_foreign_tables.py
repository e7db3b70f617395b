"""Tables that the original product wrote: their version files and hints are read."""

from __future__ import annotations

import json

import pytest

import indextables as it
from indextables.location import parse_location
from indextables.protocol.actions import Metadata, Protocol
from indextables.protocol.names import version_key
from indextables.protocol.version_file import decode_version, encode_version

COLUMNS = {
    "01_single_write": ("id", "text", "score"),
    "04_partitioned": ("id", "date", "text", "score"),
    "05_many_transactions": ("id", "text"),
    "12_partition_drop": ("id", "date", "text"),
    "16_with_skip_actions": ("id", "text"),
}
PROTOCOL = Protocol(min_reader_version=4, min_writer_version=4)


@pytest.fixture(params=COLUMNS)
def table(request, shared):
    return shared / "fixtures" / "upstream-0.5.4" / request.param


def check_metadata(metadata: Metadata, name: str) -> None:
    assert isinstance(metadata, Metadata)
    assert tuple(field["name"] for field in json.loads(metadata.schema_string)["fields"]) == COLUMNS[name]
    assert metadata.partition_columns == (("date",) if "date" in COLUMNS[name] else ())
    assert metadata.configuration == {}
    assert (metadata.format.provider, metadata.format.options) == ("indextables", {})
    assert metadata.name is None
    assert metadata.created_time > 1_700_000_000_000


def test_version_0_is_decoded(table) -> None:
    data = (table / version_key(0)).read_bytes()
    assert data.startswith(b"\x01\x01\x1f\x8b")
    actions = decode_version(data, 0, parse_location(str(table)))
    protocol, metadata = actions
    assert protocol == PROTOCOL
    check_metadata(metadata, table.name)
    for compress in (False, True):
        assert decode_version(encode_version(actions, compress=compress), 0, parse_location("s3://b/t")) == actions


def test_the_hint_is_read(table) -> None:
    expected = json.loads((table.parent / "expected.json").read_text())
    hint = it.TransactionLog(table).last_checkpoint()
    assert hint.format == "avro-state"
    assert hint.state_dir == f"state-v{hint.version:020d}"
    assert (table / "_transaction_log" / hint.state_dir / "_manifest.avro").is_file()
    assert (hint.version, hint.num_files, hint.size_in_bytes) == tuple(
        expected[table.name][name] for name in ("version", "num_files", "total_bytes")
    )
