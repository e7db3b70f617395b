"""Search operators in SQL text: they become calls, and nothing else of the text changes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.errors import QueryError
from indextables.predicate.words import tokenize
from indextables.spark.statements.calls import Name, Parameters, find_calls
from indextables.spark.statements.operators import (
    apply_edits,
    operator_edits,
    rewrite_condition,
    search_calls,
    split_words,
)

NAMES = ["a", "msg", "t.msg", "`a b`", "`textsearch`", "t.`x``y`.z", "s . t", "desc", "table"]
QUIET = [
    *NAMES,
    *(
        "'it''s TEXTSEARCH \"x\"'",
        "\"msg TEXTSEARCH 'q'\"",
        r"'\' TEXTSEARCH '",
        "r'\\'",
        "x'00'",
        "1.5e3",
        "5L",
        "0x1F",
    ),
    *("-- msg TEXTSEARCH 'q'\n", "/* * indexquery 'q' /* nested */ */", "\n", "\t"),
    *(
        "SELECT",
        "FROM",
        "WHERE",
        "NOT",
        "and",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "{{",
        ",",
        ";",
        "*",
        "=",
        "<=>",
        "::",
        ":p",
    ),
    *("?", ".", "->", "=>", "||", ", textsearch(a, 'q')", "AS textsearch ,", "FROM t textsearch ,", "\u00fc", "@"),
]
SOUP = st.lists(st.sampled_from(QUIET), max_size=12).map(" ".join)
LEFT = st.sampled_from([*NAMES, "*", "t.*", "a.b.*"])
RIGHT = st.sampled_from(["'q'", '"q"', "'a' 'b'", "r'\\d'", ":p", "?", "''", "'{}'"])
CASES = st.sampled_from([str.upper, str.lower, str.title])


@st.composite
def operators(draw) -> tuple[str, str]:
    """An operator and the call that it becomes."""
    left, right, case = draw(LEFT), draw(RIGHT), draw(CASES)
    words = ["textsearch", "indexquery"] if "*" in left else ["textsearch", "indexquery", "fieldmatch"]
    word = draw(st.sampled_from(words))
    space = draw(st.sampled_from([" ", "  ", "\n"]))
    if draw(st.booleans()):
        return f"{left}{space}NOT {case(word)}{space}{right}", f"(NOT {word}({left},{space}{right}))"
    return f"{left}{space}{case(word)}{space}{right}", f"{word}({left},{space}{right})"


def rewritten(text: str, **kind: bool) -> str:
    return apply_edits(text, operator_edits(text, tokenize(text), **kind))


@settings(deadline=None)
@given(SOUP)
def test_text_without_operators_stays_byte_for_byte(soup) -> None:
    if split_words(soup) is None:
        return
    assert rewritten(soup) == soup
    assert rewrite_condition(soup) == soup
    assert apply_edits(soup, [], doubles_braces=True).format() == soup


@settings(deadline=None)
@given(st.lists(operators(), min_size=1, max_size=4), st.lists(SOUP, min_size=5, max_size=5))
def test_only_operators_change(found, soups) -> None:
    parts, expected = [soups[0]], [soups[0]]
    for (text, call), soup in zip(found, soups[1:], strict=False):
        parts += ["\nAND", text, "OR", soup]
        expected += ["\nAND", call, "OR", soup]
    text = " ".join([*parts, "\nAND a"])
    assert rewritten(text) == " ".join([*expected, "\nAND a"])


@given(SOUP)
def test_tokens_tell_where_they_end(text) -> None:
    tokens = split_words(text)
    if tokens is None:
        return
    for one, following in itertools.pairwise(tokens):
        is_suffix = one.start == following.start  # `5L` is a number and the cast that its suffix means
        assert one.start < one.end
        assert one.end <= following.start or is_suffix
        between = text[one.end : following.start]
        assert not between.strip() or between.lstrip().startswith(("--", "/*"))


def test_comments_around_an_operator_stay() -> None:
    text = "WHERE msg /* a */ NOT -- b\n TEXTSEARCH /* c */ 'q' -- d"
    assert rewritten(text) == "WHERE (NOT textsearch(msg /* a */  -- b\n , /* c */ 'q')) -- d"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT textsearch, indexquery AS fieldmatch FROM textsearch",
        "SELECT a textsearch FROM t textsearch JOIN u fieldmatch ON textsearch.id = fieldmatch.id",
        "SELECT a AND b textsearch FROM t",
        "SELECT textsearch(msg, 'q') FROM t WHERE NOT indexquery(*, :q)",
        "SELECT textsearch:price, t.textsearch:price, v:textsearch FROM t",
        "CREATE TABLE t (textsearch STRING COMMENT 'x', s STRUCT<textsearch: INT, indexquery :INT>)",
        "CREATE TABLE t USING x OPTIONS (textsearch 'a', indexquery 'b')",
        "COMMENT ON COLUMN textsearch IS 'x'",
        "SELECT * FROM t textsearch (a, b)",
        "SELECT :textsearch, 'msg TEXTSEARCH' AS `TEXTSEARCH`",
        "DESCRIBE textsearch",
    ],
)
def test_names_stay_names(text) -> None:
    assert rewritten(text) == text


BAD = {
    "SELECT * FROM t WHERE (msg) TEXTSEARCH 'q'": "the name of a column",
    "SELECT * FROM t WHERE lower(msg) TEXTSEARCH 'q'": "the name of a column",
    "SELECT * FROM t WHERE tags[0] TEXTSEARCH 'q'": "the name of a column",
    "SELECT * FROM t WHERE 'text' TEXTSEARCH 'q'": "the name of a column",
    "SELECT * FROM t WHERE 5 NOT TEXTSEARCH 'q'": "the name of a column",
    "SELECT * FROM t WHERE NULL TEXTSEARCH ?": "the name of a column",
    "SELECT * FROM t WHERE TEXTSEARCH 'q'": "the name of a column",
    "SELECT * FROM t WHERE NOT TEXTSEARCH 'q'": "the name of a column",
    "SELECT * FROM t WHERE a * TEXTSEARCH 'q'": "the name of a column",
    "SELECT * FROM t WHERE msg TEXTSEARCH": "a string or a parameter",
    "SELECT * FROM t WHERE msg TEXTSEARCH other": "a string or a parameter",
    "SELECT * FROM t WHERE a AND msg TEXTSEARCH upper('q')": "a string or a parameter",
    "SELECT * FROM t WHERE msg TEXTSEARCH ('q')": "a string or a parameter",
    "SELECT * FROM t WHERE a OR msg TEXTSEARCH 5": "a string or a parameter",
    "SELECT * FROM t WHERE msg TEXTSEARCH 'a' || 'b'": "is after the string",
    "SELECT * FROM t WHERE msg TEXTSEARCH :q::string": "is after the string",
    "SELECT * FROM t WHERE a || msg TEXTSEARCH 'q'": "is before the column",
    "SELECT * FROM t WHERE true = msg TEXTSEARCH 'q'": "is before the column",
    "SELECT * FROM t WHERE id::string TEXTSEARCH 'q'": "is before the column",
    "SELECT * FROM t WHERE tags[0].msg TEXTSEARCH 'q'": "is before the column",
    "SELECT * FROM t WHERE v:msg TEXTSEARCH 'q'": "is before the column",
    "SELECT * FROM t WHERE a LIKE msg TEXTSEARCH 'q'": "is before the column",
    "SELECT * FROM t TEXTSEARCH 'q'": "is before the column",
    "SELECT * FROM t WHERE * FIELDMATCH 'v'": "all text columns",
}


@pytest.mark.parametrize("text", BAD)
def test_an_operator_without_its_operands_is_refused_with_its_place(text) -> None:
    with pytest.raises(QueryError, match=BAD[text]) as raised:
        rewritten(text)
    assert f"\n    {text}\n" in str(raised.value)


def test_conditions_by_themselves() -> None:
    assert rewrite_condition("msg TEXTSEARCH 'q'") == "textsearch(msg, 'q')"
    assert rewrite_condition("* INDEXQUERY 'q' AS hit") == "indexquery(*, 'q') AS hit"
    assert rewrite_condition("'left open TEXTSEARCH") == "'left open TEXTSEARCH"
    assert rewrite_condition("a textsearch") == "a textsearch"
    for bad in ("TEXTSEARCH 'q'", "msg TEXTSEARCH 5", "NOT TEXTSEARCH 'q'"):
        with pytest.raises(QueryError, match="expected"):
            rewrite_condition(bad)


def test_frames_in_braces_are_operands_of_a_template() -> None:
    text = (
        "SELECT * FROM {df} WHERE {df.msg} TEXTSEARCH {q} AND {df}.msg indexquery '{{' AND {df[a]} NOT FIELDMATCH 'v'"
    )
    assert rewritten(text, is_template=True) == (
        "SELECT * FROM {df} WHERE textsearch({df.msg}, {q}) AND indexquery({df}.msg, '{{') "
        "AND (NOT fieldmatch({df[a]}, 'v'))"
    )


def test_calls_of_search_functions_are_found() -> None:
    text = "SELECT textsearch(a, 'q'), 'indexquery(a)', textsearch FROM t WHERE IndexQuery /* c */ (a, 'q')"
    assert [token.text for token in search_calls(tokenize(text))] == ["textsearch", "IndexQuery"]


def calls(text: str, args=None, frames=None) -> list:
    return find_calls(text, tokenize(text), {"f", "g"}, Parameters(args, frames))


def values(arguments: str, args=None, frames=None) -> list:
    (call,) = calls(f"SELECT * FROM f({arguments})", args, frames)
    return [(argument.name, argument.value) for argument in call.arguments]


def test_arguments_are_literals_names_and_parameters() -> None:
    assert values("'a' 'b', \"c\", r'\\d'") == [(None, "ab"), (None, "c"), (None, "\\d")]
    assert values("N => 3, m => -4L, k => TRUE, j => null") == [("n", 3), ("m", -4), ("k", True), ("j", None)]
    assert values("db.`a b`, x") == [(None, Name(("db", "a b"), "db.`a b`")), (None, Name(("x",), "x"))]
    assert values("array('a', b), array()")[0] == (None, ["a", Name(("b",), "b")])
    assert [str(value) for _, value in values("0.5, DATE '2026-01-02', TIMESTAMP '2026-01-02 03:04:05'")] == [
        "0.5",
        "2026-01-02",
        "2026-01-02 03:04:05+00:00",
    ]
    assert values(":a, x => :b", {"a": "p", "b": [1]}) == [(None, "p"), ("x", [1])]
    assert values("'{{a}}', {b}", None, {"b": "c"}) == [(None, "{a}"), (None, "c")]
    assert values("") == []


def test_parameters_that_a_call_takes_are_not_left_for_spark() -> None:
    parameters = Parameters(["a", 1, "b", 2])
    text = "SELECT ?? FROM f(?) WHERE x > ? AND y IN (SELECT y FROM g(?)) AND z > ? -- ?"
    found = find_calls(text, tokenize(text), {"f", "g"}, parameters)
    assert [call.arguments[0].value for call in found] == ["a", "b"]
    assert parameters.left() == [1, 2]
    assert [text[call.start : call.end] for call in found] == ["f(?)", "g(?)"]


def test_calls_are_found_where_tables_stand() -> None:
    text = (
        "WITH x AS (SELECT * FROM f('a')) SELECT g, s.f('b') FROM x JOIN (g('c') CROSS JOIN f('d')), f('e') -- f('f')"
    )
    assert [call.arguments[0].value for call in calls(text)] == ["a", "c", "d", "e"]
    for bad in ("SELECT f('a')", "SELECT * FROM t WHERE x = f('a')", "SELECT a, abs(f('a')) FROM t", "f('a')"):
        with pytest.raises(QueryError, match="returns a table"):
            calls(bad)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("upper('a')", "nothing is computed"),
        ("'a' || 'b'", "expected `,` or"),
        ("'a', n => ", "expected a literal"),
        ("'a'", None),
        (":missing", "no value is given"),
        ("?", "no value is given"),
        ("DATE '2026-13-01'", "2026-13-01"),
        ("- 'a'", "is not a number"),
        ("array('a'", "expected `,` or"),
        ("'a',, 'b'", "expected a literal"),
        ("=> 'a'", "expected a literal"),
        ("SELECT 1", "expected `,` or"),
    ],
)
def test_bad_arguments_are_refused_with_their_place(arguments, reason) -> None:
    if reason is None:
        with pytest.raises(QueryError, match="line 1, column 20"):
            calls("SELECT * FROM f('a'")
        return
    with pytest.raises(QueryError, match=reason) as raised:
        values(arguments)
    assert "^" in str(raised.value)


def test_a_parameter_that_is_no_plain_value_is_refused() -> None:
    with pytest.raises(QueryError, match="plain value"):
        values(":a", {"a": object()})
    with pytest.raises(QueryError, match="must be doubled"):
        values("'{a}'", None, {"a": "b"})


def test_secrets_in_a_statement_are_not_shown() -> None:
    text = "SELECT * FROM f('s3://user:hidden@bucket/t', x y)"
    with pytest.raises(QueryError, match=r"expected `,` or `\)`, at line 1, column 48$") as raised:
        calls(text)
    assert "hidden" not in str(raised.value)
