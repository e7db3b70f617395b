"""State manifests: ours survive the round trip, no damage to them reaches a decoder, and others' are understood."""

from __future__ import annotations

import gzip
import io
import json

import fastavro
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.checkpoint_examples import FULL_SKIP, flips, skip_maps, transaction_maps
from tests.protocol.protocol_examples import (
    ACTIONS,
    FULL_EXAMPLES,
    TABLE,
    counts,
    ints,
    longs,
    maybe,
    names,
    text_maps,
    texts,
)

from indextables.errors import CheckpointCorruptionError, CheckpointWriteError, ProtocolError
from indextables.protocol import varints
from indextables.protocol.avro import avro_container, state_manifest
from indextables.protocol.avro.state_manifest import (
    STATE_MANIFEST_SCHEMA,
    ManifestInfo,
    StateManifest,
    decode_state_manifest,
    encode_state_manifest,
    has_our_schema,
    is_ours,
    resolve_manifest_path,
    verify_state_manifest,
    with_relative_paths,
)
from indextables.protocol.names import state_keys

KEY = state_keys(42)[0]
CODECS = ("zstd", "snappy", "none")
STATE = StateManifest(
    state_version=42,
    created_at=1704067200000,
    num_files=3,
    total_bytes=4096,
    manifests=(
        ManifestInfo(
            path="manifests/manifest-a1.avro",
            num_entries=4,
            min_added_at_version=0,
            max_added_at_version=42,
            partition_bounds={"day": ("2024-01-01", None), "empty": (None, None)},
            tombstone_count=1,
            live_entry_count=3,
        ),
        ManifestInfo(path="manifest-b2.avro", num_entries=0, min_added_at_version=1, max_added_at_version=2),
    ),
    tombstones=("splits/old.split",),
    schema_registry={"ab12": "[]"},
    metadata=FULL_EXAMPLES["metaData"][0],
    protocol=FULL_EXAMPLES["protocol"][0],
    skips={FULL_SKIP.path: FULL_SKIP},
    transactions={"stream": (17, 41)},
    version_timestamp=1704067200001,
    version_txn_id="9c3f",
)

infos = st.builds(
    ManifestInfo,
    path=names,
    num_entries=counts,
    min_added_at_version=longs,
    max_added_at_version=longs,
    partition_bounds=maybe(st.dictionaries(texts, st.tuples(maybe(texts), maybe(texts)), max_size=3)),
    tombstone_count=counts,
    live_entry_count=longs,
)
states = st.builds(
    StateManifest,
    state_version=st.just(42),
    created_at=longs,
    num_files=counts,
    total_bytes=counts,
    protocol_version=ints,
    manifests=st.lists(infos, max_size=3).map(tuple),
    tombstones=st.lists(texts, max_size=3).map(tuple),
    schema_registry=text_maps,
    metadata=maybe(ACTIONS["metaData"]),
    protocol=maybe(ACTIONS["protocol"]),
    skips=skip_maps,
    transactions=transaction_maps,
    version_timestamp=maybe(longs),
    version_txn_id=maybe(texts),
)


def wire_of(state: StateManifest) -> dict:
    """The state's record, as another library reads it."""
    (record,) = fastavro.reader(io.BytesIO(encode_state_manifest(state, codec="none")))
    return record


def foreign_avro(record: dict, schema: dict = STATE_MANIFEST_SCHEMA, codec: str = "null") -> bytes:
    """A state that another writer left, with no hash and only the fields all writers know."""
    theirs = {**schema, "fields": [field for field in schema["fields"] if field["name"] in record]}
    out = io.BytesIO()
    fastavro.writer(out, theirs, [record], codec=codec)
    return out.getvalue()


def foreign_record() -> dict:
    ours = ("protocol", "skips", "transactions", "versionTimestamp", "versionTxnId")
    return {name: value for name, value in wire_of(STATE).items() if name not in ours}


def no_decoding(monkeypatch) -> None:
    def decode(*args: object) -> None:
        raise AssertionError("damaged bytes reached the decoder")

    monkeypatch.setattr(state_manifest, "_fields", decode)


