"""Damaged version files: the one error that names the file, the line and the field; never a shorter version."""

from __future__ import annotations

import gzip
import json
import time
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.protocol_examples import FULL_EXAMPLES, TABLE, WHOLE_VERSION, json_values, version_text
from tests.protocol.test_version_file import ADD, REQUIRED, decode, line

from indextables.errors import CorruptLogError
from indextables.protocol.actions import Add
from indextables.protocol.names import version_key
from indextables.protocol.version_file import decode_version, encode_version

VERSION_0 = (FULL_EXAMPLES["protocol"][0], FULL_EXAMPLES["metaData"][0])
WHERE = f"cannot read version 1 because `{version_key(1)}`"


def refusal(data: bytes, version: int = 1) -> str:
    with pytest.raises(CorruptLogError) as caught:
        decode(data, version)
    assert version_key(version) in caught.value.message
    assert "REPAIR" in caught.value.hint
    return caught.value.message


def outcome(data: bytes, version: int = 1):
    """The actions, or None for the one error that is allowed."""
    try:
        return decode_version(data, version, TABLE)
    except CorruptLogError:
        return None


def add_with(**fields) -> bytes:
    return line(add={**ADD, **fields})


def add_raw(field: str, value: bytes) -> bytes:
    fields = b",".join(
        b'"%b":%b' % (name.encode(), value if name == field else json.dumps(known).encode())
        for name, known in {**ADD, field: None}.items()
    )
    return b'{"add":{' + fields + b"}}\n"


WRONG = {
    str: 5,
    int: "5",
    bool: 1,
    dict: [],
    list: {},
}
FIELDS = [
    (kind, field, value) for kind, (_, wire) in FULL_EXAMPLES.items() for field, value in json.loads(wire)[kind].items()
]


@pytest.mark.parametrize(("kind", "field", "value"), FIELDS, ids=[f"{kind}.{field}" for kind, field, _ in FIELDS])
def test_every_field_is_checked_and_named(kind, field, value) -> None:
    good = json.loads(FULL_EXAMPLES[kind][1])[kind]
    bad = line(**{kind: {**good, field: WRONG[type(value)]}})
    assert f"{WHERE}: line 4, field `{kind}.{field}`: Expected" in refusal(b"\n" + line(add=ADD) + b" \r\n" + bad)


REQUIRED_FIELDS = [
    (kind, field) for kind, fields in REQUIRED.items() for field in fields if (kind, field) != ("metaData", "format")
]


@pytest.mark.parametrize(("kind", "field"), REQUIRED_FIELDS)
def test_what_is_required_is_missed_by_name(kind, field) -> None:
    rest = {name: value for name, value in REQUIRED[kind].items() if name != field}
    without, null = line(**{kind: rest}), line(**{kind: {**rest, field: None}})
    if field == "txnId":
        assert decode(without) == decode(null) == ()
        return
    assert refusal(without) == f"{WHERE}: line 1, field `{kind}.{field}`: it is required and missing"
    assert f"line 1, field `{kind}.{field}`" in refusal(null)


def test_the_skip_of_old_writers_is_named_as_it_stands() -> None:
    assert "line 1, field `skip.reason`" in refusal(line(skip={"path": "a", "skipTimestamp": 1, "operation": "o"}))
    assert "line 1, field `skip.path`" in refusal(line(skip={**REQUIRED["mergeskip"], "path": "../a"}))


