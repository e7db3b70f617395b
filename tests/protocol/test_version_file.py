"""Version files: the wire form is frozen, everything goes there and back, and what is strange is ignored."""

from __future__ import annotations

import gzip
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.protocol_examples import ACTIONS, FULL_EXAMPLES, TABLE, WHOLE_VERSION, version_text

from indextables.errors import ConfigError
from indextables.protocol.actions import Add, CommitInfo, Metadata, Protocol, Remove, Skip
from indextables.protocol.version_file import commit_info, decode_version, encode_version, identity_of

ADD = {"path": "a.split", "partitionValues": {}, "size": 1, "modificationTime": 2, "dataChange": True}
REQUIRED = {
    "protocol": {"minReaderVersion": 1, "minWriterVersion": 1},
    "metaData": {"id": "x", "schemaString": "s", "partitionColumns": [], "configuration": {}, "format": {}},
    "add": ADD,
    "remove": {"path": "a.split", "dataChange": True},
    "mergeskip": {"path": "a.split", "skipTimestamp": 1, "reason": "r", "operation": "merge"},
    "commitInfo": {"txnId": "t", "operation": "WRITE", "timestamp": 1},
}


def line(**action) -> bytes:
    return json.dumps(action).encode() + b"\n"


def decode(data: bytes, version: int = 1):
    return decode_version(data, version, TABLE)


@pytest.mark.parametrize("kind", FULL_EXAMPLES)
def test_the_wire_form_is_frozen(kind) -> None:
    action, wire = FULL_EXAMPLES[kind]
    assert version_text([action]).decode() == wire + "\n"
    announced = {"commitInfo": b'{"unknown":{}}\n' * 5}.get(kind, b"")
    assert decode(wire.encode() + b"\n" + announced) == (action,)


@pytest.mark.parametrize("kind", FULL_EXAMPLES)
def test_the_full_examples_leave_no_field_out(kind) -> None:
    action, wire = FULL_EXAMPLES[kind]
    assert set(json.loads(wire)[kind]) == set(action.__struct_encode_fields__)


ALWAYS_WRITTEN = {
    "protocol": (Protocol(min_reader_version=1, min_writer_version=2), {"minReaderVersion", "minWriterVersion"}),
    "metaData": (
        Metadata(id="x", schema_string="s", partition_columns=(), configuration={}),
        {"id", "format", "schemaString", "partitionColumns", "configuration"},
    ),
    "add": (
        Add(path="a", partition_values={}, size=0, modification_time=0, data_change=False),
        {"path", "partitionValues", "size", "modificationTime", "dataChange"},
    ),
    "remove": (Remove(path="a", data_change=False), {"path", "dataChange"}),
    "mergeskip": (
        Skip(path="a", skip_timestamp=0, reason="", operation=""),
        {"path", "skipTimestamp", "reason", "operation", "skipCount"},
    ),
    "commitInfo": (
        CommitInfo(txn_id="t", operation="", timestamp=0),
        {"txnId", "operation", "timestamp", "parameters", "metrics"},
    ),
}


@pytest.mark.parametrize("kind", ALWAYS_WRITTEN)
def test_what_is_required_is_always_written_and_what_is_unknown_never(kind) -> None:
    action, fields = ALWAYS_WRITTEN[kind]
    written = json.loads(version_text([action]))[kind]
    assert set(written) == fields
    if kind == "metaData":
        assert written["format"] == {"provider": "indextables", "options": {}}
    if kind == "mergeskip":
        assert written["skipCount"] == 1


@pytest.mark.parametrize("compress", [False, True])
@given(actions=st.lists(st.one_of(*ACTIONS.values()), min_size=1, max_size=4))
def test_every_action_comes_back_equal(compress, actions) -> None:
    assert decode(encode_version(actions, compress=compress)) == tuple(actions)


@pytest.mark.parametrize("kind", REQUIRED)
def test_null_means_left_out(kind) -> None:
    """Also where a field has a default, and for every field that is not required."""
    bare = decode(line(**{kind: REQUIRED[kind]}))
    fields = [field for field in bare[0].__struct_encode_fields__ if field not in REQUIRED[kind]]
    assert fields
    assert decode(line(**{kind: {**REQUIRED[kind], **dict.fromkeys(fields)}})) == bare
    for field in fields:
        assert decode(line(**{kind: {**REQUIRED[kind], field: None}})) == bare


