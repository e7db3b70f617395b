"""What the text of a predicate means, and how it is refused: always with a QueryError, mostly with a caret."""

from __future__ import annotations

import contextlib
import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.errors import QueryError
from indextables.predicate import Always, And, Column, Comparison, In, IsNull, Like, Not, Or, columns, parse_predicate

A, B = Column(("a",)), Column(("b",))
NOON = dt.datetime(2024, 1, 31, 12, tzinfo=dt.UTC)


def compare(operator, value) -> Comparison:
    return Comparison(A, operator, value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", compare("=", 1)),
        ("a == 1", compare("=", 1)),
        ("a != 1", compare("<>", 1)),
        ("a <=> NULL", compare("<=>", None)),
        ("1 < a", compare(">", 1)),
        ("a > -1.50", compare(">", Decimal("-1.50"))),
        ("a > .5", compare(">", Decimal("0.5"))),
        ("a > -.5", compare(">", Decimal("-0.5"))),
        ("a = 1e3", compare("=", Decimal("1e3"))),
        ("a = -128Y", compare("=", -128)),
        ("a = 2.5D", compare("=", 2.5)),
        ("a = 'it''s'", compare("=", "it's")),
        ("a = 'it\\'s'", compare("=", "it's")),
        ('a = "x"', compare("=", "x")),
        ("a = DATE '2024-01-31'", compare("=", dt.date(2024, 1, 31))),
        ("a = TIMESTAMP '2024-01-31 12:00:00'", compare("=", NOON)),
        ("a = TIMESTAMP '2024-01-31T14:00:00+02:00'", compare("=", NOON)),
        ("a = CAST('2024-01-31' AS DATE)", compare("=", dt.date(2024, 1, 31))),
        ("a = '1.005'::decimal(10,2)", compare("=", Decimal("1.01"))),
        ("a = CAST(CAST('7' AS INT) AS STRING)", compare("=", "7")),
        ("a", compare("=", True)),
        ("NOT a", Not(compare("=", True))),
        ("!a", Not(compare("=", True))),
        ("not not a = 1", compare("=", 1)),
        ("a IS NULL", IsNull(A)),
        ("a IS NOT NULL", Not(IsNull(A))),
        ("a IS TRUE", compare("<=>", True)),
        ("a IS DISTINCT FROM 1", Not(compare("<=>", 1))),
        ("a IN (1, 'x', NULL)", In(A, (1, "x", None))),
        ("a NOT IN (1)", Not(In(A, (1,)))),
        ("a BETWEEN 1 AND 2 AND b", And((And((compare(">=", 1), compare("<=", 2))), Comparison(B, "=", True)))),
        ("a NOT BETWEEN 1 AND 2", Not(And((compare(">=", 1), compare("<=", 2))))),
        ("a LIKE 'x\\_%'", Like(A, "x\\_%")),
        ("a NOT LIKE 'x!%' ESCAPE '!'", Not(Like(A, "x!%", "!"))),
        ("a LIKE NULL", compare("=", None)),
        ("a = 1 OR a = 2 AND b", Or((compare("=", 1), And((compare("=", 2), Comparison(B, "=", True)))))),
        ("((a)) = ((1)) -- why not", compare("=", 1)),
        ("1 = 1", Always(True)),
        ("1.0 <> 1", Always(False)),
        ("'a' < NULL", Always(None)),
        ("TRUE", Always(True)),
        ("3 IN (1, 2)", Or((Always(False), Always(False)))),
        ("date > 1", Comparison(Column(("date",)), ">", 1)),
        ("`a b`.`c.d`.e = 1", Comparison(Column(("a b", "c.d", "e")), "=", 1)),
        ("größe = 1", Comparison(Column(("größe",)), "=", 1)),
    ],
)
def test_text_is_read(text, expected):
    assert parse_predicate(text) == expected


def test_columns_are_named_as_written():
    assert columns(parse_predicate("a = 1 and (not B.c like 'x%' or `d e` is null) and true")) == {"a", "B.c", "d e"}


