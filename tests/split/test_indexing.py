"""Indexes are built in the order of rows, opened again, and find what they should."""

from __future__ import annotations

import datetime as dt
import os
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
import tantivy
from tests.split.split_columns import SCALARS

from indextables.config import Config
from indextables.errors import CorruptSplitError, SchemaError
from indextables.split.index import builder
from indextables.split.index.analyzers import tokens
from indextables.split.index.builder import BuiltIndex, IndexBuilder, open_index
from indextables.split.index.fields import FieldMap, map_fields
from indextables.split.index.literals import index_value

SMALL_HEAP = 15_000_000
ALL = tantivy.Query.all_query


def build(path: Path, table: pa.Table, heap: int = SMALL_HEAP, **options: object) -> tuple[BuiltIndex, FieldMap]:
    fields = map_fields(table.schema, Config.resolve(options=options))
    builder = IndexBuilder(str(path), fields, heap_bytes=heap)
    for batch in table.to_batches(max_chunksize=3_000):
        builder.add(batch)
    return builder.finish(), fields


def rows(index: tantivy.Index, query: tantivy.Query) -> list[int]:
    found = index.searcher().search(query, limit=1_000_000, order_by_field="_row", order=tantivy.Order.Asc)
    return [row for row, _ in found.hits]


def term(index: tantivy.Index, field, value) -> list[int]:
    return rows(index, tantivy.Query.term_query(index.schema, field.name, value))


def test_a_small_index_is_one_segment(tmp_path):
    table = pa.table({"id": list(range(5_000)), "word": [f"w{i % 7}" for i in range(5_000)]})
    built, fields = build(tmp_path, table)
    assert [(segment.first_row, segment.num_rows) for segment in built.segments] == [(0, 5_000)]
    assert built.num_rows == 5_000
    assert sorted(os.listdir(tmp_path)) == sorted(built.files)
    index = open_index(str(tmp_path), fields)
    assert term(index, fields.find("word"), "w3") == list(range(3, 5_000, 7))
    assert term(index, fields.find("id"), 4_321) == [4_321]


def many_words(num_rows: int) -> pa.Table:
    texts = [" ".join(f"{(row * 31 + i * 7919) % 1_000_003:x}" for i in range(25)) for row in range(num_rows)]
    return pa.table({"text": texts, "row": list(range(num_rows))})


def check_order(directory: str, built: BuiltIndex, fields: FieldMap, num_rows: int) -> None:
    index = open_index(directory, fields)
    searcher = index.searcher()
    assert searcher.num_segments == len(built.segments)
    next_row = 0
    for position, segment in enumerate(built.segments):
        assert segment.first_row == next_row
        places = [tantivy.DocAddress(position, document) for document in range(segment.num_rows)]
        expected = list(range(next_row, next_row + segment.num_rows))
        assert searcher.fast_field_values("_row", places) == expected
        assert searcher.fast_field_values(fields.find("row").name, places) == expected
        assert any(name.startswith(segment.name) for name in built.files)
        next_row += segment.num_rows
    assert next_row == built.num_rows == num_rows


@pytest.mark.slow
def test_segments_stand_in_the_order_of_rows(tmp_path):
    built, fields = build(tmp_path, many_words(40_000), **{"indexing.text": "text"})
    assert len(built.segments) > 8
    check_order(str(tmp_path), built, fields, 40_000)


def test_parts_are_put_together(tmp_path, monkeypatch):
    monkeypatch.setattr(builder.IndexBuilder, "_bytes_per_part", property(lambda _: 200_000, lambda *_: None), False)
    built, fields = build(tmp_path, many_words(4_000), **{"indexing.text": "text"})
    assert len(built.segments) > 2
    assert sorted(os.listdir(tmp_path)) == sorted(built.files)
    check_order(str(tmp_path), built, fields, 4_000)
    word = "1f"
    expected = [i for i, text in enumerate(many_words(4_000)["text"].to_pylist()) if word in text.split()]
    assert term(open_index(str(tmp_path), fields), fields.find("text"), word) == expected


def test_a_part_whose_order_was_lost_is_indexed_again(tmp_path, monkeypatch):
    keep, asked = builder._Part.segments, []

    def segments(part):
        asked.append(part.num_bytes)
        return None if part.num_bytes > 3_000 else keep(part)

    monkeypatch.setattr(builder._Part, "segments", segments)
    table = pa.table({"row": list(range(2_000))})
    built, fields = build(tmp_path, table)
    assert max(asked) > 3_000
    assert len(built.segments) > 4
    assert sorted(os.listdir(tmp_path)) == sorted(built.files)
    check_order(str(tmp_path), built, fields, 2_000)


