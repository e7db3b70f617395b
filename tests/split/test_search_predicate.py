"""Search predicates of SQL: what they mean on rows, which columns they look at, and what is wrong with them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from indextables.config import Config
from indextables.errors import QueryError
from indextables.split.index.fields import FieldMap, map_fields
from indextables.split.search.row_matcher import RowMatcher
from indextables.split.search.search_predicate import (
    All,
    Opposite,
    Predicate,
    Search,
    Some,
    checked,
    for_table,
    from_json,
    operators,
    to_json,
    tree_of,
)

SCHEMA = pa.schema(
    [
        ("msg", pa.string()),
        ("note", pa.string()),
        ("host", pa.string()),
        ("n", pa.int64()),
        ("tags", pa.list_(pa.string())),
        ("a.b", pa.string()),
    ]
)
ROWS = [
    {"msg": "Disk full", "note": "net down", "host": "web-1", "n": 1, "tags": ["x"], "a.b": "one two"},
    {"msg": "disk ok", "note": None, "host": "web 2", "n": 5, "tags": None, "a.b": None},
    {"msg": None, "note": "disk", "host": None, "n": None, "tags": ["y", "x"], "a.b": "two"},
]


def fields(*columns: str) -> FieldMap:
    options = {f"indexing.typemap.{column}": "text" for column in ("msg", "note", "a.b")}
    known = map_fields(SCHEMA, Config.resolve(options=options))
    return FieldMap(field for field in known.fields if not columns or field.column in columns)


def found(predicate: Predicate) -> list[int]:
    batch = pa.RecordBatch.from_pylist(ROWS, SCHEMA)
    matches = RowMatcher(tree_of(predicate), fields()).matches(batch).to_pylist()
    return [number for number, fits in enumerate(matches) if fits]


@pytest.mark.parametrize(
    ("function", "columns", "text", "rows", "looked_at"),
    [
        ("textsearch", ["msg"], "disk", [0, 1], ["msg"]),
        ("textsearch", ["msg"], "NOT disk", [2], ["msg"]),
        ("textsearch", ["msg"], "msg:full OR ok", [0, 1], ["msg"]),
        ("textsearch", ["msg"], "*:disk", [0, 1], ["msg"]),
        ("textsearch", ["msg"], "*", [0, 1], ["msg"]),
        ("textsearch", ["a.b"], "two", [0, 2], ["a.b"]),
        ("textsearch", ["msg", "note"], "disk", [0, 1, 2], ["msg", "note"]),
        ("textsearch", ["msg", "note"], "disk AND net", [0], ["msg", "note"]),
        ("textsearch", ["msg", "note", "host"], "disk AND host:web-1", [0], ["msg", "note", "host"]),
        ("textsearch", ["msg", "host"], "disk", [0, 1], ["msg"]),
        ("fieldmatch", ["host"], "web 2", [1], ["host"]),
        ("fieldmatch", ["host"], "web*", [], ["host"]),
        ("fieldmatch", ["n"], "5", [1], ["n"]),
        ("indexquery", ["host"], "web*", [0, 1], ["host"]),
        ("indexquery", ["n"], ">=5", [1], ["n"]),
        ("indexquery", ["n"], "[1 TO 5]", [0, 1], ["n"]),
        ("indexquery", ["tags"], "x", [0, 2], ["tags"]),
        ("indexquery", ["host", "n"], "host:web-1 AND n:1", [0], ["host", "n"]),
    ],
)
def test_a_search_is_about_its_columns(function, columns, text, rows, looked_at) -> None:
    search = checked(function, fields(*columns), text)
    assert found(search) == rows
    assert [field.column for field in search.fields] == looked_at
    assert from_json(to_json(search)) == search


@pytest.mark.parametrize(
    ("function", "columns", "text", "message"),
    [
        ("textsearch", ["host"], "x", "indexed as `string`"),
        ("textsearch", ["n"], "1", "indexed as `int`"),
        ("textsearch", ["host", "n"], "x", "none of the columns is indexed as `text`"),
        ("textsearch", ["msg"], "host:web", "no field `host`"),
        ("textsearch", ["msg"], "(disk", r"not closed, at line 1, column 1:\n    \(disk\n    \^"),
        ("textsearch", ["msg"], "", "empty"),
        ("fieldmatch", ["msg"], "x", "indexed as `text`"),
        ("fieldmatch", ["host", "n"], "x", "several columns"),
        ("fieldmatch", ["n"], "x", "no value of `n`"),
        ("indexquery", ["n"], "x", "no value of `n`"),
        ("indexquery", ["host", "n"], "web-1", "names no field"),
    ],
)
def test_what_is_wrong_with_a_search_is_said(function, columns, text, message) -> None:
    with pytest.raises(QueryError, match=message):
        checked(function, fields(*columns), text)


def test_predicates_are_joined_as_in_sql() -> None:
    disk, net = checked("textsearch", fields("msg"), "disk"), checked("textsearch", fields("note"), "net OR disk")
    assert found(All((disk, net))) == [0]
    assert found(Some((disk, net))) == [0, 1, 2]
    assert found(Opposite(disk)) == [2]
    assert found(Opposite(All((disk, Opposite(net))))) == [0, 2]
    joined = Some((Opposite(disk), All((net, disk))))
    assert from_json(to_json(joined)) == joined
    assert operators(joined) == [disk, net, disk]
    assert str(joined) == "(NOT msg TEXTSEARCH 'disk' OR (note TEXTSEARCH 'net OR disk' AND msg TEXTSEARCH 'disk'))"


def test_a_search_everywhere_is_a_query_to_the_table() -> None:
    search = checked("textsearch", fields("msg", "note", "a.b"), "disk")
    some = checked("textsearch", fields("msg", "note"), "disk")
    every = ["msg", "note", "a.b"]
    known = for_table(All((search, Opposite(some))), every)
    assert [one.is_everywhere for one in operators(known)] == [True, False]
    assert not any(one.fields for one in operators(known))
    assert found(known) == found(All((search, Opposite(some)))) == []
    assert found(for_table(search, every)) == [0, 1, 2]


def test_a_text_is_shown_as_sql_would_have_it() -> None:
    assert str(Search("fieldmatch", ("host",), "O'Hara \\ co")) == r"host FIELDMATCH 'O\'Hara \\ co'"
