"""One split, searched: a query's rows by number, best first or in order, and how many there are, from the index alone.

A query means what the table's fields say. Where the split indexes a column that the query asks in another way, or its
index is of another engine, its rows are indexed again on local disk, as the table says; this index too is made once and
stays in the cache.

Most splits do not hold a rare word, and their term filter says so without the index being fetched. An index is fetched
once and stays in the local cache, where the next process finds it; it is opened once and stays open as long as its
searcher is there.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import hashlib
import resource
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import tantivy

from indextables.caching import BoundedCache, lazy_property
from indextables.errors import CorruptSplitError
from indextables.resources import on_shortage, with_descriptors
from indextables.split.documents import nan_mask
from indextables.split.fields import FieldMap, IndexField
from indextables.split.index_cache import IndexCache
from indextables.split.indexing import engine_errors, make_schema, open_index
from indextables.split.query import compile_query
from indextables.split.query.needed import may_match
from indextables.split.query.tree import All, Exists, Node
from indextables.split.reindexing import engine, first_rows, index_again, is_readable, tell
from indextables.split.searchable import SearchableFields, answers_alike, may_find_nan
from indextables.split.split_file import SplitFile
from indextables.split.term_filter import TermFilter

_MOST_INDEXES = 128
_SHARE_OF_DESCRIPTORS = 8


class Hits(NamedTuple):
    """Rows by number, and the score of each."""

    rows: pa.Array[Any]
    scores: pa.Array[Any]


class SplitSearcher:
    """Answers queries about one split. Threads may share it, and a process that is forked may go on with it."""

    def __init__(self, split: SplitFile, identity: str, cache: IndexCache, fields: FieldMap | None = None) -> None:
        """`identity` names the split's content, for the cache. `fields` are those of the table, which say what a query
        means; by default those of the split."""
        self.split = split
        own = FieldMap.from_json(split.directory.doc_mapping)
        self.fields = own if fields is None else fields
        self._asked = SearchableFields(self.fields)
        self._own = _OwnIndex(split, own, identity, cache)
        self._new = _NewIndex(split, self.fields.with_nans(), identity, cache)
        self._nans: dict[str, bool] = {}

    def means(self, fields: FieldMap | None) -> bool:
        """Whether queries mean here what they mean by some fields, or by those of the split."""
        return self.fields == (self._own.fields if fields is None else fields)

    def row_numbers(self, tree: Node, text: str = "", *, limit: int | None = None) -> pa.Array[Any]:
        """The numbers of the rows that a query finds, in their order; the first of them where there is a limit. `text`
        is shown in errors."""
        query, index = self._prepare(tree, text)
        if index is None:
            return pa.array([], pa.uint64())
        # Where all scores are the same, the engine's order is that of segments and documents.
        with self._engine_errors():
            flat = tantivy.Query.const_score_query(query, 1.0)
            found = index.searcher.search(flat, index.at_most(limit), count=False)
        return index.rows(found.hits)

    def best(self, tree: Node, text: str = "", *, limit: int | None = None) -> Hits:
        """The rows that a query finds, best first and in order where they are as good as each other."""
        query, index = self._prepare(tree, text)
        if index is None:
            return Hits(pa.array([], pa.uint64()), pa.array([], pa.float32()))
        with self._engine_errors():
            hits = index.searcher.search(query, index.at_most(limit), count=False).hits
        return Hits(index.rows(hits), pa.array([score for score, _ in hits], pa.float32()))

    def count(self, tree: Node, text: str = "") -> int:
        """How many rows a query finds."""
        query, index = self._prepare(tree, text)
        if index is None:
            return 0
        with self._engine_errors():
            found: Any = index.searcher.search(query, 1)
        return int(found.count)

    def aggregate(self, tree: Node | None, text: str, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
        """What the engine's aggregations say of the rows that a query finds, or of all; None where the rows should be
        asked, since there are none or the engine refuses, as it does above 65,000 buckets."""
        query, index = self._prepare(All() if tree is None else tree, text)
        if index is None:
            return None
        with self._engine_errors():
            try:
                return dict(index.searcher.aggregate(query, dict(wanted)))
            except ValueError:
                return None

    def is_ruled_out(self, tree: Node, text: str = "") -> bool:
        """Whether the split surely holds no row that a query finds, without its index."""
        index, catalog = self._index_by_fields(tree)
        index.compile(tree, catalog, text)
        return index.is_ruled_out(tree, catalog)

    def bytes_to_fetch(self, tree: Node) -> int:
        """What a query would read of the store for the index: nothing where it is open, or in the local cache."""
        return self._index_by_fields(tree)[0].bytes_to_fetch()

    def fast_field(self, column: str, tree: Node | None) -> IndexField | None:
        """The field of a column, where the index that answers a query can aggregate it."""
        field = self._index_for(All() if tree is None else tree)[0].fields.find(column)
        return field if field is not None and field.column == column and field.fast else None

    @property
    def is_open(self) -> bool:
        """Whether it holds an index open."""
        return self._own.is_open or self._new.is_open

    def let_go(self) -> None:
        """Close the indexes after their last use; the next query opens them again."""
        self._own.let_go()
        self._new.let_go()

    def _engine_errors(self) -> contextlib.AbstractContextManager[None]:
        """A split can be forged: then the engine may fail on an index whose checksums all fit."""
        return engine_errors(f"search the split `{self.split.key}`", CorruptSplitError)

    def _prepare(self, tree: Node, text: str) -> tuple[tantivy.Query, _OpenIndex | None]:
        """The engine's query, and the index to run it on; None where the split surely holds no row of it. What is wrong
        with a query is said first, since it does not depend on what a split holds."""
        index, catalog = self._index_for(tree)
        query = index.compile(tree, catalog, text)
        return query, None if index.is_ruled_out(tree, catalog) else index.opened()

    def _index_for(self, tree: Node) -> tuple[_Index, SearchableFields]:
        """The index that gives a query the table's meaning, and its fields as the query has to know them."""
        index, catalog = self._index_by_fields(tree)
        if index is self._own:
            for field, leaf in self._asked.asked_by(tree):
                if may_find_nan(field, leaf) and self._holds_nan(field.column):
                    return self._new, self._new.searchable
        return index, catalog

    def _holds_nan(self, column: str) -> bool:
        """Whether rows of the split have NaN in a column, which its own index leaves out as it does NULL."""
        known = self._nans.get(column)
        if known is None:
            with_numbers = self._own.num_rows_with(column)
            batches = () if with_numbers == self.split.num_rows else self.split.rows(None, [column])
            known = self._nans[column] = any(pc.any(nan_mask(batch.column(0))).as_py() for batch in batches)
        return known

    def _index_by_fields(self, tree: Node) -> tuple[_Index, SearchableFields]:
        """The same where the split holds no NaN that the query may find."""
        if not is_readable(self.split.directory):
            return self._new, self._new.searchable
        own = self._own.fields
        if own == self.fields:
            return self._own, self._asked
        asked: dict[str, IndexField] = {}
        for field, leaf in self._asked.asked_by(tree):
            found = own.find(field.column)
            if found is None or not answers_alike(field, leaf, found):
                return self._new, self._new.searchable
            asked[field.column] = found
        # No other column of the split: it may be text there, where words without a field would be looked for.
        return self._own, SearchableFields(FieldMap(sorted(asked.values(), key=lambda field: field.position)))