@given(states, st.sampled_from(CODECS))
def test_round_trip(state, codec):
    data = encode_state_manifest(state, codec=codec)
    assert is_ours(data)
    assert has_our_schema(data)
    assert decode_state_manifest(data, KEY) == state


@pytest.mark.parametrize("codec", CODECS)
def test_another_library_reads_ours(codec):
    (record,) = fastavro.reader(io.BytesIO(encode_state_manifest(STATE, codec=codec)))
    assert record["stateVersion"] == 42
    assert record["manifests"][0]["partitionBounds"]["day"] == {"min": "2024-01-01", "max": None}
    assert json.loads(record["metadata"])["metaData"]["id"] == "1f2e"


def test_equal_states_give_equal_bytes():
    assert encode_state_manifest(STATE, codec="zstd") == encode_state_manifest(STATE, codec="zstd")


@pytest.mark.parametrize("codec", CODECS)
def test_every_flipped_bit_is_noticed_before_decoding(codec, monkeypatch):
    data = encode_state_manifest(STATE, codec=codec)
    no_decoding(monkeypatch)
    for damaged in flips(data):
        assert is_ours(damaged)
        with pytest.raises(CheckpointCorruptionError, match=r"_manifest\.avro"):
            decode_state_manifest(damaged, KEY)


def test_every_truncation_is_noticed():
    data = encode_state_manifest(STATE, codec="zstd")
    for length in range(len(data)):
        with pytest.raises(CheckpointCorruptionError, match=r"_manifest\.avro"):
            decode_state_manifest(data[:length], KEY)


def test_what_is_appended_is_noticed(monkeypatch):
    data = encode_state_manifest(STATE, codec="zstd")
    no_decoding(monkeypatch)
    with pytest.raises(CheckpointCorruptionError):
        decode_state_manifest(data + b"\0", KEY)


def test_a_hash_that_fits_lets_the_verification_pass():
    verify_state_manifest(encode_state_manifest(STATE, codec="zstd"), KEY)


def test_a_state_under_another_version_is_refused():
    data = encode_state_manifest(STATE, codec="zstd")
    with pytest.raises(CheckpointCorruptionError, match="belongs to version 42"):
        decode_state_manifest(data, state_keys(43)[0])


def test_a_newer_format_asks_for_an_upgrade():
    data = encode_state_manifest(msgspec.structs.replace(STATE, format_version=2), codec="none")
    with pytest.raises(ProtocolError, match="upgrade"):
        decode_state_manifest(data, KEY)


def test_what_avro_cannot_hold_is_no_state():
    with pytest.raises(CheckpointWriteError, match="version 42"):
        encode_state_manifest(msgspec.structs.replace(STATE, total_bytes=2**70), codec="none")


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_another_writers_avro(codec):
    data = foreign_avro(foreign_record(), codec=codec)
    assert not is_ours(data)
    found = decode_state_manifest(data, KEY)
    assert (found.protocol, found.skips, found.transactions, found.version_txn_id) == (None, {}, {}, None)
    assert found.metadata == STATE.metadata
    assert found.manifests == STATE.manifests


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_another_writers_json(pack):
    record = foreign_record()
    del record["manifests"][1]["partitionBounds"], record["manifests"][1]["liveEntryCount"]
    record["tombstones"] = None
    found = decode_state_manifest(pack(json.dumps(record).encode()), state_keys(42)[1])
    assert found.manifests == STATE.manifests
    assert found.tombstones == ()
    assert found.metadata == STATE.metadata


@pytest.mark.parametrize("wrap", [True, False])
def test_metadata_bare_or_under_its_name(wrap):
    fields = msgspec.to_builtins(STATE.metadata)
    record = {**foreign_record(), "metadata": json.dumps({"metaData": fields} if wrap else fields)}
    assert decode_state_manifest(json.dumps(record).encode(), KEY).metadata == STATE.metadata