def make_part(path: Path, firsts: list[int]) -> builder._Part:
    """A part of one segment, in which batches of three rows stand that begin at `firsts`."""
    batch = pa.record_batch({"row": [0, 1, 2]})
    part = builder._Part(str(path / "part"), map_fields(batch.schema, Config.resolve()), SMALL_HEAP, firsts[0])
    for first in firsts:
        part.first_row = first - part._num_rows
        part.add(batch)
    part.first_row = firsts[0]
    part.commit()
    return part


@pytest.mark.parametrize(
    ("firsts", "in_order"), [([0, 3, 6], True), ([7], True), ([0, 6, 3, 9], False), ([3, 0], False)]
)
def test_the_order_of_rows_is_checked(firsts, in_order, tmp_path):
    assert (make_part(tmp_path, firsts).segments() is not None) == in_order


def test_segments_are_put_in_order(tmp_path, monkeypatch):
    part = make_part(tmp_path, [0, 3])
    segments = [
        (builder.Segment(name="b", first_row=4, num_rows=2), {}),
        (builder.Segment(name="a", first_row=0, num_rows=4), {}),
    ]
    monkeypatch.setattr(builder, "_segments", lambda *_: iter(segments))
    assert part.segments() == segments[::-1]
    monkeypatch.setattr(builder, "_segments", lambda *_: iter(segments[1:]))
    assert part.segments() is None


def test_an_index_of_no_rows(tmp_path):
    built, fields = build(tmp_path, pa.table({"a": pa.array([], pa.int64())}))
    assert (built.segments, built.num_rows) == ((), 0)
    assert open_index(str(tmp_path), fields).searcher().num_docs == 0


def _is_text(type_) -> bool:
    return pa.types.is_dictionary(type_) or "string" in str(type_)


