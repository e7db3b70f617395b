"""JSON checkpoints: a table at one version as JSON lines, or in parts under a manifest that names them.

Written is what other engines read. They take one action of each line by its name, refuse lines without one, and refuse
fields of an action or of the manifest that they do not know. So whatever is ours alone stands beside an action: the
version of an add, and on the first line what a checkpoint says of itself.

Read are one object and JSON lines, plain and gzip; paths are relative to the table afterwards. Gzip has a checksum, and
the name of each part of ours ends with a hash of its bytes, which are held against it before they are decoded.
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
from indextables.protocol.actions import Add, Count, Name
from indextables.protocol.checkpoint_content import (
    CheckpointContent,
    convert,
    decode_json,
    transaction_fields,
)
from indextables.protocol.checkpoint_fold import CheckpointFold
from indextables.protocol.compression import gzip_text, plain_text
from indextables.protocol.file_table import adds_of
from indextables.protocol.names import LOG_DIRECTORY, parse_checkpoint_key
from indextables.protocol.version_file import as_on_wire
from indextables.store.url import Location

_ROWS_AT_ONCE = 4096
_MAX_PARTS = 100_000
_HASH_LENGTH = 32
_HASH_IN_NAME = re.compile(rf"_([0-9a-f]{{{_HASH_LENGTH}}})\.[0-9]+\.json$")


class JsonFile(NamedTuple):
    """A file to write, its key from the table root."""

    key: str
    data: bytes


class JsonPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part: its key from the table root, and its hash, or the start of it, where the writer left one."""

    key: str
    sha256: str | None = None


class JsonParts(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of a checkpoint in parts, and what else its object says."""

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
    """The key of a checkpoint, or of the manifest of its parts."""
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.json"


def encode_json_checkpoint(content: CheckpointContent, *, max_bytes: int, checkpoint_id: str) -> Iterator[JsonFile]:
    """The files of a checkpoint, in the order in which they are to be written.

    One file if its text has at most `max_bytes`; else parts of that size, and last the manifest that names them.
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
    """Read the file at `<version>.checkpoint.json`: a checkpoint, or the manifest of its parts."""
    version = parse_checkpoint_key(key)
    try:
        if version is None:
            raise ValueError("its name holds no version")
        fold = CheckpointFold(version, table)
        for fields in _objects(plain_text(data)):
            if fields.get("parts") is not None:
                return _parts(fields, version)
            fold.apply(fields)
        return fold.content()
    except ValueError as error:
        _refuse(key, error)


def join_json_parts(manifest: JsonParts, parts: Iterable[bytes], table: Location) -> CheckpointContent:
    """The checkpoint of these parts, which come in the order of the manifest."""
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
            raise ValueError(f"it announces {manifest.num_actions} actions, and {fold.num_actions} are there")
        fold.apply(manifest.fields)
        return fold.content()
    except ValueError as error:
        _refuse(json_checkpoint_key(manifest.version), error)


def _lines(content: CheckpointContent) -> Iterator[bytes]:
    """An action a line; the first holds what the checkpoint says of itself too."""
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
    """Parts of JSON lines, and the manifest of them, which is plain text."""
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
    """Lines in groups of at most that many bytes, or of one line."""
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
    """The one object of a text, or that of each line."""
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
        raise ValueError("it is no JSON object")
    return value


def _parts(fields: Mapping[str, Any], version: int) -> JsonParts:
    wire = convert(dict(fields), _WireParts, "manifest of parts")
    if wire.version is not None and wire.version != version:
        raise ValueError(f"it stands for version {wire.version}")
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
    """A part by its number, its name, or an object that holds its name."""
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
