"""What is refused, and that the message shows where; and hostile texts."""

from __future__ import annotations

import time

import pytest
from tests.split.query.query_oracle import Table

from indextables.errors import QueryError
from indextables.split.query import parse_query
from indextables.split.query.parse import MAX_NESTING

UNREADABLE = {
    # text: (column of the caret, part of the reason)
    "a AND": (3, "nothing behind `AND`"),
    "a OR )": (3, "nothing behind `OR`"),
    "AND a": (1, "`AND` is found where a word is expected"),
    "a AND OR b": (7, "`OR` is found where a word is expected"),
    "a NOT": (6, "it ends where a word is expected"),
    "(a": (1, "`(` is not closed"),
    "a AND (b (c)": (7, "`(` is not closed"),
    "a)": (2, "`)` is not understood"),
    "()": (1, "the parentheses are empty"),
    "f:()": (3, "the parentheses are empty"),
    '"a': (1, "a quote is left open"),
    "`a": (1, "a quote is left open"),
    "`a`": (1, "not followed by `:`"),
    '"a"b': (4, "touches"),
    'a"b"': (2, "touches"),
    "a(b)": (2, "touches"),
    '"a"."b"': (1, "a quote touches a word"),
    "/a": (1, "a regular expression is not closed"),
    "/var/log": (6, "touches"),
    "a\\": (2, "a backslash is at the end"),
    ":a": (1, "`:` has no field"),
    "f :a": (3, "`:` has no field"),
    "f:": (1, "no value behind `f:`"),
    "f:)": (3, "`)` is not understood"),
    "f..g:a": (1, "a part of the field's name is missing"),
    'f.:"a"': (3, "a part of the field's name is missing"),
    ".f:a": (1, "a part of the field's name is missing"),
    "_exists_:(f)": (10, "`(` is not understood"),
    "- a": (1, "does not touch"),
    "a -": (3, "does not touch"),
    "+-a": (2, "followed by another sign"),
    "a -b AND c": (3, "is in an `AND` that is one clause of a list"),
    "[1 TO 2]": (1, "a range has no field"),
    ">5": (1, "a range has no field"),
    "f:>": (4, "`>` is not followed by a value"),
    "f:>>5": (4, "`>` is not understood"),
    "f:>(5)": (4, "`(` is not understood"),
    "f:>*": (4, "`>` is not followed by a value"),
    "f:[1 2]": (6, "`TO` is missing"),
    "f:[1 TO]": (8, "a bound is missing"),
    "f:[TO 2]": (4, "a bound is missing"),
    "f:[1 TO 2 3]": (11, "more than two bounds"),
    "f:[1 TO 2": (3, "`[` is not closed"),
    "f:IN [a": (6, "`[` is not closed"),
    "f:IN [,a]": (7, "`,` is not understood"),
    "f:IN [a}": (8, "`}` is not understood"),
    "a~3": (2, "a number of edits from 0 to 2"),
    "a~0.5": (2, "a number of edits from 0 to 2"),
    "a ~1": (3, "`~` does not touch"),
    "~1": (1, "`~` does not touch"),
    "a*~1": (3, "`~` is behind a wildcard"),
    '"a b"~': (6, "a number of places"),
    '"a b"~x': (6, "a number of places"),
    "a^": (2, "`^` is not between"),
    "a^x": (2, "`^` is not between"),
    "a^-1": (2, "`^` is not between"),
    "a^1e400": (2, "`^` is not between"),
    "a ^2": (3, "`^` is not between"),
    "a^2^3": (4, "`^` does not touch"),
    "]": (1, "`]` is not understood"),
    "a\0": (2, "the character `U+0000`"),
    "a \udc00": (3, "the character `U+DC00`"),
}


def refused(call, *arguments) -> QueryError:
    with pytest.raises(QueryError) as caught:
        call(*arguments)
    return caught.value


def check_place(message: str, column: int) -> None:
    first, shown, caret = message.rpartition(", at ")[2].splitlines()
    assert first == f"line 1, column {column}:"
    assert shown.startswith("    ")
    assert caret == "    " + " " * (column - 1) + "^"


@pytest.mark.parametrize(("text", "column", "reason"), [(text, *rest) for text, rest in UNREADABLE.items()])
def test_a_text_that_is_no_query_is_shown_with_its_place(text, column, reason) -> None:
    error = refused(parse_query, text)
    assert error.message.startswith("cannot read the query because ")
    assert reason in error.message
    check_place(error.message, column)


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_query_is_refused(text) -> None:
    assert "it is empty" in refused(parse_query, text).message


def test_only_text_is_a_query() -> None:
    assert "give text" in refused(parse_query, 5).message


def test_a_place_on_a_later_line() -> None:
    assert ", at line 3, column 5:" in refused(parse_query, "a\nAND\n  b ) c").message


