"""JSON checkpoints: one object or parts, both shapes and both packings, and no damage that goes unnoticed."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.checkpoint_examples import FULL_ADD, VERSION, contents, example_content, flips
from tests.protocol.protocol_examples import FULL_EXAMPLES, TABLE

from indextables.errors import CheckpointCorruptionError, CheckpointWriteError
from indextables.protocol.checkpoint import json_checkpoint
from indextables.protocol.checkpoint.json_checkpoint import (
    JsonParts,
    decode_json_checkpoint,
    encode_json_checkpoint,
    join_json_parts,
    json_checkpoint_key,
)
from indextables.protocol.checkpoint_content import CheckpointContent

KEY = json_checkpoint_key(VERSION)
PROTOCOL, METADATA, ADD, SKIP = (
    json.loads(FULL_EXAMPLES[k][1])[k] for k in ("protocol", "metaData", "add", "mergeskip")
)


ADD_LINES = [{"add": ADD}]


def written(content: CheckpointContent, max_bytes: int = 1 << 30) -> dict[str, bytes]:
    return dict(encode_json_checkpoint(content, max_bytes=max_bytes, checkpoint_id="ab-1"))


def read(files: dict[str, bytes]) -> CheckpointContent:
    found = decode_json_checkpoint(files[KEY], KEY, TABLE)
    if isinstance(found, JsonParts):
        return join_json_parts(found, [files[part.key] for part in found.parts], TABLE)
    return found


def decode(text: object, pack=bytes) -> CheckpointContent | JsonParts:
    data = text if isinstance(text, bytes) else json.dumps(text).encode()
    return decode_json_checkpoint(pack(data), KEY, TABLE)


@settings(max_examples=60)
@given(contents, st.sampled_from([1, 300, 1 << 30]))
def test_round_trip(content, max_bytes):
    files = written(content, max_bytes)
    assert list(files)[-1] == KEY
    assert read(files) == content


def lines_of(data: bytes) -> list[dict]:
    return [json.loads(line) for line in gzip.decompress(data).splitlines()]


def as_the_original_reads(line: dict) -> tuple[str, dict]:
    """One action of a line by its name; a line without one is refused, as are fields that are not known."""
    kind = next(name for name in ("protocol", "metaData", "add", "remove", "mergeskip") if name in line)
    return kind, line[kind]


def test_lines_as_the_original_reads_them():
    (data,) = written(example_content()).values()
    found = [as_the_original_reads(line) for line in lines_of(data)]
    assert [kind for kind, _ in found[:3]] == ["protocol", "metaData", "mergeskip"]
    assert [fields for _, fields in found[:4]] == [PROTOCOL, METADATA, SKIP, ADD]
    assert lines_of(data)[3] == {"add": ADD, "addedAtVersion": 0, "addedAtTimestamp": 1_700_000_000_000}
    assert {kind for kind, _ in found[3:]} == {"add"}


def test_parts_and_their_manifest():
    files = written(example_content(20), max_bytes=1000)
    *parts, manifest = files
    assert len(parts) > 3
    digest = hashlib.sha256(files[parts[0]]).hexdigest()[:32]
    assert parts[0] == f"_transaction_log/{VERSION:020d}.checkpoint.ab-1_{digest}.00001.json"
    found = json.loads(files[manifest])
    assert found.pop("createdTime") == example_content().timestamp_ms
    names = [part.removeprefix("_transaction_log/") for part in parts]
    assert found == {"version": VERSION, "checkpointId": "ab-1", "parts": names, "format": "json"}
    assert all(len(gzip.decompress(files[part])) <= 1000 for part in parts[1:])
    kinds = [as_the_original_reads(line)[0] for part in parts for line in lines_of(files[part])]
    assert kinds == ["protocol", "metaData", "mergeskip", *["add"] * 20]
    assert read(files) == example_content(20)


def test_no_flipped_bit_of_a_manifest_of_parts_changes_what_is_read():
    files = written(example_content(3), max_bytes=1000)
    for damaged in flips(files[KEY]):
        with contextlib.suppress(CheckpointCorruptionError, KeyError):
            assert read({**files, KEY: damaged}) == example_content(3)


def test_what_this_library_wrote_before_is_read():
    content = example_content()
    adds = [{**line["add"], "addedAtVersion": 0, "addedAtTimestamp": 1_700_000_000_000} for line in ADD_LINES]
    found = decode({"version": VERSION, "metaData": METADATA, "add": adds, "mergeskip": [SKIP]}, gzip.compress)
    assert found.files.num_rows == len(adds)
    assert found.metadata == content.metadata
    assert found.files["added_at_version"].to_pylist() == [0]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lambda data: b"\x01\x01" + gzip.compress(data)])
@pytest.mark.parametrize("indent", [None, 2])
def test_an_object_of_another_writer(pack, indent):
    text = json.dumps({"protocol": PROTOCOL, "metaData": METADATA, "add": [ADD], "other": 1}, indent=indent)
    found = decode(text.encode(), pack)
    assert found.protocol == FULL_EXAMPLES["protocol"][0]
    assert found.metadata == FULL_EXAMPLES["metaData"][0]
    assert found.files["path"].to_pylist() == [FULL_ADD.path]
    assert found.files["added_at_version"].to_pylist() == [VERSION]
    assert (found.timestamp_ms, found.txn_id, found.skips, found.transactions) == (None, None, {}, {})


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_lines_fold_in_order(pack):
    absolute = {**ADD, "path": "s3a://bucket/table/a.split"}
    lines = [
        {"protocol": PROTOCOL},
        {"metaData": METADATA},
        {"add": absolute},
        {"add": {**ADD, "path": "b.split"}},
        {"remove": {"path": "s3://bucket/table/b.split", "dataChange": True}},
        {"add": {**ADD, "size": 1, "path": "a.split"}},
        {"skip": SKIP},
        {"unknown": {}},
    ]
    found = decode(b"\n".join(json.dumps(line).encode() for line in lines) + b"\n\n", pack)
    assert found.files["path"].to_pylist() == ["a.split"]
    assert found.files["size"].to_pylist() == [1]
    assert list(found.skips) == ["splits/bad.split"]


def test_what_old_writers_left_out():
    metadata = {"id": "x", "schemaString": "{}", "name": None, "format": None}
    found = decode({"protocol": None, "metaData": metadata, "add": [{**ADD, "hasFooterOffsets": None}]})
    assert found.protocol is None
    assert found.metadata.configuration == {}
    assert found.files["has_footer_offsets"].to_pylist() == [False]


@pytest.mark.parametrize(
    "parts",
    [
        [f"{VERSION:020d}.checkpoint.u-1.{number}.json" for number in (1, 2)],
        [{"path": f"{VERSION:020d}.checkpoint.u-1.{number}.json", "size": 1} for number in (1, 2)],
    ],
)
def test_parts_of_another_writer(parts):
    manifest = decode({"version": VERSION, "checkpointId": "u-1", "numActions": 2, "parts": parts})
    assert [part.sha256 for part in manifest.parts] == [None, None]
    lines = [json.dumps({"metaData": METADATA}).encode(), json.dumps({"add": ADD}).encode()]
    assert join_json_parts(manifest, lines, TABLE).files.num_rows == 1


def test_parts_by_their_number():
    manifest = decode({"version": VERSION, "checkpointId": "u", "parts": 2})
    assert manifest.parts[1].key == f"_transaction_log/{VERSION:020d}.checkpoint.u.00002.json"


@pytest.mark.parametrize(
    "name",
    [
        "../x.json",
        f"{VERSION:020d}.json",
        f"{8:020d}.checkpoint.u.1.json",
        f"{VERSION:020d}.checkpoint.u/../../x.1.json",
    ],
)
def test_parts_elsewhere_are_refused(name):
    with pytest.raises(CheckpointCorruptionError, match="has no name of a part"):
        decode({"version": VERSION, "parts": [name]})


@pytest.mark.parametrize("parts", [[], 0, 10**15, [1.5], "x"])
def test_nonsense_instead_of_parts(parts):
    with pytest.raises(CheckpointCorruptionError, match=KEY):
        decode({"version": VERSION, "parts": parts})


def test_a_damaged_part_is_noticed_before_decoding(monkeypatch):
    files = written(example_content(2), max_bytes=1)
    manifest = decode_json_checkpoint(files.pop(KEY), KEY, TABLE)
    parts = list(files.values())
    monkeypatch.setattr(json_checkpoint, "plain_text", lambda data: pytest.fail("damaged bytes reached the decoder"))
    for damaged in flips(parts[0]):
        with pytest.raises(CheckpointCorruptionError, match=r"00001\.json"):
            join_json_parts(manifest, [damaged, *parts[1:]], TABLE)


def test_a_missing_action_is_noticed():
    manifest = decode({"parts": [f"{VERSION:020d}.checkpoint.u.1.json"], "numActions": 3})
    with pytest.raises(CheckpointCorruptionError, match="declares 3 actions, but has 1"):
        join_json_parts(manifest, [json.dumps({"metaData": METADATA}).encode()], TABLE)


def test_no_flipped_bit_changes_what_is_read():
    content = example_content()
    (data,) = written(content).values()
    for damaged in flips(data):
        with contextlib.suppress(CheckpointCorruptionError):
            assert decode_json_checkpoint(damaged, KEY, TABLE) == content


def test_every_truncation_is_noticed():
    (data,) = written(example_content()).values()
    for length in range(len(data)):
        with pytest.raises(CheckpointCorruptionError, match=KEY):
            decode_json_checkpoint(data[:length], KEY, TABLE)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"1",
        b"[" * 100_000,
        b'{"metaData":' * 50_000,
        b"\xff",
        {},
        {"metaData": []},
        {"metaData": METADATA, "add": [1]},
        {"metaData": METADATA, "add": [{**ADD, "size": -1}]},
        {"metaData": METADATA, "add": [{**ADD, "path": "../x"}]},
        {"metaData": METADATA, "mergeskip": [{}]},
        {"metaData": METADATA, "transactions": {"a": 1}},
        {"metaData": METADATA, "version": 8},
        {"metaData": METADATA, "versionTimestamp": "x"},
        b'{"metaData":{}}\n{"add":',
    ],
)
def test_nonsense_is_refused(text):
    with pytest.raises(CheckpointCorruptionError, match=KEY):
        decode(text)


def test_a_bomb_is_refused():
    with pytest.raises(CheckpointCorruptionError, match="times its size"):
        decode(b" " * (150 << 20), gzip.compress)


def test_a_name_without_a_version_is_refused():
    with pytest.raises(CheckpointCorruptionError, match="no version"):
        decode_json_checkpoint(b"{}", "x.json", TABLE)


def test_what_json_cannot_hold_is_not_written():
    content = example_content()
    metadata = msgspec.structs.replace(content.metadata, name="\ud800")
    broken = CheckpointContent(**{**vars(content), "metadata": metadata})
    with pytest.raises(CheckpointWriteError):
        written(broken)
