"""One split, searched: a query's rows by number, or how many there are, from the index alone.

Most splits do not hold a rare word, and their term filter says so without the index being fetched. An index is fetched
once and stays in the local cache, where the next process finds it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import tantivy

from indextables.errors import CorruptSplitError
from indextables.split import analyzers, literals
from indextables.split.fields import FieldMap, IndexField
from indextables.split.index_cache import IndexCache
from indextables.split.indexing import make_schema, open_index
from indextables.split.query import compile_query
from indextables.split.query.catalog import Literal
from indextables.split.query.needed import may_match
from indextables.split.query.tree import Node
from indextables.split.split_file import SplitFile


class SearchableFields:
    """The fields of a split, as a query needs to know them."""

    def __init__(self, fields: FieldMap) -> None:
        self._fields = fields

    @property
    def fields(self) -> Sequence[IndexField]:
        return self._fields.fields

    def find(self, column: str) -> IndexField | None:
        return self._fields.find(column)

    def text_fields(self) -> Sequence[IndexField]:
        return self._fields.text_fields()

    def tokens(self, column: str, text: str) -> list[str]:
        return analyzers.tokens(self._known(column), text)

    def placed_tokens(self, column: str, text: str) -> list[tuple[int, str]]:
        return analyzers.placed_tokens(self._known(column), text)

    def parse_literal(self, column: str, text: str) -> Literal:
        return literals.parse_literal(self._known(column), text)

    def _known(self, column: str) -> IndexField:
        field = self._fields.find(column)
        if field is None:
            raise KeyError(column)
        return field


class SplitSearcher:
    """Answers queries about one split."""

    def __init__(self, split: SplitFile, identity: str, cache: IndexCache) -> None:
        self._split = split
        self._identity = identity
        self._cache = cache
        self._fields = FieldMap.from_json(split.directory.doc_mapping)

    def row_numbers(self, tree: Node, text: str = "") -> pa.Array[Any]:
        """The numbers of the rows that a query finds, in their order. `text` is shown in errors."""
        query = self._compile(tree, text)
        if self._is_ruled_out(tree):
            return pa.array([], pa.uint64())
        with self._opened() as searcher:
            # Where all scores are the same, the engine's order is that of segments and documents, and so that of rows.
            same_score = tantivy.Query.const_score_query(query, 1.0)
            hits = searcher.search(same_score, max(1, searcher.num_docs), count=False).hits
            first_rows = [segment.first_row for segment in self._split.directory.segments]
            return pa.array([first_rows[place.segment_ord] + place.doc for _, place in hits], pa.uint64())

    def count(self, tree: Node, text: str = "") -> int:
        """How many rows a query finds."""
        query = self._compile(tree, text)
        if self._is_ruled_out(tree):
            return 0
        with self._opened() as searcher:
            found: Any = searcher.search(query, 1)
            return int(found.count)

    def _compile(self, tree: Node, text: str) -> tantivy.Query:
        """Before anything else: what is wrong with a query does not depend on what a split holds."""
        return compile_query(tree, SearchableFields(self._fields), make_schema(self._fields), text=text)

    def _is_ruled_out(self, tree: Node) -> bool:
        known = self._split.term_filter()
        return known is not None and not may_match(tree, SearchableFields(self._fields), known.may_contain)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tantivy.Searcher]:
        with self._cache.directory(self._identity, self._split.extract_index) as directory:
            searcher = open_index(directory, self._fields).searcher()
            if searcher.num_docs != self._split.num_rows:
                raise CorruptSplitError(
                    f"cannot search the split `{self._split.key}` because its index holds {searcher.num_docs} rows of "
                    f"{self._split.num_rows}"
                )
            yield searcher