class _Index(abc.ABC):
    """An index of a split's rows, opened when it is first needed."""

    def __init__(self, split: SplitFile, fields: FieldMap, identity: str, cache: IndexCache) -> None:
        self.fields = fields
        self.searchable = SearchableFields(fields)
        self._split = split
        self._identity = identity
        self._cache = cache
        self._schema: tantivy.Schema | None = None
        self._index: _OpenIndex | None = None

    def compile(self, tree: Node, catalog: SearchableFields, text: str) -> tantivy.Query:
        schema = self._schema
        if schema is None:
            schema = self._schema = make_schema(self.fields)
        return compile_query(tree, catalog, schema, text=text)

    @abc.abstractmethod
    def is_ruled_out(self, tree: Node, catalog: SearchableFields) -> bool:
        """Whether the split surely holds no row of a query."""

    @abc.abstractmethod
    def bytes_to_fetch(self) -> int:
        """What is to be read of the store before a query can run."""

    @abc.abstractmethod
    def _open(self) -> _OpenIndex: ...

    def opened(self) -> _OpenIndex:
        """Threads that come at once may open it twice: one of the two is let go of."""
        index = self._index
        if index is None:
            index = self._index = with_descriptors(self._open)
        for unused in _open_indexes.put(id(self), weakref.ref(self)):
            _let_go(unused)
        return index

    @property
    def is_open(self) -> bool:
        return self._index is not None

    def let_go(self) -> None:
        self._index = None

    def _is_at_hand(self, cached_as: str) -> bool:
        return self.is_open or self._cache.holds(cached_as)


