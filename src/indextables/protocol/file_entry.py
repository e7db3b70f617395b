"""Manifests: file tables as Avro, one `FileEntry` for each file, and back again.

Everything that an add can hold survives. A manifest's name is the hash of its bytes, so a damaged one is known before
it is decoded; that must come first, since damage can make the decoder spin for ever. The same files in the same order
give the same bytes. Readers resolve fields by name: others used other ids, left fields out, and added their own.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa

from indextables.errors import CheckpointCorruptionError, CheckpointWriteError
from indextables.protocol import avro_container
from indextables.protocol.avro_rows import encode_rows
from indextables.protocol.compression import AVRO_CODECS
from indextables.protocol.file_columns import WIRE_NAMES, conform_files, to_wire
from indextables.protocol.file_table import FILES_SCHEMA
from indextables.resources import open_file, refuse_shortage

_FIELD_IDS = {
    "path": 100,
    "partition_values": 101,
    "size": 102,
    "modification_time": 103,
    "data_change": 104,
    "stats": 110,
    "min_values": 111,
    "max_values": 112,
    "num_records": 113,
    "tags": 114,
    "footer_start_offset": 120,
    "footer_end_offset": 121,
    "has_footer_offsets": 122,
    "hotcache_start_offset": 123,
    "hotcache_length": 124,
    "split_tags": 130,
    "num_merge_ops": 131,
    "doc_mapping_ref": 132,
    "uncompressed_size_bytes": 133,
    "time_range_start": 134,
    "time_range_end": 135,
    "doc_mapping_json": 136,
    "delete_opstamp": 137,
    "added_at_version": 140,
    "added_at_timestamp": 141,
}
_AVRO_TYPES: dict[Any, Any] = {
    pa.string(): "string",
    pa.int64(): "long",
    pa.int32(): "int",
    pa.bool_(): "boolean",
    pa.map_(pa.string(), pa.string()): {"type": "map", "values": "string"},
    pa.list_(pa.string()): {"type": "array", "items": "string"},
}
_OUR_NAME = re.compile(r"manifest-[0-9a-f]{32}\.avro")
_HASH_LENGTH = 32
_ROWS_PER_BLOCK = 4096
_MAX_BLOCK_BYTES = 64 << 20


def _avro_field(name: str, field_id: int) -> dict[str, Any]:
    field = FILES_SCHEMA.field(name)
    kind = _AVRO_TYPES[field.type]
    entry: dict[str, Any] = {"name": WIRE_NAMES[name], "type": ["null", kind] if field.nullable else kind}
    if field.nullable:
        entry["default"] = None
    elif name == "has_footer_offsets":
        entry["default"] = False
    return {**entry, "field-id": field_id}


FILE_ENTRY_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "FileEntry",
    "namespace": "io.indextables.spark.transaction.avro",
    "fields": [_avro_field(name, field_id) for name, field_id in _FIELD_IDS.items()],
}
_SCHEMA_JSON = msgspec.json.encode(FILE_ENTRY_SCHEMA)


def encode_manifest(files: pa.Table, *, codec: str, level: int = 3) -> bytes:
    """The bytes of a manifest of these files; `codec` is `zstd`, `snappy` or `none`."""
    out = io.BytesIO()
    write_manifest(files, out, codec=codec, level=level)
    return out.getvalue()


def write_manifest(files: pa.Table, out: BinaryIO, *, codec: str, level: int = 3) -> None:
    """Write a manifest block by block; beside the table, memory holds one block."""
    avro_codec = AVRO_CODECS[codec]
    sync = b""
    for num_rows, body in _bodies(files):
        if not sync:
            sync = _begin(out, body, avro_codec)
        out.write(avro_container.encode_block(num_rows, body, sync, avro_codec, level))
    if not sync:
        _begin(out, memoryview(b""), avro_codec)


def manifest_name(data: bytes) -> str:
    """The name under which a manifest stands, made of its content."""
    return f"manifest-{hashlib.sha256(data).hexdigest()[:_HASH_LENGTH]}.avro"


def is_our_name(name: str) -> bool:
    """Whether a manifest's name is a hash of ours. Other writers' names say nothing of the content."""
    return _OUR_NAME.fullmatch(os.path.basename(name)) is not None


def verify_manifest(name: str, data: bytes) -> None:
    """Hold a manifest against its name, where that is ours. Comes before decoding."""
    if is_our_name(name) and os.path.basename(name) != manifest_name(data):
        raise CheckpointCorruptionError(
            f"cannot read `{name}` because its bytes do not fit the hash in its name", path=name
        )


def has_our_schema(data: bytes) -> bool:
    """Whether a manifest was written with exactly the schema of this library, so that no field of it takes no space."""
    try:
        return avro_container.decode_header(data).metadata.get("avro.schema") == _SCHEMA_JSON
    except ValueError:
        return False


def decode_manifest(path: str, name: str | None = None, *, columns: Sequence[str] | None = None) -> pa.Table:
    """The file table of a manifest on local disk, or some columns of it. Paths stand as they were written. Errors call
    the file `name`."""
    name = name or path
    try:
        with open(path, "rb", opener=open_file) as file:
            num_records = avro_container.num_records(file.read())
        found = _read_avro(path, columns)
        if found.num_rows != num_records:
            raise ValueError(f"it announces {num_records} files, and {found.num_rows} are there")
        return conform_files(found, columns=columns)
    except (ValueError, pa.ArrowException) as error:
        refuse_shortage(f"read `{name}`", error)
        raise CheckpointCorruptionError(f"cannot read `{name}` because {error}", path=name) from error


def _bodies(files: pa.Table) -> Iterator[tuple[int, memoryview]]:
    try:
        columns = (
            to_wire(files).select(list(_FIELD_IDS)).cast(pa.schema([FILES_SCHEMA.field(name) for name in _FIELD_IDS]))
        )
        for batch in _batches(columns):
            yield batch.num_rows, encode_rows(batch)
    except (ValueError, KeyError, pa.ArrowException) as error:
        raise CheckpointWriteError(f"cannot write a manifest because {error}") from error


def _begin(out: BinaryIO, first_body: memoryview, codec: str) -> bytes:
    """Write the header. The marker comes from the content, so that equal tables give equal bytes."""
    sync = hashlib.sha256(first_body).digest()[: avro_container.SYNC_BYTES]
    out.write(avro_container.encode_header({"avro.schema": _SCHEMA_JSON, "avro.codec": codec.encode()}, sync))
    return sync


def _batches(files: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows in pieces whose columns are whole, and whose bytes stay in bounds."""
    pending = [(start, _ROWS_PER_BLOCK) for start in range(0, files.num_rows, _ROWS_PER_BLOCK)]
    pending.reverse()
    while pending:
        start, length = pending.pop()
        piece = files.slice(start, length)
        if piece.nbytes > _MAX_BLOCK_BYTES and piece.num_rows > 1:
            half = piece.num_rows // 2
            pending += [(start + half, piece.num_rows - half), (start, half)]
            continue
        yield from piece.combine_chunks().to_batches()


def _read_avro(path: str, columns: Sequence[str] | None) -> Any:
    """As a URL, since a path's brackets and stars would be patterns."""
    url = "file://" + urllib.parse.quote(os.path.abspath(path))
    # Importing it takes longer than most commands.
    from datafusion import SessionConfig, SessionContext

    context = SessionContext(SessionConfig().with_target_partitions(1))
    try:
        frame = context.read_avro(url, file_extension="")
        if columns is not None:
            frame = frame.select(*(f'"{WIRE_NAMES[name]}"' for name in columns))
        return frame.to_arrow_table()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the decoder is no Exception
        raise ValueError(f"it cannot be decoded ({str(error)[:200]})") from error
