"""Manifests: file tables survive the round trip in every codec, and two decoders agree on them."""

from __future__ import annotations

import copy
import io
import json
import tempfile

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.checkpoint_examples import example_content, file_tables, flips, plain_add
from tests.protocol.protocol_examples import TABLE

from indextables.errors import CheckpointCorruptionError, CheckpointWriteError
from indextables.protocol.avro import avro_container, file_entry
from indextables.protocol.avro.file_entry import (
    FILE_ENTRY_SCHEMA,
    decode_manifest,
    encode_manifest,
    has_our_schema,
    is_our_name,
    manifest_name,
    verify_manifest,
    write_manifest,
)
from indextables.protocol.file_columns import WIRE_NAMES, from_wire
from indextables.protocol.file_table import FILES_SCHEMA, AddedFile, files_table

CODECS = ("zstd", "snappy", "none")
EXAMPLE = example_content(3).files
MAPS = [field.name for field in FILES_SCHEMA if pa.types.is_map(field.type)]


def decoded(data: bytes) -> pa.Table:
    with tempfile.NamedTemporaryFile(suffix=".avro") as file:
        file.write(data)
        file.flush()
        return decode_manifest(file.name)


def records_of(files: pa.Table) -> list[dict]:
    """The rows as another library has them."""
    rows = files.to_pylist()
    for row in rows:
        for name in MAPS:
            row[name] = None if row[name] is None else dict(row[name])
    return [{WIRE_NAMES[name]: value for name, value in row.items()} for row in rows]


def foreign(records: list[dict], codec: str = "null", **changes) -> bytes:
    """A manifest of another writer: `changes` give a field another type, or None to leave it out."""
    schema = copy.deepcopy(FILE_ENTRY_SCHEMA)
    schema["fields"] = [field for field in schema["fields"] if changes.get(field["name"], "") is not None]
    for field in schema["fields"]:
        if field["name"] in changes:
            field["type"] = changes[field["name"]]
            field.pop("default", None)
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec=codec)
    return out.getvalue()


@settings(max_examples=60)
@given(file_tables, st.sampled_from(CODECS))
def test_round_trip_and_another_library_agrees(files, codec):
    data = encode_manifest(files, codec=codec)
    assert list(fastavro.reader(io.BytesIO(data))) == records_of(files)
    assert decoded(data).equals(files)


@settings(max_examples=40)
@given(file_tables, st.sampled_from(["null", "deflate", "snappy", "zstandard"]))
def test_another_librarys_manifests(files, codec):
    assert decoded(foreign(records_of(files), codec)).equals(files)


def test_numbers_of_every_width():
    numbers = [sign * (2**bits + step) for bits in range(63) for step in (-1, 0, 1) for sign in (1, -1)]
    numbers += [2**63 - 1, -(2**63)]
    at = FILES_SCHEMA.get_field_index("delete_opstamp")
    rows = files_table(AddedFile(plain_add(number), 1, 1) for number in range(len(numbers)))
    files = rows.set_column(at, FILES_SCHEMA.field(at), pa.array(numbers, pa.int64()))
    assert decoded(encode_manifest(files, codec="none"))["delete_opstamp"].to_pylist() == numbers


def test_many_blocks_slices_and_chunks(monkeypatch):
    monkeypatch.setattr(file_entry, "_ROWS_PER_BLOCK", 3)
    rows = [AddedFile(plain_add(number), 1, 1) for number in range(20)]
    files = pa.concat_tables([EXAMPLE, files_table(rows).slice(5, 11), EXAMPLE.slice(1)])
    data = encode_manifest(files, codec="zstd")
    assert decoded(data).equals(files.combine_chunks())
    header = avro_container.decode_header(data)
    assert [block.num_records for block in avro_container.blocks(data, header)] == [3, 3, 3, 3, 3, 1]


def test_wide_rows_make_small_blocks(monkeypatch):
    monkeypatch.setattr(file_entry, "_MAX_BLOCK_BYTES", 1000)
    files = files_table(AddedFile(plain_add(number), 1, 1) for number in range(50))
    data = encode_manifest(files, codec="none")
    assert len(list(avro_container.blocks(data, avro_container.decode_header(data)))) > 4
    assert decoded(data).equals(files)


