"""Manifests: file tables as Avro, one `FileEntry` for each file, and back.

All fields of an add are kept. A manifest's name is the hash of its bytes, so that damage is detected before decoding;
this check must come first, since damage can make the decoder loop without end. The same files in the same order produce
the same bytes. Readers resolve fields by name: other writers used other ids, omitted fields, and added their own.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.machinery
import importlib.util
import io
import os
import re
import sys
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa

from indextables.errors import CheckpointCorruptionError, CheckpointWriteError
from indextables.protocol.avro import avro_container
from indextables.protocol.avro.avro_rows import encode_rows
from indextables.protocol.compression import AVRO_CODECS
from indextables.protocol.file_columns import WIRE_NAMES, conform_files, to_wire
from indextables.protocol.file_table import FILES_SCHEMA
from indextables.runtime.resources import open_file, refuse_shortage

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
    """Return the bytes of a manifest; `codec` is `zstd`, `snappy` or `none`."""
    out = io.BytesIO()
    write_manifest(files, out, codec=codec, level=level)
    return out.getvalue()


def write_manifest(files: pa.Table, out: BinaryIO, *, codec: str, level: int = 3) -> None:
    """Write a manifest block by block, with one block in memory."""
    avro_codec = AVRO_CODECS[codec]
    sync = b""
    for num_rows, body in _bodies(files):
        if not sync:
            sync = _begin(out, body, avro_codec)
        out.write(avro_container.encode_block(num_rows, body, sync, avro_codec, level))
    if not sync:
        _begin(out, memoryview(b""), avro_codec)


def manifest_name(data: bytes) -> str:
    """Return the name of a manifest, which contains the hash of its bytes."""
    return f"manifest-{hashlib.sha256(data).hexdigest()[:_HASH_LENGTH]}.avro"


def is_our_name(name: str) -> bool:
    """Return True if a manifest's name contains a hash, as this library writes it.

    Names of other writers are unrelated to the content.
    """
    return _OUR_NAME.fullmatch(os.path.basename(name)) is not None


def verify_manifest(name: str, data: bytes) -> None:
    """Check a manifest of this library against the hash in its name, before decoding."""
    if is_our_name(name) and os.path.basename(name) != manifest_name(data):
        raise CheckpointCorruptionError(
            f"cannot read `{name}` because its bytes do not fit the hash in its name", path=name
        )


def has_our_schema(data: bytes) -> bool:
    """Return True if a manifest has exactly the schema of this library.

    In that schema every field takes space.
    """
    try:
        return avro_container.decode_header(data).metadata.get("avro.schema") == _SCHEMA_JSON
    except ValueError:
        return False


def decode_manifest(path: str, name: str | None = None, *, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the file table, or some columns, of a manifest on local disk.

    Paths keep their written form. Errors call the file `name`.
    """
    name = name or path
    try:
        with open(path, "rb", opener=open_file) as file:
            num_records = avro_container.num_records(file.read())
        found = _read_avro(path, columns)
        if found.num_rows != num_records:
            raise ValueError(f"it declares {num_records} files, but has {found.num_rows}")
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
    """Write the header.

    The marker comes from the content, so equal tables are equal bytes.
    """
    sync = hashlib.sha256(first_body).digest()[: avro_container.SYNC_BYTES]
    out.write(avro_container.encode_header({"avro.schema": _SCHEMA_JSON, "avro.codec": codec.encode()}, sync))
    return sync


def _batches(files: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches without chunks and with a bounded size."""
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
    """Decode a local file.

    The file is named by URL, since brackets and stars in a path would be patterns.
    """
    url = "file://" + urllib.parse.quote(os.path.abspath(path))
    names = None if columns is None else [f'"{WIRE_NAMES[name]}"' for name in columns]
    try:
        try:
            return _decoded(_engine(), url, names)
        except (AttributeError, TypeError):  # the compiled part of another version may have other names
            return _decoded(importlib.import_module("datafusion"), url, names)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the decoder is not an Exception
        raise ValueError(f"it cannot be decoded ({str(error)[:200]})") from error


def _decoded(engine: Any, url: str, names: Sequence[str] | None) -> Any:
    context = engine.SessionContext(engine.SessionConfig().with_target_partitions(1))
    frame = context.read_avro(url, file_extension="")
    return (frame if names is None else frame.select_exprs(*names)).to_arrow_table()


def _engine() -> Any:
    """Import the compiled part of DataFusion alone.

    The package imports pandas, and takes longer than most commands. If it is imported later, it takes this part as it
    is. The lock of its import keeps two threads from loading the compiled part twice, which it does not survive.
    """
    name = "datafusion._internal"
    with importlib._bootstrap._ModuleLockManager("datafusion"):  # type: ignore[attr-defined]
        if name in sys.modules:
            return sys.modules[name]
        package = importlib.util.find_spec("datafusion")
        folders = None if package is None else package.submodule_search_locations
        spec = importlib.machinery.PathFinder.find_spec(name, folders)
        if spec is None or spec.loader is None:
            raise AttributeError(name)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
        return module
