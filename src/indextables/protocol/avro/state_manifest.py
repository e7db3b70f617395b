"""State manifests: the manifests and tombstones of a table at one version.

The format is Avro or, from other writers, JSON. A file of this library has a SHA-256 of all its bytes in its header,
computed with zeros at the place of the hash. It is checked before decoding, so that all damage is detected and never
reaches a decoder. Such a file has several marks, so that damage to one of them cannot make it look like a file of
another writer, which has no hash.

The Avro schema has the fields that every writer of this format knows, then our own, which are all optional.
"""

from __future__ import annotations

import functools
import hashlib
import io
from typing import Any, NoReturn

import msgspec

from indextables.errors import CheckpointCorruptionError, CheckpointWriteError, ProtocolError
from indextables.location import Location
from indextables.protocol.actions import Count, Int, Long, Metadata, Name, Protocol, Skip
from indextables.protocol.avro import avro_container
from indextables.protocol.checkpoint_content import (
    convert,
    decode_json,
    encode_json,
    metadata_of,
    protocol_of,
    skips_of,
    transaction_fields,
    transactions_of,
    without_nulls,
)
from indextables.protocol.compression import AVRO_CODECS, plain_text
from indextables.protocol.doc_mapping import REGISTRY_PREFIX
from indextables.protocol.names import LOG_DIRECTORY, parse_checkpoint_key
from indextables.protocol.paths import normalize_path


def _optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


_BOUNDS = {
    "type": "record",
    "name": "PartitionBoundsItem",
    "fields": [_optional("min", "string"), _optional("max", "string")],
}
_KNOWN_INFO_FIELDS = [
    {"name": "path", "type": "string"},
    {"name": "numEntries", "type": "long"},
    {"name": "minAddedAtVersion", "type": "long"},
    {"name": "maxAddedAtVersion", "type": "long"},
    _optional("partitionBounds", {"type": "map", "values": _BOUNDS}),
    {"name": "tombstoneCount", "type": "long", "default": 0},
    {"name": "liveEntryCount", "type": "long", "default": -1},
]
_OWN_INFO_FIELDS = [
    _optional("pathBounds", {"type": "map", "values": _BOUNDS["name"]}),
    _optional("docMappingRefs", {"type": "array", "items": "string"}),
    _optional("run", "long"),
]
_LAST_BATCH = {
    "type": "record",
    "name": "LastBatchItem",
    "fields": [{"name": "batchId", "type": "long"}, {"name": "version", "type": "long"}],
}


def _schema(info_fields: list[dict[str, Any]]) -> dict[str, Any]:
    manifest_info = {"type": "record", "name": "ManifestInfoItem", "fields": info_fields}
    fields = [
        {"name": "formatVersion", "type": "int"},
        {"name": "stateVersion", "type": "long"},
        {"name": "createdAt", "type": "long"},
        {"name": "numFiles", "type": "long"},
        {"name": "totalBytes", "type": "long"},
        {"name": "protocolVersion", "type": "int", "default": 4},
        {"name": "manifests", "type": {"type": "array", "items": manifest_info}},
        {"name": "tombstones", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "schemaRegistry", "type": {"type": "map", "values": "string"}, "default": {}},
        _optional("metadata", "string"),
        _optional("protocol", "string"),
        {"name": "skips", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "transactions", "type": {"type": "map", "values": _LAST_BATCH}, "default": {}},
        _optional("versionTimestamp", "long"),
        _optional("versionTxnId", "string"),
    ]
    return {"type": "record", "name": "StateManifest", "namespace": "io.indextables.state", "fields": fields}


STATE_MANIFEST_SCHEMA: dict[str, Any] = _schema([*_KNOWN_INFO_FIELDS, *_OWN_INFO_FIELDS])


FORMAT_VERSION = 1