def test_what_has_a_default_gets_it() -> None:
    skip, add, metadata = decode(
        line(mergeskip=REQUIRED["mergeskip"]) + line(add=ADD) + line(metaData={**REQUIRED["metaData"], "format": {}})
    )
    assert skip.skip_count == 1
    assert add.has_footer_offsets is False
    assert (metadata.format.provider, metadata.format.options) == ("indextables", {})


@pytest.mark.parametrize("kind", ["add", "remove", "mergeskip"])
def test_a_null_partition_value_is_a_key_left_out(kind) -> None:
    values = {"a": None, "b": "", "c": "x"}
    (action,) = decode(line(**{kind: {**REQUIRED[kind], "partitionValues": values}}))
    assert action.partition_values == {"b": "", "c": "x"}


def test_an_action_leaves_its_callers_dictionary_alone() -> None:
    values = {"a": None, "b": "x"}
    add = Add(path="a", partition_values=values, size=1, modification_time=1, data_change=True)
    assert values == {"a": None, "b": "x"}
    assert add.partition_values == {"b": "x"}


def _gzip_named(text: bytes) -> bytes:
    plain = gzip.compress(text, mtime=0)
    return plain[:3] + b"\x08" + plain[4:10] + b"name\0" + plain[10:]


HEADERS = {
    "plain": lambda text: text,
    "gzip": gzip.compress,
    "old prefix": lambda text: b"\x01\x01" + gzip.compress(text),
    "gzip with a file name": _gzip_named,
    "stored, not deflated": lambda text: gzip.compress(text, 0),
    "several members": lambda text: b"".join(gzip.compress(part) for part in text.splitlines(keepends=True)),
    "members that cut lines": lambda text: gzip.compress(text[:41]) + gzip.compress(b"") + gzip.compress(text[41:]),
    "no final newline": lambda text: text.rstrip(b"\n"),
    "windows line ends": lambda text: text.replace(b"\n", b"\r\n"),
    "blank lines": lambda text: b"\n \t\r\n" + text.replace(b"\n", b"\n\n"),
    "spaces": lambda text: b"".join(b"  " + json.dumps(json.loads(row)).encode() + b" \n" for row in text.splitlines()),
}


@pytest.mark.parametrize("header", HEADERS)
def test_every_header_is_read(header) -> None:
    text = version_text(WHOLE_VERSION)
    assert decode(HEADERS[header](text)) == WHOLE_VERSION


def test_gzip_is_written_as_gzip() -> None:
    data = encode_version(WHOLE_VERSION, compress=True)
    assert data.startswith(b"\x1f\x8b")
    assert encode_version(WHOLE_VERSION, compress=False).startswith(gzip.decompress(data))


IGNORED = {
    "unknown action": line(cdc={"path": "x", "deep": [{}]}),
    "unknown action of another type": line(txn=[1, 2]),
    "empty object": b"{}\n",
    "all actions null": line(add=None, remove=None, protocol=None, metaData=None, mergeskip=None, skip=None),
    "foreign commit line": line(commitInfo={"timestamp": 5, "operation": "WRITE", "operationParameters": {}}),
    "foreign commit line with text for a time": line(commitInfo={"timestamp": "yesterday"}),
    "foreign commit line without a transaction": line(commitInfo={"timestamp": "x", "txnId": None}),
    "foreign commit line with ours deep inside": line(commitInfo={"nested": {"txnId": "x"}}),
    "foreign commit line that is a list": line(commitInfo=[{"txnId": "x"}]),
    "foreign commit line that is null": line(commitInfo=None),
    "foreign commit line that is text": line(commitInfo='"txnId"'),
    "huge numbers in unknown fields": b'{"x":' + b"9" * 5000 + b',"y":1e999}\n',
}


@pytest.mark.parametrize("case", IGNORED)
def test_unknown_lines_are_ignored(case) -> None:
    assert decode(IGNORED[case] + line(add=ADD) + IGNORED[case]) == decode(line(add=ADD))