@pytest.mark.parametrize(
    ("text", "reason", "caret"),
    [
        ("a = b", "two columns", 4),
        ("lower(a) = 'x'", "functions such as `lower(...)`", 0),
        ("a = now()", "functions", 4),
        ("a + 1 = 2", "arithmetic", 2),
        ("a = 1 + 2", "arithmetic", 6),
        ("a =", "it ends", 3),
        ("(a = 1", "`)` is missing", 6),
        ("a = 1)", "`)` is not understood", 5),
        ("a indexquery 'x'", "`indexquery` is not understood", 2),
        ("a rlike 'x'", "`rlike` is not understood", 2),
        ("a in (select 1)", "subquery", 6),
        ("a in (b)", "only literals", 6),
        ("a in ()", "`)` is found where", 6),
        ("a = 1; drop table t", "`;`", 5),
        ("a between 1", "`AND` is missing", 11),
        ("a is 5", "`IS` is followed", 5),
        ("5", "a literal is found", 0),
        ("a = 1 and 5", "a literal is found", 10),
        ("(a = 1) = true", "a condition in parentheses", 8),
        ("a like 5", "not a string", 7),
        ("a like 'x' escape 'yy'", "one character", 18),
        ("a = date '2024-02-30'", "not in the calendar", 9),
        ("a = 300::tinyint", "does not fit into 8 bits", 4),
        ("a = cast('x' as int)", "`x` is not a number", 9),
        ("cast(a as int) = 1", "a column is cast", 5),
        ("1 = 'a'", "different types", 4),
        ("case when a then b end", "`case` is found where", 0),
        ("a = 'x' 'y'", "`y` is not understood", 8),
        ("a\0 = 1", "U+0000", 1),
        ("a = '\ud800'", "U+D800", 5),
    ],
)
def test_refusals_point_at_the_place(text, reason, caret):
    with pytest.raises(QueryError) as caught:
        parse_predicate(text)
    lines = caught.value.message.splitlines()
    assert reason in lines[0]
    assert lines[2] == " " * (4 + caret) + "^"


def test_a_place_far_inside_is_shown_with_its_surroundings():
    text = "a = 1 and\n" + "b = 2 or " * 30 + "c = = 3 or" + " d = 4 or" * 30
    with pytest.raises(QueryError, match="line 2, column 275") as caught:
        parse_predicate(text)
    _, shown, caret = caught.value.message.splitlines()
    assert shown[caret.index("^")] == "="
    assert shown.strip().startswith("...")
    assert len(shown) < 140


HOSTILE = [
    "",
    " \n\t",
    "(" * 200_000,
    "(" * 90 + "a = 1" + ")" * 90 + ")",
    "((" * 200 + "a = 1" + "))" * 200,
    "cast(" * 5_000,
    "not " * 100_000,
    "a = " + "-" * 100_000,
    "a = " + "9" * 100_000 + "x",
    "a in (" + "1," * 100_000,
    "a." * 100_000,
    "'" * 99_999,
    "`" * 99_999,
    "/*" * 1_000,
    "a = 1 or " * 20_000,
    "x" * 2_000_000,
    "a = 1" + "::int" * 1_000 + "::",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_refused(text):
    with pytest.raises(QueryError):
        parse_predicate(text)


def test_what_is_no_text_is_refused():
    with pytest.raises(QueryError, match="from a `int`"):
        parse_predicate(5)


WORDS = ["a", "b.c", "`x y`", "=", "<", "<=>", "!", "not", "and", "or", "in", "between", "like", "is", "null", "true"]
WORDS += [
    "(",
    ")",
    ",",
    "1",
    "-1.5",
    "1L",
    "'x'",
    "date '2024-01-01'",
    "cast(",
    "as int",
    "::",
    "escape",
    "f(",
    "'",
    ";",
]


@settings(max_examples=400)
@given(st.one_of(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), st.text(max_size=40)))
def test_any_text_is_a_predicate_or_refused(text):
    with contextlib.suppress(QueryError):
        columns(parse_predicate(text))


@pytest.mark.parametrize("text", ["a = 1::'int'", "a = 1::n'int'", "a = 1::x'ff'", "a = CAST(1 AS 'int')"])
def test_the_type_of_a_cast_is_a_word(text) -> None:
    with pytest.raises(QueryError, match="expected the name of a type"):
        parse_predicate(text)
