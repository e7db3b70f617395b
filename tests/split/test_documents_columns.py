"""Columns are converted as single values are."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.split.split_columns import SCALARS

from indextables.config import Config
from indextables.errors import SchemaError
from indextables.split.index.documents import column_values, documents, json_object
from indextables.split.index.fields import map_fields
from indextables.split.index.literals import index_value


def field_of(type_, kind: str | None = None):
    return map_fields(pa.schema([("c", type_)]), Config.resolve(options={"indexing.typemap.c": kind})).fields[0]


@pytest.mark.parametrize("type_", SCALARS, ids=str)
def test_a_column_is_converted_like_its_values(type_):
    field = field_of(type_)

    @given(st.lists(st.none() | SCALARS[type_], max_size=8), st.integers(0, 3))
    def check(values, start):
        column = pa.array(values, type_)[start:]
        assert column_values(column, field) == [index_value(field, value) for value in values[start:]]
        assert [type(value) for value in column_values(column, field)] == [
            type(index_value(field, value)) for value in values[start:]
        ]

    check()


def test_other_encodings_are_undone():
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", None]))
    assert column_values(runs, field_of(runs.type)) == ["a", "a", None]
    words = pa.array(["b", None, "b"]).dictionary_encode()
    assert column_values(words, field_of(words.type)) == ["b", None, "b"]
    assert column_values(pa.chunked_array([["a"], ["b"]]), field_of(pa.string())) == ["a", "b"]
    assert column_values(pa.nulls(2), field_of(pa.null())) == [None, None]
    assert column_values(pa.array([1.5, math.nan], pa.float16()), field_of(pa.float16())) == [1.5, None]
    assert column_values(pa.array([b"ab"], pa.binary(2)), field_of(pa.binary(2))) == [b"ab"]
    small = pa.array([Decimal("1.25")], pa.decimal64(5, 2))
    assert column_values(small, field_of(small.type)) == [125]


def test_addresses():
    column = pa.array(["10.0.0.1", None, "no address", "::1", "10.0.0.1"])
    assert column_values(column, field_of(pa.string(), "ip")) == ["10.0.0.1", None, None, "::1", "10.0.0.1"]


def test_a_time_that_does_not_fit_is_an_error():
    column = pa.array([2**62], pa.timestamp("s"))
    with pytest.raises(SchemaError, match=r"cannot index column `c` of type `timestamp\[s\]` because"):
        column_values(column, field_of(column.type))


NESTED = [
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), {"a": 1, "b": None}, {"a": 1, "b": None}),
    (pa.list_(pa.string()), ["x", None, "y"], {"$": ["x", None, "y"]}),
    (pa.map_(pa.string(), pa.int32()), [("k.x", 1), ("l", None)], {"k.x": 1, "l": None}),
    (pa.map_(pa.int32(), pa.string()), [(1, "a")], {"1": "a"}),
    (pa.list_(pa.struct([("d", pa.date32())])), [{"d": dt.date(2024, 1, 31)}], {"$": [{"d": "2024-01-31"}]}),
    (pa.list_(pa.decimal128(5, 2)), [Decimal("1.50")], {"$": [1.5]}),
    (pa.list_(pa.binary()), [b"\x00\xff"], {"$": ["00ff"]}),
    (pa.list_(pa.float64()), [math.nan, -0.0, math.inf], {"$": [None, 0.0, math.inf]}),
    (pa.list_(pa.timestamp("us")), [dt.datetime.fromisoformat("2024-01-31T12:00")], {"$": ["2024-01-31T12:00:00 "]}),
    (pa.list_(pa.bool_()), [True], {"$": [True]}),
]


@pytest.mark.parametrize(("type_", "value", "indexed"), NESTED, ids=[str(case[0]) for case in NESTED])
def test_nested_values_become_objects(type_, value, indexed):
    assert column_values(pa.array([value, None], type_), field_of(type_)) == [indexed, None]


@pytest.mark.parametrize(
    ("text", "indexed"),
    [
        ('{"a": {"b": [1, "x"]}}', {"a": {"b": [1, "x"]}}),
        ("[1, 2]", {"$": [1, 2]}),
        ('"word"', {"$": "word"}),
        ("null", None),
        ("not { json", {"$": "not { json"}),
        ("", {"$": ""}),
        ("7", {"$": 7}),
        (str(2**70), {"$": float(2**70)}),
        ('{"t": "2024-01-31T12:30:00Z"}', {"t": "2024-01-31T12:30:00Z "}),
    ],
)
def test_json_texts(text, indexed):
    assert column_values(pa.array([text]), field_of(pa.string(), "json")) == [indexed]


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 102 + "]" * 102, '{"a":' * 300 + "1" + "}" * 300])
def test_json_that_is_nested_too_deeply_is_text(text):
    assert column_values(pa.array([text]), field_of(pa.string(), "json")) == [{"$": text}]


def test_a_column_that_is_nested_too_deeply_is_an_error():
    type_ = pa.int64()
    for _ in range(102):
        type_ = pa.list_(type_)
    value = 1
    for _ in range(102):
        value = [value]
    with pytest.raises(SchemaError, match="nested more than 100 levels deep"):
        column_values(pa.array([value], type_), field_of(type_))


def test_keys_are_text():
    assert json_object({True: 1, b"\x01": 2, dt.date(2024, 1, 1): 3}) == {"true": 1, "01": 2, "2024-01-01": 3}


def test_rows_are_numbered_and_nulls_left_out():
    batch = pa.record_batch({"a": [1, None], "b": ["x", "y"]})
    made = list(documents(batch, map_fields(batch.schema, Config.resolve()), [7, 8]))
    assert [document.to_dict() for document in made] == [
        {"_row": [7], "f0": [1], "f1": ["x"]},
        {"_row": [8], "f1": ["y"]},
    ]
