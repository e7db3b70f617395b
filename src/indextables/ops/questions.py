"""A question to the splits of a table at one version: which of them to ask, and what becomes of bad ones.

Splits are asked side by side. What a query means, and what is wrong with it, is the same for all of them: it is read by
the fields of the table, however a split was indexed by its writer. Where the log alone decides a predicate, because it
reads partition columns only, the splits that stay are asked for all their rows.
"""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from indextables.caching import lazy_property
from indextables.config import Config
from indextables.errors import (
    BadSplitWarning,
    ConfigError,
    CorruptSplitError,
    ObjectNotFoundError,
    QueryError,
    SchemaError,
)
from indextables.log.pools import SHARED_POOLS
from indextables.log.snapshot import Snapshot
from indextables.ops.indexed_fields import table_fields
from indextables.predicate import bind, parse_predicate, to_arrow
from indextables.predicate.bound import BoundPredicate, bound_columns
from indextables.scan.files import hinted_mask, prune_table
from indextables.scan.partitions import files_exactly, is_partition
from indextables.split.fields import FieldMap
from indextables.split.indexing import make_schema
from indextables.split.open_splits import OpenSplits
from indextables.split.query import compile_query, parse_query
from indextables.split.query.tree import Node, both
from indextables.split.search_predicate import from_json, tree_of
from indextables.split.searchable import SearchableFields
from indextables.split.searcher import SplitSearcher

logger = logging.getLogger(__name__)

SEARCHING = "searching"
ROW = "_row"

_BAD_SPLITS = ("fail", "skip")
_MOST_NAMED = 3
_FIRST_WAVE = 4
_FIELDS = ["path", "size", "num_records", "footer_start_offset", "footer_end_offset"]
_T = TypeVar("_T")


class Split(NamedTuple):
    """A split as the log knows it; `position` is its place among those that are asked."""

    position: int
    path: str
    size: int
    num_records: int | None
    footer_start_offset: int | None
    footer_end_offset: int | None


