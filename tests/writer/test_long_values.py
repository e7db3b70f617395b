"""Values that are too long for a term: found by how they begin, and refused where only their end could tell."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

import indextables as it
from indextables.errors import QueryError
from indextables.split.index.documents import indexed_texts

WHOLE = 65_525
"""The longest value that the index tells from all others."""
TERM = 65_530


def make_table(root: str | Path, values: list[Any], kind: Any, indexing: str | None = None, **properties) -> it.Table:
    schema = pa.schema([("id", pa.int64()), ("v", kind)])
    table = it.Table.create(
        Path(root, "t"),
        schema,
        indexing={} if indexing is None else {"v": indexing},
        properties={f"indexing.{name}": value for name, value in properties.items()},
        options={"cache.disk.path": str(Path(root, "cache"))},
    )
    table.append(pa.table({"id": range(len(values)), "v": pa.array(values, kind)}, schema=schema))
    return table


def found(table: it.Table, query: str) -> list[int]:
    rows = sorted(table.search(query, columns=["id"])["id"].to_pylist())
    assert table.count(query) == len(rows)
    return rows


VALUES = [
    "a" * 70_000,
    "a" * 69_999 + "b",
    "b" + "é" * 35_000,
    "b\U0001f600" * 15_000,
    *("c" * length for length in (WHOLE - 1, WHOLE, WHOLE + 1, TERM, TERM + 1)),
    *("d" * (TERM - cut) + "\U0001f600" for cut in range(5)),
    "\U0010ffff" * 20_000,
    "short",
    "",
    None,
]
QUESTIONS = [
    ("v:a*", lambda v: v.startswith("a")),
    ("v:aaa*", lambda v: v.startswith("aaa")),
    ("v:bé*", lambda v: v.startswith("bé")),
    ("v:c?c*", lambda v: v[:1] == "c" and v[2:3] == "c"),
    ("v:/(a|d)(?s:.*)/", lambda v: v[:1] in ("a", "d")),
    ("v:[b TO d]", lambda v: "b" <= v <= "d"),
    ("v:{b TO e]", lambda v: "b" < v <= "e"),
    ("v:>=d", lambda v: v >= "d"),
    ("v:<c", lambda v: v < "c"),
    ("v:>aaaa", lambda v: v > "aaaa"),
    ("v:short", lambda v: v == "short"),
    ("v:IN [short aaa]", lambda v: v == "short"),
    ("v:shrot~1", lambda v: v == "short"),
    ("v:*", lambda v: True),
    ("_exists_:v", lambda v: True),
    *((f"v:{'c' * length}", lambda v, n=length: v == "c" * n) for length in (WHOLE - 1, WHOLE)),
    (f"v:IN [x {'c' * WHOLE}]", lambda v: v == "c" * WHOLE),
]


@pytest.fixture(scope="module", params=["", "v"], ids=["terms", "fast"])
def strings(request, tmp_path_factory) -> it.Table:
    return make_table(tmp_path_factory.mktemp("long"), VALUES, pa.string(), fastfields=request.param or "id")


@pytest.mark.parametrize(("query", "is_hit"), QUESTIONS, ids=lambda value: value[:16] if isinstance(value, str) else "")
def test_long_strings_are_found_as_a_plain_look_finds_them(strings, query, is_hit) -> None:
    hits = [number for number, value in enumerate(VALUES) if value is not None and is_hit(value)]
    assert found(strings, query) == hits
    assert found(strings, f"NOT {query}") == sorted(set(range(len(VALUES))) - set(hits))


@pytest.mark.parametrize("length", [WHOLE + 1, TERM, TERM + 1, 70_000])
def test_a_string_that_the_index_cannot_tell_apart_is_refused(strings, length) -> None:
    long = "c" * length
    for query in (f"v:{long}", f'v:"{long}"', f"v:IN [a {long}]", f"NOT v:{long}"):
        with pytest.raises(
            QueryError, match=f"distinguishes values by 65,525 bytes, and this has {length:,}"
        ) as refused:
            strings.count(query)
        assert "where" in str(refused.value.hint)
    assert strings.count(where=f"v = '{long}'") == VALUES.count(long)


def test_patterns_meet_the_beginning_of_a_long_string(strings) -> None:
    """As the document says: what lies behind the cut is not seen, and `LIKE` sees it."""
    assert 1 not in found(strings, "v:*b")
    assert strings.count(where="v LIKE 'a%b'") == 1


def test_long_strings_are_counted_whole(strings) -> None:
    counted = strings.aggregate("v")
    assert dict(zip(counted["v"].to_pylist(), counted["count"].to_pylist(), strict=True)) == {
        value: VALUES.count(value) for value in VALUES if value is not None
    }


@given(
    st.lists(st.tuples(st.integers(TERM - 8, TERM + 8), st.sampled_from("aé€\U0001f600")), max_size=4),
    st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]),
)
@settings(max_examples=60)
def test_a_cut_text_is_a_beginning_that_no_whole_value_can_be_taken_for(shapes, kind) -> None:
    texts = ["x" * (length % 4) + character * (length // len(character.encode())) for length, character in shapes]
    indexed = indexed_texts(pa.array([*texts, None], kind)).to_pylist()
    assert indexed.pop() is None
    for text, held in zip(texts, indexed, strict=True):
        assert text.startswith(held)
        assert len(held.encode()) <= TERM
        assert held == text or len(held.encode()) > WHOLE


@settings(max_examples=8)
@given(
    st.lists(
        st.tuples(st.text("aé\U0001f600", max_size=3), st.sampled_from("aé\U0001f600"), st.booleans()), max_size=6
    ),
    st.text("aé\U0001f600", min_size=1, max_size=3),
)
def test_prefixes_and_ranges_of_random_long_strings(shapes, bound) -> None:
    values = [start + character * (40_000 if is_long else 2) for start, character, is_long in shapes]
    with tempfile.TemporaryDirectory() as root:
        table = make_table(root, values, pa.string())
        for query, is_hit in (
            (f"v:{bound}*", lambda v: v.startswith(bound)),
            (f"v:>={bound}", lambda v: v >= bound),
            (f"v:<{bound}", lambda v: v < bound),
        ):
            assert found(table, query) == [number for number, value in enumerate(values) if is_hit(value)]


@pytest.mark.parametrize("fast", [True, False])
def test_binary_values_are_found_whole_or_refused(tmp_path, fast) -> None:
    values = [b"\1" * WHOLE, b"\1" * 70_000, b"\2", None]
    table = make_table(tmp_path, values, pa.binary(), fastfields="v" if fast else "id")
    assert found(table, f"v:{'01' * WHOLE}") == [0]
    assert found(table, f"NOT v:{'01' * WHOLE}") == [1, 2, 3]
    assert found(table, "v:IN [02 03]") == [2]
    for query in (f"v:{'01' * 70_000}", f"v:IN [02 {'01' * (WHOLE + 1)}]", f"NOT v:{'01' * 70_000}"):
        with pytest.raises(QueryError, match="distinguishes values by 65,525 bytes"):
            table.count(query)
    if fast:
        assert found(table, "v:*") == [0, 1, 2]


@pytest.mark.parametrize("limit", [255, TERM])
def test_whole_texts_and_json_texts_that_are_not_indexed_are_refused(tmp_path, limit) -> None:
    long = "x" * (limit + 1)
    options = {"tokenizer.v": "raw", "text.maxTokenLength": str(limit)}
    texts = make_table(tmp_path / "text", [long, "x", None], pa.string(), "text", **options)
    nested = make_table(tmp_path / "json", [json.dumps({"k": long}), '{"k": "x"}'], pa.string(), "json", **options)
    assert found(texts, "v:x") == [1]
    assert found(nested, "v.k:x") == [1]
    assert found(nested, "v.k:*") == [0, 1]
    for table, query in ((texts, f"v:{long}"), (texts, f"v:IN [x {long}]"), (nested, f'v.k:"{long}"')):
        with pytest.raises(QueryError, match="holds no value of that length"):
            table.count(query)
    assert texts.count(long) == 0, "words that name no field are sought where they can be"


def test_words_of_json_that_the_engine_would_cut_are_refused(tmp_path) -> None:
    options = {"tokenizer.v": "raw", "text.maxTokenLength": str(TERM)}
    values = [json.dumps({"k": "x" * length}) for length in (WHOLE, WHOLE + 1, TERM)]
    table = make_table(tmp_path, values, pa.string(), "json", **options)
    assert found(table, f"v.k:{'x' * WHOLE}") == [0]
    assert found(table, "v.k:x*") == [0, 1, 2]
    with pytest.raises(QueryError, match="distinguishes values by 65,525 bytes"):
        table.count(f"v.k:{'x' * (WHOLE + 1)}")
