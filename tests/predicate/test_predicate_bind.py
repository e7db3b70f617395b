"""Names and literals that fit no column are refused, with a word on what would fit."""

from __future__ import annotations

import pyarrow as pa
import pytest

from indextables.errors import QueryError
from indextables.predicate import (
    BoundColumn,
    BoundComparison,
    BoundConstant,
    BoundIn,
    BoundNull,
    Comparison,
    Not,
    bind,
    parse_predicate,
)

SCHEMA = pa.schema(
    [
        ("Id", pa.int32()),
        ("message", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("price", pa.decimal128(10, 2)),
        ("score", pa.float64()),
        ("flag", pa.bool_()),
        ("blob", pa.binary()),
        ("place", pa.struct([("City", pa.string())])),
    ]
)
ID = BoundColumn(("Id",), pa.int32())


def bound(text):
    return bind(parse_predicate(text), SCHEMA)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id < 1.5", BoundComparison(ID, "<=", 1)),
        ("id >= 1.5", BoundComparison(ID, ">", 1)),
        ("id > -1.5", BoundComparison(ID, ">", -2)),
        ("id = 1.5", BoundConstant(False)),
        ("id <> 1.5", BoundNull(ID, negated=True)),
        ("id < 3000000000", BoundNull(ID, negated=True)),
        ("id > 3000000000", BoundConstant(False)),
        ("id > 1e999999", BoundConstant(False)),
        ("id in (2, 1, 1.0, 1.5, NULL)", BoundIn(ID, (1, 2), negated=False)),
        ("id not in (1, NULL)", BoundConstant(False)),
        ("not (id = NULL)", BoundConstant(False)),
        ("id <=> NULL", BoundNull(ID, negated=False)),
        ("id = '7'", BoundComparison(ID, "=", 7)),
        ("id = 1 or true", BoundConstant(True)),
        ("id = 1 and false", BoundConstant(False)),
        ("not (id >= 5)", BoundComparison(ID, "<", 5)),
    ],
)
def test_literals_become_values_of_the_column(text, expected):
    assert bound(text) == expected


def test_a_field_of_a_struct_is_found_in_any_case():
    assert bound("PLACE.city = 'x'").column == BoundColumn(("place", "City"), pa.string())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mesage = 'x'", "did you mean `message`"),
        ("place.town = 'x'", "no such column in `place`"),
        ("id.x = 1", "no such column in `Id`"),
        ("message = 7", "put it in quotes"),
        ("message in ('a', 7)", "put it in quotes"),
        ("id = 'seven'", "`seven` is not a number"),
        ("id = true", "`True` is not a number"),
        ("flag = 1", "not a boolean"),
        ("flag = 'maybe'", "not a boolean"),
        ("day = 19000", "neither a date nor a timestamp"),
        ("at = 'yesterday'", "not a timestamp"),
        ("at > '2024-01-01 25:00:00'", "not in the calendar"),
        ("price = 'x'", "not a number"),
        ("score < date '2024-01-01'", "not a number"),
        ("blob = 'x'", "only `IS NULL`"),
        ("place = 'x'", "only `IS NULL`"),
        ("id like 'x%'", "cannot use `LIKE`"),
        ("message like 'x\\\\y'", "escape character"),
        ("message like 'x!' escape '!'", "escape character"),
        (f"message like '{'x' * 5000}'", "2,000 characters"),
        ("id", "not a number"),
    ],
)
def test_what_does_not_fit_is_refused(text, message):
    with pytest.raises(QueryError) as caught:
        bound(text)
    assert message in str(caught.value)


def test_a_column_of_any_type_can_be_null():
    assert bound("blob is null") == BoundNull(BoundColumn(("blob",), pa.binary()), negated=False)


def test_names_that_differ_in_case_only_are_told_apart_or_refused():
    schema = pa.schema([("a", pa.int32()), ("A", pa.int64())])
    assert bind(parse_predicate("A = 1"), schema).column.type == pa.int64()
    schema = pa.schema([("aa", pa.int32()), ("Aa", pa.int64())])
    with pytest.raises(QueryError, match="differ in case"):
        bind(parse_predicate("AA = 1"), schema)


def test_deep_nesting_is_refused():
    predicate = Comparison(parse_predicate("id = 1").column, "=", 1)
    for _ in range(100_000):
        predicate = Not(predicate)
    with pytest.raises(QueryError, match="too deeply"):
        bind(predicate, SCHEMA)
    while isinstance(predicate, Not):
        predicate = predicate.term
