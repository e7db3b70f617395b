"""Search one split by its index: row numbers in order or best first, and counts.

The table's fields define the meaning of a query. If the split indexes a searched column differently, or its index is of
another engine, its rows are indexed again on local disk, by the table's fields. This index is made once and stays in
the cache.

Most splits do not hold a rare word, and their term filter shows this without fetching the index. An index is fetched
once and stays in the local cache for later processes. It is opened once and stays open as long as its searcher exists.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array
from indextables.errors import CorruptSplitError
from indextables.predicate.bound import BoundPredicate
from indextables.runtime import tally
from indextables.runtime.caching import lazy_property
from indextables.split.index.builder import engine_errors
from indextables.split.index.documents import nan_mask
from indextables.split.index.fields import FieldMap, IndexField, Kind
from indextables.split.index.index_cache import IndexCache
from indextables.split.index.term_filter import TermFilter
from indextables.split.index.term_hashes import TermHashes
from indextables.split.partial.needs import Needs
from indextables.split.partial.sparse_cache import NotKeptError
from indextables.split.query.holds import decided_part
from indextables.split.query.needed import may_match
from indextables.split.query.tree import All, Exists, Node
from indextables.split.reindexing import engine, first_rows, index_again, is_readable, log_once
from indextables.split.rows.row_copies import RowCopies
from indextables.split.search import open_indexes
from indextables.split.search.cold_indexes import ColdIndexes
from indextables.split.search.open_indexes import OpenIndex
from indextables.split.search.query_plan import QueryPlan, fields_of_mapping, interned, plan_query, with_nans
from indextables.split.search.searchable import SearchableFields
from indextables.split.search.split_rows import SplitRows
from indextables.split.split_file import SplitFile

logger = logging.getLogger(__name__)

# The engine takes as long for a term of a dictionary as a decoder for some twenty rows.
_ROWS_PER_TERM = 16
_ROWS_PER_BYTE = 4
_SMALL_FILTER_BYTES = 128 << 10
_PART_BYTES = 1 << 20


class Hits(NamedTuple):
    """Row numbers and their scores."""

    rows: pa.Array[Any]
    scores: pa.Array[Any]


class SplitSearcher:
    """Searches one split; safe for threads and after a fork."""

    def __init__(
        self,
        split: SplitFile,
        identity: str,
        cache: IndexCache,
        fields: FieldMap | None = None,
        *,
        cold: ColdIndexes | None = None,
        copies: RowCopies | None = None,
    ) -> None:
        """Prepare a search.

        `identity` names the split's content for the cache. `fields` are the table's, which define the meaning of a
        query; by default the split's own. `cold` fetches parts of the index; without it the index is fetched whole.
        Without `copies`, rows are read by pages.
        """
        self.split = split
        self.rows = SplitRows(split, identity, copies, cache.added)
        own = fields_of_mapping(split.directory.doc_mapping)
        self.fields = own if fields is None else interned(fields)
        self.identity = identity
        self._readable = own if is_readable(split.directory) else None
        self._own = _OwnIndex(split, own, identity, cache, cold)
        self._new = _NewIndex(split, with_nans(self.fields), identity, cache)
        self._nans: dict[str, bool] = {}
        self._few_words: dict[str, bool] = {}

    def means(self, fields: FieldMap | None) -> bool:
        """Return whether queries here have the meaning of these fields, or of the split's."""
        return self.fields == (self._own.fields if fields is None else fields)

    def row_numbers(self, tree: Node, text: str = "", *, limit: int | None = None) -> pa.Array[Any]:
        """Return the row numbers that a query finds, in order, at most `limit`.

        Errors show `text`.
        """
        plan, index = self._prepare(tree, text, _unscored)
        if index is None:
            return to_array([], pa.uint64())
        # With equal scores the engine returns hits in the order of segments and documents.
        with self._engine_errors():
            found = index.searcher.search(plan.flat, index.at_most(limit), count=False)
            tally.note(rows=len(found.hits))
        return index.rows(found.hits)

    def best(self, tree: Node, text: str = "", *, limit: int | None = None) -> Hits:
        """Return the rows that a query finds, best first; equal scores in row order."""
        plan, index = self._prepare(tree, text, _scored)
        if index is None:
            return Hits(to_array([], pa.uint64()), to_array([], pa.float32()))
        with self._engine_errors():
            hits = index.searcher.search(plan.query, index.at_most(limit), count=False).hits
            tally.note(rows=len(hits))
        return Hits(index.rows(hits), to_array([score for score, _ in hits], pa.float32()))

    def count(self, tree: Node, text: str = "") -> int:
        """Count the rows that a query finds."""
        plan, index = self._prepare(tree, text, _unscored)
        if index is None:
            return 0
        with self._engine_errors():
            found = index.count(plan)
            tally.note(rows=found)
            return found

    def aggregate(self, tree: Node | None, text: str, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
        """Run the engine's aggregations on the rows of a query, or on all rows.

        Returns None if the rows should be read instead: there are none, or the engine refuses, as it does above 65,000
        buckets.
        """
        plan, index = self._prepare(All() if tree is None else tree, text, _aggregated)
        if index is None:
            return None
        with self._engine_errors():
            try:
                return dict(index.searcher.aggregate(plan.query, dict(wanted)))
            except ValueError:
                return None

    def decide(self, where: BoundPredicate) -> tuple[Node | None, BoundPredicate | None]:
        """Split a predicate into a query to the index at hand, and the rest for the rows."""
        if self._readable is None or self._own.fields != self.fields or self.bytes_to_fetch(All()):
            return None, where
        return decided_part(where, self.fields, self._holds_nan)

    def keywords(self, tree: Node | None, text: str, field: IndexField) -> list[tuple[str, int]]:
        """Return the terms of a keyword field in the rows of a query, and their counts.

        The engine walks the dictionary of the column, and intersects the rows of each term with the query's.
        """
        plan, index = self._prepare(All() if tree is None else tree, text, _everything)
        if index is None:
            return []
        with self._engine_errors():
            found = index.searcher.terms_with_prefix(field.name, "", None if tree is None else plan.query)
        if len(found) * _ROWS_PER_TERM > self.split.num_rows:
            self._few_words[field.column] = False
        return found

    def keyword_field(self, column: str, tree: Node | None) -> IndexField | None:
        """Return the field of a column of keywords, if a walk of its dictionary is cheap.

        The rows are cheaper if the column has many values, or if only this walk needs the index.
        """
        asked = All() if tree is None else tree
        field = self._exact_plan(asked, "").fields.find(column)
        if field is None or field.column != column or field.kind is not Kind.STRING:
            return None
        if tree is None and not field.fast and self.bytes_to_fetch(asked):
            return None
        return field if self._has_few_words(column) else None

    def _has_few_words(self, column: str) -> bool:
        """Return whether the rows of a column seem to repeat few values."""
        known = self._few_words.get(column)
        if known is None:
            num_bytes = self.split.dictionary_bytes(column)
            is_small = num_bytes is not None and num_bytes * _ROWS_PER_BYTE <= self.split.num_rows
            known = self._few_words[column] = is_small
        return known

    def is_ruled_out(self, tree: Node, text: str = "") -> bool:
        """Return whether the split surely has no hit, without reading its index."""
        plan = self._plan(tree, text)
        return self._index_of(plan).is_ruled_out(tree, plan.catalog)

    def bytes_to_fetch(self, tree: Node) -> int:
        """Return the bytes to read for the index; 0 if it is open or in the local cache."""
        plan = self._plan(tree, "")
        return self._index_of(plan).bytes_to_fetch(plan.needs)

    def fast_field(self, column: str, tree: Node | None) -> IndexField | None:
        """Return the field of a column if the query's index can aggregate it."""
        field = self._exact_plan(All() if tree is None else tree, "").fields.find(column)
        return field if field is not None and field.column == column and field.fast else None

    @property
    def own_fields(self) -> FieldMap | None:
        """Fields of the split's own index; None if this engine cannot read it."""
        return self._readable

    @property
    def whole_bytes_to_fetch(self) -> int:
        """Bytes to read until the split's own index is whole in the local cache."""
        return self._own.whole_bytes_to_fetch()

    def fetch_whole(self) -> None:
        """Fetch the split's own index into the local cache, or raise `OSError`."""
        self._own.fetch_whole()

    @property
    def is_open(self) -> bool:
        """Whether it holds an index open."""
        return self._own.is_open or self._new.is_open

    def let_go(self) -> None:
        """Close the indexes after their last use; the next query opens them again."""
        self._own.let_go()
        self._new.let_go()

    @contextlib.contextmanager
    def _engine_errors(self) -> Iterator[None]:
        """Report engine failures as damage of the split.

        A split can be forged: then the engine may fail on an index with valid checksums.
        """
        with tally.stage(tally.SEARCH), engine_errors(f"search the split `{self.split.key}`", CorruptSplitError):
            tally.note_split(self.split.key)
            yield

    def _prepare(self, tree: Node, text: str, needs: _NeedsOf) -> tuple[QueryPlan, OpenIndex | None]:
        """Return the plan of a query and its index; no index if there is surely no hit.

        Errors of a query are reported first, since they do not depend on the split. The engine is as fast as a filter
        once the index is open. The index has what the search needs, and perhaps no more.
        """
        plan = self._exact_plan(tree, text)
        index = self._index_of(plan)
        if not index.is_open:
            with tally.stage(tally.FILTERS):
                is_absent = index.is_ruled_out(tree, plan.catalog)
                tally.note_split(self.split.key, left_out=is_absent)
            if is_absent:
                return plan, None
        with tally.stage(tally.INDEX, self.split.key):
            return plan, index.opened_for(needs(plan))

    def _exact_plan(self, tree: Node, text: str) -> QueryPlan:
        """Return the plan that searches by the table's fields, also for NaN."""
        plan = self._plan(tree, text)
        if any(self._holds_nan(column) for column in plan.nan_columns):
            return plan_query(tree, text, self.fields, None)
        return plan

    def _plan(self, tree: Node, text: str) -> QueryPlan:
        """Return the plan for a split without NaN that the query may find."""
        return plan_query(tree, text, self.fields, self._readable)

    def _index_of(self, plan: QueryPlan) -> _Index:
        return self._own if plan.is_own else self._new

    def _holds_nan(self, column: str) -> bool:
        """Return whether a column has NaN in the split; its own index omits NaN like null."""
        known = self._nans.get(column)
        if known is None:
            with_numbers = self._own.num_rows_with(column)
            batches = () if with_numbers == self.split.num_rows else self.split.rows(None, [column])
            known = self._nans[column] = any(pc.any(nan_mask(batch.column(0))).as_py() for batch in batches)
        return known


_NeedsOf = Callable[[QueryPlan], Needs | None]


def _unscored(plan: QueryPlan) -> Needs | None:
    return plan.needs


def _scored(plan: QueryPlan) -> Needs | None:
    return plan.needs_scored


def _aggregated(plan: QueryPlan) -> Needs | None:
    return None if plan.needs is None else plan.needs.with_fast()


def _everything(plan: QueryPlan) -> None:
    """Need the whole index."""


class _Index(abc.ABC):
    """An index of a split's rows, opened on first use."""

    def __init__(self, split: SplitFile, fields: FieldMap, identity: str, cache: IndexCache) -> None:
        self.fields = fields
        self._split = split
        self._identity = identity
        self._cache = cache
        self._index: OpenIndex | None = None

    @abc.abstractmethod
    def is_ruled_out(self, tree: Node, catalog: SearchableFields) -> bool:
        """Return whether the split surely has no hit."""

    @abc.abstractmethod
    def bytes_to_fetch(self, needs: Needs | None) -> int:
        """Return about how many bytes are read from the store before a query can run."""

    @abc.abstractmethod
    def _open(self) -> OpenIndex: ...

    def opened_for(self, needs: Needs | None) -> OpenIndex:
        """Open the index, with at least the parts that a search needs."""
        return self._opened()

    def _opened(self) -> OpenIndex:
        """Open the index on first use; of two concurrent openings one is dropped."""
        index = self._index
        if index is None or not open_indexes.note_use(self):
            index = self._index = index or open_indexes.opened(self._open)
            open_indexes.keep_open(self, index)
        return index

    @property
    def is_open(self) -> bool:
        return self._index is not None

    def let_go(self) -> None:
        self._index = None

    @property
    def _what(self) -> str:
        return f"the split `{self._split.key}`"

    def _is_at_hand(self, cached_as: str) -> bool:
        return self.is_open or self._cache.holds(cached_as)


class _OwnIndex(_Index):
    """The index inside the split, fetched in part or whole."""

    def __init__(
        self, split: SplitFile, fields: FieldMap, identity: str, cache: IndexCache, cold: ColdIndexes | None
    ) -> None:
        super().__init__(split, fields, identity, cache)
        self._cold = cold if cold is not None and cold.can_open(split) else None

    def is_ruled_out(self, tree: Node, catalog: SearchableFields) -> bool:
        """Check the filters; read the fine one only if the index would have to be fetched.

        A large filter costs more than the parts of the index that a search for a word needs.
        """

        def lacks(known: TermFilter | TermHashes | None) -> bool:
            return known is not None and not may_match(tree, catalog, known.may_contain)

        if lacks(self._term_filter):
            return True
        fine = self._split.directory.fine_filter
        if fine is None or (self._cold is not None and fine.raw_length > _SMALL_FILTER_BYTES):
            return False
        return not self._is_at_hand(self._identity) and lacks(self._fine_filter)

    def bytes_to_fetch(self, needs: Needs | None) -> int:
        index = self._index
        if self._cache.holds(self._identity) or (index is not None and index.is_whole):
            return 0
        start, end = self._split.directory.index_range
        is_small = self._cold is not None and needs is not None and not needs.fields and not needs.fast
        return min(_PART_BYTES, end - start) if is_small else end - start

    def whole_bytes_to_fetch(self) -> int:
        start, end = self._split.directory.index_range
        return 0 if self._cache.holds(self._identity) else end - start

    def fetch_whole(self) -> None:
        with self._cache.kept_directory(self._identity, self._split.extract_index):
            pass

    def opened_for(self, needs: Needs | None) -> OpenIndex:
        index = self._opened()
        if index.cold is None or index.is_whole:
            return index
        try:
            index.cold.fetch(needs)
        except NotKeptError as error:
            logger.info("fetching the index of %s whole: %s", self._split.key, error)
            self._cold = None
            self.let_go()
            index = self._opened()
        return index

    def _is_at_hand(self, cached_as: str) -> bool:
        return super()._is_at_hand(cached_as) or (self._cold is not None and self._cold.holds(cached_as))

    def _open(self) -> OpenIndex:
        rows = [segment.first_row for segment in self._split.directory.segments]
        make = functools.partial(OpenIndex, self._what, self._split.num_rows, self.fields)
        if self._cold is not None and not self._cache.holds(self._identity):
            part = self._cold.open(self._split, self._identity)
            if part is not None:
                index = make(part.held(), lambda _: rows, part)
                if part.is_current:
                    return index
            self._cold = None
        return make(self._cache.directory(self._identity, self._split.extract_index), lambda _: rows)

    def num_rows_with(self, column: str) -> int:
        """Count the rows with a value of a column in the index."""
        plan = plan_query(Exists(path=(column,)), "", self.fields, self.fields)
        index = self.opened_for(plan.needs)
        with engine_errors(f"search the split `{self._split.key}`", CorruptSplitError):
            return index.count(plan)

    @lazy_property
    def _term_filter(self) -> TermFilter | TermHashes | None:
        return self._split.term_filter()

    @lazy_property
    def _fine_filter(self) -> TermFilter | TermHashes | None:
        return self._split.fine_filter()


class _NewIndex(_Index):
    """An index of the split's rows by other fields; the split's filters do not apply."""

    def is_ruled_out(self, tree: Node, catalog: SearchableFields) -> bool:
        return False

    def bytes_to_fetch(self, needs: Needs | None) -> int:
        """Return the size of all rows: they are read and indexed."""
        return 0 if self._is_at_hand(self._cached_as) else self._split.size

    def _open(self) -> OpenIndex:
        log_once(self._split)
        make = functools.partial(index_again, self._split, self.fields)
        held = self._cache.directory(self._cached_as, make)
        return OpenIndex(self._what, self._split.num_rows, self.fields, held, first_rows)

    @property
    def _cached_as(self) -> str:
        meaning = hashlib.sha256(self.fields.to_json().encode()).hexdigest()
        return f"{self._identity}:{engine()}:{meaning}"