_HASH_KEY = "indextables.sha256"
_HASH_LENGTH = 64
_NO_HASH = b"0" * _HASH_LENGTH
_SYNC = hashlib.sha256(b"indextables state manifest").digest()[: avro_container.SYNC_BYTES]
_SCHEMA_JSON = msgspec.json.encode(STATE_MANIFEST_SCHEMA)
_SCHEMAS = (_SCHEMA_JSON, msgspec.json.encode(_schema(_KNOWN_INFO_FIELDS)))
_MARK_IN_SCHEMA = b'"versionTxnId"'
_HEADER_SCAN_BYTES = 1 << 16
_BEFORE_HASH = avro_container.encode_header({_HASH_KEY: _NO_HASH, "": b"", " ": b""}, _SYNC).partition(_NO_HASH)[0]


class ManifestInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One manifest of a state; a negative count of live or dead entries is unknown.

    `path_bounds` has the bounds of its paths (`state.path_bounds`), `doc_mapping_refs` all references of its files, and
    `run` the version whose state laid it out; None if unknown, as in manifests of other writers.
    """

    path: str
    num_entries: int
    min_added_at_version: int
    max_added_at_version: int
    partition_bounds: dict[str, tuple[str | None, str | None]] | None = None
    tombstone_count: int = 0
    live_entry_count: int = -1
    path_bounds: dict[str, tuple[str | None, str | None]] | None = None
    doc_mapping_refs: tuple[str, ...] | None = None
    run: int | None = None


class StateManifest(msgspec.Struct, frozen=True, kw_only=True):
    """Table at one version, with its files by reference.

    The fields from `protocol` on are None or empty in states of other writers.
    """

    state_version: int
    created_at: int
    num_files: int
    total_bytes: int
    format_version: int = FORMAT_VERSION
    protocol_version: int = 4
    manifests: tuple[ManifestInfo, ...] = ()
    tombstones: tuple[str, ...] = ()
    schema_registry: dict[str, str] = {}
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    skips: dict[str, Skip] = {}
    transactions: dict[str, tuple[int, int]] = {}
    version_timestamp: int | None = None
    version_txn_id: str | None = None


class _Bounds(msgspec.Struct, frozen=True):
    min: str | None = None
    max: str | None = None


class _WireInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    path: Name
    num_entries: Count
    min_added_at_version: Long
    max_added_at_version: Long
    partition_bounds: dict[str, _Bounds] | None = None
    tombstone_count: Long = 0
    live_entry_count: Long = -1
    path_bounds: dict[str, _Bounds] | None = None
    doc_mapping_refs: tuple[str, ...] | None = None
    run: Long | None = None


class _WireState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    format_version: Int
    state_version: Count
    created_at: Long
    num_files: Count
    total_bytes: Count
    protocol_version: Int = 4
    manifests: list[dict[str, Any]]
    tombstones: tuple[str, ...] = ()
    schema_registry: dict[str, str] = {}
    metadata: str | None = None
    protocol: str | None = None
    skips: list[str] = []
    transactions: dict[str, Any] = {}
    version_timestamp: Long | None = None
    version_txn_id: str | None = None


def encode_state_manifest(state: StateManifest, *, codec: str, level: int = 3) -> bytes:
    """Return the bytes of `_manifest.avro`; `codec` is `zstd`, `snappy` or `none`."""
    import fastavro

    body = io.BytesIO()
    try:
        fastavro.schemaless_writer(body, _parsed_schema(), _record(state))
    except (ValueError, TypeError, OverflowError) as error:
        raise CheckpointWriteError(
            f"cannot write the state of version {state.state_version}: {error}", version=state.state_version
        ) from error
    header = {_HASH_KEY: _NO_HASH, "avro.schema": _SCHEMA_JSON, "avro.codec": AVRO_CODECS[codec].encode()}
    data = avro_container.encode_header(header, _SYNC)
    data += avro_container.encode_block(1, body.getvalue(), _SYNC, AVRO_CODECS[codec], level)
    digest = hashlib.sha256(data).hexdigest().encode()
    return _BEFORE_HASH + digest + data[len(_BEFORE_HASH) + _HASH_LENGTH :]


def decode_state_manifest(data: bytes, key: str) -> StateManifest:
    """Decode a state manifest of any writer; verify one of this library first.

    Avro of another writer may make the decoder loop without end: decode it in a process that can be terminated.
    """
    if is_ours(data):
        verify_state_manifest(data, key)
    try:
        wire = convert(_fields(data), _WireState, "record")
        _check_readable(wire, key)
        return _state(wire)
    except ValueError as error:
        _refuse(key, str(error), error)


def is_ours(data: bytes) -> bool:
    """Return True if the bytes have any of this library's marks."""
    start = data[:_HEADER_SCAN_BYTES]
    return _HASH_KEY.encode() in start or _MARK_IN_SCHEMA in start or (len(data) > 64 and data.endswith(_SYNC))


