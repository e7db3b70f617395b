"""Files of the transaction log: version files, checkpoints, states, manifests and the hint."""

from __future__ import annotations

import functools
import gzip
import json
import os
import random
import zlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.fuzz.engine import Target, need
from tests.fuzz.mutate import change_json, damage_bytes, json_text
from tests.protocol.checkpoint_examples import VERSION, example_content
from tests.protocol.protocol_examples import TABLE, WHOLE_VERSION, version_text
from tests.protocol.test_file_entry import foreign, records_of
from tests.protocol.test_state_manifest import KEY as STATE_KEY
from tests.protocol.test_state_manifest import STATE, foreign_avro, foreign_record

from indextables.errors import CheckpointCorruptionError, CorruptLogError, ProtocolError, SchemaError
from indextables.protocol import compression, varints
from indextables.protocol.avro import avro_container
from indextables.protocol.avro.file_entry import FILE_ENTRY_SCHEMA, encode_manifest, manifest_name
from indextables.protocol.avro.state_manifest import encode_state_manifest, resolve_manifest_path, with_relative_paths
from indextables.protocol.checkpoint.json_checkpoint import (
    JsonParts,
    decode_json_checkpoint,
    encode_json_checkpoint,
    join_json_parts,
    json_checkpoint_key,
)
from indextables.protocol.checkpoint.last_checkpoint import (
    LastCheckpoint,
    decode_last_checkpoint,
    encode_last_checkpoint,
)
from indextables.protocol.checkpoint.parquet_checkpoint import (
    decode_parquet_checkpoint,
    decode_parquet_sidecar,
    encode_parquet_checkpoint,
    parquet_checkpoint_key,
    parquet_sidecar_key,
)
from indextables.protocol.doc_mapping import canonical_json
from indextables.protocol.schema import schema_from_json
from indextables.protocol.version_file import decode_version, encode_version, identity_of, peek_mark
from indextables.runtime.scratch import directory_until_exit
from indextables.state import sandbox

SECONDS = 20.0
CODECS = ("zstd", "snappy", "none")
FOREIGN_MANIFEST = "_transaction_log/manifests/manifest-3673dda9.avro"
SCHEMA_TEXT = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": False, "metadata": {}},
            {"name": "tags", "type": {"type": "array", "elementType": "string", "containsNull": True}},
            {"name": "at", "type": {"type": "map", "keyType": "string", "valueType": "decimal(10,2)"}},
            {"name": "in", "type": {"type": "struct", "fields": [{"name": "a", "type": "timestamp"}]}},
        ],
    }
)


def packed(rng: random.Random, text: bytes) -> bytes:
    """The text in one of the forms that a file of the log may have."""
    match rng.randrange(5):
        case 0:
            return b"\x01\x01" + gzip.compress(text, mtime=0)
        case 1:
            half = len(text) // 2
            return gzip.compress(text[:half], mtime=0) + gzip.compress(text[half:], mtime=rng.randrange(2**31))
        case 2:
            return gzip.compress(text, mtime=0)
        case _:
            return text


def is_inside(path: str) -> bool:
    """Whether a path of a split can be nothing but a file of the table."""
    segments = path.split("/")
    return not {"", ".", ".."} & set(segments) and segments[0] != "_transaction_log" and "://" not in path


# Version files


def version_bytes(rng: random.Random) -> bytes:
    plain = version_text(WHOLE_VERSION)
    if rng.random() < 0.1:
        return damage_bytes(rng, encode_version(WHOLE_VERSION, compress=False), [plain])
    if rng.random() < 0.5:
        return packed(rng, damage_bytes(rng, plain))
    return damage_bytes(rng, encode_version(WHOLE_VERSION, compress=True), [plain])


def version_lines(rng: random.Random) -> bytes:
    lines = [json.loads(line) for line in version_text(WHOLE_VERSION).splitlines()]
    changed = change_json(rng, lines)
    return packed(rng, b"\n".join(map(json_text, changed if isinstance(changed, list) else [changed])))


def same_version(rng: random.Random) -> bytes:
    """The same actions, written in another way."""
    lines = [json.loads(line) for line in version_text(WHOLE_VERSION).splitlines()]
    texts = []
    for line in lines:
        ((kind, fields),) = line.items()
        names = list(fields)
        rng.shuffle(names)
        again = {kind: {**{name: fields[name] for name in names}, "unknown": [{"deep": 1}], "other": None}}
        texts.append(json.dumps(again, indent=None, separators=rng.choice(((",", ":"), (" , ", "\t:\t")))).encode())
    texts.insert(rng.randrange(1, len(texts)), b"")
    return packed(rng, rng.choice((b"\n", b"\r\n")).join(texts))


