"""JSON checkpoints: a table at one version as JSON lines, in one file or in parts.

A checkpoint in parts has a manifest with their names. Other engines read these files: they read one action of each line
by its name, refuse lines without one, and refuse unknown fields in an action or in the manifest. Our own fields are
therefore outside the action: the version of an add, and on the first line the fields of the checkpoint itself.

The reader accepts one object or JSON lines, plain or gzip, and makes paths relative to the table. Gzip has a checksum,
and the name of each part of this library ends with a hash of its bytes, which is checked before decoding.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

import msgspec
import pyarrow as pa

from indextables.errors import CheckpointCorruptionError, CheckpointWriteError
from indextables.location import Location
from indextables.protocol.actions import Add, Count, Name
from indextables.protocol.checkpoint.fold import CheckpointFold
from indextables.protocol.checkpoint_content import (
    CheckpointContent,
    convert,
    decode_json,
    transaction_fields,
)
from indextables.protocol.compression import gzip_text, plain_text
from indextables.protocol.file_table import adds_of
from indextables.protocol.names import LOG_DIRECTORY, parse_checkpoint_key
from indextables.protocol.version_file import as_on_wire

_ROWS_AT_ONCE = 4096
_MAX_PARTS = 100_000
_HASH_LENGTH = 32
_HASH_IN_NAME = re.compile(rf"_([0-9a-f]{{{_HASH_LENGTH}}})\.[0-9]+\.json$")


class JsonFile(NamedTuple):
    """File to write, with its key from the table root."""

    key: str
    data: bytes


class JsonPart(msgspec.Struct, frozen=True, kw_only=True):
    """Part: its key from the table root, and its hash or a prefix of it, if recorded."""

    key: str
    sha256: str | None = None


class JsonParts(msgspec.Struct, frozen=True, kw_only=True):
    """Manifest of a checkpoint in parts, with the other fields of its object."""

    version: int
    num_actions: int | None
    parts: tuple[JsonPart, ...]
    fields: dict[str, Any]
    checkpoint_id: str | None = None


class _WireParts(msgspec.Struct, frozen=True, rename="camel"):
    parts: list[Any] | Count
    version: Count | None = None
    checkpoint_id: str | None = None
    num_actions: Count | None = None


class _WirePart(msgspec.Struct, frozen=True):
    path: Name
    sha256: str | None = None


def json_checkpoint_key(version: int) -> str:
    """Return the key of a checkpoint, or of the manifest of its parts."""
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.json"


def encode_json_checkpoint(content: CheckpointContent, *, max_bytes: int, checkpoint_id: str) -> Iterator[JsonFile]:
    """Yield the files of a checkpoint in writing order.

    The checkpoint is one file if its text has at most `max_bytes`; else it is parts of this size, and last their
    manifest.
    """
    lines = _lines(content)
    taken: list[bytes] = []
    size = 0
    for line in lines:
        taken.append(line)
        size += len(line) + 1
        if size > max_bytes and len(taken) > 1:
            yield from _encode_parts(content, itertools.chain(taken, lines), max_bytes, checkpoint_id)
            return
    yield JsonFile(json_checkpoint_key(content.version), gzip_text(b"".join(line + b"\n" for line in taken)))


def decode_json_checkpoint(data: bytes, key: str, table: Location) -> CheckpointContent | JsonParts:
    """Decode `<version>.checkpoint.json`: a checkpoint, or the manifest of its parts."""
    version = parse_checkpoint_key(key)
    try:
        if version is None:
            raise ValueError("its name has no version")
        fold = CheckpointFold(version, table)
        for fields in _objects(plain_text(data)):
            if fields.get("parts") is not None:
                return _parts(fields, version)
            fold.apply(fields)
        return fold.content()
    except ValueError as error:
        _refuse(key, error)


def join_json_parts(manifest: JsonParts, parts: Iterable[bytes], table: Location) -> CheckpointContent:
    """Return the checkpoint of these parts, in the order of the manifest."""
    fold = CheckpointFold(manifest.version, table)
    for part, data in zip(manifest.parts, parts, strict=True):
        try:
            if part.sha256 is not None and not hashlib.sha256(data).hexdigest().startswith(part.sha256):
                raise ValueError("its bytes do not fit the hash in its name or in the manifest")
            for fields in _objects(plain_text(data)):
                fold.apply(fields)
        except ValueError as error:
            _refuse(part.key, error)
    try:
        if manifest.num_actions is not None and fold.num_actions != manifest.num_actions:
            raise ValueError(f"it declares {manifest.num_actions} actions, but has {fold.num_actions}")
        fold.apply(manifest.fields)
        return fold.content()
    except ValueError as error:
        _refuse(json_checkpoint_key(manifest.version), error)


def _lines(content: CheckpointContent) -> Iterator[bytes]:
    """Yield one action per line; the first also has the fields of the checkpoint."""
    found = {"protocol": content.protocol, "metaData": content.metadata}
    extras = {"version": content.version, **_extras(content)}
    for name, value in found.items():
        if value is not None:
            yield _encode({name: value, **extras})
            extras = {}
    yield from (_encode({"mergeskip": skip}) for skip in content.skips.values())
    yield from _add_texts(content.files)


def _extras(content: CheckpointContent) -> dict[str, Any]:
    return {
        "transactions": transaction_fields(content.transactions),
        "versionTimestamp": content.timestamp_ms,
        "versionTxnId": content.txn_id,
    }


def _add_texts(files: pa.Table) -> Iterator[bytes]:
    for start in range(0, files.num_rows, _ROWS_AT_ONCE):
        piece = files.slice(start, _ROWS_AT_ONCE)
        versions, times = piece["added_at_version"].to_pylist(), piece["added_at_timestamp"].to_pylist()
        for add, version, timestamp_ms in zip(adds_of(piece), versions, times, strict=True):
            yield _encode_add(add, version, timestamp_ms)


def _encode_add(add: Add, version: int, timestamp_ms: int) -> bytes:
    text = _encode(as_on_wire(add))
    return b'{"add":%b,"addedAtVersion":%d,"addedAtTimestamp":%d}' % (text, version, timestamp_ms)


def _encode_parts(
    content: CheckpointContent, lines: Iterable[bytes], max_bytes: int, checkpoint_id: str
) -> Iterator[JsonFile]:
    """Yield parts of JSON lines, then their manifest as plain text."""
    names: list[str] = []
    for number, part in enumerate(_pack(lines, max_bytes), start=1):
        data = gzip_text(b"".join(part))
        key = _part_key(content.version, f"{checkpoint_id}_{_hash(data)}", number)
        names.append(key.removeprefix(f"{LOG_DIRECTORY}/"))
        yield JsonFile(key, data)
    manifest = {
        "version": content.version,
        "checkpointId": checkpoint_id,
        "parts": names,
        "createdTime": content.timestamp_ms or 0,
        "format": "json",
    }
    yield JsonFile(json_checkpoint_key(content.version), _encode(manifest))


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_HASH_LENGTH]


def _pack(lines: Iterable[bytes], max_bytes: int) -> Iterator[list[bytes]]:
    """Group lines to at most `max_bytes` bytes, or to one line."""
    group: list[bytes] = []
    size = 0
    for line in lines:
        if group and size + len(line) + 1 > max_bytes:
            yield group
            group, size = [], 0
        group.append(line + b"\n")
        size += len(line) + 1
    if group:
        yield group


def _part_key(version: int, checkpoint_id: str, number: int) -> str:
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.{checkpoint_id}.{number:05d}.json"


def _objects(text: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the only object of a text, or the object of each line."""
    try:
        yield _mapping(decode_json(text))
        return
    except ValueError:
        if b"\n" not in text.strip():
            raise
    for number, line in enumerate(io.BytesIO(text), start=1):
        if line.isspace():
            continue
        try:
            fields = _mapping(decode_json(line))
        except ValueError as error:
            raise ValueError(f"of its line {number}: {error}") from error
        yield fields


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def _parts(fields: Mapping[str, Any], version: int) -> JsonParts:
    wire = convert(dict(fields), _WireParts, "manifest of parts")
    if wire.version is not None and wire.version != version:
        raise ValueError(f"it belongs to version {wire.version}")
    named = range(1, wire.parts + 1) if isinstance(wire.parts, int) else wire.parts
    if not 0 < len(named) <= _MAX_PARTS:
        raise ValueError(f"it has {len(named)} parts")
    extras = {name: fields.get(name) for name in ("transactions", "versionTimestamp", "versionTxnId")}
    parts = tuple(_part(each, version, wire.checkpoint_id) for each in named)
    return JsonParts(
        version=version,
        num_actions=wire.num_actions,
        parts=parts,
        fields=extras,
        checkpoint_id=wire.checkpoint_id,
    )


def _part(named: Any, version: int, checkpoint_id: str | None) -> JsonPart:
    """Return a part by its number, its name, or an object with its name."""
    if isinstance(named, int) and not isinstance(named, bool):
        wire = _WirePart(_part_key(version, checkpoint_id or "", named))
    elif isinstance(named, str):
        wire = _WirePart(named)
    else:
        wire = convert(named, _WirePart, "list of parts")
    name = wire.path.removeprefix(f"{LOG_DIRECTORY}/")
    if not re.fullmatch(rf"{version:020d}\.checkpoint\.[0-9A-Za-z_-]+\.[0-9]+\.json", name):
        raise ValueError(f"its part `{name[:200]}` has no name of a part")
    in_name = _HASH_IN_NAME.search(name)
    return JsonPart(key=f"{LOG_DIRECTORY}/{name}", sha256=wire.sha256 or (in_name[1] if in_name else None))


def _encode(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointWriteError(f"cannot write a JSON checkpoint: {error}") from error


def _refuse(key: str, error: ValueError) -> NoReturn:
    raise CheckpointCorruptionError(f"cannot read `{key}` because {error}", path=key) from error
