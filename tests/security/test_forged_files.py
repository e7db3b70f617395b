"""Files whose hashes and checksums fit, because whoever made them computed them: read without harm, or refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fuzz.split_targets import ROWS, index_example, search, write_real
from tests.protocol.checkpoint_examples import VERSION, example_content
from tests.protocol.protocol_examples import TABLE
from tests.split.split_examples import open_split

from indextables.errors import CheckpointCorruptionError, CorruptSplitError
from indextables.protocol import thrift, varints
from indextables.protocol.avro import avro_container
from indextables.protocol.avro.file_entry import encode_manifest, manifest_name
from indextables.protocol.checkpoint.parquet_checkpoint import decode_parquet_checkpoint, parquet_checkpoint_key
from indextables.protocol.compression import compress_block, decompress_block
from indextables.split.rows.column_reader import schema_elements
from indextables.state import sandbox


def manifest_without_end() -> bytes:
    """One of ours whose block says that it holds fewer files than it does: the decoder never comes back."""
    data = encode_manifest(example_content(3).files, codec="none")
    at = avro_container.decode_header(data).end
    return data[:at] + varints.signed(1) + data[at + 1 :]


def test_a_manifest_on_which_the_decoder_finds_no_end_is_given_up(tmp_path) -> None:
    data = manifest_without_end()
    path = tmp_path / "manifest.avro"
    path.write_bytes(data)
    script = (
        "import sys; from indextables.state import sandbox; from indextables.errors import CheckpointCorruptionError\n"
        "try: sandbox.read_manifest(sys.argv[1], sys.argv[2], timeout_seconds=1)\n"
        "except CheckpointCorruptionError as error: print(error.message[-90:])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(
        [sys.executable, "-c", script, str(path), manifest_name(data)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "within 1 seconds" in run.stdout


def test_a_manifest_of_ours_is_decoded_by_many_threads(tmp_path) -> None:
    data = encode_manifest(example_content(3).files, codec="zstd")
    path = tmp_path / "manifest.avro"
    path.write_bytes(data)
    found: list[int] = []

    def read() -> None:
        found.append(sandbox.read_manifest(str(path), manifest_name(data), timeout_seconds=60).num_rows)

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [3] * 6


@pytest.mark.parametrize("name", ["path", "actionType", "schemaString"])
def test_a_checkpoint_with_a_column_twice_is_refused(name) -> None:
    columns = {"actionType": ["metadata"], "path": [None], "schemaString": ["{}"], "metadataId": ["m"]}
    rows = pa.table(columns).append_column(name, pa.array(["add"]))
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    with pytest.raises(CheckpointCorruptionError, match=f"several columns `{name}`"):
        decode_parquet_checkpoint({parquet_checkpoint_key(VERSION): bytes(sink.getvalue())}, TABLE)


def address_space_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
@pytest.mark.parametrize("codec", ["zstandard", "snappy"])
def test_blocks_that_cannot_be_unpacked_leave_no_memory_behind(codec) -> None:
    whole = compress_block(os.urandom(4 << 20) if codec == "snappy" else b"text" * 5000, codec, 3)
    damaged = whole[: len(whole) // 2] + b"\xff" * 64
    before = 0
    for number in range(40):
        with pytest.raises(ValueError, match="a block"):
            decompress_block(damaged, codec)
        before = before or (address_space_bytes() if number == 5 else 0)
    assert address_space_bytes() - before < 100 << 20


PANICS = """
import sys, tempfile
from tests.fuzz.split_targets import index_example, search, write_real
from tests.split.split_examples import open_split
from indextables.errors import CorruptSplitError

for name, data in index_example().files:
    if not name.endswith((".term", ".idx")):
        continue
    for other in (data[: len(data) // 2], bytes(len(data)), data[:8] + b"\\xff" * 8 + data[16:]):
        files = [(each, other if each == name else content) for each, content in index_example().files]
        place = tempfile.mkdtemp(dir=sys.argv[1])
        try:
            search(open_split(place, write_real(place, files, {})), place)
            print("read")
        except CorruptSplitError as error:
            print("panicked" if "the engine failed" in error.message else "refused")
"""


def test_an_index_on_which_the_engine_panics_is_a_damaged_split(tmp_path) -> None:
    """The checksum of each file fits, and the engine trips over what it says."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(
        [sys.executable, "-c", PANICS, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    outcomes = run.stdout.split()
    assert len(outcomes) == 6
    assert "panicked" in outcomes


@pytest.mark.parametrize("num_children", [1, 7, -3, 2**31 - 1])
def test_a_footer_whose_columns_lack_children_is_damaged(num_children) -> None:
    child = thrift.struct({4: thrift.binary(b"a"), 5: thrift.i32(num_children)})
    footer = thrift.struct({1: thrift.i32(2), 2: thrift.list_of([child, child])}).data
    with pytest.raises(CorruptSplitError, match="lacks a child"):
        schema_elements(memoryview(footer), "k")


def test_the_example_split_is_searched(tmp_path) -> None:
    split = open_split(tmp_path, write_real(str(tmp_path), index_example().files, {}))
    search(split, str(tmp_path))
    assert split.num_rows == ROWS.num_rows
    assert json.loads(split.directory.doc_mapping)