class _OwnIndex(_Index):
    """The index that the split carries."""

    def is_ruled_out(self, tree: Node, catalog: SearchableFields) -> bool:
        """The fine filter is only asked instead of an index that is still to be fetched."""

        def lacks(known: TermFilter | None) -> bool:
            return known is not None and not may_match(tree, catalog, known.may_contain)

        return lacks(self._term_filter) or (not self._is_at_hand(self._identity) and lacks(self._fine_filter))

    def bytes_to_fetch(self) -> int:
        if self._is_at_hand(self._identity):
            return 0
        return sum(member.end - member.offset for member in self._split.directory.members)

    def _open(self) -> _OpenIndex:
        held = self._cache.directory(self._identity, self._split.extract_index)
        rows = [segment.first_row for segment in self._split.directory.segments]
        return _OpenIndex(self._split, self.fields, held, lambda _: rows)

    def num_rows_with(self, column: str) -> int:
        """How many rows have a value of a column in the index."""
        query = self.compile(Exists(path=(column,)), self.searchable, "")
        with engine_errors(f"search the split `{self._split.key}`", CorruptSplitError):
            found: Any = self.opened().searcher.search(query, 1)
        return int(found.count)

    @lazy_property
    def _term_filter(self) -> TermFilter | None:
        return self._split.term_filter()

    @lazy_property
    def _fine_filter(self) -> TermFilter | None:
        return self._split.fine_filter()


class _NewIndex(_Index):
    """An index made of the split's rows, as other fields say. The split's filters know nothing of its terms."""

    def is_ruled_out(self, tree: Node, catalog: SearchableFields) -> bool:
        return False

    def bytes_to_fetch(self) -> int:
        """All rows are read, and indexed."""
        return 0 if self._is_at_hand(self._cached_as) else self._split.size

    def _open(self) -> _OpenIndex:
        tell(self._split)
        make = functools.partial(index_again, self._split, self.fields)
        return _OpenIndex(self._split, self.fields, self._cache.directory(self._cached_as, make), first_rows)

    @property
    def _cached_as(self) -> str:
        meaning = hashlib.sha256(self.fields.to_json().encode()).hexdigest()
        return f"{self._identity}:{engine()}:{meaning}"


def _let_go(index: weakref.ref[_Index]) -> int:
    """Close an index; how many were open."""
    found = index()
    if found is None or not found.is_open:
        return 0
    found.let_go()
    return 1


def _let_go_of_all() -> int:
    indexes = _open_indexes.values()
    _open_indexes.clear()
    return sum(map(_let_go, indexes))


def _most_open() -> int:
    """How many indexes may stay open in this process: each takes a descriptor, a thread and some mappings."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    share = _MOST_INDEXES if limit == resource.RLIM_INFINITY else limit // _SHARE_OF_DESCRIPTORS
    return max(1, min(_MOST_INDEXES, share))


_open_indexes: BoundedCache[int, weakref.ref[_Index]] = BoundedCache(_most_open())
on_shortage(_let_go_of_all)


class _OpenIndex:
    """An open index. Its files are held in the cache until it is let go of."""

    def __init__(
        self,
        split: SplitFile,
        fields: FieldMap,
        directory: contextlib.AbstractContextManager[str],
        rows_of_segments: Callable[[str], list[int]],
    ) -> None:
        with contextlib.ExitStack() as held:
            place = held.enter_context(directory)
            self._first_rows = rows_of_segments(place)
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