UNFIT = {
    "mesage:a": (1, "there is no field `mesage`", "did you mean `message`?"),
    "a AND zzz.b:(c OR d)": (7, "there is no field `zzz.b`", "the indexed columns are `message`"),
    "message.x:a": (1, "there is no field `message.x`", "did you mean"),
    "_exists_:zzz": (10, "there is no field `zzz`", "the indexed columns are"),
    "status:abc": (8, "`abc` is no value of `status`", None),
    'status:"5 6"': (8, "`5 6` is no value of `status`", None),
    "status:IN [5 x]": (1, "`x` is no value of `status`", None),
    "status:[5 TO x]": (8, "`x` is no value of `status`", None),
    "status:99999999999999999999": (8, "is no value of `status`", None),
    "status:>99999999999999999999": (8, "does not fit `status`", None),
    'status:"5"~2': (8, "a phrase with slop does not work on `status` of type `int64`", None),
    "status:5*": (8, "a prefix does not work on `status`", "use a range"),
    "status:5?0": (8, "a wildcard does not work on `status`", "use a range"),
    "seconds:5~": (9, "a fuzzy search does not work on `seconds`", None),
    "ok:/t.*/": (4, "a regular expression does not work on `ok`", None),
    "raw:[00 TO ff]": (5, "a range does not work on `raw`", None),
    "raw:*": (5, "a search for existing values does not work on `raw`", "make it a fast field"),
    'host:"a b"~2': (6, "a phrase with slop does not work on `host`", "not split into words"),
    "message:foo-bar~": (9, "splits it into `foo`, `bar`", None),
    "message:/[/": (9, "the pattern is refused: unclosed character class", None),
    "message:/^a/": (9, "the pattern is refused", "leave `^`, `$`"),
    "message:/a{1,5000}/": (9, "the pattern is refused", "use fewer repetitions"),
    "attrs:a": (7, "no path inside it is named", "write `attrs.key:value`"),
    "attrs.k:[1 TO 2]": (9, "a range does not work on `attrs`", "filter the rows with `where`"),
    "attrs.k:/a)(b/": (9, "the pattern is refused", None),
    "tags:*": (6, "a search for existing values does not work on `tags`", "make it a fast field"),
    'tags:"a b"': (6, "keeps no positions", "search for each word"),
}


@pytest.fixture(scope="module")
def table() -> Table:
    return Table([{"message": "a"}])


@pytest.mark.parametrize(("text", "column", "reason", "hint"), [(text, *rest) for text, rest in UNFIT.items()])
def test_a_query_that_does_not_fit_the_fields_is_shown_with_its_place(table, text, column, reason, hint) -> None:
    error = refused(table.search, text)
    assert error.message.startswith("cannot run the query because ")
    assert reason in error.message
    assert hint is None or hint in error.hint
    check_place(error.message, column)


def test_without_the_text_there_is_no_place(table) -> None:
    message = refused(table.run, parse_query("zzz:a")).message
    assert message == "cannot run the query because there is no field `zzz`"


def test_nesting_is_limited(table) -> None:
    deepest = "(a AND NOT " * MAX_NESTING + "a" + ")^2" * MAX_NESTING
    assert table.search(deepest) in ([], [0])
    assert f"deeper than {MAX_NESTING} levels" in refused(parse_query, f"({deepest})").message


PIECES = [
    *'()[{]"`/~^\\:.!+-*?&>\n',
    *('""', "``", "//", "^2", "\\\\", "a:", "a.", "a*", "*?", "a ", "a~ ", '"a" ', 'a."b".', "NOT ", "a AND ", "a OR "),
    *("-a ", "+a ", "a:(", "f:IN [", "a:[1 TO 2] ", "&&", "||", "a&&", "a:>", "<=", "_exists_:a ", "\\(", '"\\', "/\\"),
    *("f:>(", " (", "f:>a "),
]


@pytest.mark.one_case
@pytest.mark.parametrize("before", ["", "f:", "f:IN [", '"', "/"])
@pytest.mark.parametrize("piece", PIECES)
def test_hostile_texts_take_time_in_proportion_to_their_length(piece, before) -> None:
    text = before + piece * (100_000 // len(piece))
    start = time.process_time()
    try:
        parse_query(text)
    except QueryError as error:
        assert len(str(error)) < 1_000  # noqa: PT017
    assert time.process_time() - start < 4


def test_a_text_that_is_too_long_is_refused() -> None:
    assert "1,000,001 characters long" in refused(parse_query, "a" * 1_000_001).message


@pytest.mark.parametrize(
    "text",
    [
        "x" * 100_000 + "~",
        "host:" + "x" * 100_000 + "~",
        "host:[" + "x" * 100_000 + " TO *]",
        "host:" + "x" * 100_000 + "*",
        "host:" + "?" * 100_000,
        "host:/" + "(a|b)*" * 10_000 + "/",
        '"' + "a b " * 20_000 + '"~5',
        '"' + "a b " * 20_000 + '"',
        "zzz" * 30_000 + ":a",
        "host:IN [" + " ".join(map(str, range(20_000))) + "]",
        " ".join(map(str, range(20_000))),
    ],
)
def test_hostile_queries_are_run_or_refused_quickly(table, text) -> None:
    start = time.process_time()
    try:
        found = table.search(text)
    except QueryError as error:
        found = []
        assert len(str(error)) < 1_000  # noqa: PT017
    assert found == []
    assert time.process_time() - start < 3
