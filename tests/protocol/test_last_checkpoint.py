"""The hint where the newest checkpoint stands: every shape is read, and damage has one error."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.protocol_examples import json_values

from indextables.errors import CheckpointCorruptionError, CheckpointError
from indextables.protocol.checkpoint.last_checkpoint import LastCheckpoint, decode_last_checkpoint

KEY = "_transaction_log/_last_checkpoint"
FULL = {
    "version": 42,
    "size": 15000,
    "sizeInBytes": 104857600,
    "numFiles": 15000,
    "createdTime": 1704067200000,
    "parts": 3,
    "checkpointId": "3f2a",
    "format": "avro-state",
    "stateDir": "state-v00000000000000000042",
}


def decode(**fields) -> LastCheckpoint:
    return decode_last_checkpoint(json.dumps(fields).encode(), KEY)


def test_all_fields_are_read() -> None:
    assert decode(**FULL) == LastCheckpoint(
        version=42,
        size=15000,
        size_in_bytes=104857600,
        num_files=15000,
        created_time=1704067200000,
        parts=3,
        checkpoint_id="3f2a",
        format="avro-state",
        state_dir="state-v00000000000000000042",
    )


def test_old_writers_left_only_the_version() -> None:
    assert decode(version=0) == LastCheckpoint(version=0)


def test_null_means_left_out_and_what_is_unknown_is_ignored() -> None:
    nulls = dict.fromkeys(FULL) | {"version": 7}
    assert decode(**nulls, timestamp=5, future={"a": []}) == LastCheckpoint(version=7)


@pytest.mark.parametrize("field", FULL)
def test_every_field_is_checked_and_named(field) -> None:
    wrong = "5" if isinstance(FULL[field], int) else 5
    for value in (wrong, [], True, {}):
        with pytest.raises(CheckpointCorruptionError) as caught:
            decode(**{**FULL, field: value})
        assert f"cannot read `{KEY}`" in str(caught.value)
        assert f"`$.{field}`" in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"{}",
        b"[]",
        b"null",
        b"42",
        b'{"version":null}',
        b'{"version":-1}',
        b'{"version":1.5}',
        b'{"version":9223372036854775808}',
        b'{"version":1e400}',
        b'{"version":' + b"9" * 5000 + b"}",
        b'{"version":1,"size":-1}',
        b'{"version":1}{"version":2}',
        b'{"version":1',
        b'{"version":1,"format":"\xff"}',
        b"\xff\xfe",
        b"\x1f\x8b\x08\x00",
        b'{"x":' + b"[" * 100_000,
    ],
)
def test_damage_has_one_error(data) -> None:
    with pytest.raises(CheckpointCorruptionError, match=f"cannot read `{KEY}`") as caught:
        decode_last_checkpoint(data, KEY)
    assert isinstance(caught.value, CheckpointError)


@given(
    st.binary(max_size=60)
    | st.dictionaries(st.sampled_from(sorted(FULL)), json_values).map(lambda d: json.dumps(d).encode())
)
def test_whatever_it_holds_there_is_one_error(data) -> None:
    with contextlib.suppress(CheckpointCorruptionError):
        assert decode_last_checkpoint(data, KEY).version >= 0