def use_version(data: bytes) -> None:
    actions = decode_version(data, 1, TABLE)
    for action in actions:
        need(is_inside(getattr(action, "path", "x")), "a path leaves the table")
    need(decode_version(encode_version(actions, compress=True), 1, TABLE) == actions, "it reads back otherwise")
    need(peek_mark(data, 1, TABLE) == identity_of(1, actions), "its first line says something else")
    try:
        whole = gzip.decompress(data) == version_text(WHOLE_VERSION)
    except (OSError, EOFError, zlib.error):
        return
    need(not whole or actions == WHOLE_VERSION, "the same text is another version")


def use_same_version(data: bytes) -> None:
    need(decode_version(data, 1, TABLE) == WHOLE_VERSION, "the same actions are others")


@functools.cache
def json_files(max_bytes: int) -> tuple[tuple[str, bytes], ...]:
    files = encode_json_checkpoint(example_content(6), max_bytes=max_bytes, checkpoint_id="c1")
    return tuple((file.key, file.data) for file in files)


def checkpoint_bytes(rng: random.Random) -> bytes:
    whole, manifest = json_files(1 << 20)[-1][1], json_files(1500)[-1][1]
    data = rng.choice((whole, manifest))
    plain = compression.plain_text(data)
    match rng.randrange(4):
        case 0:
            return damage_bytes(rng, data, [whole, manifest])
        case 1:
            return packed(rng, damage_bytes(rng, plain))
        case 2:
            return packed(rng, json_text(change_json(rng, one_object(plain))))
        case _:
            lines = [json.loads(line) for line in compression.plain_text(whole).splitlines()]
            return packed(rng, b"\n".join(map(json_text, change_json(rng, lines) or [None])))


def one_object(text: bytes) -> dict[str, Any]:
    """The lines of a checkpoint as one object, as other writers leave it, or the manifest of its parts."""
    found: dict[str, Any] = {"add": []}
    for line in map(json.loads, text.splitlines()):
        adds = [line.pop("add")] if "add" in line else []
        found = {**found, **line, "add": [*found["add"], *adds]}
    return found


def use_checkpoint(data: bytes) -> None:
    found = decode_json_checkpoint(data, json_checkpoint_key(VERSION), TABLE)
    if isinstance(found, JsonParts):
        parts = dict(json_files(1500))
        found = join_json_parts(found, [parts.get(part.key, b"") for part in found.parts], TABLE)
    need(all(map(is_inside, found.files["path"].to_pylist())), "a path leaves the table")
    need(found.version == VERSION, "it stands for another version")


def part_bytes(rng: random.Random) -> bytes:
    parts = [data for _, data in json_files(1500)[:-1]]
    return damage_bytes(rng, rng.choice(parts), parts)


def use_part(data: bytes) -> None:
    """One part in the place of each: its hash must give it away, wherever it is not the very same."""
    files = json_files(1500)
    manifest = decode_json_checkpoint(files[-1][1], files[-1][0], TABLE)
    assert isinstance(manifest, JsonParts)
    known = [part for _, part in files[:-1]]
    found = join_json_parts(manifest, [data, *known[1:]], TABLE)
    need(data == known[0] and found.files.num_rows == 6, "damage to a part is not noticed")


@functools.cache
def parquet_files(codec: str = "snappy", max_bytes: int = 1 << 20) -> tuple[tuple[str, bytes], ...]:
    found = encode_parquet_checkpoint(example_content(6), codec=codec, max_bytes=max_bytes, created_time_ms=1)
    return tuple((file.key, file.data) for file in found)