class SplitQuestion:
    """One question to some splits, whoever chose them; the log is not needed. `where` is what rows decide, if any."""

    def __init__(
        self,
        schema: pa.Schema,
        fields: FieldMap,
        opened: OpenSplits,
        *,
        splits: Sequence[Split] = (),
        query: str | None = None,
        searches: Sequence[str] = (),
        where: BoundPredicate | None = None,
        skips: bool = False,
    ) -> None:
        """`fields` say what the query means. `searches` are search predicates as JSON, which are true of a row beside
        it."""
        self.schema = schema
        self.fields = fields
        self._splits = splits
        # Places in errors are those of one text.
        self.text = "" if searches else query or ""
        self.tree = _joined_tree(query, searches)
        self.where: Any = None if where is None else to_arrow(where)
        self.where_columns = () if where is None else _top_columns(where)
        self._opened = opened
        self._skips = skips
        self._bad: dict[str, str] = {}

    @property
    def splits(self) -> Sequence[Split]:
        """The splits to ask, in order."""
        return self._splits

    @property
    def num_splits(self) -> int:
        return len(self.splits)

    def ask(self, work: Callable[[Split], _T], splits: Sequence[Split] | None = None) -> list[tuple[Split, _T]]:
        """What some splits answer, or all, in their order; those that cannot be read are left out or are an error."""
        asked = [split for split in (self.splits if splits is None else splits) if split.path not in self._bad]
        answers = SHARED_POOLS.map(SEARCHING, lambda split: self._try(work, split), asked, workers=self._opened.at_once)
        return [(split, answer[0]) for split, answer in zip(asked, answers, strict=True) if answer is not None]

    def waves(self) -> Iterator[Sequence[Split]]:
        """The splits in shares, for those who may need few of them: a few first, then as many as are asked at once."""
        start, num_splits = 0, min(_FIRST_WAVE, self._opened.at_once)
        while start < len(self.splits):
            yield self.splits[start : start + num_splits]
            start, num_splits = start + num_splits, min(2 * num_splits, self._opened.at_once)

    def searcher(self, split: Split) -> SplitSearcher:
        return self._opened.get(
            split.path,
            size=split.size,
            footer_start_offset=split.footer_start_offset,
            footer_end_offset=split.footer_end_offset,
            num_records=split.num_records,
            fields=self.fields,
        )

    def rows(self, split: Split, columns: Sequence[str], limit: int | None = None) -> pa.Table:
        """The rows that are found in a split, in their order; only the first of them are decoded under a limit."""
        numbers = self.row_numbers(split, limit if self.where is None else None)
        schema = pa.schema([self.schema.field(name) for name in columns])
        parts, missing = [schema.empty_table()], limit
        for part in self.stream(split, columns, numbers):
            parts.append(part.slice(0, missing))
            if missing is not None:
                missing -= parts[-1].num_rows
                if not missing:
                    break
        return pa.concat_tables(parts)

    def row_numbers(self, split: Split, limit: int | None = None) -> pa.Array[Any] | None:
        """The rows that a query finds in a split, or the first of them, whatever a predicate says; None for all."""
        searcher = self.searcher(split)
        if self.tree is not None:
            return searcher.row_numbers(self.tree, self.text, limit=limit)
        if limit is None or limit >= searcher.split.num_rows:
            return None
        return _all_rows(limit)

    def stream(
        self,
        split: Split,
        columns: Sequence[str],
        numbers: pa.Array[Any] | None,
        beside: Mapping[str, pa.Array[Any]] | None = None,
    ) -> Iterator[pa.Table]:
        """Those of some rows of a split, or of all, that the predicate is true of, as they are read.

        `beside` holds further columns, with a value for each of the numbers.
        """
        read = list(dict.fromkeys([*columns, *self.where_columns]))
        schema = pa.schema([self.schema.field(name) for name in read])
        start = 0
        for batch in self.searcher(split).split.rows(numbers, read):
            part = pa.Table.from_batches([batch], schema)
            for name, values in (beside or {}).items():
                part = part.append_column(name, values.slice(start, batch.num_rows))
            start += batch.num_rows
            part = part if self.where is None else part.filter(self.where)
            yield part.select([*columns, *(beside or {})])

    def numbered(self, split: Split, columns: Sequence[str], hits: pa.Table | None = None) -> pa.Table:
        """Some columns of the rows that are found in a split, and their numbers as `_row`.

        `hits` is a table with a `_row`, in order, in the place of the query's own rows.
        """
        numbers = self.row_numbers(split) if hits is None else hits[ROW].combine_chunks()
        if hits is None:
            num_rows = self.searcher(split).split.num_rows
            hits = pa.table({ROW: _all_rows(num_rows) if numbers is None else numbers})
        read = list(dict.fromkeys([*columns, *self.where_columns]))
        if not read:
            return hits
        table = self.read(split, numbers, read)
        for name in hits.column_names:
            table = table.append_column(name, hits[name])
        table = table if self.where is None else table.filter(self.where)
        return table.select([*columns, *hits.column_names])

    def read(self, split: Split, numbers: pa.Array[Any] | None, columns: Sequence[str]) -> pa.Table:
        """Rows of a split by number, or all, whatever is asked for."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        return pa.Table.from_batches(self.searcher(split).split.rows(numbers, columns), schema)

    def _try(self, work: Callable[[Split], _T], split: Split) -> tuple[_T] | None:
        try:
            return (work(split),)
        except (CorruptSplitError, ObjectNotFoundError) as error:
            if not self._skips:
                raise
            self._bad[split.path] = error.message
            return None


class Question(SplitQuestion):
    """One question to a table. `where` is what is left for rows to decide, None where that is nothing.

    `hints` are predicates that may rule splits out and never decide on rows.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        config: Config,
        opened: OpenSplits,
        *,
        query: str | None = None,
        searches: Sequence[str] = (),
        where: str | None = None,
        bad_splits: str = "fail",
        hints: Sequence[str] = (),
    ) -> None:
        if bad_splits not in _BAD_SPLITS:
            raise ConfigError(f"cannot treat bad splits as `{bad_splits}`: expected `fail` or `skip`")
        self.snapshot = snapshot
        self.config = config
        files, left = (snapshot.files, None) if where is None else _filtered(snapshot, config, where)
        files = files.filter(hinted_mask(files, hints, snapshot, config)) if hints else files
        super().__init__(
            snapshot.schema,
            _fields(snapshot, config, is_searched=query is not None or bool(searches)),
            opened,
            query=query,
            searches=searches,
            where=left,
            skips=bad_splits == "skip",
        )
        self._files = files
        self._check_query()

    @lazy_property
    def splits(self) -> Sequence[Split]:
        """The splits that the log does not rule out, made when they are first needed: there may be many."""
        found = enumerate(self._files.select(_FIELDS).to_pylist())
        return tuple(Split(position=position, **file) for position, file in found)

    @property
    def num_splits(self) -> int:
        return int(self._files.num_rows)

    def warn(self) -> None:
        """Say which splits were left out, once they all were asked."""
        if not self._bad:
            return
        named = "; ".join(list(self._bad.values())[:_MOST_NAMED])
        rest = len(self._bad) - _MOST_NAMED
        message = (
            f"the answer leaves out {len(self._bad)} of {self.num_splits} splits, which could not be read: "
            f"{named}{f'; and {rest} more' if rest > 0 else ''}"
        )
        warnings.warn(BadSplitWarning(message), stacklevel=4)

    def _check_query(self) -> None:
        """Say what is wrong with the query before a split is asked."""
        if self.tree is not None:
            compile_query(self.tree, SearchableFields(self.fields), _schema_of(self.fields), text=self.text)