@pytest.mark.parametrize("kind", REQUIRED)
@given(extra=st.dictionaries(st.text(max_size=8).map("x-{}".format), st.sampled_from([None, 1, "a", [1], {"add": {}}])))
def test_unknown_fields_are_ignored(kind, extra) -> None:
    bare = decode(line(**{kind: REQUIRED[kind]}))
    assert decode(line(**{kind: {**extra, **REQUIRED[kind]}}, **extra)) == bare


def test_a_foreign_commit_line_may_stand_beside_an_action() -> None:
    assert decode(line(commitInfo={"who": "me"}, add=ADD)) == decode(line(add=ADD))
    assert decode(line(add=ADD, remove=None)) == decode(line(add=ADD))


def test_a_commit_line_in_the_style_of_others_with_a_transaction_id_counts() -> None:
    (info,) = decode(line(commitInfo={**REQUIRED["commitInfo"], "operationMetrics": {"n": "1"}, "isBlindAppend": True}))
    assert isinstance(info, CommitInfo)
    assert info.txn_id == "t"


def test_skips_are_read_under_both_names_and_written_under_one() -> None:
    fields = REQUIRED["mergeskip"]
    assert decode(line(skip=fields)) == decode(line(mergeskip=fields))
    assert encode_version(decode(line(skip=fields)), compress=False).startswith(b'{"mergeskip":')


@pytest.mark.parametrize("kind", ["add", "remove", "mergeskip"])
def test_paths_become_relative(kind) -> None:
    (action,) = decode(line(**{kind: {**REQUIRED[kind], "path": "s3a://bucket/table/k=v/a.split"}}))
    assert action.path == "k=v/a.split"


def test_the_last_of_two_equal_fields_counts_as_in_other_readers() -> None:
    (add,) = decode(line(add=ADD).replace(b'"path"', b'"path": "first.split", "path"'))
    assert add.path == "a.split"


def test_a_line_of_ten_million_characters() -> None:
    for field in ("stats", "docMappingRef", "unknown"):
        for compress in (bytes, gzip.compress):
            (add,) = decode(compress(line(add={**ADD, field: "x" * 10_000_000})))
            assert isinstance(add, Add)
    (add,) = decode(line(add={**ADD, "partitionValues": {str(key): "x" for key in range(300_000)}}))
    assert len(add.partition_values) == 300_000


def test_who_made_a_version() -> None:
    protocol, metadata, info = (FULL_EXAMPLES[kind][0] for kind in ("protocol", "metaData", "commitInfo"))
    assert identity_of(0, (protocol, metadata)) == metadata.id
    assert identity_of(0, (metadata, info)) == metadata.id, "version 0 is known by its table"
    assert identity_of(1, (metadata, info)) == info.txn_id
    assert identity_of(1, (protocol, metadata)) is None, "a later version of another writer has no name"
    assert identity_of(1, (protocol,)) is None
    assert commit_info((protocol, info, msgspec.structs.replace(info, txn_id="later"))) == info
    assert commit_info((protocol,)) is None


class Unwritable:
    pass


def recursive() -> dict:
    value: dict = {}
    value["self"] = value
    return value


@pytest.mark.parametrize(
    ("kind", "field", "value", "wire_name"),
    [
        ("add", "stats", "\ud800", "add.stats"),
        ("add", "partition_values", {"k": "\udfff"}, "add.partitionValues"),
        ("add", "size", Unwritable(), "add.size"),
        ("remove", "path", "\ud800", "remove.path"),
        ("commitInfo", "parameters", {"p": Unwritable()}, "commitInfo.parameters"),
        ("commitInfo", "metrics", recursive(), "commitInfo.metrics"),
        ("commitInfo", "metrics", {"n": 10**5000}, "commitInfo.metrics"),
        ("metaData", "name", "\ud800", "metaData.name"),
    ],
)
def test_what_json_cannot_hold_is_refused_by_name(kind, field, value, wire_name) -> None:
    action = msgspec.structs.replace(FULL_EXAMPLES[kind][0], **{field: value})
    with pytest.raises(ConfigError, match=f"cannot write the field `{wire_name}`"):
        encode_version([action], compress=True)


def test_only_actions_are_written() -> None:
    with pytest.raises(ConfigError, match="cannot write a `dict` to the log"):
        encode_version([{"add": ADD}], compress=False)
