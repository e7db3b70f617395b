"""JSON checkpoints: a table at one version as one object, or in parts under a manifest that names them.

Read are one object and JSON lines, plain and gzip; paths are relative to the table afterwards. Gzip has a checksum, and
our parts have a hash in the manifest, which is held against their bytes before they are decoded.
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
from indextables.protocol.version_file import with_written_path
from indextables.store.url import Location

_ROWS_AT_ONCE = 4096
_MAX_PARTS = 100_000


class JsonFile(NamedTuple):
    """A file to write, its key from the table root."""

    key: str
    data: bytes


class JsonPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part: its key from the table root, and its hash where the writer left one."""

    key: str
    sha256: str | None = None


class JsonParts(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of a checkpoint in parts, and what else its object says."""

    version: int
    num_actions: int | None
    parts: tuple[JsonPart, ...]
    fields: dict[str, Any]


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

    One object if its text has at most `max_bytes`; else parts of that size, and last the manifest that names them.
    """
    head = _encode({"version": content.version, **_definitions(content), **_extras(content)})
    skips = [_encode(skip) for skip in content.skips.values()]
    adds = _add_texts(content.files)
    taken: list[bytes] = []
    size = len(head) + sum(map(len, skips))
    for text in adds:
        taken.append(text)
        size += len(text) + 1
        if size > max_bytes:
            yield from _encode_parts(content, itertools.chain(taken, adds), max_bytes, checkpoint_id)
            return
    body = head[:-1] + b',"mergeskip":[' + b",".join(skips) + b'],"add":[' + b",".join(taken) + b"]}"
    yield JsonFile(json_checkpoint_key(content.version), gzip_text(body))


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
            if part.sha256 is not None and hashlib.sha256(data).hexdigest() != part.sha256:
                raise ValueError("its bytes do not fit the hash in the manifest")
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


def _definitions(content: CheckpointContent) -> dict[str, Any]:
    found = {"protocol": content.protocol, "metaData": content.metadata}
    return {name: value for name, value in found.items() if value is not None}


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
    return _encode(with_written_path(add))[:-1] + b',"addedAtVersion":%d,"addedAtTimestamp":%d}' % (
        version,
        timestamp_ms,
    )


def _encode_parts(
    content: CheckpointContent, adds: Iterable[bytes], max_bytes: int, checkpoint_id: str
) -> Iterator[JsonFile]:
    """Parts of JSON lines, and the manifest of them."""
    head = [_encode({name: value}) for name, value in _definitions(content).items()]
    skips = [_encode({"mergeskip": skip}) for skip in content.skips.values()]
    lines = itertools.chain(head, skips, (b'{"add":%b}' % text for text in adds))
    parts: list[dict[str, Any]] = []
    num_actions = 0
    for number, part in enumerate(_pack(lines, max_bytes), start=1):
        key = _part_key(content.version, checkpoint_id, number)
        data = gzip_text(b"".join(part))
        name = key.removeprefix(f"{LOG_DIRECTORY}/")
        parts.append({"path": name, "numActions": len(part), "sha256": hashlib.sha256(data).hexdigest()})
        num_actions += len(part)
        yield JsonFile(key, data)
    manifest = {
        "version": content.version,
        "checkpointId": checkpoint_id,
        "numActions": num_actions,
        "parts": parts,
        **_extras(content),
    }
    yield JsonFile(json_checkpoint_key(content.version), gzip_text(_encode(manifest)))


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
    return JsonParts(version=version, num_actions=wire.num_actions, parts=parts, fields=extras)


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
    return JsonPart(key=f"{LOG_DIRECTORY}/{name}", sha256=wire.sha256)


def _encode(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointWriteError(f"cannot write a JSON checkpoint: {error}") from error


def _refuse(key: str, error: ValueError) -> NoReturn:
    raise CheckpointCorruptionError(f"cannot read `{key}` because {error}") from error
