"""Combined indexes: one index over the rows of several small splits.

Its directory has links to the cached index files of the splits, and one `meta.json` with their segments, in the order
of the splits. It never changes. It answers questions without scores about all rows of its splits: the engine cannot
leave out a segment, and a score depends on the other rows of its index. So scores come from it only if they are asked
for by the statistics of the whole table.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from indextables.arrow_values import to_array
from indextables.errors import CorruptSplitError
from indextables.runtime import tally
from indextables.split.index.builder import META, engine_errors
from indextables.split.index.fields import FieldMap, IndexField, Kind
from indextables.split.index.index_cache import IndexCache
from indextables.split.query.tree import All, Node
from indextables.split.reindexing import engine
from indextables.split.search import open_indexes
from indextables.split.search.open_indexes import OpenIndex
from indextables.split.search.query_plan import QueryPlan, plan_query
from indextables.split.search.searcher import Hits, SplitSearcher

MOST_ROWS_OF_A_SPLIT = 100_000
_MOST_SEGMENTS = 3_000
_FORMAT = 1


class CannotCombineError(Exception):
    """Raised if splits have no common index; holds the reason."""


class CombinedIndex:
    """One index over several splits; safe for threads and after a fork."""

    def __init__(self, searchers: Sequence[SplitSearcher], indexes: IndexCache, combined: IndexCache) -> None:
        """Check that the splits can be combined, or raise a `CannotCombineError`."""
        self._searchers = tuple(searchers)
        self._indexes = indexes
        self._combined = combined
        self._own = _common_fields(self._searchers)
        self._num_rows = [searcher.split.num_rows for searcher in self._searchers]
        segments = [searcher.split.directory.segments for searcher in self._searchers]
        _check_segments(segments)
        self._split_of = [at for at, own in enumerate(segments) for _ in own]
        self._first_rows = [segment.first_row for own in segments for segment in own]
        self._names = [segment.name for own in segments for segment in own]
        self._sizes = [segment.num_rows for own in segments for segment in own]
        self._identity = _identity(self._searchers, self._own)
        self._index: OpenIndex | None = None

    def answers(self, tree: Node | None, text: str, asked: FieldMap) -> bool:
        """Return whether this index answers a query as the splits do."""
        plan = self._plan(tree, text, asked)
        return plan.is_own and not plan.nan_columns

    def for_fields(self, asked: FieldMap) -> Together:
        """Return a searcher for the meaning of some fields."""
        return Together(self, asked)

    @property
    def is_open(self) -> bool:
        return self._index is not None

    def let_go(self) -> None:
        """Close the index after its last use."""
        self._index = None

    def opened(self) -> OpenIndex:
        """Open the index on first use; make it if no process has."""
        index = self._index
        if index is None or not open_indexes.note_use(self):
            with tally.stage(tally.INDEX):
                index = self._index = index or open_indexes.opened(self._open)
            open_indexes.keep_open(self, index)
        return index

    @contextlib.contextmanager
    def engine_errors(self) -> Iterator[None]:
        """Report engine failures as damage, and count the work of the engine."""
        with tally.stage(tally.SEARCH), engine_errors("search several splits together", CorruptSplitError):
            if tally.is_counting():
                for searcher in self._searchers:
                    tally.note_split(searcher.split.key)
            yield

    def _open(self) -> OpenIndex:
        held = self._combined.kept_directory(self._identity, self._link)
        what = f"{len(self._searchers)} splits together"
        index = OpenIndex(what, sum(self._num_rows), self._own, held, lambda _: self._first_rows)
        if index.searcher.num_segments != len(self._first_rows):
            raise CorruptSplitError(f"cannot search {what} because some of their segments are missing")
        return index

    def _link(self, into: str) -> Mapping[str, str]:
        """Link the files of all splits, and write one `meta.json`."""
        checksums: dict[str, str] = {}
        metas: list[dict[str, Any]] = []
        for searcher in self._searchers:
            linked, meta = self._indexes.link_files(searcher.identity, searcher.split.extract_index, into, META)
            checksums |= linked
            metas.append(dict(msgspec.json.decode(meta)))
        found = [segment for meta in metas for segment in meta["segments"]]
        names = [str(segment["segment_id"]).replace("-", "") for segment in found]
        if names != self._names or [int(segment["max_doc"]) for segment in found] != self._sizes:
            raise CannotCombineError("their segments are not those of their directories")
        if any(segment.get("deletes") for segment in found):
            raise CannotCombineError("one of them has deleted rows")
        settings = [{**meta, "segments": [], "opstamp": 0, "payload": None} for meta in metas]
        if any(each != settings[0] for each in settings):
            raise CannotCombineError("their indexes have different schemas")
        with open(f"{into}/{META}", "wb") as file:
            file.write(msgspec.json.encode({**metas[0], "segments": found}))
        return checksums

    def _plan(self, tree: Node | None, text: str, asked: FieldMap) -> QueryPlan:
        return plan_query(All() if tree is None else tree, text, asked, self._own)


class Together:
    """Searches splits by their combined index, with the meaning of some fields."""

    def __init__(self, combined: CombinedIndex, asked: FieldMap) -> None:
        self._combined = combined
        self._asked = asked

    def count(self, tree: Node, text: str, *, is_answer: bool = True) -> int:
        """Count the rows that a query finds; noted as found rows if it is the answer."""
        index = self._combined.opened()
        with self._combined.engine_errors():
            found = index.count(self._plan(tree, text))
            if is_answer:
                tally.note(rows=found)
            return found

    def row_numbers(self, tree: Node, text: str, limit: int | None) -> dict[int, pa.Array[Any]]:
        """Return the row numbers of the first hits in order, by the place of the split."""
        index = self._combined.opened()
        with self._combined.engine_errors():
            hits = index.searcher.search(self._plan(tree, text).flat, index.at_most(limit), count=False).hits
            tally.note(rows=len(hits))
        numbers: dict[int, list[int]] = {}
        split_of, first_rows = self._combined._split_of, self._combined._first_rows
        for segment, found in itertools.groupby(hits, key=lambda hit: hit[1].segment_ord):
            first = first_rows[segment]
            numbers.setdefault(split_of[segment], []).extend([first + place.doc for _, place in found])
        return {at: to_array(found, pa.uint64()) for at, found in numbers.items()}

    def best(self, tree: Node, text: str, limit: int | None) -> dict[int, Hits]:
        """Return the best rows by the statistics of all splits, by the place of the split."""
        index = self._combined.opened()
        with self._combined.engine_errors():
            hits = index.searcher.search(self._plan(tree, text).query, index.at_most(limit), count=False).hits
            tally.note(rows=len(hits))
        found: dict[int, list[tuple[int, float]]] = {}
        split_of, first_rows = self._combined._split_of, self._combined._first_rows
        for score, place in hits:
            segment = place.segment_ord
            found.setdefault(split_of[segment], []).append((first_rows[segment] + place.doc, float(score)))
        return {
            at: Hits(
                to_array([row for row, _ in sorted(rows)], pa.uint64()),
                to_array([score for _, score in sorted(rows)], pa.float32()),
            )
            for at, rows in found.items()
        }

    def aggregate(self, tree: Node | None, text: str, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
        """Run the engine's aggregations; None if the engine refuses."""
        index = self._combined.opened()
        with self._combined.engine_errors():
            try:
                return dict(index.searcher.aggregate(self._plan(tree, text).query, dict(wanted)))
            except ValueError:
                return None

    def fast_field(self, column: str, tree: Node | None) -> IndexField | None:
        """Return the field of a column if the index can aggregate it."""
        field = self._combined._own.find(column)
        return field if field is not None and field.column == column and field.fast else None

    def keywords(self, tree: Node | None, text: str, field: IndexField) -> list[tuple[str, int]]:
        """Return the terms of a keyword field in the rows of a query, and their counts."""
        index = self._combined.opened()
        query = None if tree is None else self._plan(tree, text).query
        with self._combined.engine_errors():
            return list(index.searcher.terms_with_prefix(field.name, "", query))

    def keyword_field(self, column: str, tree: Node | None) -> IndexField | None:
        """Return the field of a column of keywords, if a walk of its dictionary is cheap."""
        field = self._combined._own.find(column)
        if field is None or field.column != column or field.kind is not Kind.STRING:
            return None
        return self._combined._searchers[0].keyword_field(column, All())

    def _plan(self, tree: Node | None, text: str) -> QueryPlan:
        return self._combined._plan(tree, text, self._asked)


