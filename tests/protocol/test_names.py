"""Names in the log: versions and checkpoints are found by theirs, and no other file is mistaken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.protocol.names import MAX_VERSION, parse_checkpoint_key, parse_version_key, state_keys, version_key

LOG = "_transaction_log"


def test_names_are_frozen() -> None:
    assert version_key(0) == "_transaction_log/00000000000000000000.json"
    assert version_key(42) == "_transaction_log/00000000000000000042.json"
    assert state_keys(42) == (
        "_transaction_log/state-v00000000000000000042/_manifest.avro",
        "_transaction_log/state-v00000000000000000042/_manifest.json",
    )


@given(st.integers(0, MAX_VERSION))
def test_names_come_back(version) -> None:
    assert parse_version_key(version_key(version)) == version
    assert parse_checkpoint_key(version_key(version)) is None
    for key in state_keys(version):
        assert parse_checkpoint_key(key) == version
        assert parse_version_key(key) is None


@given(st.integers(0, MAX_VERSION), st.integers(0, MAX_VERSION))
def test_names_sort_as_versions_do(left, right) -> None:
    assert (version_key(left) < version_key(right)) == (left < right)


CHECKPOINTS = [
    "{}.checkpoint.json",
    "{}.checkpoint.parquet",
    "_checkpoints/{}.checkpoint.parquet",
    "_checkpoints/{}.checkpoint.parquet/part-00000-x.snappy.parquet",
    "{}.checkpoint.parquet/_SUCCESS",
    "state-v{}/_manifest.avro",
    "state-v{}/_manifest.json",
]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_every_kind_of_checkpoint_is_found(name) -> None:
    key = f"{LOG}/{name.format('7'.zfill(20))}"
    assert parse_checkpoint_key(key) == 7
    assert parse_version_key(key) is None


@pytest.mark.parametrize("name", ["{}.json", *CHECKPOINTS])
def test_numbers_beyond_every_log_are_ignored(name) -> None:
    for number in (MAX_VERSION + 1, 10**20 - 1):
        key = f"{LOG}/{name.format(str(number).zfill(20))}"
        assert parse_version_key(key) is None
        assert parse_checkpoint_key(key) is None


V = "00000000000000000001"
OTHERS = [
    "_last_checkpoint",
    "._last_checkpoint.crc",
    f".{V}.json.crc",
    f"{V}.crc",
    f"{V}.json.crc",
    f"{V}.json.tmp",
    f"{V}.json~",
    f"{V}.JSON",
    f".{V}.json",
    f"_{V}.json",
    f"{V}.json/",
    f"{V}.json/x",
    f"x/{V}.json",
    f"{V}.json\n",
    f" {V}.json",
    f"{V}",
    f"{V}.json.gz",
    f"{V[:-1]}.json",
    f"0{V}.json",
    "0000000000000000000a.json",
    "-0000000000000000001.json",
    "+0000000000000000001.json",
    "0000000000_000000001.json",
    "\u0660" * 20 + ".json",
    "\uff11" * 20 + ".json",
    f"{V}.checkpoint.3f2a.0001.json",
    f"{V}.checkpoint.json.tmp",
    f".{V}.checkpoint.json.crc",
    f"{V}.checkpoint.json/x",
    f"{V}.checkpoint.avro",
    f"{V}.checkpoint",
    f"_checkpoints/.{V}.checkpoint.parquet.crc",
    f"_checkpoints/x/{V}.checkpoint.parquet",
    f"state-v{V}/._manifest.avro.crc",
    f"state-v{V}/_manifest.avro.tmp",
    f"state-v{V}/manifest-1.avro",
    f"state-v{V}",
    f"state-v{V}/x/_manifest.avro",
    "state-v1/_manifest.avro",
    f"state-v{chr(0x663) * 20}/_manifest.avro",
    "manifests/manifest-1.avro",
    "_probe-3f2a",
    "",
]


@pytest.mark.parametrize("name", OTHERS)
def test_other_files_are_ignored(name) -> None:
    assert parse_version_key(f"{LOG}/{name}") is None
    assert parse_checkpoint_key(f"{LOG}/{name}") is None


@pytest.mark.parametrize(
    "key", [f"{V}.json", f"other_direction/{V}.json", f"x{LOG}/{V}.json", f"{LOG}{V}.json", LOG, ""]
)
def test_files_elsewhere_are_ignored(key) -> None:
    assert parse_version_key(key) is None
    assert parse_checkpoint_key(key.replace(".json", ".checkpoint.json")) is None


@given(st.text(max_size=60))
def test_any_text_can_be_asked_for(name) -> None:
    for parse in (parse_version_key, parse_checkpoint_key):
        assert parse(name) is None
        assert parse(f"{LOG}/{name}") is None
