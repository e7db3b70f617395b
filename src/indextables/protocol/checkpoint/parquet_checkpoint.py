"""Parquet checkpoints: a row for each action, and a sidecar file.

The column `actionType` has the kind of the action; all fields are flattened. The reader accepts one file or a directory
of part files, as Spark writes it, also with only the columns of the first writers of this format. Checkpoints of this
library have all fields of an add, and their hashes are in the sidecar: they are checked before decoding. Paths become
relative to the table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar, to_table
from indextables.errors import CheckpointCorruptionError, CheckpointWriteError
from indextables.location import Location
from indextables.protocol import thrift
from indextables.protocol.actions import Count, Format, Long, Metadata, Protocol
from indextables.protocol.checkpoint_content import (
    CheckpointContent,
    convert,
    decode_json,
    metadata_of,
    protocol_of,
    skips_of,
    transaction_fields,
    transactions_of,
)
from indextables.protocol.compression import plain_limit, plain_text
from indextables.protocol.file_columns import (
    WIRE_NAMES,
    conform_files,
    from_wire,
    newest_of_each_path,
    relative_path,
    to_wire,
)
from indextables.protocol.file_table import FILES_SCHEMA
from indextables.protocol.names import LOG_DIRECTORY, parse_checkpoint_key

_EXTRAS_KEY = b"indextables.checkpoint"
_MAP = pa.map_(pa.string(), pa.string())
_STRINGS = pa.list_(pa.string())
_ACTION_TYPE = pa.field("actionType", pa.string())
_METADATA_COLUMNS: dict[str, pa.Field] = {
    "id": pa.field("metadataId", pa.string()),
    "schemaString": pa.field("schemaString", pa.string()),
    "partitionColumns": pa.field("partitionColumns", _STRINGS),
    "format": pa.field("format", _MAP),
    "formatOptions": pa.field("formatOptions", _MAP),
    "name": pa.field("metadataName", pa.string()),
    "description": pa.field("metadataDescription", pa.string()),
    "configuration": pa.field("configuration", _MAP),
    "createdTime": pa.field("createdTime", pa.int64()),
}
_PROTOCOL_COLUMNS: dict[str, pa.Field] = {
    "minReaderVersion": pa.field("minReaderVersion", pa.int32()),
    "minWriterVersion": pa.field("minWriterVersion", pa.int32()),
    "readerFeatures": pa.field("readerFeatures", _STRINGS),
    "writerFeatures": pa.field("writerFeatures", _STRINGS),
}
_SCHEMA = pa.schema(
    [
        _ACTION_TYPE,
        *(pa.field(WIRE_NAMES[field.name], field.type) for field in FILES_SCHEMA),
        *_METADATA_COLUMNS.values(),
        *_PROTOCOL_COLUMNS.values(),
    ]
)
_ROWS_AT_ONCE = 1024
_ROWS_ALWAYS_ALLOWED = 100_000
_MAX_THRIFT_BYTES = 64 << 20
# Numbers of fields in Parquet's footer and page headers.
_ROW_GROUPS, _CHUNKS, _CHUNK_METADATA = 4, 1, 3
_NUM_VALUES, _CHUNK_BYTES, _DATA_PAGE, _DICTIONARY_PAGE = 5, 7, 9, 11
_PLAIN_BYTES, _PACKED_BYTES = 2, 3
_TRAILER_BYTES = 8
_CODECS = ("none", "snappy", "zstd", "gzip", "lz4", "brotli")


class ParquetFile(NamedTuple):
    """File to write, with its key from the table root."""

    key: str
    data: bytes


class ParquetSidecar(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Sidecar of a checkpoint.

    Ours has the hash of each file, in the order of their keys.
    """

    version: Count
    size: Count | None = None
    parts: Count | None = None
    created_time: Long | None = None
    num_files: Count | None = None
    sha256: tuple[str, ...] | None = None


class _Extras(msgspec.Struct, frozen=True, rename="camel"):
    version: Count
    num_files: Count | None = None
    skips: list[Any] = []
    transactions: dict[str, Any] = {}
    version_timestamp: Long | None = None
    version_txn_id: str | None = None


