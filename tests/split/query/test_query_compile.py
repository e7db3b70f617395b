"""What only an index shows: JSON, n-grams, addresses, scores, and bounds of text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.split.query.query_oracle import CATALOG, SCHEMA, Table, TestCatalog

from indextables.errors import QueryError
from indextables.split.query import compile_query, parse_query, patterns
from indextables.split.query import tree as t
from indextables.split.query.catalog import resolve

TABLE = Table(
    [
        {"attrs": {"k": "Time out", "n": 7, "deep": {"er": "x"}}, "ip": "10.0.0.1", "raw": b"\x00\xff", "a.b": 2**63},
        {"attrs": {"k": ["out", 3.5, True], "n": 7.0, "a.b": "dot\nline"}, "ip": "::1", "a.b": 5, "code": "abcdef"},
        {"attrs": {"k": "7", "n": -7, "kk": "time"}, "tags": ["net work", 5], "odd name": "", "note": "ERROR error"},
        {"attrs": {"k": {"k": "time"}, "K": "time", "n": 2**64 - 1}, "message": "error error", "odd name": "x"},
    ]
)


@pytest.mark.parametrize(
    ("text", "rows"),
    {
        "attrs.k:time": [0],
        "attrs.k:TIME": [0],
        "attrs.k:out": [0, 1],
        'attrs.k:"time out"': [0],
        'attrs.k:"out time"~2': [0],
        "attrs.k:ti*": [0],
        "attrs.k:*": [0, 1, 2, 3],
        "attrs.k.k:t?me": [3],
        "attrs.kk:tme~1": [2],
        "attrs.k:/t.*|o.*/": [0, 1],
        "attrs.k:7": [2],
        "attrs.k:3.5": [1],
        "attrs.k:true": [1],
        'attrs.k:"true"': [],
        "attrs.n:7": [0, 1],
        "attrs.n:7.0": [0, 1],
        "attrs.n:-7": [2],
        "attrs.n:18446744073709551615": [3],
        "attrs.n:99999999999999999999": [],
        "attrs.n:IN [7 -7]": [0, 1, 2],
        "attrs.n:IN []": [],
        'attrs."a.b":*ot': [1],
        "attrs.a.b:dot": [],
        "attrs.deep:*": [0],
        "attrs.deep.er:x": [0],
        "attrs.nothing:x": [],
        "attrs.nothing:*": [],
        "NOT attrs.k:*": [],
        "attrs:*": [0, 1, 2, 3],
        "tags:net": [2],
        "tags:5": [2],
        "tags:wo*": [2],
        "ip:10.0.0.1": [0],
        "ip:[10.0.0.0 TO 10.0.0.255]": [0],
        "ip:*": [0, 1],
        "raw:00ff": [0],
        "a.b:5": [1],
        "a.b:>5": [0],
        "a.b:*": [0, 1],
        "`a.b`:IN [5 9223372036854775808]": [0, 1],
        "code:BCD": [1],
        "code:ace": [],
        "code:b": [],
        'code:"abcdef"~3': [1],
        '"odd name":""': [2],
        '"odd name":*': [2, 3],
        '"odd name":<x': [2],
        "note:ERR*": [2],
        "note:err*": [2],
        "note:Err*": [],
        "ERR*": [2, 3],
    }.items(),
)
def test_what_is_found(text, rows) -> None:
    assert TABLE.search(text) == rows


def test_scores_follow_boosts_and_preferences() -> None:
    table = Table([{"message": "disk"}, {"message": "timeout"}, {"message": "disk timeout"}])
    disk, timeout = (table.scores(parse_query(text)) for text in ("disk^9 timeout", "disk timeout^9"))
    assert sorted(disk) == sorted(timeout) == [0, 1, 2]
    assert disk[0] > disk[1]
    assert timeout[0] < timeout[1]
    preferred = table.scores(parse_query("+disk timeout"))
    assert sorted(preferred) == [0, 2]
    assert preferred[2] > preferred[0]


def test_a_table_without_text_needs_a_field() -> None:
    class Without(TestCatalog):
        def text_fields(self):
            return []

    with pytest.raises(QueryError, match="it names no field, and the table has no text field"):
        compile_query(parse_query("a"), Without(), SCHEMA, text="a")


def test_the_longest_name_of_a_column_wins() -> None:
    assert resolve(CATALOG, ("a", "b"))[0].name == "f8"
    assert resolve(CATALOG, ("attrs", "b", "c"))[1] == ("b", "c")
    assert resolve(CATALOG, ("a", "b", "c")) is None
    assert resolve(CATALOG, ("host", "b")) is None


TEXTS = st.text("ab\0\ud7ff\ue000\U0010ffff[-^.", max_size=20)


@given(st.one_of(st.none(), TEXTS), st.one_of(st.none(), TEXTS), st.booleans(), st.booleans(), st.lists(TEXTS))
def test_patterns_of_a_range_fit_what_lies_in_it(low, high, includes_low, includes_high, texts) -> None:
    found = patterns.between(low, high, includes_low=includes_low, includes_high=includes_high)
    if low is None and high is None:
        assert found == []
        return
    python = [re.sub(r"\\x\{([0-9a-f]+)\}", lambda match: rf"\U{int(match[1], 16):08x}", pattern) for pattern in found]
    for text in [*texts, low, high, f"{low}a", f"{high}a", (high or "")[:-1]]:
        above = low is None or text is None or text > low or (includes_low and text == low)
        below = high is None or text is None or text < high or (includes_high and text == high)
        if text is not None:
            assert any(re.fullmatch(pattern, text) for pattern in python) == (above and below), (text, found)


@pytest.mark.parametrize("character", ["a", "é", "\U0001f600"])
@pytest.mark.parametrize("num_bytes", [4, 28, 32, 36, 64, 100, 496])
def test_bounds_of_text_may_be_long(character, num_bytes) -> None:
    text = character * (num_bytes // len(character.encode()))
    table = Table([{"host": host} for host in [text, text[:-1], text + character, text[:-1] + "b", text + "a", ""]])
    for low, high in [(text, None), (None, text), (text[:-1], text), (text, text + character)]:
        for inclusive in (True, False):
            tree = t.Range(low, high, inclusive, inclusive, path=("host",))
            assert table.run(tree) == table.expected(tree), tree
    with pytest.raises(QueryError, match="at most 500 bytes"):
        table.run(t.Range(text * 126, None, path=("host",)))