def has_our_schema(data: bytes) -> bool:
    """Return True if the record has exactly the schema of this or an earlier release.

    In these schemas every item takes space.
    """
    try:
        return avro_container.decode_header(data).metadata.get("avro.schema") in _SCHEMAS
    except ValueError:
        return False


def verify_state_manifest(data: bytes, key: str) -> None:
    """Check a file of this library against its hash, without decoding it."""
    start = len(_BEFORE_HASH)
    found = data[start : start + _HASH_LENGTH]
    if not data.startswith(_BEFORE_HASH) or len(found) < _HASH_LENGTH:
        _refuse(key, "its header is damaged")
    digest = hashlib.sha256(_BEFORE_HASH + _NO_HASH)
    digest.update(memoryview(data)[start + _HASH_LENGTH :])
    if digest.hexdigest().encode() != found:
        _refuse(key, "its bytes do not fit the hash in its header")


def resolve_manifest_path(path: str, state_version: int) -> str:
    """Return the key of a manifest, from the table root."""
    if path.startswith("/") or "\\" in path or ":" in path or not path.isprintable():
        _refuse(path[:200], "it is not a path inside the log")
    if any(segment in ("", ".", "..") for segment in path.split("/")):
        _refuse(path[:200], "it leaves the log, or might")
    if path.startswith(("manifests/", "state-v")):
        return f"{LOG_DIRECTORY}/{path}"
    return f"{LOG_DIRECTORY}/state-v{state_version:020d}/{path}"


def with_relative_paths(state: StateManifest, table: Location) -> StateManifest:
    """Return the state with tombstones and skips relative to the table.

    A path outside the table stays, and matches no file. A tombstone that was written in another form is kept next to
    its relative path, for engines that match by exact text.
    """
    skips = {_inside(path, table): skip for path, skip in state.skips.items()}
    return msgspec.structs.replace(
        state,
        tombstones=tuple(dict.fromkeys([*(_inside(path, table) for path in state.tombstones), *state.tombstones])),
        skips={path: msgspec.structs.replace(skip, path=path) for path, skip in skips.items()},
    )


def _inside(path: str, table: Location) -> str:
    try:
        return normalize_path(path, table)
    except ValueError:
        return path


def _record(state: StateManifest) -> dict[str, Any]:
    return {
        "formatVersion": state.format_version,
        "stateVersion": state.state_version,
        "createdAt": state.created_at,
        "numFiles": state.num_files,
        "totalBytes": state.total_bytes,
        "protocolVersion": state.protocol_version,
        "manifests": [_info_record(info) for info in state.manifests],
        "tombstones": list(state.tombstones),
        "schemaRegistry": state.schema_registry,
        "metadata": None if state.metadata is None else encode_json({"metaData": state.metadata}),
        "protocol": None if state.protocol is None else encode_json({"protocol": state.protocol}),
        "skips": [encode_json({"mergeskip": skip}) for skip in state.skips.values()],
        "transactions": transaction_fields(state.transactions),
        "versionTimestamp": state.version_timestamp,
        "versionTxnId": state.version_txn_id,
    }