def test_no_files_at_all():
    data = encode_manifest(FILES_SCHEMA.empty_table(), codec="zstd")
    assert decoded(data).equals(FILES_SCHEMA.empty_table())


def test_writing_to_a_file_gives_the_same_bytes():
    out = io.BytesIO()
    write_manifest(EXAMPLE, out, codec="zstd")
    assert out.getvalue() == encode_manifest(EXAMPLE, codec="zstd")


def test_a_null_where_none_may_be_is_refused():
    at = FILES_SCHEMA.get_field_index("size")
    files = EXAMPLE.set_column(at, pa.field("size", pa.int64()), pa.nulls(3, pa.int64()))
    with pytest.raises(CheckpointWriteError, match="size"):
        encode_manifest(files, codec="none")


def test_null_partition_values_are_left_out():
    at = FILES_SCHEMA.get_field_index("partition_values")
    kind = FILES_SCHEMA.field(at).type
    files = EXAMPLE.set_column(at, FILES_SCHEMA.field(at), pa.array([[("a", None), ("b", "1")], [], []], kind))
    assert decoded(encode_manifest(files, codec="none"))["partition_values"].to_pylist() == [[("b", "1")], [], []]


def test_null_partition_values_of_others_are_left_out():
    records = records_of(EXAMPLE)
    records[0]["partitionValues"] = {"a": None, "b": "1"}
    data = foreign(records, partitionValues={"type": "map", "values": ["null", "string"]})
    assert decoded(data)["partition_values"].to_pylist() == [[("b", "1")], [], []]


def test_fields_are_resolved_by_name():
    left_out = ("tags", "hotcacheStartOffset", "hotcacheLength", "timeRangeStart", "timeRangeEnd", "docMappingJson")
    records = [{**record, "companionFastFieldMode": "HYBRID"} for record in records_of(EXAMPLE)]
    schema = copy.deepcopy(FILE_ENTRY_SCHEMA)
    schema["fields"] = [field for field in reversed(schema["fields"]) if field["name"] not in left_out]
    schema["fields"].append({"name": "companionFastFieldMode", "type": ["null", "string"], "field-id": 100})
    for field in schema["fields"]:
        if field["name"] == "numRecords":
            field["type"] = ["null", "int"]
    out = io.BytesIO()
    fastavro.writer(out, schema, records)
    found = decoded(out.getvalue())
    assert found.schema == FILES_SCHEMA
    assert found["tags"].null_count == 3
    assert found["num_records"].to_pylist() == [1000, None, None]


@pytest.mark.parametrize("name", ["path", "size", "addedAtVersion"])
def test_a_required_field_must_be_there(name):
    with pytest.raises(CheckpointCorruptionError, match=f"lack the field `{name}`"):
        decoded(foreign(records_of(EXAMPLE), **{name: None}))


def test_a_missing_flag_means_false():
    assert decoded(foreign(records_of(EXAMPLE), hasFooterOffsets=None))["has_footer_offsets"].to_pylist() == [False] * 3


@pytest.mark.parametrize("name", ["size", "numRecords", "footerEndOffset"])
def test_numbers_below_zero_are_refused(name):
    records = records_of(EXAMPLE)
    records[0][name] = -1
    with pytest.raises(CheckpointCorruptionError, match=name):
        decoded(foreign(records))


def test_names_are_hashes_of_the_content():
    data = encode_manifest(EXAMPLE, codec="zstd")
    name = manifest_name(data)
    assert is_our_name(name)
    assert is_our_name(f"_transaction_log/manifests/{name}")
    assert len(name) == len("manifest-.avro") + 32
    verify_manifest(f"_transaction_log/manifests/{name}", data)
    verify_manifest("manifest-3673dda9.avro", b"another writer's name says nothing")


def test_every_flipped_bit_is_noticed_before_decoding():
    data = encode_manifest(EXAMPLE, codec="zstd")
    name = manifest_name(data)
    for damaged in flips(data):
        with pytest.raises(CheckpointCorruptionError, match=name):
            verify_manifest(name, damaged)


