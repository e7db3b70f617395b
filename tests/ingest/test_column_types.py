"""Columns in words."""

from __future__ import annotations

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from indextables.errors import SchemaError
from indextables.ingest.column_types import parse_column, type_text

SIMPLE = ["string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary", "date"]
TYPES = st.recursive(
    st.sampled_from([*SIMPLE, "timestamp", "timestamp_ntz", "decimal(10,2)"]),
    lambda inner: st.one_of(
        inner.map("array<{}>".format),
        st.tuples(st.sampled_from(SIMPLE), inner).map(lambda pair: f"map<{pair[0]},{pair[1]}>"),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda types: f"struct<{','.join(f'a{number}:{kind}' for number, kind in enumerate(types))}>"
        ),
    ),
    max_leaves=6,
)


@given(TYPES)
def test_types_in_words_come_back(text) -> None:
    column = parse_column(f"a b:{text}")
    assert (column.field.name, column.indexing, column.field.nullable) == ("a b", None, True)
    assert type_text(column.field.type) == text
    spaced = (
        text.replace(",", " , ").replace("<", " < ").upper().replace("A0", "a0").replace("A1", "a1").replace("A2", "a2")
    )
    assert parse_column(f"a b:{spaced}").field == column.field


@pytest.mark.parametrize(
    ("text", "kind", "indexing"),
    [
        ("a:text", pa.string(), "text"),
        ("a: JSON ", pa.string(), "json"),
        ("a:ip", pa.string(), "ip"),
        ("a:int", pa.int32(), None),
        ("a:bigint", pa.int64(), None),
        ("a:bool", pa.bool_(), None),
        ("a:datetime", pa.timestamp("us"), None),
        ("a:decimal", pa.decimal128(10, 0), None),
    ],
)
def test_names_that_people_expect(text, kind, indexing) -> None:
    column = parse_column(text)
    assert (column.field.type, column.indexing) == (kind, indexing)


@pytest.mark.parametrize(
    "text",
    [
        *("a", "a:", ":int", "a:number", "a:array", "a:array<int", "a:array<int,int>", "a:map<int>", "a:int int"),
        *("a:struct<a>", "a:decimal(99,1)", "a:decimal(5", "a:struct<x:text>", "a:map<int,int>>", "a:array<>"),
    ],
)
def test_what_is_no_column(text) -> None:
    with pytest.raises(SchemaError):
        parse_column(text)
