"""Rows that are searched without a split: what a query finds in them is what it finds in a split."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.split.query.query_oracle import evaluate
from tests.split.query.test_query_rows import ROWS, TREES

from indextables.config import Config
from indextables.split.index.fields import FieldMap, map_fields
from indextables.split.query import parse_query
from indextables.split.search.row_matcher import RowMatcher

SCHEMA = pa.schema(
    [
        ("message", pa.string()),
        ("note", pa.string()),
        ("host", pa.string()),
        ("odd name", pa.string()),
        ("status", pa.int64()),
        ("seconds", pa.float64()),
        ("ok", pa.bool_()),
    ]
)
OPTIONS = {
    "indexing.typemap.message": "text",
    "indexing.typemap.note": "text",
    "indexing.tokenizer.note": "whitespace",
}


def fields() -> FieldMap:
    return map_fields(SCHEMA, Config.resolve(options=OPTIONS))


@settings(max_examples=100, deadline=None)
@given(st.lists(ROWS, max_size=8), st.lists(TREES, min_size=1, max_size=4))
def test_a_query_finds_the_rows_that_a_plain_evaluator_finds(rows, trees) -> None:
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    for tree in trees:
        assert RowMatcher(tree, fields()).matches(batch).to_pylist() == [evaluate(tree, row) for row in rows], tree


def test_large_batches_are_searched_in_parts() -> None:
    texts = [None if number % 7 == 0 else f"row {number % 10}" for number in range(25_001)]
    batch = pa.RecordBatch.from_pydict({"message": texts})
    matcher = RowMatcher(parse_query("3"), FieldMap([fields().fields[0]]))
    found = matcher.matches(batch).to_pylist()
    assert found == [text == "row 3" for text in texts]
    assert matcher.matches(batch.slice(0, 0)).to_pylist() == []