# The schemas of wide tables take longer to make than most queries.
_schema_of = functools.lru_cache(maxsize=64)(make_schema)


def _fields(snapshot: Snapshot, config: Config, *, is_searched: bool) -> FieldMap:
    """What a search means; rows that are only read need no such thing, and settings that do not fit stop no reader."""
    try:
        return table_fields(snapshot, config)
    except SchemaError:
        if is_searched:
            raise
        return FieldMap(())


def _joined_tree(query: str | None, searches: Sequence[str]) -> Node | None:
    parts = [] if query is None else [parse_query(query)]
    parts += [tree_of(from_json(search)) for search in searches]
    return both(parts) if parts else None


def bind_where(where: str, schema: pa.Schema) -> BoundPredicate:
    """A predicate on the columns of a table, or a `QueryError`."""
    return bind(parse_predicate(where), schema)


def check_column(schema: pa.Schema, name: str) -> str:
    """A column's name, or a `SchemaError`."""
    if name not in schema.names:
        raise SchemaError(
            f"cannot read the column `{name}` because the table has no such column",
            hint=f"it has {', '.join(f'`{known}`' for known in schema.names)}",
        )
    return name


def check_limit(limit: int | None) -> int | None:
    """A limit that asks for something, or a `ConfigError`."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit < 1 << 63):
        raise ConfigError(f"cannot search for `{limit!r}` rows: expected a whole number of at least 1")
    return limit


def _filtered(snapshot: Snapshot, config: Config, where: str) -> tuple[pa.Table, BoundPredicate | None]:
    """The files that may hold a matching row, and what is left for rows to decide."""
    bound = bind_where(where, snapshot.schema)
    if all(is_partition(column, snapshot.partition_columns) for column in bound_columns(bound)):
        try:
            return snapshot.files.filter(files_exactly(snapshot.files, bound, snapshot.partition_columns)), None
        except QueryError as error:
            logger.info("rows decide `%s` and not the log: %s", where, error)
    return prune_table(snapshot.files, where, snapshot, config), bound


def _top_columns(bound: BoundPredicate) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column.path[0] for column in bound_columns(bound)))


def _all_rows(count: int) -> pa.Array[Any]:
    return pa.array(range(count), pa.uint64())
