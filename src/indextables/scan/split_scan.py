"""Scan the splits of a table at one version, and report bad splits.

Splits are searched in parallel. A query has the same meaning and the same errors for all of them: the table's fields
define it, however a writer indexed a split. If a predicate reads partition columns only, the log decides it, and all
rows of the remaining splits match.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from indextables.arrow_values import numbers_below
from indextables.config import Config, settings
from indextables.errors import (
    BadSplitWarning,
    ConfigError,
    CorruptSplitError,
    ObjectNotFoundError,
    SchemaError,
)
from indextables.filters.splits_left import Query, left_by_sheets
from indextables.ingest.batches import may_widen
from indextables.log.files import exact_sum
from indextables.log.snapshot import Snapshot
from indextables.predicate.bound import BoundPredicate
from indextables.runtime import tally
from indextables.runtime.caching import lazy_property
from indextables.runtime.pools import SHARED_POOLS
from indextables.scan.indexed_fields import table_fields
from indextables.scan.left_files import SPLIT_FIELDS, left_files
from indextables.scan.row_check import Part, check_batches, check_rows, joined_matches, predicate_columns
from indextables.scan.together import SEARCHING, AskedGroups, Question, can_group, table_scores
from indextables.split.index.fields import FieldMap
from indextables.split.query import parse_query
from indextables.split.query.tree import And, Node, both
from indextables.split.rows.row_copies import Piece, take_pieces
from indextables.split.search.combined import Together
from indextables.split.search.groups import SplitGroup, grouped
from indextables.split.search.open_splits import OpenSplits
from indextables.split.search.search_predicate import from_json, tree_of
from indextables.split.search.searchable import compiled_query
from indextables.split.search.searcher import Hits, SplitSearcher

logger = logging.getLogger(__name__)

ROW = "_row"

_BAD_SPLITS = ("fail", "skip")
_MOST_NAMED = 3
_FIRST_WAVE = 4
_ROWS_PER_HIT = 64
_NARROW_SHARE = 8
_T = TypeVar("_T")


class Split(NamedTuple):
    """A split from the log; `position` is its index among the scanned splits."""

    position: int
    path: str
    size: int
    num_records: int | None
    footer_start_offset: int | None
    footer_end_offset: int | None


class Asked(NamedTuple):
    """What is asked of one split: a query to its index, and a predicate on its rows."""

    tree: Node | None
    where: BoundPredicate | None


class SplitScan:
    """A scan of given splits, without the log; `where` is the predicate on rows."""

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
        combines: bool = False,
    ) -> None:
        """Prepare a scan.

        `fields` define the meaning of the query. `searches` are search predicates as JSON; a row must match them and
        the query. With `combines`, small splits are searched together where that changes no answer.
        """
        self.schema = schema
        self.fields = fields
        self._splits = splits
        # Positions in errors refer to one text.
        self.text = "" if searches else query or ""
        self.tree = _joined_tree(query, searches)
        self.where = where
        self._opened = opened
        self._skips = skips
        # Rows of later splits replace those of a bad one, so each split is asked for all of its own.
        self._may_combine = combines and where is None and not skips
        self._bad: dict[str, str] = {}
        self._asked: dict[str, Asked] = {}
        self.scores: dict[int, Hits] | None = None
        """Hits with scores by the whole table, by position; None if each split scores its own."""

    @property
    def _combines(self) -> bool:
        """Whether small splits are searched together."""
        return self._may_combine

    def prepare_scores(self, limit: int | None) -> None:
        """Do nothing: splits without their log score their own rows."""

    @property
    def splits(self) -> Sequence[Split]:
        """The splits to search, in order."""
        return self._splits

    @property
    def num_splits(self) -> int:
        return len(self.splits)

    def ask(self, work: Callable[[Split], _T], splits: Sequence[Split] | None = None) -> list[tuple[Split, _T]]:
        """Run `work` on some or all splits, and return the results in order.

        Unreadable splits are left out, or are an error.
        """
        asked = [split for split in (self.splits if splits is None else splits) if split.path not in self._bad]
        answers = SHARED_POOLS.map(SEARCHING, lambda split: self._try(work, split), asked, workers=self._opened.at_once)
        return [(split, answer[0]) for split, answer in zip(asked, answers, strict=True) if answer is not None]

    def ask_together(self, together: Callable[[Together], _T | None], alone: Callable[[Split], _T]) -> list[_T]:
        """Ask combined indexes where they answer, and other splits alone, in any order.

        `together` returns None if the splits have to be asked.
        """
        if not self._combines:
            return [answer for _, answer in self.ask(alone)]
        found, left = self._together.ask(together)
        return [*found, *(answer for _, answer in self.ask(alone, left))]

    def found(self) -> Sequence[Split]:
        """Return the splits that may have hits without scores, in order."""
        return self._together.found() if self._combines and self.tree is not None else self.splits

    def waves(self, limit: int | None = None, *, is_scored: bool = False) -> Iterator[Sequence[Split]]:
        """Yield the splits in growing groups, for callers that may need only a few.

        With a limit, only the first hits are wanted.
        """
        start, num_splits = 0, min(_FIRST_WAVE, self._opened.at_once)
        if self._combines and self.tree is not None and not is_scored:
            yield from self._together.waves(limit, num_splits)
            return
        while start < len(self.splits):
            yield self.splits[start : start + num_splits]
            start, num_splits = start + num_splits, min(2 * num_splits, self._opened.at_once)

    @lazy_property
    def _together(self) -> AskedGroups[Split]:
        return AskedGroups(self._opened, self._groups(), Question(self.tree, self.text, self.fields))

    def _groups(self) -> Sequence[SplitGroup[Split]]:
        """Return the splits in groups, which remember how often they were asked."""
        key = tuple(self.splits)
        known: Sequence[SplitGroup[Split]] | None = self._opened.groups.get(key)
        if known is None:
            known = grouped(key)
            self._opened.groups.put(key, known)
        return known

    @property
    def is_remote(self) -> bool:
        """Whether the splits are behind a network."""
        return self._opened.is_remote

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
        """Return the found rows of a split in order; with a limit decode only the first."""
        numbers = self.row_numbers(split, limit if self._asked_of_rows(split).where is None else None)
        schema = pa.schema([self.schema.field(name) for name in columns])
        parts: list[pa.Table] = []
        if numbers is not None and not len(numbers):
            return joined_tables(parts, schema)
        missing = limit
        for part in self.stream(split, columns, numbers):
            parts.append(part.slice(0, missing))
            if missing is not None:
                missing -= parts[-1].num_rows
                if not missing:
                    break
        return joined_tables(parts, schema)

    def asked(self, split: Split) -> Asked:
        """Return what the index of a split decides for counts, and what its rows decide."""
        if self.where is None:
            return Asked(self.tree, None)
        part, left = self.searcher(split).decide(self.where)
        parts = [tree for tree in (self.tree, part) if tree is not None]
        return Asked(None if not parts else parts[0] if len(parts) == 1 else And(tuple(parts)), left)

    def _asked_of_rows(self, split: Split) -> Asked:
        """Return what the index and the rows of a split decide, if row numbers are wanted.

        It is settled once, since the index may be fetched in the meantime. A number from the index costs as much as
        checking many rows, so without a query the index decides only if it finds few.
        """
        known = self._asked.get(split.path)
        if known is None:
            known = self.asked(split)
            if self.tree is None and known.tree is not None:
                searcher = self.searcher(split)
                if searcher.count(known.tree) * _ROWS_PER_HIT > searcher.split.num_rows:
                    known = Asked(None, self.where)
            known = self._asked.setdefault(split.path, known)
        return known

    def hits(self, splits: Sequence[Split], limit: int | None) -> list[tuple[Split, pa.Array[Any] | None]]:
        """Return the row numbers of splits in order, at most `limit` of each.

        If combined indexes know all of them, no other thread is asked.
        """
        if self._combines:
            known = [(split, self._together.row_numbers(split, limit)) for split in splits]
            if all(numbers is not None for _, numbers in known):
                return known
        return self.ask(lambda split: self.row_numbers(split, limit), splits)

    def row_numbers(self, split: Split, limit: int | None = None) -> pa.Array[Any] | None:
        """Return the row numbers that the index finds; None for all.

        The rows still have to be checked for the rest of the predicate.
        """
        known = self._together.row_numbers(split, limit) if self._combines else None
        if known is not None:
            return known
        searcher, tree = self.searcher(split), self._asked_of_rows(split).tree
        if tree is not None:
            return searcher.row_numbers(tree, self.text, limit=limit)
        if limit is None or limit >= searcher.split.num_rows:
            return None
        return numbers_below(limit)

    def stream(
        self,
        split: Split,
        columns: Sequence[str],
        numbers: pa.Array[Any] | None,
        beside: Mapping[str, pa.Array[Any]] | None = None,
    ) -> Iterator[pa.Table]:
        """Yield the given rows of a split that match the predicate, as they are read.

        `numbers` are those of `row_numbers`. With `beside`, further columns with one value per number, they are the
        numbers of the query alone.
        """
        where = self.where if beside else self._asked_of_rows(split).where
        if where is None:
            yield from self._stream(split, columns, numbers, beside or {})
            return
        for part in self._checked(split, numbers, where):
            kept = part.matches()
            if len(kept):
                found = {name: values.take(kept) for name, values in (beside or {}).items()}
                yield from self._stream(split, columns, kept if numbers is None else numbers.take(kept), found)

    def _stream(
        self, split: Split, columns: Sequence[str], numbers: pa.Array[Any] | None, beside: Mapping[str, pa.Array[Any]]
    ) -> Iterator[pa.Table]:
        """Yield rows by number, ignoring the predicate."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        start = 0
        for batch in self._batches(split, numbers, columns):
            part = _of_schema([batch], schema, split.path)
            for name, values in beside.items():
                part = part.append_column(name, values.slice(start, batch.num_rows))
            start += batch.num_rows
            yield part

    def _checked(self, split: Split, numbers: pa.Array[Any] | None, where: BoundPredicate) -> Iterator[Part]:
        """Yield the rows that a predicate may match, checked; counted among `numbers`."""

        def convert(table: pa.Table) -> pa.Table:
            schema = pa.schema([self.schema.field(name) for name in table.column_names])
            return _of_schema(table.to_batches(), schema, split.path)

        searcher = self.searcher(split)
        if numbers is None:
            return tally.staged(tally.ROWS, check_rows(searcher.split, where, convert))
        return check_batches(self._batches(split, numbers, predicate_columns(where)), where, convert)

    def count(self, split: Split) -> int:
        """Count the found rows of a split that match the predicate."""
        tree, where = self.asked(split)
        if where is None:
            searcher = self.searcher(split)
            return searcher.split.num_rows if tree is None else searcher.count(tree, self.text)
        numbers, left = self.row_numbers(split), self._asked_of_rows(split).where or where
        return sum(part.num_matches() for part in self._checked(split, numbers, left))

    def numbered(self, split: Split, columns: Sequence[str], hits: pa.Table | None = None) -> pa.Table:
        """Return columns of the found rows of a split, with their numbers as `_row`.

        `hits` is a table with `_row`, in order, that replaces the query's hits.
        """
        numbers = self.row_numbers(split) if hits is None else hits[ROW].combine_chunks()
        where = self._asked_of_rows(split).where if hits is None else self.where
        if hits is None and numbers is not None:
            hits = pa.table({ROW: numbers})
        if where is not None:
            kept = joined_matches(self._checked(split, numbers, where))
            hits = pa.table({ROW: kept}) if hits is None else hits.take(kept)
            numbers = hits[ROW].combine_chunks()
        if hits is None:
            hits = pa.table({ROW: numbers_below(self.searcher(split).split.num_rows)})
        if not columns:
            return hits
        table = self.read(split, numbers, columns)
        for name in hits.column_names:
            table = table.append_column(name, hits[name])
        return table

    def read(self, split: Split, numbers: pa.Array[Any] | None, columns: Sequence[str]) -> pa.Table:
        """Read rows of a split by number, or all, ignoring query and predicate."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        return _of_schema(list(self._batches(split, numbers, columns)), schema, split.path)

    def gather(
        self, found: Sequence[tuple[Split, pa.Array[Any] | None]], columns: Sequence[str]
    ) -> tuple[list[Split], pa.Table]:
        """Read rows of many splits in order, ignoring query and predicate.

        Rows in decoded copies are taken by column from all of them. Also returns the splits that could be read.
        """
        schema = pa.schema([self.schema.field(name) for name in columns])
        copied = {split: self._pieces(split, numbers, columns) for split, numbers in found}
        numbers_of = dict(found)
        by_pages = [split for split, pieces in copied.items() if pieces is None]
        tables = dict(self.ask(lambda split: self.read(split, numbers_of[split], columns), by_pages))
        parts: list[pa.Table] = []
        pieces: list[Piece] = []
        for split, own in copied.items():
            if own is not None and (not pieces or _has_types_of(pieces[0], own[0], columns)):
                pieces += own
                continue
            parts += _taken(pieces, columns, schema)
            pieces = own or []
            if split in tables:
                parts.append(tables[split])
        parts += _taken(pieces, columns, schema)
        good = [split for split, own in copied.items() if own is not None or split in tables]
        return good, joined_tables(parts, schema)

    def _pieces(self, split: Split, numbers: pa.Array[Any] | None, columns: Sequence[str]) -> list[Piece] | None:
        """Return where the rows are in the split's copy; None if there is none."""
        if numbers is None:
            return None
        opened = self._try(self.searcher, split)
        pieces = None if opened is None else opened[0].rows.pieces(numbers, columns)
        if pieces is not None and tally.is_counting():
            with tally.stage(tally.ROWS, split.path):
                tally.note(rows=len(numbers))
        return pieces

    def _batches(self, split: Split, numbers: pa.Array[Any] | None, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        batches = self.searcher(split).rows.read(numbers, columns)
        if not tally.is_counting():
            return batches
        return tally.staged(tally.ROWS, _noted(batches, split.path))

    def _try(self, work: Callable[[Split], _T], split: Split) -> tuple[_T] | None:
        try:
            return (work(split),)
        except (CorruptSplitError, ObjectNotFoundError) as error:
            if not self._skips:
                raise
            self._bad[split.path] = error.message
            return None


class TableScan(SplitScan):
    """A scan of a table; `where` is the part of the predicate left to check on rows.

    `hints` are predicates that may exclude splits but never decide on rows.
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
        is_whole: bool = True,
    ) -> None:
        """Plan a scan; without `is_whole` the snapshot has only some files of the table."""
        if bad_splits not in _BAD_SPLITS:
            raise ConfigError(f"cannot treat bad splits as `{bad_splits}`: expected `fail` or `skip`")
        self.snapshot = snapshot
        self.config = config
        left = left_files(snapshot, config, opened, where, hints)
        super().__init__(
            snapshot.schema,
            _fields(snapshot, config, is_searched=query is not None or bool(searches)),
            opened,
            query=query,
            searches=searches,
            where=left.where,
            skips=bad_splits == "skip",
            combines=self._in_force[settings.SEARCH_COMBINED] == "on" and can_group(left.files),
        )
        self._is_whole = is_whole
        self._left = left
        self._is_unpruned = where is None and not hints
        self._candidates = left.files
        self._check_query()

    @lazy_property
    def _files(self) -> pa.Table:
        """The files that neither the log nor the filter sheets exclude.

        Files that may be searched together are only narrowed to a small part: combined indexes are made for files that
        are asked again and again.
        """
        files, tree = self._candidates, self.tree
        if tree is None:
            return files
        query = Query(tree, self.text, self.fields)
        lasting = self._is_unpruned
        left = left_by_sheets(files, self.snapshot, self._in_force, self._opened, query, is_lasting=lasting)
        return files if self._may_combine and left.num_rows > files.num_rows // _NARROW_SHARE else left

    @property
    def _combines(self) -> bool:
        return self._may_combine and self._files is self._candidates

    @lazy_property
    def splits(self) -> Sequence[Split]:
        """The splits that the log does not exclude, built on first use: there may be many."""
        if self._combines:
            return [split for group in self._groups() for split in group.splits]
        return _splits_of(self._files)

    def _groups(self) -> Sequence[SplitGroup[Split]]:
        """Return the groups of an earlier scan of the same files, if there was one."""
        files, key = self._files, self._left.key
        known: tuple[pa.Table, Sequence[SplitGroup[Split]]] | None = self._opened.groups.get(key)
        if known is None:
            known = (files, grouped(_splits_of(files)))
            self._opened.groups.put(key, known)
        return known[1]

    @lazy_property
    def _in_force(self) -> Config:
        return self.config.with_properties(self.snapshot.metadata.configuration)

    def prepare_scores(self, limit: int | None) -> None:
        """Score by the statistics of the whole table, if the settings ask for it.

        Raises a `ConfigError` if no index can hold all live splits. `limit` is the number of best rows if nothing else
        decides on rows.
        """
        if self._in_force[settings.SCORE_SCOPE] == "split" or self.tree is None:
            return
        if not self._is_whole:
            raise ConfigError(
                "cannot score by the statistics of the table because only some of its splits are known here",
                hint="set `score.scope` to `split`",
            )
        splits = _splits_of(self.snapshot.files)
        if len(splits) <= 1:
            return
        known = table_scores(
            self._opened,
            splits,
            lambda splits: [searcher for _, searcher in self.ask(self.searcher, splits)],
            Question(self.tree, self.text, self.fields),
            limit if self.num_splits == len(splits) else None,
        )
        self.scores = {split.position: known[split.path] for split in self.splits}

    @property
    def num_splits(self) -> int:
        return int(self._files.num_rows)

    def counted_by_log(self) -> tuple[int, Sequence[Split]]:
        """Sum the row counts that the log knows; return the splits without a count too."""
        numbers = self._files["num_records"]
        unknown = [split for split in self.splits if split.num_records is None] if numbers.null_count else ()
        return exact_sum(numbers), unknown

    def warn(self) -> None:
        """Warn about the splits that were left out, after the scan."""
        if not self._bad:
            return
        named = "; ".join(list(self._bad.values())[:_MOST_NAMED])
        rest = len(self._bad) - _MOST_NAMED
        message = (
            f"the answer leaves out {len(self._bad)} of {self.num_splits} splits, which could not be read: "
            f"{named}{f'; and {rest} more' if rest > 0 else ''}"
        )
        warnings.warn(BadSplitWarning(message), stacklevel=6)  # the caller of the method of `Table`

    def _check_query(self) -> None:
        """Report errors in the query before a split is searched."""
        if self.tree is not None:
            compiled_query(self.tree, self.fields, self.fields, self.text)


def _fields(snapshot: Snapshot, config: Config, *, is_searched: bool) -> FieldMap:
    """Return the fields that define a search.

    Reading rows needs none, so settings that do not fit do not stop a reader.
    """
    try:
        return table_fields(snapshot, config)
    except SchemaError:
        if is_searched:
            raise
        return FieldMap(())


def _splits_of(files: pa.Table) -> tuple[Split, ...]:
    found = enumerate(files.select(SPLIT_FIELDS).to_pylist())
    return tuple(Split(position=position, **file) for position, file in found)


def _joined_tree(query: str | None, searches: Sequence[str]) -> Node | None:
    parts = [] if query is None else [parse_query(query)]
    parts += [tree_of(from_json(search)) for search in searches]
    return both(parts) if parts else None


def joined_tables(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Join tables with a schema; there may be none."""
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables(tables) if tables else pa.Table.from_batches([], schema)


def check_column(schema: pa.Schema, name: str) -> str:
    """Return the name if the table has the column, else raise a `SchemaError`."""
    if name not in schema.names:
        raise SchemaError(
            f"cannot read the column `{name}` because the table has no such column",
            hint=f"it has {', '.join(f'`{known}`' for known in schema.names)}",
        )
    return name


def check_limit(limit: int | None) -> int | None:
    """Return a valid limit, or raise a `ConfigError`."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit < 1 << 63):
        raise ConfigError(f"cannot search for `{limit!r}` rows: expected a whole number of at least 1")
    return limit


def _noted(batches: Iterator[pa.RecordBatch], path: str) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        tally.note_split(path)
        tally.note(rows=batch.num_rows)
        yield batch


def _of_schema(batches: Sequence[pa.RecordBatch], schema: pa.Schema, path: str) -> pa.Table:
    """Convert batches of a split to a schema."""
    if all(batch.schema.equals(schema) for batch in batches):
        return pa.Table.from_batches(batches, schema)
    return _evolved(pa.Table.from_batches(batches), schema, path)


def _evolved(table: pa.Table, schema: pa.Schema, path: str) -> pa.Table:
    """Convert rows of a split, which may use variants of types, such as large strings."""
    if table.schema.equals(schema):
        return pa.Table.from_arrays(table.columns, schema=schema)
    for given, wanted in zip(table.schema, schema, strict=True):
        if given.type != wanted.type and not may_widen(given.type, wanted.type):
            raise SchemaError(
                f"cannot read the column `{wanted.name}` of the split `{path}` because it is `{given.type}` there, and "
                f"the table's is `{wanted.type}`"
            )
    return table.cast(schema)


def _taken(pieces: Sequence[Piece], columns: Sequence[str], schema: pa.Schema) -> list[pa.Table]:
    if not pieces:
        return []
    return [_evolved(take_pieces(pieces, columns), schema, pieces[0].copy.key)]


def _has_types_of(piece: Piece, other: Piece, columns: Sequence[str]) -> bool:
    ours, theirs = piece.copy.schema, other.copy.schema
    return ours is theirs or all(ours.field(name).equals(theirs.field(name)) for name in columns)
