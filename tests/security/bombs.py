"""Files of a few kilobytes that would unpack to gigabytes, read one after the other in a process of their own.

    python -m tests.security.bombs

Prints, as JSON, how each was refused and how far memory rose by it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from bench.processes import peak_bytes
from tests.protocol.checkpoint_examples import VERSION
from tests.protocol.protocol_examples import TABLE

from indextables.errors import IndexTablesError
from indextables.protocol import compression, varints
from indextables.protocol.avro import avro_container
from indextables.protocol.avro.file_entry import FILE_ENTRY_SCHEMA, manifest_name
from indextables.protocol.avro.state_manifest import STATE_MANIFEST_SCHEMA, decode_state_manifest
from indextables.protocol.checkpoint.json_checkpoint import decode_json_checkpoint, json_checkpoint_key
from indextables.protocol.checkpoint.parquet_checkpoint import decode_parquet_checkpoint, parquet_checkpoint_key
from indextables.protocol.names import state_keys
from indextables.protocol.version_file import decode_version
from indextables.state import sandbox

_PIECE = bytes(16 << 20)
_BLANKS = b" " * (16 << 20)
_SYNC = b"s" * 16
_PIECES = 32


def main() -> None:
    for name, make in BOMBS.items():
        use = make()
        before = peak_bytes()
        try:
            use()
            how = "read"
        except IndexTablesError as error:
            how = f"{type(error).__name__}: {error.message[-150:]}"
        except ValueError as error:
            how = f"ValueError: {error}"
        print(json.dumps({"bomb": name, "how": how, "grew_bytes": peak_bytes() - before}), flush=True)
    sandbox.shut_down()


def gzip_bomb(start: bytes) -> bytes:
    """Some text, and 512 MiB of blanks behind it."""
    return compression.gzip_text(start) + blanks()


@functools.cache
def blanks() -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([*(packer.compress(_BLANKS) for _ in range(_PIECES)), packer.flush()])


@functools.cache
def zstd_bomb() -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        for _ in range(_PIECES):
            stream.write(_PIECE)
    return bytes(sink.getvalue())


@functools.cache
def deflate_bomb() -> bytes:
    packer = zlib.compressobj(9, wbits=-15)
    return b"".join([*(packer.compress(_PIECE) for _ in range(_PIECES)), packer.flush()])


def snappy_bomb() -> bytes:
    """A block that announces a gigabyte in its first bytes."""
    return b"\x80\x80\x80\x80\x04" + bytes(64)


def avro(schema: object, codec: str, body: bytes, num_records: int = 1) -> bytes:
    text = json.dumps(schema, separators=(",", ":")).encode()
    header = avro_container.encode_header({"avro.schema": text, "avro.codec": codec.encode()}, _SYNC)
    block = varints.signed(num_records) + varints.signed(len(body)) + body + _SYNC
    return header + block


def version() -> Callable[[], object]:
    data = gzip_bomb(b'{"add":')
    return lambda: decode_version(data, 1, TABLE)


def old_version() -> Callable[[], object]:
    data = b"\x01\x01" + gzip_bomb(b"\n")
    return lambda: decode_version(data, 1, TABLE)


def many_members() -> Callable[[], object]:
    data = compression.gzip_text(b"") * 5000
    return lambda: decode_version(data, 1, TABLE)


def many_lines() -> Callable[[], object]:
    data = compression.gzip_text(b"{}\n" * 3_000_000)
    return lambda: decode_version(data, 1, TABLE)


def json_checkpoint() -> Callable[[], object]:
    data = gzip_bomb(b'{"version":')
    return lambda: decode_json_checkpoint(data, json_checkpoint_key(VERSION), TABLE)


def state(codec: str, body: bytes) -> Callable[[], object]:
    """Without the mark by which a state of ours is known: that one would be refused by its hash."""
    fields = [field for field in STATE_MANIFEST_SCHEMA["fields"] if field["name"] != "versionTxnId"]
    data = avro({**STATE_MANIFEST_SCHEMA, "fields": fields}, codec, body)
    return lambda: decode_state_manifest(data, state_keys(42)[0])


def manifest(codec: str, body: bytes) -> Callable[[], object]:
    """Named by its own hash, and with the schema of this library: it is decoded in the process itself."""
    data = avro(FILE_ENTRY_SCHEMA, codec, body, 1 << 20)

    def use() -> object:
        with on_disk(data) as path:
            return sandbox.read_manifest(path, manifest_name(data), timeout_seconds=20)

    return use


@contextlib.contextmanager
def on_disk(data: bytes) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "manifest.avro")
        with open(path, "wb") as file:
            file.write(data)
        yield path


def parquet(rows: pa.Table, **options) -> Callable[[], object]:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd", store_schema=False, **options)
    data = bytes(sink.getvalue())
    return lambda: decode_parquet_checkpoint({parquet_checkpoint_key(VERSION): data}, TABLE)


def parquet_page() -> Callable[[], object]:
    text = "x" * 250_000_000
    return parquet(pa.table({"actionType": ["metadata"], "metadataId": ["m"], "schemaString": [text]}))


def parquet_dictionary() -> Callable[[], object]:
    """One long value that a thousand rows name: every page is small enough."""
    words = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array(["x" * 40_000_000]))
    return parquet(pa.table({"actionType": ["add"] * 1000, "path": words}), dictionary_pagesize_limit=1 << 30)


def parquet_rows() -> Callable[[], object]:
    return parquet(pa.table({"actionType": pa.nulls(3_000_000, pa.string())}))


# Those whose making takes much memory come last: the peak of a process never falls.
BOMBS: dict[str, Callable[[], Callable[[], object]]] = {
    "many gzip members": many_members,
    "many short lines": many_lines,
    "gzip version": version,
    "gzip version of old writers": old_version,
    "gzip JSON checkpoint": json_checkpoint,
    "zstd state": lambda: state("zstandard", zstd_bomb()),
    "deflate state": lambda: state("deflate", deflate_bomb()),
    "snappy state": lambda: state("snappy", snappy_bomb()),
    "zstd manifest": lambda: manifest("zstandard", zstd_bomb()),
    "deflate manifest": lambda: manifest("deflate", deflate_bomb()),
    "snappy manifest": lambda: manifest("snappy", snappy_bomb()),
    "Parquet rows": parquet_rows,
    "Parquet dictionary": parquet_dictionary,
    "Parquet page": parquet_page,
}


if __name__ == "__main__":
    main()
