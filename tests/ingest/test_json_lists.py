"""Paths through lists: in columns of lists, and in JSON texts that hold a list where others hold an object."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

import indextables as it
from indextables.errors import QueryError

ITEM = pa.struct(
    [("n", pa.int64()), ("w", pa.string()), ("deep", pa.list_(pa.struct([("n", pa.int64()), ("ok", pa.bool_())])))]
)
MAP = pa.map_(pa.string(), pa.int64())


def make_table(root: str | Path, values: list[Any], kind: Any, **options: Any) -> it.Table:
    schema = pa.schema([("id", pa.int64()), ("c", kind)])
    table = it.Table.create(Path(root, "t"), schema, options={"cache.disk.path": str(Path(root, "cache"))}, **options)
    table.append(pa.Table.from_pylist([{"id": number, "c": value} for number, value in enumerate(values)], schema))
    return table


def found(table: it.Table, query: str) -> list[int]:
    rows = sorted(table.search(query, columns=["id"])["id"].to_pylist())
    assert table.count(query) == len(rows)
    return rows


def at(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """What stands at a path: lists are gone through, wherever they are."""
    if isinstance(value, list):
        for item in value:
            yield from at(item, path)
    elif not path:
        yield value
    elif isinstance(value, dict) and path[0] in value:
        yield from at(value[path[0]], path[1:])


def leaves(value: Any) -> Iterator[Any]:
    items = value if isinstance(value, list) else value.values() if isinstance(value, dict) else None
    if items is None:
        yield value
        return
    for item in items:
        yield from leaves(item)


WORDS = st.sampled_from(["red", "green", "blue"])
NUMBERS = st.sampled_from([None, 1, 2, 3])
DEEP = st.none() | st.lists(st.fixed_dictionaries({"n": NUMBERS, "ok": st.none() | st.booleans()}), max_size=2)
ITEMS = st.none() | st.fixed_dictionaries({"n": NUMBERS, "w": st.none() | WORDS, "deep": DEEP})
LISTS = st.none() | st.lists(ITEMS, max_size=3)
KINDS = [pa.list_(ITEM), pa.large_list(ITEM), pa.list_(pa.list_(ITEM))]
QUERIES = [
    ("c.n:2", ("n",), lambda v: v == 2),
    ("c.n:IN [1 3]", ("n",), lambda v: v in (1, 3)),
    ("c.w:red", ("w",), lambda v: v == "red"),
    ("c.w:/(red|blue)/", ("w",), lambda v: v in ("red", "blue")),
    ("c.w:gr*", ("w",), lambda v: v == "green"),
    ("c.w:gren~1", ("w",), lambda v: v == "green"),
    ("c.deep.n:2", ("deep", "n"), lambda v: v == 2),
    ("c.deep.ok:true", ("deep", "ok"), lambda v: v is True),
    ("_exists_:c.n", ("n",), lambda v: True),
    ("c.deep.n:*", ("deep", "n"), lambda v: True),
]


def check(table: it.Table, values: list[Any], queries=QUERIES) -> None:
    for query, path, is_hit in queries:
        hits = {
            number
            for number, value in enumerate(values)
            for item in at(value, path)
            if item is not None and is_hit(item)
        }
        assert found(table, query) == sorted(hits), query
        assert found(table, f"NOT {query}") == sorted(set(range(len(values))) - hits), query


@settings(max_examples=12)
@given(st.lists(LISTS, min_size=1, max_size=8), st.sampled_from(KINDS))
def test_a_path_goes_through_lists_of_structs(values, kind) -> None:
    if kind == KINDS[-1]:
        values = [None if value is None else [value[:1], value[1:]] for value in values]
    with tempfile.TemporaryDirectory() as root:
        table = make_table(root, values, kind)
        check(table, values)
        held = [number for number, value in enumerate(values) if any(leaf is not None for leaf in leaves(value))]
        assert found(table, "c:*") == held


TOPS = st.recursive(ITEMS | st.sampled_from([2, "red"]), lambda inner: st.lists(inner, max_size=3), max_leaves=5)


@settings(max_examples=12)
@given(st.lists(TOPS, min_size=1, max_size=8))
def test_json_texts_may_hold_an_object_or_lists_of_them(values) -> None:
    plain = [
        ("c:2", (), lambda v: v == 2 and not isinstance(v, dict)),
        ("c:red", (), lambda v: v == "red"),
    ]
    with tempfile.TemporaryDirectory() as root:
        texts = [json.dumps(value) for value in values]
        check(make_table(root, texts, pa.string(), indexing={"c": "json"}), values, [*QUERIES, *plain])


def test_a_path_goes_through_lists_of_maps(tmp_path) -> None:
    table = make_table(tmp_path, [[{"a": 1}, {"b": 2}], [{"a": 2}], [], None], pa.list_(MAP))
    assert found(table, "c.a:1") == [0]
    assert found(table, "c.a:2") == [1]
    assert found(table, "c.b:*") == [0]
    assert found(table, "NOT _exists_:c.a") == [2, 3]


def test_a_phrase_is_looked_for_in_both_places(tmp_path) -> None:
    texts = ['{"k": "red green"}', '[{"k": "red green"}]', '[{"k": "red"}, {"k": "green"}]', '["red green"]']
    table = make_table(tmp_path, texts, pa.string(), indexing={"c": "json"})
    assert found(table, 'c.k:"red green"') == [0, 1]
    assert found(table, 'c.k:"green red"~2') == [0, 1]
    assert found(table, 'c:"red green"') == [3]


@pytest.mark.parametrize(
    ("kind", "query", "message"),
    [
        (pa.list_(ITEM), "c:2", "no path inside it is named"),
        (pa.list_(pa.list_(MAP)), "c:2", "no path inside it is named"),
        (pa.list_(pa.int64()), "c.n:2", "`c` holds no objects, and so has no path"),
        (pa.list_(pa.list_(pa.string())), "_exists_:c.n", "`c` holds no objects, and so has no path"),
    ],
)
def test_what_no_list_of_this_type_can_hold_is_refused(tmp_path, kind, query, message) -> None:
    with pytest.raises(QueryError, match=message):
        make_table(tmp_path, [None], kind).count(query)
