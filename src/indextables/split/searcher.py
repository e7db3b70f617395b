"""One split, searched: a query's rows by number, best first or in order, and how many there are, from the index alone.

Most splits do not hold a rare word, and their term filter says so without the index being fetched. An index is fetched
once and stays in the local cache, where the next process finds it; it is opened once and stays open as long as its
searcher is there.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import tantivy

from indextables.caching import lazy_property
from indextables.errors import CorruptSplitError
from indextables.split.fields import FieldMap, IndexField
from indextables.split.index_cache import IndexCache
from indextables.split.indexing import engine_errors, make_schema, open_index
from indextables.split.query import compile_query
from indextables.split.query.needed import may_match
from indextables.split.query.tree import All, Node
from indextables.split.reindexing import engine, first_rows, index_again, is_readable, tell
from indextables.split.searchable import SearchableFields
from indextables.split.split_file import SplitFile
from indextables.split.term_filter import TermFilter


class Hits(NamedTuple):
    """Rows by number, and the score of each."""

    rows: pa.Array[Any]
    scores: pa.Array[Any]


class SplitSearcher:
    """Answers queries about one split. Threads may share it, and a process that is forked may go on with it."""

    def __init__(self, split: SplitFile, identity: str, cache: IndexCache) -> None:
        """`identity` names the split's content, for the cache."""
        self.split = split
        self.fields = FieldMap.from_json(split.directory.doc_mapping)
        self.searchable = SearchableFields(self.fields)
        self._identity = identity
        self._cache = cache
        self._schema = make_schema(self.fields)
        self._index: _OpenIndex | None = None

    def row_numbers(self, tree: Node, text: str = "", *, limit: int | None = None) -> pa.Array[Any]:
        """The numbers of the rows that a query finds, in their order; the first of them where there is a limit. `text`
        is shown in errors."""
        query = self._compile(tree, text)
        if self._is_ruled_out(tree):
            return pa.array([], pa.uint64())
        index = self._opened()
        # Where all scores are the same, the engine's order is that of segments and documents.
        with self._engine_errors():
            flat = tantivy.Query.const_score_query(query, 1.0)
            found = index.searcher.search(flat, index.at_most(limit), count=False)
        return index.rows(found.hits)

    def best(self, tree: Node, text: str = "", *, limit: int | None = None) -> Hits:
        """The rows that a query finds, best first and in order where they are as good as each other."""
        query = self._compile(tree, text)
        if self._is_ruled_out(tree):
            return Hits(pa.array([], pa.uint64()), pa.array([], pa.float32()))
        index = self._opened()
        with self._engine_errors():
            hits = index.searcher.search(query, index.at_most(limit), count=False).hits
        return Hits(index.rows(hits), pa.array([score for score, _ in hits], pa.float32()))

    def count(self, tree: Node, text: str = "") -> int:
        """How many rows a query finds."""
        query = self._compile(tree, text)
        if self._is_ruled_out(tree):
            return 0
        index = self._opened()
        with self._engine_errors():
            found: Any = index.searcher.search(query, 1)
        return int(found.count)

    def aggregate(self, tree: Node | None, text: str, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
        """What the engine's aggregations say of the rows that a query finds, or of all; None where the rows should be
        asked, since there are none or the engine refuses, as it does above 65,000 buckets."""
        query = self._compile(All() if tree is None else tree, text)
        if tree is not None and self._is_ruled_out(tree):
            return None
        searcher = self._opened().searcher
        with self._engine_errors():
            try:
                return dict(searcher.aggregate(query, dict(wanted)))
            except ValueError:
                return None

    def is_ruled_out(self, tree: Node, text: str = "") -> bool:
        """Whether the split surely holds no row that a query finds, without its index."""
        self._compile(tree, text)
        return self._is_ruled_out(tree)

    def bytes_to_fetch(self) -> int:
        """What a query would read of the store for the index: nothing where it is open, or in the local cache."""
        if self._index is not None or self._cache.holds(self._identity):
            return 0
        return sum(member.end - member.offset for member in self.split.directory.members)

    def fast_field(self, column: str) -> IndexField | None:
        """The field of a column, where the index can aggregate it."""
        field = self.fields.find(column)
        return field if field is not None and field.column == column and field.fast else None

    def let_go(self) -> None:
        """Close the index once nobody uses it; the next query opens it again."""
        self._index = None

    def _engine_errors(self) -> contextlib.AbstractContextManager[None]:
        """A split can be forged: then the engine may fail on an index whose checksums all fit."""
        return engine_errors(f"search the split `{self.split.key}`", CorruptSplitError)

    def _compile(self, tree: Node, text: str) -> tantivy.Query:
        """Before anything else: what is wrong with a query does not depend on what a split holds."""
        return compile_query(tree, self.searchable, self._schema, text=text)

    def _is_ruled_out(self, tree: Node) -> bool:
        """Whether the split surely holds no row of a query. The fine filter is only asked instead of an index that is
        still to be fetched."""
        if self._index is not None:
            return self._is_ruled_out_by(self._term_filter, tree)
        return self._is_ruled_out_by(self._term_filter, tree) or (
            not self._cache.holds(self._identity) and self._is_ruled_out_by(self._fine_filter, tree)
        )

    def _is_ruled_out_by(self, known: TermFilter | None, tree: Node) -> bool:
        return known is not None and not may_match(tree, self.searchable, known.may_contain)

    @lazy_property
    def _term_filter(self) -> TermFilter | None:
        """Another engine may have made other terms."""
        return self.split.term_filter() if is_readable(self.split.directory) else None

    @lazy_property
    def _fine_filter(self) -> TermFilter | None:
        return self.split.fine_filter() if is_readable(self.split.directory) else None

    def _opened(self) -> _OpenIndex:
        """Threads that come at once may open it twice: one of the two is let go of."""
        index = self._index
        if index is None:
            index = self._index = _OpenIndex(self.split, self.fields, self._identity, self._cache)
        return index


class _OpenIndex:
    """An open index. Its files are held in the cache until it is let go of."""

    def __init__(self, split: SplitFile, fields: FieldMap, identity: str, cache: IndexCache) -> None:
        directory = split.directory
        with contextlib.ExitStack() as held:
            if is_readable(directory):
                place = held.enter_context(cache.directory(identity, split.extract_index))
                self._first_rows = [segment.first_row for segment in directory.segments]
            else:
                tell(split)
                extract = functools.partial(index_again, split, fields)
                place = held.enter_context(cache.directory(f"{identity}:{engine()}", extract))
                self._first_rows = first_rows(place)
            with engine_errors(f"search the split `{split.key}`", CorruptSplitError):
                self.searcher = open_index(place, fields).searcher()
            self._check(split)
            weakref.finalize(self, held.pop_all().close)

    def at_most(self, limit: int | None) -> int:
        """How many hits to ask for; the engine takes no 0."""
        most = max(1, self.searcher.num_docs)
        return most if limit is None else min(limit, most)

    def rows(self, hits: Sequence[tuple[Any, tantivy.DocAddress]]) -> pa.Array[Any]:
        """Hits as numbers of rows: segments stand in the order of rows, and so do the documents of each."""
        first = self._first_rows
        if len(first) == 1:
            return pa.array([place.doc for _, place in hits], pa.uint64())
        return pa.array([first[place.segment_ord] + place.doc for _, place in hits], pa.uint64())

    def _check(self, split: SplitFile) -> None:
        searcher = self.searcher
        if searcher.num_docs != split.num_rows:
            raise CorruptSplitError(
                f"cannot search the split `{split.key}` because its index holds {searcher.num_docs} rows of "
                f"{split.num_rows}"
            )
        if searcher.num_segments > len(self._first_rows):
            raise CorruptSplitError(
                f"cannot search the split `{split.key}` because its index has {searcher.num_segments} segments of "
                f"{len(self._first_rows)}"
            )