def test_registry_keys_lose_their_prefix():
    record = {**foreign_record(), "schemaRegistry": {"docMappingSchema.ab": "[]", "cd": "{}"}}
    assert decode_state_manifest(foreign_avro(record), KEY).schema_registry == {"ab": "[]", "cd": "{}"}


@pytest.mark.parametrize(
    "change",
    [
        {"stateVersion": -1},
        {"numFiles": -1},
        {"metadata": "no json"},
        {"metadata": "[" * 100_000},
        {"metadata": "{}"},
        {"manifests": [{}]},
        {"manifests": None},
        {"schemaRegistry": {"a": 1}},
    ],
)
def test_nonsense_is_refused(change):
    with pytest.raises(CheckpointCorruptionError, match=r"_manifest\.json"):
        decode_state_manifest(json.dumps({**foreign_record(), **change}).encode(), state_keys(42)[1])


@pytest.mark.parametrize("data", [b"", b" ", b"no", b"[]", b"Obj\x01", b"\x1f\x8b", b"[" * 100_000, b"\xff{}"])
def test_what_is_no_state_is_refused(data):
    with pytest.raises(CheckpointCorruptionError):
        decode_state_manifest(data, KEY)


def test_a_block_that_unpacks_without_bound_is_refused():
    header = avro_container.encode_header(
        {
            "avro.schema": json.dumps(STATE_MANIFEST_SCHEMA).replace("versionTxnId", "x").encode(),
            "avro.codec": b"zstandard",
        },
        b"s" * 16,
    )
    data = header + avro_container.encode_block(1, bytes(200 << 20), b"s" * 16, "zstandard", 3)
    with pytest.raises(CheckpointCorruptionError, match="times its size"):
        decode_state_manifest(data, KEY)


@pytest.mark.parametrize("count", [0, 2, -1])
def test_exactly_one_record(count):
    record = foreign_avro(foreign_record())
    header = avro_container.decode_header(record)
    damaged = record[: header.end] + varints.signed(count) + record[header.end + 1 :]
    with pytest.raises(CheckpointCorruptionError):
        decode_state_manifest(damaged, KEY)


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("manifests/manifest-a.avro", "_transaction_log/manifests/manifest-a.avro"),
        (f"state-v{7:020d}/manifest-a.avro", f"_transaction_log/state-v{7:020d}/manifest-a.avro"),
        ("manifest-a.avro", f"_transaction_log/state-v{42:020d}/manifest-a.avro"),
    ],
)
def test_three_forms_of_manifest_paths(path, key):
    assert resolve_manifest_path(path, 42) == key


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../x.avro", "manifests/../../x", "manifests//x", "a/./b", "s3://b/x", "a\\..\\b", "a\nb", "."],
)
def test_manifest_paths_that_leave_the_log_are_refused(path):
    with pytest.raises(CheckpointCorruptionError):
        resolve_manifest_path(path, 42)


def test_tombstones_and_skips_become_relative():
    skip = msgspec.structs.replace(FULL_SKIP, path="s3a://bucket/table/a.split")
    state = msgspec.structs.replace(
        STATE, tombstones=("s3a://bucket/table/old.split", "../out"), skips={skip.path: skip}
    )
    found = with_relative_paths(state, TABLE)
    assert found.tombstones == ("old.split", "../out", "s3a://bucket/table/old.split")
    assert found.skips == {"a.split": msgspec.structs.replace(skip, path="a.split")}


def test_the_foreign_tables_states(shared):
    tables = shared / "fixtures" / "upstream-0.5.4"
    expected = json.loads((tables / "expected.json").read_text())
    num_states = 0
    for path in sorted(tables.glob("*/_transaction_log/state-v*/_manifest.avro")):
        data = path.read_bytes()
        assert not is_ours(data)
        log = path.parents[1]
        state = decode_state_manifest(data, path.relative_to(log.parent).as_posix())
        table = expected[log.parent.name]
        if state.state_version == table["version"]:
            assert (state.num_files, state.total_bytes) == (table["num_files"], table["total_bytes"])
        for info in state.manifests:
            assert (log.parent / resolve_manifest_path(info.path, state.state_version)).is_file()
        num_states += 1
    assert num_states == 25
