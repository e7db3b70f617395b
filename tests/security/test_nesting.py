"""Nesting without end, in everything that is parsed: the documented error, and never a RecursionError or a crash."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
import pytest
from tests.protocol.protocol_examples import TABLE

from indextables.commands.parse import parse_command
from indextables.errors import (
    CheckpointCorruptionError,
    ConfigError,
    CorruptLogError,
    CorruptSplitError,
    IndexTablesError,
    QueryError,
    SchemaError,
)
from indextables.predicate import bind, parse_predicate, to_arrow
from indextables.protocol.avro.state_manifest import decode_state_manifest
from indextables.protocol.checkpoint.json_checkpoint import decode_json_checkpoint, json_checkpoint_key
from indextables.protocol.checkpoint.last_checkpoint import decode_last_checkpoint
from indextables.protocol.doc_mapping import canonical_json
from indextables.protocol.names import state_keys
from indextables.protocol.schema import schema_from_json
from indextables.protocol.thrift import read_list_spans, read_struct
from indextables.protocol.version_file import decode_version
from indextables.spark.source.stream_reader import StreamOffset
from indextables.split.format.layout import decode_directory
from indextables.split.index.fields import FieldMap
from indextables.split.query import parse_query

DEPTH = 100_000
LISTS = "[" * DEPTH + "]" * DEPTH
OBJECTS = '{"a":' * DEPTH + "1" + "}" * DEPTH


def array_types(depth: int) -> str:
    """A column of lists of lists, in Spark's JSON."""
    inner = '{"type":"array","containsNull":true,"elementType":' * depth + '"string"' + "}" * depth
    return f'{{"type":"struct","fields":[{{"name":"a","type":{inner}}}]}}'


READERS = {
    "version": (lambda text: decode_version(f'{{"add":{text}}}'.encode(), 1, TABLE), CorruptLogError),
    "unknown action": (lambda text: decode_version(f'{{"x":{text}}}'.encode(), 1, TABLE), CorruptLogError),
    "commit line": (lambda text: decode_version(f'{{"commitInfo":{text}}}'.encode(), 1, TABLE), CorruptLogError),
    "JSON checkpoint": (
        lambda text: decode_json_checkpoint(f'{{"add":{text}}}'.encode(), json_checkpoint_key(7), TABLE),
        CheckpointCorruptionError,
    ),
    "JSON state": (lambda text: decode_state_manifest(text.encode(), state_keys(7)[0]), CheckpointCorruptionError),
    "hint": (lambda text: decode_last_checkpoint(text.encode(), "_last_checkpoint"), CheckpointCorruptionError),
    "schema": (schema_from_json, SchemaError),
    "doc mapping": (FieldMap.from_json, SchemaError),
    "canonical mapping": (canonical_json, SchemaError),
    "directory of a split": (
        lambda text: decode_directory(f'{{"layout_version":1,"tokenizers":{{"a":{text}}}}}', "k"),
        CorruptSplitError,
    ),
}


@pytest.mark.parametrize("text", [LISTS, OBJECTS], ids=["lists", "objects"])
@pytest.mark.parametrize("reader", READERS)
def test_json(reader, text) -> None:
    read, error = READERS[reader]
    with pytest.raises(error):
        read(text)


@pytest.mark.parametrize("depth", [50, 500, 5000])
def test_types(depth) -> None:
    try:
        schema_from_json(array_types(depth))
    except SchemaError:
        assert depth > 50


def test_headers_of_parquet() -> None:
    """Lists in lists, structs in structs, a number without an end, and lists of more than there is."""
    endless = [b"\x19" + kind + b"\xff" * 8 + b"\x7f" for kind in (b"\xf9", b"\xf3", b"\xf7")]
    for data in (b"\x19" * DEPTH, b"\x1c" * DEPTH, b"\x16" + b"\xff" * 1_000_000, *endless):
        with pytest.raises(ValueError, match=r"a header|a number"):
            read_struct(data)
        with pytest.raises(ValueError, match=r"a header|a number"):
            read_list_spans(data, 7)


@pytest.mark.parametrize(
    "text",
    [
        "(" * DEPTH + "a" + ")" * DEPTH,
        "NOT " * DEPTH + "a",
        "(NOT " * DEPTH + "a" + ")" * DEPTH,
        "a:(" * DEPTH,
        "[" * DEPTH,
    ],
)
def test_queries(text) -> None:
    try:
        parse_query(text)
    except QueryError as error:
        assert len(str(error)) < 2000  # noqa: PT017 - it may also be read


@pytest.mark.parametrize(
    "text",
    [
        "(" * DEPTH + "id = 1" + ")" * DEPTH,
        "NOT " * DEPTH + "id = 1",
        "CAST(" * DEPTH + "1 AS INT)" * DEPTH,
        "id = 1" + " AND id = 1" * 20_000,
        "id = 1" + " OR (id = 1" * 90 + ")" * 90,
        "id IN (" + ",".join(map(str, range(50_000))) + ")",
    ],
)
def test_predicates(text) -> None:
    schema = pa.schema([("id", pa.int64())])
    try:
        to_arrow(bind(parse_predicate(text), schema))
    except QueryError as error:
        assert len(str(error)) < 2000  # noqa: PT017 - it may also be read


@pytest.mark.parametrize("text", ["(" * DEPTH, "id = 1 AND " * 20_000 + "id = 1", "(" * 99 + "id=1" + ")" * 99])
def test_commands(text) -> None:
    try:
        parse_command(f"MERGE SPLITS '/t' WHERE {text}")
    except QueryError as error:
        assert len(str(error)) < 2000  # noqa: PT017 - it may also be read


@pytest.mark.parametrize(
    "offset",
    [
        [1, 2],
        "text",
        None,
        7,
        {},
        {"tableId": "t", "begin": 5, "position": 6},
        {"tableId": "t", "begin": {"version": float("inf"), "passed": 0, "whole": True}, "position": {}},
        {"tableId": "t", "begin": {"version": "9" * 5000, "passed": 0, "whole": True}, "position": {}},
        json.loads("[" * 400 + "]" * 400),
        {"tableId": "x" * 1_000_000},
    ],
    ids=range(10),
)
def test_offsets_of_streams(offset) -> None:
    with pytest.raises(ConfigError, match="is no offset of a table") as caught:
        StreamOffset.read(offset)
    assert len(str(caught.value)) < 2000
    assert isinstance(caught.value, IndexTablesError)


def test_a_caller_that_stands_deep_itself() -> None:
    """Notebooks and Spark call from far down: what is left of the stack may be less than a text may be nested."""

    def from_below(depth: int) -> None:
        if depth:
            from_below(depth - 1)
        else:
            parse_predicate("(" * 99 + "id = 1" + ")" * 99)

    with pytest.raises(QueryError, match="nested too deeply"):
        from_below(sys.getrecursionlimit() - 300)