def check_number(num_segments: int) -> None:
    """Raise a `CannotCombineError` if one index cannot hold so many segments."""
    if num_segments > _MOST_SEGMENTS:
        raise CannotCombineError(f"they have over {_MOST_SEGMENTS:,} segments")


def _common_fields(searchers: Sequence[SplitSearcher]) -> FieldMap:
    fields = searchers[0].own_fields
    if fields is None or any(searcher.own_fields != fields for searcher in searchers):
        raise CannotCombineError("they are not all indexed alike by this engine")
    return fields


def _check_segments(segments: Sequence[Sequence[Any]]) -> None:
    names = [segment.name for own in segments for segment in own]
    if len(set(names)) != len(names):
        raise CannotCombineError("two of them share a segment")
    check_number(len(names))
    if any(not own or any(not segment.num_rows for segment in own) for own in segments):
        raise CannotCombineError("one of them has an empty index")
    pairs = (pair for own in segments for pair in itertools.pairwise(own))
    if any(first.first_row + first.num_rows != second.first_row for first, second in pairs):
        raise CannotCombineError("the segments of one of them are not in the order of its rows")


def _identity(searchers: Sequence[SplitSearcher], fields: FieldMap) -> str:
    hashed = hashlib.sha256(f"{_FORMAT}\n{engine()}\n{fields.to_json()}\n".encode())
    for searcher in searchers:
        hashed.update(f"{searcher.identity}\n".encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()
