"""Snippets: the words that a query finds are marked, where the text is cut, and that nothing else is changed."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from indextables.errors import ConfigError
from indextables.split.index.fields import FieldMap, IndexField, Kind
from indextables.split.query import parse_query
from indextables.split.query.wanted_words import _distance
from indextables.split.search.searchable import SearchableFields
from indextables.split.search.snippets import Snippet, SnippetMaker


def field(column: str, kind: Kind = Kind.TEXT, tokenizer: str = "default") -> IndexField:
    return IndexField(column=column, name=f"f{len(column)}", kind=kind, type="string", tokenizer=tokenizer)


FIELDS = SearchableFields(
    FieldMap(
        [
            field("message"),
            field("stemmed", tokenizer="en_stem"),
            field("grams_of", tokenizer="ngram(2,3)"),
            field("exact_words_", tokenizer="whitespace"),
            field("host", Kind.STRING, "raw"),
        ]
    )
)
MARKS = {"before": "[", "after": "]"}


def snip(query: str | None, text: str | None, column: str = "message", **more) -> str | None:
    wanted = Snippet(column, **{**MARKS, **more})
    tree = None if query is None else parse_query(query)
    return SnippetMaker(wanted, tree, FIELDS).make([text])[0]


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("timeout", "Connection TIMEOUT after 30s", "Connection [TIMEOUT] after 30s"),
        ("timeout OR after", "timeout, after.", "[timeout], [after]."),
        ("timeout AND NOT after", "timeout after", "[timeout] after"),
        ("-after timeout", "timeout after", "[timeout] after"),
        ("+timeout after", "timeout after", "[timeout] [after]"),
        ("timeout^3", "a timeout", "a [timeout]"),
        ('"connection timeout"', "connection timeout connection", "[connection] [timeout] [connection]"),
        ('"connection timeout"~3', "connection x timeout", "[connection] x [timeout]"),
        ("time*", "time timeout untimely", "[time] [timeout] untimely"),
        ("TIME*", "time timeout untimely", "[time] [timeout] untimely"),
        ("t?me", "time tome tme", "[time] [tome] tme"),
        ("/ti(m|l)e/", "time tile tide", "[time] [tile] tide"),
        ("tiemout~1", "timeout tiemouts tmout", "[timeout] [tiemouts] tmout"),
        ("tiemout~2", "timeout teimuot none", "[timeout] [teimuot] none"),
        ("message:IN [disk net]", "disk of the net", "[disk] of the [net]"),
        ("message:[b TO d]", "a b c d e", "a [b] [c] [d] e"),
        ("message:{b TO d}", "a b c d e", "a b [c] d e"),
        ("message:>c", "a b c d e", "a b c [d] [e]"),
        ("host:timeout", "timeout", "timeout"),
        ("stemmed:timeout", "timeout", "timeout"),
        ("host:x AND timeout", "timeout", "[timeout]"),
        ("_exists_:message", "timeout", "timeout"),
        ("*", "timeout", "timeout"),
        ("nothing", "timeout", "timeout"),
        (None, "timeout", "timeout"),
        ("NOT (timeout OR disk)", "timeout disk", "timeout disk"),
        ("timeout", "", ""),
        ("timeout", None, None),
        ("größe", "Die GRÖSSE, die Größe", "Die GRÖSSE, die [Größe]"),
        ("b", "<b>b</b> & c", "<[b]>[b]</[b]> & c"),
    ],
)
def test_the_words_that_a_query_finds_are_marked(query, text, expected) -> None:
    assert snip(query, text) == expected


def test_words_are_those_of_the_columns_tokenizer() -> None:
    assert snip("stemmed:run", "Running, runs and ran", "stemmed") == "[Running], [runs] and ran"
    assert snip("stemmed:failures", "a failure", "stemmed") == "a [failure]"
    assert snip("exact_words_:Disk", "Disk disk Disk.", "exact_words_") == "[Disk] disk Disk."
    assert snip("grams_of:rro", "Error or ERROR", "grams_of") == "E[rro]r or E[RRO]R"
    assert snip("grams_of:İs", "İs", "grams_of") == "[İs]"


def test_a_column_that_is_not_split_into_words_shows_its_start() -> None:
    assert snip("host:web", "web server", "host", max_chars=5) == "web"


def test_the_fragment_with_the_most_words_is_shown() -> None:
    filler = " ".join(["filler"] * 50)
    text = f"error {filler} error timeout {filler} error error error {filler}"
    assert "[error] [timeout]" in snip("error OR timeout", text, max_chars=40)
    text = f"error {filler} error error {filler}"
    assert "[error] [error]" in snip("error OR timeout", text, max_chars=40)
    text = f"{filler} error {filler}"
    shown = snip("error", text, max_chars=40)
    assert shown.replace("[error]", "error") in text
    assert shown.startswith("filler filler [error] filler")


def test_texts_are_cut_between_words_and_characters() -> None:
    assert snip("x", "one two three four", max_chars=9) == "one two"
    assert snip("x", "onetwothreefour", max_chars=5) == "onetw"
    assert snip("onetwothreefour", "a onetwothreefour", max_chars=5) == "[onetw]"
    assert snip("x", "e\u0301" * 10, max_chars=5) == "e\u0301" * 2
    assert snip("x", "\U0001f469\u200d\U0001f4bb" * 4, max_chars=4) == "\U0001f469\u200d\U0001f4bb"
    assert snip("x", "漢字。かな漢字", max_chars=5) == "漢字。かな"


WORDS = st.lists(
    st.sampled_from(["error", "disk", "größe", "a", "verylongword" * 3, "e\u0301te", "漢字", "-"]), max_size=40
)


@given(WORDS, st.integers(2, 80), st.sampled_from(["error", "disk error", "größe", "nothing", "verylong*", "漢字 a"]))
def test_a_snippet_is_a_part_of_its_text(words, max_chars, query) -> None:
    text = " ".join(words)
    shown = snip(query, text, max_chars=max_chars)
    plain = shown.replace("[", "").replace("]", "")
    assert plain in text
    assert len(plain) <= max_chars
    assert plain or not text
    assert (plain == text) == (len(text) <= max_chars)
    asked = query.split()
    assert "[" in shown or not any(word in asked and len(word) <= max_chars for word in words)


def test_what_no_snippet_can_be_is_refused() -> None:
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(ConfigError, match="at least 1"):
            Snippet("message", max_chars=wrong)


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_distances_are_those_of_their_definition(left, right) -> None:
    def plain(one, other, swaps):
        if not one or not other:
            return len(one) + len(other)
        found = min(
            plain(one[1:], other, swaps) + 1,
            plain(one, other[1:], swaps) + 1,
            plain(one[1:], other[1:], swaps) + (one[0] != other[0]),
        )
        if swaps and len(one) > 1 and len(other) > 1 and one[0] == other[1] and one[1] == other[0]:
            found = min(found, plain(one[2:], other[2:], swaps) + 1)
        return found

    for swaps in (True, False):
        assert _distance(left, right, transposition=swaps) == plain(left, right, swaps)