def parquet_bytes(rng: random.Random) -> bytes:
    data = parquet_files(rng.choice(("snappy", "zstd", "none", "gzip")))[0][1]
    if rng.random() < 0.4:
        return damage_bytes(rng, data, [parquet_files("zstd")[0][1]])
    if rng.random() < 0.3:
        return other_columns(rng, data)
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = damage_bytes(rng, data[end:-8])
    return data[:end] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def other_columns(rng: random.Random, data: bytes) -> bytes:
    """Rows whose columns have other types, names and values."""
    rows = pq.read_table(pa.BufferReader(data))
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(rows.num_columns)
        kind = rng.choice(
            (pa.int8(), pa.string(), pa.float64(), pa.bool_(), pa.null(), pa.list_(pa.int64()), pa.date32())
        )
        column = pa.nulls(rows.num_rows, kind)
        if kind == pa.string():
            texts = ("add", "metadata", "../x", "x", None, "\x1b", "1")
            column = pa.array([rng.choice(texts) for _ in range(rows.num_rows)], kind)
        name = rng.choice((rows.column_names[place], "actionType", "path", ""))
        rows = rows.set_column(place, name, column)
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    return bytes(sink.getvalue())


def use_parquet(data: bytes) -> None:
    found = decode_parquet_checkpoint({parquet_checkpoint_key(VERSION): data}, TABLE)
    need(all(map(is_inside, found.files["path"].to_pylist())), "a path leaves the table")


def use_hashed_parquet(data: bytes) -> None:
    (key, whole), (sidecar_key, sidecar) = parquet_files()
    found = decode_parquet_checkpoint({key: data}, TABLE, decode_parquet_sidecar(sidecar, sidecar_key))
    need(data == whole and found.files.num_rows == 6, "damage is not noticed")


def sidecar_bytes(rng: random.Random) -> bytes:
    data = parquet_files()[1][1]
    return packed(rng, json_text(change_json(rng, json.loads(data)))) if rng.random() < 0.6 else damage_bytes(rng, data)


def use_sidecar(data: bytes) -> None:
    sidecar = decode_parquet_sidecar(data, parquet_sidecar_key(VERSION))
    decode_parquet_checkpoint(dict(parquet_files()[:1]), TABLE, sidecar)


# States and manifests


def state_bytes(rng: random.Random) -> bytes:
    states = [encode_state_manifest(STATE, codec=codec) for codec in CODECS]
    return damage_bytes(rng, rng.choice(states), states)


def use_state(data: bytes) -> None:
    """A state of ours: whatever was changed, its marks or its hash give it away."""
    state = sandbox.read_state_manifest(data, STATE_KEY, timeout_seconds=SECONDS)
    need(state == STATE, "damage to a state of ours is not noticed")