def _info_record(info: ManifestInfo) -> dict[str, Any]:
    return {
        "path": info.path,
        "numEntries": info.num_entries,
        "minAddedAtVersion": info.min_added_at_version,
        "maxAddedAtVersion": info.max_added_at_version,
        "partitionBounds": _bounds_record(info.partition_bounds),
        "tombstoneCount": info.tombstone_count,
        "liveEntryCount": info.live_entry_count,
        "pathBounds": _bounds_record(info.path_bounds),
        "docMappingRefs": None if info.doc_mapping_refs is None else list(info.doc_mapping_refs),
        "run": info.run,
    }


def _bounds_record(bounds: dict[str, tuple[str | None, str | None]] | None) -> Any:
    return bounds and {column: {"min": low, "max": high} for column, (low, high) in bounds.items()}


def _fields(data: bytes) -> Any:
    if not data.startswith(avro_container.MAGIC):
        return decode_json(plain_text(data))
    header = avro_container.decode_header(data)
    found = list(avro_container.blocks(data, header))
    if [block.num_records for block in found] != [1]:
        raise ValueError("it does not contain exactly one record")
    return _decode_record(header, avro_container.plain_body(found[0], header))


def _decode_record(header: avro_container.Header, body: bytes) -> Any:
    import fastavro

    stream = io.BytesIO(body)
    try:
        schema = decode_json(header.metadata.get("avro.schema", b""))
        record = fastavro.schemaless_reader(stream, schema, None)
    except Exception as error:
        raise ValueError(f"its record cannot be decoded ({type(error).__name__}: {str(error)[:200]})") from error
    if stream.tell() != len(body):
        raise ValueError("there is something behind its record")
    return record


def _check_readable(wire: _WireState, key: str) -> None:
    if wire.format_version > FORMAT_VERSION:
        raise ProtocolError(
            f"cannot read `{key}` because its format is version {wire.format_version}, newer than {FORMAT_VERSION}",
            hint="upgrade the library",
        )
    expected = parse_checkpoint_key(key)
    if expected is not None and expected != wire.state_version:
        raise ValueError(f"it belongs to version {wire.state_version}")


def _state(wire: _WireState) -> StateManifest:
    return StateManifest(
        state_version=wire.state_version,
        created_at=wire.created_at,
        num_files=wire.num_files,
        total_bytes=wire.total_bytes,
        format_version=wire.format_version,
        protocol_version=wire.protocol_version,
        manifests=tuple(_info(without_nulls(fields)) for fields in wire.manifests),
        tombstones=wire.tombstones,
        schema_registry={key.removeprefix(REGISTRY_PREFIX): value for key, value in wire.schema_registry.items()},
        metadata=None if wire.metadata is None else metadata_of(decode_json(wire.metadata)),
        protocol=None if wire.protocol is None else protocol_of(decode_json(wire.protocol)),
        skips=skips_of(map(decode_json, wire.skips)),
        transactions=transactions_of(wire.transactions),
        version_timestamp=wire.version_timestamp,
        version_txn_id=wire.version_txn_id,
    )


def _info(fields: Any) -> ManifestInfo:
    wire = convert(fields, _WireInfo, "list of manifests")
    return ManifestInfo(
        path=wire.path,
        num_entries=wire.num_entries,
        min_added_at_version=wire.min_added_at_version,
        max_added_at_version=wire.max_added_at_version,
        partition_bounds=_bounds(wire.partition_bounds),
        tombstone_count=wire.tombstone_count,
        live_entry_count=wire.live_entry_count,
        path_bounds=_bounds(wire.path_bounds),
        doc_mapping_refs=wire.doc_mapping_refs,
        run=wire.run,
    )


def _bounds(wire: dict[str, _Bounds] | None) -> dict[str, tuple[str | None, str | None]] | None:
    return None if wire is None else {name: (each.min, each.max) for name, each in wire.items()}


@functools.cache
def _parsed_schema() -> Any:
    import fastavro

    return fastavro.parse_schema(STATE_MANIFEST_SCHEMA)


def _refuse(key: str, why: str, cause: Exception | None = None) -> NoReturn:
    raise CheckpointCorruptionError(f"cannot read `{key}` because {why}", path=key) from cause