MOMENT = dt.datetime(2024, 2, 29, 12, 30, tzinfo=dt.UTC)
VALUES = [
    (_is_text, ["a", "", "Ünï code", "x" * 65_530]),
    (pa.types.is_integer, [0, 1, 127]),
    (pa.types.is_floating, [0.0, -1.5, float("inf"), float("-inf")]),
    (pa.types.is_boolean, [True, False]),
    (pa.types.is_date, [dt.date(1, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]),
    (lambda type_: pa.types.is_timestamp(type_) and type_.tz, [MOMENT, MOMENT.replace(year=1968)]),
    (pa.types.is_timestamp, [MOMENT.replace(tzinfo=None), MOMENT.replace(year=1968, tzinfo=None)]),
    (pa.types.is_time, [dt.time(0), dt.time(23, 59, 59)]),
    (lambda type_: pa.types.is_decimal(type_) and type_.scale == type_.precision, [Decimal(0), Decimal("-0.5")]),
    (pa.types.is_decimal, [Decimal(0), Decimal(-12), Decimal(99_999_999)]),
    (pa.types.is_binary, [b"", b"\x00\xff"]),
]


@pytest.mark.parametrize("type_", SCALARS, ids=str)
def test_every_type_is_found(type_, tmp_path):
    values = next(values for matches, values in VALUES if matches(type_))
    table = pa.table({"c": pa.array([*values, None], type_)})
    _, fields = build(tmp_path, table)
    index, field = open_index(str(tmp_path), fields), fields.find("c")
    for row, value in enumerate(values):
        assert term(index, field, index_value(field, value)) == [row], value


def test_text_is_found_by_its_words(tmp_path):
    table = pa.table({"t": ["Running in the RAIN", None, "it rains", "x" * 300]})
    _, fields = build(tmp_path, table, **{"indexing.t": "text", "indexing.tokenizer.t": "en_stem"})
    index, field = open_index(str(tmp_path), fields), fields.find("t")
    assert term(index, field, tokens(field, "rain")[0]) == [0, 2]
    assert term(index, field, "x" * 300) == []
    phrase = tantivy.Query.phrase_query(index.schema, field.name, tokens(field, "the rain"))
    assert rows(index, phrase) == [0]


@pytest.mark.parametrize("tokenizer", ["default", "raw", "whitespace", "de_stem", "ngram", "ngram(3,3)"])
@pytest.mark.parametrize("kind", ["text", "json"])
def test_every_tokenizer_can_be_searched_and_is_fast(kind, tokenizer, tmp_path):
    table = pa.table({"c": ['{"k": "Hello World"}' if kind == "json" else "Hello World"]})
    options = {"indexing.c": kind, "indexing.tokenizer.c": tokenizer, "indexing.fastfields": "c"}
    _, fields = build(tmp_path, table, **options)
    index, field = open_index(str(tmp_path), fields), fields.find("c")
    path = f"{field.name}.k" if kind == "json" else field.name
    for token in tokens(field, "Hello World"):
        assert rows(index, tantivy.Query.term_query(index.schema, path, token)) == [0]
    answer = index.searcher().aggregate(ALL(), {"a": {"terms": {"field": path}}})
    assert [bucket["key"] for bucket in answer["a"]["buckets"]] == ["Hello World"]


def test_json_paths(tmp_path):
    texts = [
        '{"a": {"b": 5, "t": "2024-01-31T12:30:00Z"}, "x.y": "dot"}',
        '["r1", "r2"]',
        "free text",
        '{"\u0000k": "\u0001"}',
    ]
    _, fields = build(tmp_path, pa.table({"j": texts}), **{"indexing.j": "json"})
    index, field = open_index(str(tmp_path), fields), fields.find("j")

    def found(path: str, value: object) -> list[int]:
        return rows(index, tantivy.Query.term_query(index.schema, f"{field.name}.{path}", value))

    assert found("a.b", 5) == [0]
    assert found("a.t", "31t12") == [0]
    assert found("x\\.y", "dot") == [0]
    assert found("$", "r2") == [1]
    assert found("$", "free") == [2]


def test_addresses_have_an_order(tmp_path):
    table = pa.table({"ip": ["10.0.0.9", "10.0.0.10", "::1", "nonsense", None]})
    _, fields = build(tmp_path, table, **{"indexing.ip": "ip"})
    index, name = open_index(str(tmp_path), fields), fields.find("ip").name
    kind = tantivy.FieldType.IpAddr
    assert rows(index, tantivy.Query.range_query(index.schema, name, kind, "10.0.0.0", "10.0.0.9")) == [0]
    assert rows(index, tantivy.Query.range_query(index.schema, name, kind, "10.0.0.0", "10.0.0.255")) == [0, 1]


def test_nan_is_in_no_range(tmp_path):
    table = pa.table({"x": [float("nan"), 1.0, float("inf"), -0.0]})
    _, fields = build(tmp_path, table)
    index, name = open_index(str(tmp_path), fields), fields.find("x").name
    kind = tantivy.FieldType.Float
    assert rows(index, tantivy.Query.range_query(index.schema, name, kind, 0.0, None)) == [1, 2, 3]
    assert rows(index, tantivy.Query.range_query(index.schema, name, kind, None, 0.0)) == [3]


def test_five_hundred_columns_with_odd_names(tmp_path):
    odd = ["a.b", "a b", "-lead", "ümläut", "", "f0", 'q"uote', "_field_presence"]
    names = [*odd, *(f"c{i}" for i in range(492))]
    table = pa.table({name: [f"{name}-{row}" for row in range(3)] for name in names})
    _, fields = build(tmp_path, table)
    index = open_index(str(tmp_path), fields)
    for name in names:
        assert term(index, fields.find(name), f"{name}-1") == [1]


def test_a_value_of_another_type_is_an_error(tmp_path):
    fields = map_fields(pa.schema([("a", pa.int64())]), Config.resolve())
    builder = IndexBuilder(str(tmp_path), fields, heap_bytes=SMALL_HEAP)
    with pytest.raises(SchemaError, match="cannot index column `a`"):
        builder.add(pa.record_batch({"a": ["text"]}))
    builder.close()


def test_a_panic_in_the_writer_is_an_error_of_ours(tmp_path, monkeypatch):
    wrong = tantivy.Document()
    wrong.add_integer("_row", 1)
    monkeypatch.setattr(builder, "documents", lambda *_: iter([wrong]))
    with pytest.raises(SchemaError, match="cannot finish an index because the engine failed"):
        build(tmp_path, pa.table({"a": [1]}))


def test_a_panic_of_the_engine_is_an_error_of_ours():
    panic = type("PanicException", (BaseException,), {})
    with (
        pytest.raises(CorruptSplitError, match="cannot x because the engine failed: boom"),
        builder.engine_errors("x", CorruptSplitError),
    ):
        raise panic("boom")
    for other in (KeyboardInterrupt, MemoryError):
        with pytest.raises(other), builder.engine_errors("x", CorruptSplitError):
            raise other


def test_a_damaged_index_is_a_corrupt_split(tmp_path):
    built, fields = build(tmp_path, pa.table({"a": [1]}))
    (tmp_path / "meta.json").write_text("{}")
    with pytest.raises(CorruptSplitError, match="cannot open the index in"):
        open_index(str(tmp_path), fields)
    with pytest.raises(CorruptSplitError):
        open_index(str(tmp_path / "nowhere"), fields)
    assert built.num_rows == 1