def foreign_state_bytes(rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        return packed(rng, json_text(change_json(rng, foreign_record())))
    data = foreign_avro(foreign_record())
    if rng.random() < 0.5:
        return damage_bytes(rng, data)
    return reframed(rng, data)


def reframed(rng: random.Random, data: bytes) -> bytes:
    """Records that are damaged inside a frame that is whole."""
    header = avro_container.decode_header(data)
    blocks = list(avro_container.blocks(data, header))
    schema = header.metadata["avro.schema"]
    if rng.random() < 0.4:
        schema = json_text(change_json(rng, json.loads(schema)))
    codec = rng.choice(("null", "zstandard", "snappy", "deflate"))
    found = avro_container.encode_header({"avro.schema": schema, "avro.codec": codec.encode()}, header.sync)
    for block in blocks:
        body = damage_bytes(rng, avro_container.plain_body(block, header))
        body = zlib.compress(body)[2:-4] if codec == "deflate" else compression.compress_block(body, codec, 3)
        count = rng.choice((block.num_records, block.num_records, 0, 1, 2**31, 2**60))
        found += varints.signed(count) + varints.signed(len(body)) + body + header.sync
    return found


def use_foreign_state(data: bytes) -> None:
    state = with_relative_paths(sandbox.read_state_manifest(data, STATE_KEY, timeout_seconds=SECONDS), TABLE)
    for info in state.manifests:
        key = resolve_manifest_path(info.path, state.state_version)
        need(key.startswith("_transaction_log/") and ".." not in key.split("/"), "a manifest lies outside of the log")


@functools.cache
def directory() -> str:
    return directory_until_exit()


@functools.cache
def manifests() -> tuple[bytes, ...]:
    return tuple(encode_manifest(example_content(6).files, codec=codec) for codec in CODECS)


def read_manifest(data: bytes, key: str, seconds: float = SECONDS) -> pa.Table:
    path = os.path.join(directory(), "manifest.avro")
    with open(path, "wb") as file:
        file.write(data)
    return sandbox.read_manifest(path, key, timeout_seconds=seconds)


def manifest_bytes(rng: random.Random) -> bytes:
    return damage_bytes(rng, rng.choice(manifests()), manifests())


def use_manifest(data: bytes) -> None:
    """A manifest under the name of the whole one."""
    for whole in manifests():
        found = read_manifest(data, f"_transaction_log/manifests/{manifest_name(whole)}")
        need(data == whole and found.num_rows == 6, "damage to a manifest of ours is not noticed")


def forged_manifest_bytes(rng: random.Random) -> bytes:
    """One with the schema of this library, but other records, which its name vouches for."""
    data = reframed(rng, rng.choice(manifests()))
    header = avro_container.decode_header(data)
    fields = {**header.metadata, "avro.schema": json.dumps(FILE_ENTRY_SCHEMA, separators=(",", ":")).encode()}
    return avro_container.encode_header(fields, header.sync) + data[header.end :]


def foreign_manifest_bytes(rng: random.Random) -> bytes:
    data = foreign(records_of(example_content(3).files))
    return damage_bytes(rng, data) if rng.random() < 0.3 else reframed(rng, data)


def use_forged_manifest(data: bytes) -> None:
    _check_files(read_manifest(data, f"_transaction_log/manifests/{manifest_name(data)}", 1.5))


def use_foreign_manifest(data: bytes) -> None:
    """A short time is enough: where the decoder spins, waiting longer shows nothing more."""
    _check_files(read_manifest(data, FOREIGN_MANIFEST, 1.5))


def _check_files(files: pa.Table) -> None:
    files.validate(full=True)
    need("path" in files.column_names, "it has no paths")


def hint_bytes(rng: random.Random) -> bytes:
    hint = LastCheckpoint(version=7, size=3, parts=2, checkpoint_id="c1", format="json", state_dir="state-v7")
    data = encode_last_checkpoint(hint)
    return damage_bytes(rng, data) if rng.random() < 0.5 else json_text(change_json(rng, json.loads(data)))


def use_hint(data: bytes) -> None:
    found = decode_last_checkpoint(data, "_transaction_log/_last_checkpoint")
    need(0 <= found.version < 2**63, "its version is none")


def schema_bytes(rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        return damage_bytes(rng, SCHEMA_TEXT.encode())
    return json_text(change_json(rng, json.loads(SCHEMA_TEXT)))


def use_schema(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    schema_from_json(text)
    canonical_json(text)


def blocks_bytes(rng: random.Random) -> bytes:
    body = json_text({"some": ["text"] * 20})
    codec = rng.choice(("zstandard", "snappy", "deflate"))
    data = zlib.compress(body)[2:-4] if codec == "deflate" else compression.compress_block(body, codec, 3)
    return codec.encode() + b" " + damage_bytes(rng, data)


def use_block(data: bytes) -> None:
    codec, _, body = data.partition(b" ")
    need(
        len(compression.decompress_block(body, codec.decode())) <= compression.plain_limit(len(body)), "it is too long"
    )


_DAMAGED = (CheckpointCorruptionError,)
_STATE = (CheckpointCorruptionError, ProtocolError)
TARGETS: Sequence[Target] = (
    Target("version-bytes", version_bytes, use_version, (CorruptLogError,)),
    Target("version-lines", version_lines, use_version, (CorruptLogError,)),
    Target("version-same", same_version, use_same_version, ()),
    Target("json-checkpoint", checkpoint_bytes, use_checkpoint, _DAMAGED),
    Target("json-part", part_bytes, use_part, _DAMAGED),
    Target("parquet-checkpoint", parquet_bytes, use_parquet, _DAMAGED, 0.4),
    Target("parquet-hashed", parquet_bytes, use_hashed_parquet, _DAMAGED),
    Target("parquet-sidecar", sidecar_bytes, use_sidecar, _DAMAGED, 0.4),
    Target("state", state_bytes, use_state, _STATE),
    Target("state-foreign", foreign_state_bytes, use_foreign_state, _STATE),
    Target("manifest", manifest_bytes, use_manifest, _DAMAGED),
    Target("manifest-forged", forged_manifest_bytes, use_forged_manifest, _DAMAGED, 0.02),
    Target("manifest-foreign", foreign_manifest_bytes, use_foreign_manifest, _DAMAGED, 0.02),
    Target("last-checkpoint", hint_bytes, use_hint, _DAMAGED),
    Target("schema", schema_bytes, use_schema, (SchemaError,)),
    Target("avro-block", blocks_bytes, use_block, (ValueError,)),
)
