"""What a query's text means as a tree, and that every tree can be written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.split.query.query_text import TREES, to_text

from indextables.errors import QueryError
from indextables.split.query import parse_query
from indextables.split.query import tree as t

A, B, C, D = (t.Term(text) for text in "abcd")
NOT_A, NOT_B = t.Not(A), t.Not(B)

LISTS = {
    "a": A,
    "a b": t.Or((A, B)),
    "a OR b": t.Or((A, B)),
    "a || b": t.Or((A, B)),
    "a||b": t.Or((A, B)),
    "a AND b": t.And((A, B)),
    "a && b": t.And((A, B)),
    "a&&b": t.And((A, B)),
    "a AND b OR c": t.Or((t.And((A, B)), C)),
    "a OR b AND c": t.Or((A, t.And((B, C)))),
    "a b AND c d": t.Or((A, t.And((B, C)), D)),
    "a AND (b OR c)": t.And((A, t.Or((B, C)))),
    "a AND (b AND c)": t.And((A, B, C)),
    "((a))": A,
    "(a)(b)": t.Or((A, B)),
    # Negations.
    "NOT a": NOT_A,
    "!a": NOT_A,
    "-a": NOT_A,
    "NOT NOT a": A,
    "NOT a AND b": t.And((NOT_A, B)),
    "a AND NOT b": t.And((A, NOT_B)),
    "a AND -b": t.And((A, NOT_B)),
    "a AND !b": t.And((A, NOT_B)),
    "NOT (a b)": t.Not(t.Or((A, B))),
    "NOT a AND NOT b": t.And((NOT_A, NOT_B)),
    "a OR NOT b": t.Or((A, NOT_B)),
    "NOT a OR b": t.Or((NOT_A, B)),
    "a (NOT b)": t.Or((A, NOT_B)),
    "a NOT b": t.And((A, NOT_B)),
    "NOT a b": t.And((B, NOT_A)),
    "a !b": t.And((A, NOT_B)),
    "c OR a NOT b": t.And((t.Or((C, A)), NOT_B)),
    "c OR NOT b a": t.Or((C, NOT_B, A)),
    # Signs.
    "+a": A,
    "+a +b": t.And((A, B)),
    "+a b": t.Prefer(A, B),
    "+a OR b": t.Prefer(A, B),
    "a b -c": t.And((t.Or((A, B)), t.Not(C))),
    "a OR b -c": t.And((t.Or((A, B)), t.Not(C))),
    "a OR -b": t.And((A, NOT_B)),
    "-a -b": t.And((NOT_A, NOT_B)),
    "+a b c -d": t.And((t.Prefer(A, t.Or((B, C))), t.Not(D))),
    "+a AND b": t.And((A, B)),
    "+(a b) -c": t.And((t.Or((A, B)), t.Not(C))),
    "c +a b AND d": t.Prefer(A, t.Or((C, t.And((B, D))))),
}
F = ("f",)
LEAVES = {
    "*": t.All(),
    "*:*": t.All(),
    "*:a": A,
    "f:a": t.Term("a", path=F),
    "f: a": t.Term("a", path=F),
    "f:(a b)": t.Or((t.Term("a", path=F), t.Term("b", path=F))),
    "f:(a g:b)": t.Or((t.Term("a", path=F), t.Term("b", path=("g",)))),
    "f:((a) AND NOT b)": t.And((t.Term("a", path=F), t.Not(t.Term("b", path=F)))),
    "f.g.h:a": t.Term("a", path=("f", "g", "h")),
    r"f\.g:a": t.Term("a", path=("f.g",)),
    '"f g":a': t.Term("a", path=("f g",)),
    "`f``g`:a": t.Term("a", path=("f`g",)),
    'f."g h".`i.j`.k:a': t.Term("a", path=("f", "g h", "i.j", "k")),
    "`_exists_`:a": t.Term("a", path=("_exists_",)),
    "`*`:a": t.Term("a", path=("*",)),
    "f:-5": t.Term("-5", path=F),
    "f:12:30": t.Term("12:30", path=F),
    "ip:::1": t.Term("::1", path=("ip",)),
    "url:http://x/y?z": t.Wildcard(("http://x/y", t.ONE, "z"), path=("url",)),
    "a-b": t.Term("a-b"),
    "a+b!": t.Term("a+b!"),
    "a&b|c": t.Term("a&b|c"),
    "a/b": t.Term("a/b"),
    "a>b": t.Term("a>b"),
    "3.5": t.Term("3.5"),
    "and or not": t.Or((t.Term("and"), t.Term("or"), t.Term("not"))),
    r"\AND": t.Term("AND"),
    r"a\:b\ c\*": t.Term("a:b c*"),
    '"a b"': t.Phrase("a b"),
    '""': t.Phrase(""),
    r'"a \"b\" \\"': t.Phrase('a "b" \\'),
    '"a b"~3': t.Phrase("a b", 3),
    'f:"a b"~3^2': t.Boost(t.Phrase("a b", 3, path=F), 2.0),
    '"AND"': t.Phrase("AND"),
    "ab*": t.Prefix("ab"),
    "ab**": t.Prefix("ab"),
    r"ab\**": t.Prefix("ab*"),
    "a*b?c": t.Wildcard(("a", t.ANY, "b", t.ONE, "c")),
    "*a": t.Wildcard((t.ANY, "a")),
    "?": t.Wildcard((t.ONE,)),
    "a~": t.Fuzzy("a", 2),
    "a~1": t.Fuzzy("a", 1),
    "a~0": A,
    "f:a~1^3": t.Boost(t.Fuzzy("a", 1, path=F), 3.0),
    "/a.*b/": t.Regex("a.*b"),
    r"/a\/\d/": t.Regex(r"a/\d"),
    "f:/[ (]/": t.Regex("[ (]", path=F),
    "f:*": t.Exists(path=F),
    "_exists_:f": t.Exists(path=F),
    '_exists_:f."g h"': t.Exists(path=("f", "g h")),
    "f:[* TO *]": t.Exists(path=F),
    "f:[1 TO 5]": t.Range("1", "5", path=F),
    "f:{1 TO 5}": t.Range("1", "5", False, False, path=F),
    "f:[1 TO 5}": t.Range("1", "5", True, False, path=F),
    "f:[1 TO *]": t.Range("1", None, path=F),
    "f:{* TO 5}": t.Range(None, "5", True, False, path=F),
    'f:["a b" TO "*"]': t.Range("a b", "*", path=F),
    "f:[-5 TO 12:30]": t.Range("-5", "12:30", path=F),
    "f:>5": t.Range("5", None, False, path=F),
    "f:>=5": t.Range("5", None, path=F),
    "f:<5": t.Range(None, "5", True, False, path=F),
    "f:<= -5": t.Range(None, "-5", path=F),
    "f:(>1 AND <5)": t.And((t.Range("1", None, False, path=F), t.Range(None, "5", True, False, path=F))),
    "f:>=2026-01-31T12:30:00Z": t.Range("2026-01-31T12:30:00Z", None, path=F),
    'f:IN [a b "c d"]': t.InSet(("a", "b", "c d"), path=F),
    "f:IN [1, -2,1]": t.InSet(("1", "-2"), path=F),
    "f:IN []": t.InSet((), path=F),
    "f:IN a": t.Or((t.Term("IN", path=F), A)),
    "f:(a IN)": t.Or((t.Term("a", path=F), t.Term("IN", path=F))),
    "a^2.5": t.Boost(A, 2.5),
    "(a b)^.5": t.Boost(t.Or((A, B)), 0.5),
    "NOT a^2": t.Not(t.Boost(A, 2.0)),
    "+a^2": t.Boost(A, 2.0),
    "a\n\tAND\r\nb": t.And((A, B)),
}


@pytest.mark.parametrize(("text", "tree"), [*LISTS.items(), *LEAVES.items()])
def test_a_text_means_its_tree(text, tree) -> None:
    assert parse_query(text) == tree


def test_a_leaf_knows_its_place() -> None:
    tree = parse_query('a AND f:(bb OR "cc") AND x.y:[1 TO 2] _exists_:z')
    assert [leaf.place for leaf in t.leaves(tree)] == [0, 9, 15, 29, 47]


@given(TREES)
def test_a_tree_is_read_back_from_its_text(tree) -> None:
    assert parse_query(to_text(tree)) == tree


@given(st.text('ab "`:()[]{}<>=~^/\\*?+-!&|.,ANDORTIN2_\n', max_size=30))
def test_any_text_is_a_tree_or_a_query_error(text) -> None:
    try:
        tree = parse_query(text)
    except QueryError as error:
        message = error.message
    else:
        message = ""
        assert parse_query(to_text(tree)) == tree
    assert not message or "because it is empty" in message or ", at line " in message


def test_an_escaped_blank_is_a_letter_that_a_sign_can_touch() -> None:
    assert parse_query("\\ ~1") == t.Fuzzy(" ", 1)
    assert parse_query("a\\ ^2") == t.Boost(t.Term("a "), 2.0)