def test_every_truncation_is_noticed_even_without_a_hash():
    data = encode_manifest(EXAMPLE, codec="zstd")
    header = avro_container.decode_header(data)
    for length in range(len(data)):
        if length != header.end:
            with pytest.raises(CheckpointCorruptionError):
                decoded(data[:length])


def test_equal_tables_give_equal_bytes():
    assert encode_manifest(EXAMPLE, codec="zstd") == encode_manifest(EXAMPLE.combine_chunks(), codec="zstd")


def test_only_our_own_schema_is_ours():
    assert has_our_schema(encode_manifest(EXAMPLE, codec="zstd"))
    assert not has_our_schema(foreign(records_of(EXAMPLE)))
    assert not has_our_schema(b"no manifest")


def test_places_with_patterns_in_their_names(tmp_path):
    path = tmp_path / "a b[x]*" / "c%20d?.bin"
    path.parent.mkdir()
    path.write_bytes(encode_manifest(EXAMPLE, codec="zstd"))
    assert decode_manifest(str(path)).equals(EXAMPLE)


def test_ids_and_names_are_those_of_the_format():
    ids = {field["name"]: field["field-id"] for field in FILE_ENTRY_SCHEMA["fields"]}
    assert FILE_ENTRY_SCHEMA["namespace"] == "io.indextables.spark.transaction.avro"
    assert (ids["path"], ids["tags"], ids["hotcacheLength"], ids["deleteOpstamp"]) == (100, 114, 124, 137)
    assert len(set(ids.values())) == len(ids) == len(FILES_SCHEMA)


def test_paths_become_relative():
    paths = ["s3a://bucket/table/x.split", "day=1/y.split", "s3://bucket/table/day%3D1/z.split"]
    files = EXAMPLE.set_column(0, FILES_SCHEMA.field(0), pa.array(paths, pa.string()))
    found = from_wire(files, TABLE)["path"].to_pylist()
    assert found[:2] == ["x.split", "day=1/y.split"]
    assert from_wire(EXAMPLE, TABLE) is EXAMPLE


@pytest.mark.parametrize("path", ["../x", "/x", "a//b", "", ".", "_transaction_log/x", "a\x01", "s3://other/x", "a/.."])
def test_paths_outside_the_table_are_refused(path):
    files = EXAMPLE.slice(0, 1).set_column(0, FILES_SCHEMA.field(0), pa.array([path], pa.string()))
    with pytest.raises(ValueError, match="refused"):
        from_wire(files, TABLE)


def test_the_foreign_tables_manifests(shared):
    tables = shared / "fixtures" / "upstream-0.5.4"
    expected = json.loads((tables / "expected.json").read_text())
    for name in ("01_single_write", "04_partitioned", "05_many_transactions", "16_with_skip_actions"):
        manifests = sorted((tables / name / "_transaction_log" / "manifests").glob("*.avro"))
        files = pa.concat_tables(decode_manifest(str(path)) for path in manifests)
        assert not any(is_our_name(path.name) for path in manifests)
        table = expected[name]
        assert sorted(files["path"].to_pylist()) == table["paths"]
        assert sum(files["num_records"].to_pylist()) == table["num_records"]
        assert sum(files["size"].to_pylist()) == table["total_bytes"]
        values = {json.dumps(dict(row)) for row in files["partition_values"].to_pylist()}
        assert sorted(values) == table["partition_values"]


def in_java(kind):
    """The type as Java's library annotates it."""
    match kind:
        case "string":
            return {"type": "string", "avro.java.string": "String"}
        case list():
            return [in_java(each) for each in kind]
        case {"type": "map"}:
            return {**kind, "avro.java.string": "String", "values": in_java(kind["values"])}
        case {"type": "array"}:
            return {**kind, "items": in_java(kind["items"])}
    return kind


@pytest.mark.parametrize("spell", [in_java, lambda kind: kind[::-1] if isinstance(kind, list) else kind])
def test_types_as_others_spell_them(spell):
    changes = {field["name"]: spell(field["type"]) for field in FILE_ENTRY_SCHEMA["fields"]}
    assert decoded(foreign(records_of(EXAMPLE), **changes)).equals(EXAMPLE)
