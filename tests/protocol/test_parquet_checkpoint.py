"""Parquet checkpoints: ours hold everything, and what the first writers of this format left is understood."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.checkpoint_examples import VERSION, contents, example_content, flips
from tests.protocol.protocol_examples import TABLE

from indextables.errors import CheckpointCorruptionError, CheckpointWriteError
from indextables.protocol.checkpoint import parquet_checkpoint
from indextables.protocol.checkpoint.parquet_checkpoint import (
    ParquetSidecar,
    decode_parquet_checkpoint,
    decode_parquet_sidecar,
    encode_parquet_checkpoint,
    parquet_checkpoint_key,
    parquet_sidecar_key,
)
from indextables.protocol.checkpoint_content import CheckpointContent

KEY = parquet_checkpoint_key(VERSION)
SIDECAR_KEY = parquet_sidecar_key(VERSION)
MAP = pa.map_(pa.string(), pa.string())
FIRST_WRITERS = pa.schema(
    [
        ("path", pa.string()),
        ("partitionValues", MAP),
        ("size", pa.int64()),
        ("numRecords", pa.int64()),
        ("minValues", MAP),
        ("maxValues", MAP),
        ("metadataId", pa.string()),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("format", MAP),
        ("actionType", pa.string()),
    ]
)
METADATA_ROW = {
    "actionType": "metadata",
    "metadataId": "1f2e",
    "schemaString": "{}",
    "partitionColumns": ["day"],
    "format": [("provider", "tantivy4spark")],
}
ADD_ROW = {
    "actionType": "add",
    "path": "s3a://bucket/table/day=1/a.split",
    "partitionValues": [("day", "1"), ("hour", None)],
    "size": 5,
    "minValues": [("id", "1")],
}


def written(content: CheckpointContent, codec: str = "snappy", max_bytes: int = 1 << 30) -> dict[str, bytes]:
    return dict(encode_parquet_checkpoint(content, codec=codec, max_bytes=max_bytes, created_time_ms=5))


def read(files: dict[str, bytes]) -> CheckpointContent:
    files = dict(files)
    sidecar = decode_parquet_sidecar(files.pop(SIDECAR_KEY), SIDECAR_KEY)
    return decode_parquet_checkpoint(files, TABLE, sidecar)


def foreign(rows: list[dict], schema: pa.Schema = FIRST_WRITERS, **options) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink, **options)
    return sink.getvalue().to_pybytes()


@settings(max_examples=40)
@given(contents, st.sampled_from(["snappy", "zstd", "none"]), st.sampled_from([2000, 1 << 30]))
def test_round_trip(content, codec, max_bytes):
    files = written(content, codec, max_bytes)
    assert list(files)[-1] == SIDECAR_KEY
    assert read(files) == content


def test_one_file_and_the_file_beside_it():
    files = written(example_content())
    assert list(files) == [KEY, SIDECAR_KEY]
    sidecar = json.loads(files[SIDECAR_KEY])
    assert len(sidecar.pop("sha256")) == 1
    assert sidecar == {"version": VERSION, "size": 2, "createdTime": 5, "numFiles": 2}
    rows = pq.read_table(pa.BufferReader(files[KEY])).to_pylist()
    assert [row["actionType"] for row in rows] == ["protocol", "metadata", "add", "add"]


def test_parts_stand_in_a_directory():
    files = written(example_content(50), max_bytes=8000)
    *parts, _ = files
    assert len(parts) > 1
    assert parts[0] == f"{KEY}/part-00000.parquet"
    assert json.loads(files[SIDECAR_KEY])["parts"] == len(parts)
    assert read(files) == example_content(50)
    del files[parts[1]]
    with pytest.raises(CheckpointCorruptionError, match="declares"):
        read(files)


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}, {"version": "1.0", "use_dictionary": False}])
def test_a_file_of_the_first_writers(options):
    found = decode_parquet_checkpoint({KEY: foreign([ADD_ROW, METADATA_ROW], **options)}, TABLE)
    assert found.metadata.partition_columns == ("day",)
    assert found.metadata.format.provider == "tantivy4spark"
    assert found.metadata.configuration == {}
    assert found.protocol is None
    (row,) = found.files.to_pylist()
    assert row["path"] == "day=1/a.split"
    assert row["partition_values"] == [("day", "1")]
    assert (row["data_change"], row["has_footer_offsets"], row["added_at_version"]) == (True, False, VERSION)
    assert (found.timestamp_ms, found.txn_id, found.skips, found.transactions) == (None, None, {}, {})


def test_a_directory_that_spark_wrote():
    few = pa.schema([FIRST_WRITERS.field(name) for name in ("path", "size", "actionType")])
    files = {
        f"{KEY}/part-00000-u-c000.snappy.parquet": foreign([METADATA_ROW]),
        f"{KEY}/part-00001-u-c000.snappy.parquet": foreign([{"actionType": "add", "path": "a", "size": 1}], few),
        f"{KEY}/part-00002-u-c000.snappy.parquet": foreign([]),
        f"{KEY}/part-00003-u-c000.snappy.parquet": foreign([{**ADD_ROW, "path": "b"}, {**ADD_ROW, "path": "a"}]),
    }
    sidecar = ParquetSidecar(version=VERSION, size=3, created_time=1)
    found = decode_parquet_checkpoint(files, TABLE, sidecar)
    assert found.files.select(["path", "size"]).to_pylist() == [{"path": "b", "size": 5}, {"path": "a", "size": 5}]


def test_every_flipped_bit_is_noticed_before_decoding(monkeypatch):
    files = written(example_content())
    sidecar = decode_parquet_sidecar(files[SIDECAR_KEY], SIDECAR_KEY)
    monkeypatch.setattr(parquet_checkpoint, "_decode_rows", lambda data: pytest.fail("reached the decoder"))
    for number, damaged in enumerate(flips(files[KEY])):
        if number % 7 == 0:
            with pytest.raises(CheckpointCorruptionError, match=KEY):
                decode_parquet_checkpoint({KEY: damaged}, TABLE, sidecar)


def test_every_truncation_is_noticed_even_without_a_hash():
    data = foreign([ADD_ROW, METADATA_ROW])
    for length in range(len(data)):
        with pytest.raises(CheckpointCorruptionError, match=KEY):
            decode_parquet_checkpoint({KEY: data[:length]}, TABLE)


@pytest.mark.parametrize(
    "rows",
    [
        [ADD_ROW],
        [METADATA_ROW, {**ADD_ROW, "path": None}],
        [METADATA_ROW, {**ADD_ROW, "size": None}],
        [METADATA_ROW, {**ADD_ROW, "size": -5}],
        [METADATA_ROW, {**ADD_ROW, "path": "../x"}],
        [{**METADATA_ROW, "metadataId": None}],
    ],
)
def test_nonsense_is_refused(rows):
    with pytest.raises(CheckpointCorruptionError, match=KEY):
        decode_parquet_checkpoint({KEY: foreign(rows)}, TABLE)


def test_a_file_without_kinds_is_refused():
    data = foreign([{"path": "x"}], pa.schema([("path", pa.string())]))
    with pytest.raises(CheckpointCorruptionError, match="actionType"):
        decode_parquet_checkpoint({KEY: data}, TABLE)


def test_a_bomb_of_rows_is_refused():
    sink = pa.BufferOutputStream()
    kinds = pa.DictionaryArray.from_arrays(pa.array([0] * 3_000_000, pa.int32()), ["add"])
    pq.write_table(pa.table({"actionType": kinds}), sink)
    with pytest.raises(CheckpointCorruptionError, match="3000000 rows"):
        decode_parquet_checkpoint({KEY: sink.getvalue().to_pybytes()}, TABLE)


def test_a_bomb_of_text_is_refused():
    rows = [METADATA_ROW] + [
        {**ADD_ROW, "path": f"p{number}", "minValues": [("a", "x" * 100_000)]} for number in range(2000)
    ]
    with pytest.raises(CheckpointCorruptionError, match="unpacks to more"):
        decode_parquet_checkpoint({KEY: foreign(rows, compression="zstd")}, TABLE)


def test_no_files_and_no_version():
    with pytest.raises(CheckpointCorruptionError, match="no files"):
        decode_parquet_checkpoint({}, TABLE)
    with pytest.raises(CheckpointCorruptionError, match="no version"):
        decode_parquet_checkpoint({"x.parquet": foreign([METADATA_ROW])}, TABLE)


def test_a_checkpoint_under_another_version_is_refused():
    files = written(example_content())
    with pytest.raises(CheckpointCorruptionError, match=f"version {VERSION}"):
        decode_parquet_checkpoint({parquet_checkpoint_key(8): files[KEY]}, TABLE)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"version": 8}', b'{"version": 7, "sha256": 1}', b"[" * 100_000])
def test_nonsense_beside_a_checkpoint_is_refused(data):
    with pytest.raises(CheckpointCorruptionError, match=SIDECAR_KEY):
        decode_parquet_sidecar(data, SIDECAR_KEY)


def test_an_unknown_codec_is_refused():
    with pytest.raises(CheckpointWriteError, match="brotli9"):
        written(example_content(), codec="brotli9")