def parquet_checkpoint_key(version: int) -> str:
    """Return the key of a checkpoint, or of the directory of its parts."""
    return f"{LOG_DIRECTORY}/_checkpoints/{version:020d}.checkpoint.parquet"


def parquet_sidecar_key(version: int) -> str:
    """Return the key of the sidecar of a checkpoint."""
    return f"{LOG_DIRECTORY}/_checkpoints/{version:020d}.checkpoint.json"


def encode_parquet_checkpoint(
    content: CheckpointContent, *, codec: str, max_bytes: int, created_time_ms: int
) -> list[ParquetFile]:
    """Return the files of a checkpoint in writing order.

    Above `max_bytes` it has parts.
    """
    rows = _rows(content)
    key = parquet_checkpoint_key(content.version)
    files = [ParquetFile(key, _encode_rows(rows, codec))]
    num_parts = min(-(-len(files[0].data) // max_bytes), rows.num_rows)
    if num_parts > 1:
        size = -(-rows.num_rows // num_parts)
        pieces = [rows.slice(start, size) for start in range(0, rows.num_rows, size)]
        files = [
            ParquetFile(f"{key}/part-{number:05d}.parquet", _encode_rows(piece, codec))
            for number, piece in enumerate(pieces)
        ]
    sidecar = ParquetSidecar(
        version=content.version,
        size=content.files.num_rows,
        parts=len(files) if len(files) > 1 else None,
        created_time=created_time_ms,
        num_files=content.files.num_rows,
        sha256=tuple(hashlib.sha256(file.data).hexdigest() for file in files),
    )
    return [*files, ParquetFile(parquet_sidecar_key(content.version), msgspec.json.encode(sidecar))]


def decode_parquet_sidecar(data: bytes, key: str) -> ParquetSidecar:
    """Decode the sidecar of a checkpoint."""
    try:
        sidecar = convert(decode_json(plain_text(data)), ParquetSidecar, "object")
        if sidecar.version != parse_checkpoint_key(key):
            raise ValueError(f"it belongs to version {sidecar.version}")
        return sidecar
    except ValueError as error:
        _refuse(key, error)


def decode_parquet_checkpoint(
    files: Mapping[str, bytes], table: Location, sidecar: ParquetSidecar | None = None
) -> CheckpointContent:
    """Return the checkpoint of these files by key.

    One, or all part files of a directory.
    """
    keys = sorted(files)
    if not keys:
        raise CheckpointCorruptionError("cannot read a Parquet checkpoint because it has no files")
    version = parse_checkpoint_key(keys[0])
    if sidecar is not None:
        _verify(keys, files, sidecar)
    tables: list[Any] = []
    for key in keys:
        try:
            tables.append(_decode_rows(files[key]))
        except (ValueError, pa.ArrowException, OSError) as error:
            _refuse(key, error)
    try:
        if version is None:
            raise ValueError("its name has no version")
        content = _content(tables, version, table)
        if sidecar is not None and sidecar.num_files not in (None, content.files.num_rows):
            raise ValueError(f"it declares {sidecar.num_files} files, but has {content.files.num_rows}")
        return content
    except (ValueError, pa.ArrowException) as error:
        _refuse(keys[0], error)


def _rows(content: CheckpointContent) -> Any:
    heads: list[dict[str, Any]] = []
    if content.protocol is not None:
        heads.append({"actionType": "protocol", **msgspec.to_builtins(content.protocol)})
    if content.metadata is not None:
        heads.append({"actionType": "metadata", **_metadata_row(content.metadata)})
    adds = (
        to_wire(content.files)
        .select(FILES_SCHEMA.names)
        .rename_columns([WIRE_NAMES[name] for name in FILES_SCHEMA.names])
    )
    adds = adds.append_column(_ACTION_TYPE, to_array(["add"] * adds.num_rows, pa.string()))
    adds = pa.Table.from_arrays(adds.columns, names=adds.column_names)
    rows = pa.concat_tables([to_table(heads, _SCHEMA), adds], promote_options="default")
    extras = {
        "version": content.version,
        "numFiles": content.files.num_rows,
        "skips": list(content.skips.values()),
        "transactions": transaction_fields(content.transactions),
        "versionTimestamp": content.timestamp_ms,
        "versionTxnId": content.txn_id,
    }
    return rows.select(_SCHEMA.names).replace_schema_metadata({_EXTRAS_KEY: msgspec.json.encode(extras)})


def _metadata_row(metadata: Metadata) -> dict[str, Any]:
    fields = msgspec.to_builtins(metadata)
    fields["format"] = {"provider": metadata.format.provider}
    fields["formatOptions"] = metadata.format.options
    row = {column.name: fields.get(name) for name, column in _METADATA_COLUMNS.items()}
    return {name: list(value.items()) if isinstance(value, dict) else value for name, value in row.items()}


def _encode_rows(rows: Any, codec: str) -> bytes:
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    try:
        if codec not in _CODECS:
            raise ValueError("it is not known")
        pq.write_table(rows, sink, compression=codec, write_page_checksum=True)
    except (pa.ArrowException, ValueError) as error:
        raise CheckpointWriteError(f"cannot write a Parquet checkpoint with codec `{codec}`: {error}") from error
    return bytes(sink.getvalue())


def _verify(keys: Sequence[str], files: Mapping[str, bytes], sidecar: ParquetSidecar) -> None:
    if sidecar.parts is not None and sidecar.parts > 1 and sidecar.sha256 is not None and sidecar.parts != len(keys):
        _refuse(keys[0], ValueError(f"its sidecar declares {sidecar.parts} parts, but there are {len(keys)}"))
    if sidecar.sha256 is None:
        return
    if len(sidecar.sha256) != len(keys):
        _refuse(keys[0], ValueError(f"its sidecar declares {len(sidecar.sha256)} files, but there are {len(keys)}"))
    for key, expected in zip(keys, sidecar.sha256, strict=True):
        if hashlib.sha256(files[key]).hexdigest() != expected:
            _refuse(key, ValueError("its bytes do not fit the hash beside it"))


def _decode_rows(data: bytes) -> Any:
    """Return the rows of one file, within bounds: few bytes may encode very many rows."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(
        pa.BufferReader(data),
        page_checksum_verification=True,
        thrift_string_size_limit=_MAX_THRIFT_BYTES,
        thrift_container_size_limit=_MAX_THRIFT_BYTES,
    ) as file:
        num_rows = file.metadata.num_rows
        if num_rows > max(_ROWS_ALWAYS_ALLOWED, len(data)):
            raise ValueError(f"it announces {num_rows} rows in {len(data)} bytes")
        names = file.schema_arrow.names
        if _ACTION_TYPE.name not in names:
            raise ValueError(f"it has no column `{_ACTION_TYPE.name}`")
        columns = [name for name in _SCHEMA.names if name in names]
        if doubled := [name for name in columns if names.count(name) > 1]:
            raise ValueError(f"it has several columns `{doubled[0]}`")
        left = plain_limit(len(data))
        largest = _largest_page(data, left)
        batches = []
        # A page may have one long value that all rows refer to.
        for batch in file.iter_batches(max(1, min(_ROWS_AT_ONCE, left // largest)), columns=columns):
            batches.append(batch)
            left -= batch.nbytes
            if left < 0:
                raise ValueError("it unpacks to more than any checkpoint would")
        return pa.Table.from_batches(batches, to_table([], file.schema_arrow).select(columns).schema)


def _largest_page(data: bytes, limit: int) -> int:
    """Return the decompressed size of the largest page.

    Raise `ValueError` if the total exceeds the limit. Pages declare their size before decompression. The footer is
    parsed here, because Arrow aborts on a footer that contradicts itself.
    """
    footer, _ = thrift.read_struct(data[-_TRAILER_BYTES - int.from_bytes(data[-_TRAILER_BYTES:-4], "little") :])
    largest, total = 1, 0
    for start, end in _column_places(footer):
        for size in _page_sizes(data, start, end):
            largest, total = max(largest, size), total + size
            if total > limit:
                raise ValueError("it unpacks to more than any checkpoint would")
    return largest


def _column_places(footer: Mapping[int, Any]) -> list[tuple[int, int]]:
    """Return the byte range of each column of each row group.

    A column without values may have any range, because Arrow does not read it.
    """
    try:
        columns = [chunk[_CHUNK_METADATA] for group in footer[_ROW_GROUPS] for chunk in group[_CHUNKS]]
        columns = [column for column in columns if column[_NUM_VALUES] != 0]
        starts = [min(column[_DATA_PAGE], column.get(_DICTIONARY_PAGE) or column[_DATA_PAGE]) for column in columns]
        return [(start, start + column[_CHUNK_BYTES]) for start, column in zip(starts, columns, strict=True)]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("its footer cannot be understood") from error


def _page_sizes(data: bytes, start: int, end: int) -> Iterator[int]:
    """Yield the declared decompressed size of each page of a column."""
    if not 0 < start <= end <= len(data):
        raise ValueError("one of its columns is outside the file")
    while start < end:
        header, start = thrift.read_struct(data, start)
        plain, packed = header.get(_PLAIN_BYTES), header.get(_PACKED_BYTES)
        if not isinstance(plain, int) or not isinstance(packed, int) or plain < 0 or packed < 0:
            raise ValueError("the header of a page cannot be understood")
        yield plain
        start += packed


def _content(tables: Sequence[Any], version: int, table: Location) -> CheckpointContent:
    extras = _extras(tables, version)
    kinds = {kind: [_only(rows, kind) for rows in tables] for kind in ("add", "metadata", "protocol")}
    defaults = {"data_change": True, "modification_time": 0, "added_at_version": version, "added_at_timestamp": 0}
    found = [from_wire(conform_files(rows, defaults), table) for rows in kinds["add"]]
    metadata = [row for rows in kinds["metadata"] for row in rows.to_pylist()]
    protocol = [row for rows in kinds["protocol"] for row in rows.to_pylist()]
    if not metadata:
        raise ValueError("it has no metadata row")
    num_files = sum(rows.num_rows for rows in found)
    if extras.num_files not in (None, num_files):
        raise ValueError(f"it declares {extras.num_files} files, but has {num_files}")
    skips = {relative_path(path, table): skip for path, skip in skips_of(extras.skips).items()}
    return CheckpointContent(
        version=version,
        timestamp_ms=extras.version_timestamp,
        txn_id=extras.version_txn_id,
        protocol=_protocol(protocol[-1]) if protocol else None,
        metadata=_metadata(metadata[-1]),
        files=newest_of_each_path(pa.concat_tables(found)),
        skips={path: msgspec.structs.replace(skip, path=path) for path, skip in skips.items()},
        transactions=transactions_of(extras.transactions),
    )


def _extras(tables: Sequence[Any], version: int) -> _Extras:
    for rows in tables:
        text = (rows.schema.metadata or {}).get(_EXTRAS_KEY)
        if text is not None:
            extras = convert(decode_json(text), _Extras, "key-value metadata")
            if extras.version != version:
                raise ValueError(f"it belongs to version {extras.version}")
            return extras
    return _Extras(version=version)


def _only(rows: Any, kind: str) -> Any:
    return rows.filter(pc.equal(rows[_ACTION_TYPE.name].cast(pa.string()), to_scalar(kind)))


def _metadata(row: Mapping[str, Any]) -> Metadata:
    fields: dict[str, Any] = {name: row.get(column.name) for name, column in _METADATA_COLUMNS.items()}
    for name in ("format", "formatOptions", "configuration"):
        if fields[name] is not None:
            fields[name] = {key: value for key, value in fields[name] if value is not None}
    options = fields.pop("formatOptions") or {}
    provider = (fields["format"] or {}).get("provider", Format().provider)
    fields["format"] = {"provider": provider, "options": options}
    return metadata_of(fields)


def _protocol(row: Mapping[str, Any]) -> Protocol:
    return protocol_of({name: row.get(column.name) for name, column in _PROTOCOL_COLUMNS.items()})


def _refuse(key: str, error: Exception) -> NoReturn:
    raise CheckpointCorruptionError(f"cannot read `{key}` because {error}", path=key) from error
