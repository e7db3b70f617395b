"""State manifests: which manifests, less which tombstones, are a table at one version. Avro or, from others, JSON.

A file of ours carries a SHA-256 of all its bytes in its header, computed with zeros in the hash's own place. It is held
against the bytes before anything is decoded, so no damage to a file of ours goes unnoticed or reaches a decoder. Such a
file has several marks, so that damage to one of them can't make it pass for another writer's, whose files have no hash.
"""

from __future__ import annotations

import functools
import hashlib
import io
from typing import Any, NoReturn

import fastavro
import msgspec

from indextables.errors import CheckpointCorruptionError, CheckpointWriteError, ProtocolError
from indextables.protocol import avro_container
from indextables.protocol.actions import Count, Int, Long, Metadata, Name, Protocol, Skip
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
from indextables.protocol.state_schema import STATE_MANIFEST_SCHEMA
from indextables.store.url import Location

FORMAT_VERSION = 1

_HASH_KEY = "indextables.sha256"
_HASH_LENGTH = 64
_NO_HASH = b"0" * _HASH_LENGTH
_SYNC = hashlib.sha256(b"indextables state manifest").digest()[: avro_container.SYNC_BYTES]
_SCHEMA_JSON = msgspec.json.encode(STATE_MANIFEST_SCHEMA)
_MARK_IN_SCHEMA = b'"versionTxnId"'
_HEADER_SCAN_BYTES = 1 << 16
_BEFORE_HASH = avro_container.encode_header({_HASH_KEY: _NO_HASH, "": b"", " ": b""}, _SYNC).partition(_NO_HASH)[0]


class ManifestInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One manifest of a state. A count of live or dead entries below zero is an unknown one."""

    path: str
    num_entries: int
    min_added_at_version: int
    max_added_at_version: int
    partition_bounds: dict[str, tuple[str | None, str | None]] | None = None
    tombstone_count: int = 0
    live_entry_count: int = -1


class StateManifest(msgspec.Struct, frozen=True, kw_only=True):
    """A table at one version, its files by reference. The fields from `protocol` on are None or empty in others'."""

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
    """The bytes of `_manifest.avro`; `codec` is `zstd`, `snappy` or `none`."""
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
    """Read a state manifest of any writer; one of ours is verified first.

    Avro of another writer may keep the decoder busy for ever: that belongs into a process that can be ended.
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
    """Whether this library wrote these bytes, as far as any of its marks has survived."""
    start = data[:_HEADER_SCAN_BYTES]
    return _HASH_KEY.encode() in start or _MARK_IN_SCHEMA in start or (len(data) > 64 and data.endswith(_SYNC))


def has_our_schema(data: bytes) -> bool:
    """Whether the record has exactly the schema of this library, so that no item of it takes no space."""
    try:
        return avro_container.decode_header(data).metadata.get("avro.schema") == _SCHEMA_JSON
    except ValueError:
        return False


def verify_state_manifest(data: bytes, key: str) -> None:
    """Hold a file of ours against its hash, without decoding it."""
    start = len(_BEFORE_HASH)
    found = data[start : start + _HASH_LENGTH]
    if not data.startswith(_BEFORE_HASH) or len(found) < _HASH_LENGTH:
        _refuse(key, "its header is damaged")
    digest = hashlib.sha256(_BEFORE_HASH + _NO_HASH)
    digest.update(memoryview(data)[start + _HASH_LENGTH :])
    if digest.hexdigest().encode() != found:
        _refuse(key, "its bytes do not fit the hash in its header")


def resolve_manifest_path(path: str, state_version: int) -> str:
    """The key of a manifest, from the table root."""
    if path.startswith("/") or "\\" in path or ":" in path or not path.isprintable():
        _refuse(path[:200], "it is no path inside the log")
    if any(segment in ("", ".", "..") for segment in path.split("/")):
        _refuse(path[:200], "it leaves the log, or might")
    if path.startswith(("manifests/", "state-v")):
        return f"{LOG_DIRECTORY}/{path}"
    return f"{LOG_DIRECTORY}/state-v{state_version:020d}/{path}"


def with_relative_paths(state: StateManifest, table: Location) -> StateManifest:
    """The same state, its tombstones and skips relative to the table; a path outside stays, and meets no file. A
    tombstone that was not written so is kept beside its relative path, for engines that match by exact text."""
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
    bounds = info.partition_bounds
    return {
        "path": info.path,
        "numEntries": info.num_entries,
        "minAddedAtVersion": info.min_added_at_version,
        "maxAddedAtVersion": info.max_added_at_version,
        "partitionBounds": bounds and {column: {"min": low, "max": high} for column, (low, high) in bounds.items()},
        "tombstoneCount": info.tombstone_count,
        "liveEntryCount": info.live_entry_count,
    }


def _fields(data: bytes) -> Any:
    if not data.startswith(avro_container.MAGIC):
        return decode_json(plain_text(data))
    header = avro_container.decode_header(data)
    found = list(avro_container.blocks(data, header))
    if [block.num_records for block in found] != [1]:
        raise ValueError("it does not hold exactly one record")
    return _decode_record(header, avro_container.plain_body(found[0], header))


def _decode_record(header: avro_container.Header, body: bytes) -> Any:
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
        raise ValueError(f"it stands for version {wire.state_version}")


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
    bounds = wire.partition_bounds
    return ManifestInfo(
        path=wire.path,
        num_entries=wire.num_entries,
        min_added_at_version=wire.min_added_at_version,
        max_added_at_version=wire.max_added_at_version,
        partition_bounds=None if bounds is None else {name: (each.min, each.max) for name, each in bounds.items()},
        tombstone_count=wire.tombstone_count,
        live_entry_count=wire.live_entry_count,
    )


@functools.cache
def _parsed_schema() -> Any:
    return fastavro.parse_schema(STATE_MANIFEST_SCHEMA)


def _refuse(key: str, why: str, cause: Exception | None = None) -> NoReturn:
    raise CheckpointCorruptionError(f"cannot read `{key}` because {why}", path=key) from cause