BAD_LINES = {
    "not an object": (b"[1]\n", ": Expected `object`, got `array`"),
    "a number": (b"5\n", ": Expected `object`, got `int`"),
    "null": (b"null\n", ": Expected `object`, got `null`"),
    "an action that is no object": (line(add=[]), ", field `add`: Expected"),
    "an empty path": (add_with(path=""), ", field `add.path`: Expected `str` of length >= 1"),
    "an empty schema": (line(metaData={**REQUIRED["metaData"], "schemaString": ""}), ", field `metaData.schemaString`"),
    "a number in a map": (add_with(minValues={"a": 1}), ", field `add.minValues[...]`: Expected `str`"),
    "a null in a map": (add_with(tags={"a": None}), ", field `add.tags[...]`: Expected `str`, got `null`"),
    "a number in a list": (add_with(splitTags=["a", 1]), ", field `add.splitTags[1]`: Expected `str`"),
    "a number in the format": (
        line(metaData={**REQUIRED["metaData"], "format": {"provider": 1}}),
        ", field `metaData.format.provider`: Expected `str`",
    ),
    "negative size": (add_with(size=-1), ", field `add.size`: Expected `int` >= 0"),
    "size beyond a long": (add_with(size=2**63), ", field `add.size`: Expected `int` <= "),
    "time before all longs": (
        add_with(modificationTime=-(2**63) - 1),
        ", field `add.modificationTime`: Expected `int` >= ",
    ),
    "count beyond an int": (add_with(numMergeOps=2**31), ", field `add.numMergeOps`: Expected `int` <= "),
    "a size of hundreds of digits": (add_raw("size", b"9" * 400), ", field `add.size`: "),
    "a size of thousands of digits": (add_raw("size", b"9" * 5000), ", field `add.size`: "),
    "a bool for a number": (add_with(size=True), ", field `add.size`: Expected `int`, got `bool`"),
    "a number for a bool": (add_with(dataChange=1), ", field `add.dataChange`: Expected `bool`, got `int`"),
    "a fraction": (add_with(size=1.5), ", field `add.size`: Expected `int`, got `float`"),
    "a whole fraction": (add_with(size=1.0), ", field `add.size`: Expected `int`, got `float`"),
    "infinite": (add_raw("size", b"1e400"), ", field `add.size`: Number out of range"),
    "NaN": (add_raw("size", b"NaN"), ": JSON is malformed"),
    "Infinity": (add_raw("size", b"-Infinity"), ": JSON is malformed"),
    "leading zero": (add_raw("size", b"01"), ": JSON is malformed"),
    "text without its end": (b'{"add":{"path":"a\n', ": JSON is malformed"),
    "object without its end": (line(add=ADD)[:-2] + b"\n", " is not a whole JSON object"),
    "two objects on a line": (line(add=ADD)[:-1] + line(add=ADD), ": JSON is malformed: trailing characters"),
    "half of a surrogate pair": (add_raw("path", rb'"\ud800"'), ": JSON is malformed"),
    "raw control character": (add_raw("path", b'"\x01"'), ": JSON is malformed"),
    "byte order mark": (b"\xef\xbb\xbf" + line(add=ADD), ": JSON is malformed"),
    "not UTF-8": (add_raw("path", b'"\xff"'), " is not UTF-8 text (byte 16)"),
    "not UTF-8 where it is not known": (b'{"unknown":"\xc0\xaf"}\n', " is not UTF-8 text (byte 12)"),
    "encoded surrogate": (add_raw("stats", b'"\xed\xa0\x80"'), " is not UTF-8 text"),
    "zeros": (b"\0" * 64, ": JSON is malformed"),
    "lists nested too deeply": (b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", " is nested too deeply"),
    "objects nested too deeply": (b'{"x":' * 100_000 + b"1" + b"}" * 100_000 + b"\n", " is nested too deeply"),
    "nesting without an end": (b'{"add":{"tags":' + b"[" * 5_000_000 + b"\n", ", field `add.tags`"),
    "two actions": (
        line(add=ADD, remove={"path": "b", "dataChange": True}),
        " has 2 actions in one object: add, remove",
    ),
    "an action and our commit line": (line(add=ADD, commitInfo=REQUIRED["commitInfo"]), " has 2 actions"),
    "the same action twice": (b'{"add":%b,"add":%b}\n' % ((json.dumps(ADD).encode(),) * 2), " has 2 actions"),
    "our commit line without a time": (
        line(commitInfo={"txnId": "x", "operation": "WRITE"}),
        ", field `commitInfo.timestamp`: it is required and missing",
    ),
    "our commit line with a strange time": (
        line(commitInfo={**REQUIRED["commitInfo"], "timestamp": "noon"}),
        ", field `commitInfo.timestamp`: Expected `int`, got `str`",
    ),
    "our commit line with an empty id": (
        line(commitInfo={**REQUIRED["commitInfo"], "txnId": ""}),
        ", field `commitInfo.txnId`",
    ),
    "path that leaves the table": (add_with(path="a/../../b"), ", field `add.path`: `a/../../b` is refused because"),
    "path elsewhere": (add_with(path="s3://other/table/a"), ", field `add.path`: `s3://other/table/a` is refused"),
    "path into the log": (add_with(path="_transaction_log/x"), ", field `add.path`: `_transaction_log/x` is refused"),
    "control character in a path": (add_with(path="a\nb\x00"), r", field `add.path`: `a\nb\x00` is refused"),
    "remove that leaves the table": (
        line(remove={"path": "/etc/x", "dataChange": True}),
        ", field `remove.path`: `/etc/x`",
    ),
}


@pytest.mark.parametrize("case", BAD_LINES)
@pytest.mark.parametrize(("before", "number"), [(b"", 1), (b"\n\r\n \t\n" + line(add=ADD) + line(unknown=1), 6)])
def test_a_bad_line_is_named(case, before, number) -> None:
    bad, what = BAD_LINES[case]
    for wrap in (bytes, gzip.compress):
        assert f"{WHERE}: line {number}{what}" in refusal(wrap(before + bad + line(add={**ADD, "path": "next"})))


def test_messages_stay_short_and_hold_no_secret() -> None:
    assert len(refusal(add_with(path="../" + "x" * 10_000_000))) < 1000
    assert "hunter2" not in refusal(add_with(path="s3://user:hunter2@bucket/table/a"))


BAD_FILES = {
    "zero bytes": (b"", "is empty"),
    "white space": (b" \n\r\n\t", "is empty"),
    "gzip of nothing": (gzip.compress(b""), "is empty"),
    "gzip of white space": (b"\x01\x01" + gzip.compress(b"\n\n"), "is empty"),
    "gzip header alone": (b"\x1f\x8b", "is not a whole gzip file (it is cut off)"),
    "gzip garbage": (b"\x1f\x8b" + bytes(range(200)), "is not a whole gzip file"),
    "gzip without its checksum": (gzip.compress(line(add=ADD))[:-8], "is not a whole gzip file (it is cut off)"),
    "gzip with another checksum": (gzip.compress(line(add=ADD))[:-8] + b"\0" * 8, "is not a whole gzip file"),
    "garbage behind gzip": (gzip.compress(line(add=ADD)) + b"garbage", "is not a whole gzip file"),
    "a second member that is cut off": (
        gzip.compress(line(add=ADD)) + gzip.compress(b"x" * 99)[:-1],
        "is not a whole gzip",
    ),
    "more members than a log has": (gzip.compress(b"\n") * 5000, "is not a whole gzip file (it has over 1000 members)"),
    "old prefix before plain text": (b"\x01\x01" + line(add=ADD), "line 1: JSON is malformed"),
    "old prefix alone": (b"\x01\x01", "line 1: JSON is malformed"),
    "fewer lines than announced": (
        line(commitInfo={**REQUIRED["commitInfo"], "numActions": 2}) + line(add=ADD) + b"\n\n",
        "is cut off: its first line declares 2 more, but 1 follow",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_named(case) -> None:
    data, what = BAD_FILES[case]
    assert what in refusal(data).removeprefix(WHERE).removeprefix(": ").removeprefix(" ")


@pytest.mark.parametrize("data", [line(protocol=REQUIRED["protocol"]), line(add=ADD), line(unknown={})])
def test_version_0_holds_the_metadata(data) -> None:
    assert "has no metadata action (`metaData`)" in refusal(data, version=0)
    decode(data, version=1)


@pytest.mark.parametrize(("prefix", "compress"), [(b"", False), (b"", True), (b"\x01\x01", True)])
@pytest.mark.parametrize(("version", "actions"), [(0, VERSION_0), (1, WHOLE_VERSION)])
def test_a_cut_off_file_is_never_a_shorter_version(prefix, compress, version, actions) -> None:
    data = prefix + encode_version(actions, compress=compress)
    readings = {length: outcome(data[:length], version) for length in range(len(data))}
    whole = {length: read for length, read in readings.items() if read is not None}
    unsealed = len(version_text(actions))
    assert whole == ({} if compress else dict.fromkeys((unsealed - 1, unsealed, len(data) - 1), actions))


def test_a_flipped_bit_in_gzip_is_noticed() -> None:
    data = encode_version(WHOLE_VERSION, compress=True)
    noticed = 0
    for position in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[position // 8] ^= 1 << position % 8
        try:
            assert decode(bytes(flipped)) == WHOLE_VERSION
        except CorruptLogError:
            noticed += 1
    assert noticed > len(data) * 8 * 0.9


@given(
    st.binary(max_size=200),
    st.sampled_from([b"", b"{", b'{"add":{"', b"\x1f\x8b\x08\x00", b"\x01\x01\x1f\x8b\x08\x00"]),
)
def test_random_bytes_give_the_one_error(data, start) -> None:
    assert not outcome(start + data)


@st.composite
def mutated(draw) -> bytes:
    data = bytearray(encode_version(WHOLE_VERSION, compress=draw(st.booleans())))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = start + draw(st.integers(0, 20))
        data[start:end] = draw(
            st.binary(max_size=6) | st.sampled_from([b"null", b'"', b"}\n{", b"-1", b"[[", bytes(data[:60])])
        )
    return bytes(data)


@settings(max_examples=300)
@given(mutated())
def test_mutated_files_give_the_one_error_or_actions(data) -> None:
    actions = outcome(data)
    assert actions is None or isinstance(actions, tuple)


@settings(max_examples=300)
@given(
    kind=st.sampled_from([*REQUIRED, "skip"]),
    fields=st.dictionaries(
        st.sampled_from(
            sorted({field for _, wire in FULL_EXAMPLES.values() for field in next(iter(json.loads(wire).values()))})
        ),
        json_values,
        max_size=4,
    ),
    value=json_values,
)
def test_well_formed_nonsense_gives_the_one_error_or_actions(kind, fields, value) -> None:
    for body in ({**REQUIRED.get(kind, REQUIRED["mergeskip"]), **fields}, fields, value):
        outcome(line(**{kind: body}))


@settings(max_examples=100)
@given(st.lists(st.sampled_from([b"\n", b"  \r\n", line(unknown=1), line(add=ADD)]), max_size=12))
def test_the_line_number_counts_every_line(before) -> None:
    message = refusal(b"".join(before) + add_with(path="../x"))
    assert f"line {len(before) + 1}, field `add.path`" in message


def bomb(unit: bytes, megabytes: int) -> bytes:
    deflate = zlib.compressobj(6, wbits=31)
    block = unit * ((1 << 20) // len(unit))
    return b"".join([*(deflate.compress(block) for _ in range(megabytes)), deflate.flush()])


@pytest.mark.parametrize(
    ("unit", "megabytes", "what"),
    [
        (b"x", 140, "over 200 times as large"),
        (b"\n", 140, "over 200 times as large"),
        (b"\n", 100, "is empty"),
        (b"{}\n", 100, "lines, too short for actions"),
        (b"x", 100, "line 1: JSON is malformed"),
    ],
)
def test_bombs_are_refused_in_time(unit, megabytes, what) -> None:
    data = bomb(unit, megabytes)
    assert len(data) < 1 << 20
    start = time.monotonic()
    assert what in refusal(data)
    assert time.monotonic() - start < 10


def test_a_large_honest_version_is_read() -> None:
    adds = [
        Add(path=f"splits/{n}", partition_values={}, size=n, modification_time=n, data_change=True)
        for n in range(20_000)
    ]
    assert decode(encode_version(adds, compress=True)) == tuple(adds)
    assert decode(b"".join(line(unknown=n, padding="x" * 20) for n in range(120_000))) == ()


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("compress", [True, False])
def test_every_flipped_bit_is_refused_or_does_no_harm(version, compress) -> None:
    actions = WHOLE_VERSION if version else VERSION_0
    data = encode_version(actions, compress=compress)
    found = []
    for place in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[place // 8] ^= 1 << place % 8
        found.append(outcome(bytes(damaged), version))
    assert all(one == actions for one in found if one is not None)
    assert sum(one is None for one in found) > len(found) * 0.8


def test_plain_text_of_other_writers_needs_no_checksum() -> None:
    assert outcome(version_text(VERSION_0), 0) == VERSION_0
