"""Match rows of a batch without a split: index them in memory like a split."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import tantivy

from indextables.arrow_values import to_array
from indextables.split.index.analyzers import register
from indextables.split.index.builder import engine_errors, make_schema
from indextables.split.index.documents import ROW_FIELD, documents
from indextables.split.index.fields import FieldMap
from indextables.split.query import compile_query
from indextables.split.query.tree import Node
from indextables.split.search.searchable import SearchableFields

_HEAP_BYTES = 50_000_000
_MOST_ROWS = 10_000


class RowMatcher:
    """One query against rows with some fields."""

    def __init__(self, tree: Node, fields: FieldMap) -> None:
        self._fields = fields.with_nans()
        self._schema = make_schema(self._fields)
        query = compile_query(tree, SearchableFields(self._fields), self._schema)
        self._query = tantivy.Query.const_score_query(query, 1.0)

    def matches(self, batch: pa.RecordBatch) -> pa.Array[Any]:
        """Return True or False for each row, never null."""
        parts = [batch.slice(start, _MOST_ROWS) for start in range(0, batch.num_rows, _MOST_ROWS)]
        return pa.concat_arrays([to_array([], pa.bool_()), *map(self._part, parts)])

    def _part(self, batch: pa.RecordBatch) -> pa.Array[Any]:
        found = [False] * batch.num_rows
        with engine_errors("search rows in memory"):
            searcher = self._index(batch).searcher()
            hits = searcher.search(self._query, batch.num_rows, count=False).hits
            for row in searcher.fast_field_values(ROW_FIELD, [place for _, place in hits]):
                found[int(row or 0)] = True
        return to_array(found, pa.bool_())

    def _index(self, batch: pa.RecordBatch) -> tantivy.Index:
        index = tantivy.Index(self._schema)
        register(index, self._fields)
        writer = index.writer(heap_size=_HEAP_BYTES, num_threads=1)
        for document in documents(batch, self._fields):
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        return index
