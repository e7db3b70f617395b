"""Split a scan into tasks: planned with the log, run with access to splits only.

A `Scan` describes the search and pickles small; a task is some of its splits. Running a task needs no log. All tasks
together find the rows that `Table.search` finds. A scan with a limit is one task, so the limit is exact.

Term filters and the index estimate whether a query has few hits, before any row is read.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from indextables.config import Config, settings
from indextables.config.settings import SCORE_SCOPE, SEARCH_COMBINED
from indextables.errors import ConfigError, SchemaError
from indextables.log.files import LiveFiles
from indextables.log.replay import head_of
from indextables.log.snapshot import Head, Snapshot
from indextables.protocol.schema import schema_from_json
from indextables.scan.filter_plan import FilterLimits, plan_filter
from indextables.scan.left_files import bind_where
from indextables.scan.manifest_tasks import ManifestTask, files_of, large_table, snapshot_of
from indextables.scan.search import SCORE, SNIPPET, Projection, checked, found_rows, stream_rows
from indextables.scan.split_scan import Split, SplitScan, TableScan
from indextables.split.index.fields import FieldMap
from indextables.split.search.open_splits import OpenSplits
from indextables.store import open_store
from indextables.transaction_log import TransactionLog


class Few(NamedTuple):
    """Limits of a small search: splits, bytes to fetch, and hits.

    The bytes are bytes of indexes and of rows.
    """

    max_splits: int
    max_fetched_bytes: int
    max_rows: int
    limit: int | None = None
    """Only so many hits are wanted, so no more are read."""


def splits_with_hits(scan: SplitScan, few: Few) -> tuple[Split, ...] | None:
    """Return the splits with hits if the search is within the limits, else None."""
    tree, text = scan.tree, scan.text
    if tree is None or scan.num_splits > few.max_splits:
        return None
    ruled_out = scan.ask(lambda split: scan.searcher(split).is_ruled_out(tree, text))
    candidates = [split for split, is_out in ruled_out if not is_out]
    if sum(scan.searcher(split).bytes_to_fetch(tree) for split in candidates) > few.max_fetched_bytes:
        return None
    if few.limit is not None and few.limit <= few.max_rows:
        return tuple(candidates)
    counted = scan.ask(lambda split: scan.searcher(split).count(tree, text), candidates)
    if sum(count for _, count in counted) > few.max_rows:
        return None
    row_bytes = (count * split.size // scan.searcher(split).split.num_rows for split, count in counted if count)
    if sum(row_bytes) > few.max_fetched_bytes:
        return None
    return tuple(split for split, count in counted if count)


Task = tuple[Split, ...] | ManifestTask
"""Splits to read, or files of a manifest to list and read."""

BATCH_ROWS = 10_000
_BATCH_BYTES = 16 << 20
# Opening a split costs a request, which takes as long as reading about this many bytes.
_OPENING_BYTES = 1 << 20
# A search reads the index of a split and few of its rows.
_SEARCHED_SHARE = 8
_MOST_TABLES = 4


class _LargeScan(NamedTuple):
    """What a task that lists its files needs to choose among them."""

    head: Head
    where: str | None
    hints: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Scan:
    """The shared part of all tasks of a scan: everything needed to run one.

    The query is parsed with the doc mapping `mapping`.
    """

    url: str
    schema_string: str
    mapping: str
    query: str | None
    searches: Sequence[str]
    where: str | None
    wanted: Projection
    settings: Mapping[str, str] = dataclasses.field(repr=False)  # may contain secrets
    large: _LargeScan | None = None
    combines: bool = False

    def read(self, task: Task) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task in batches: the wanted columns, `_snippet`, `_score`."""
        scan = self._scan(task)
        if self.wanted.limit is None:
            return in_batches(stream_rows(scan, self.wanted))
        return in_batches([found_rows(scan, self.wanted)])

    def read_at_once(self, task: Task) -> Iterator[pa.RecordBatch]:
        """Yield few rows of a task; the splits are read in parallel."""
        return in_batches([found_rows(self._scan(task), self.wanted)])

    def _scan(self, task: Task) -> SplitScan:
        schema = schema_from_json(self.schema_string)
        given = tuple(sorted(self.settings.items()))
        if isinstance(task, ManifestTask):
            return self._scan_files(files_of(task, self.url, given), shared_splits(self.url, given))
        return SplitScan(
            schema,
            _fields_of(self.mapping),
            shared_splits(self.url, given),
            splits=task,
            query=self.query,
            searches=self.searches,
            where=None if self.where is None else bind_where(self.where, schema),
            combines=self.combines,
        )

    def _scan_files(self, files: LiveFiles, opened: OpenSplits) -> SplitScan:
        if self.large is None:
            raise AssertionError("the scan was planned by splits")
        head, where, hints = self.large
        scan = TableScan(
            snapshot_of(head, files),
            Config.resolve(options=dict(self.settings)),
            opened,
            query=self.query,
            searches=self.searches,
            where=where,
            hints=hints,
            is_whole=False,
        )
        scan.fields = _fields_of(self.mapping)
        return scan


class PlannedScan:
    """A scan of a table at one version, checked against the log, and its tasks."""

    def __init__(
        self,
        log: TransactionLog,
        snapshot: Snapshot,
        wanted: Projection,
        *,
        query: str | None = None,
        searches: Sequence[str] = (),
        where: str | None = None,
        hints: Sequence[str] = (),
        settings: Mapping[str, str],
    ) -> None:
        """Plan a scan.

        `searches` are search predicates as JSON. `hints` are predicates that may exclude splits but never decide on
        rows.
        """
        opened = shared_splits(log.url, tuple(sorted(settings.items())))
        self.snapshot = snapshot
        # A limit needs all files in one task.
        self._large = large_table(snapshot, where, hints, log.config) if wanted.limit is None else None
        held = snapshot if self._large is None else snapshot_of(snapshot, self._large.tail)
        self._table_scan = TableScan(
            held,
            log.config,
            opened,
            query=query,
            searches=searches,
            where=where,
            hints=hints,
            is_whole=self._large is None,
        )
        self.wanted = checked(self._table_scan, wanted)
        if not (self.wanted.columns or wanted.score or wanted.snippet):
            raise ConfigError("cannot read no columns at all", hint="name one, or leave `columns` out")
        self._config = log.config.with_properties(snapshot.metadata.configuration)
        if wanted.score and self._config[SCORE_SCOPE] != "split":
            raise ConfigError(
                "cannot score by the statistics of the table in Spark because each task has only some of its splits",
                hint="set `score.scope` to `split`, or search with `Table.search`",
            )
        self._scan = Scan(
            url=log.url,
            schema_string=snapshot.metadata.schema_string,
            mapping=self._table_scan.fields.to_json(),
            query=query,
            searches=tuple(searches),
            where=None if self._table_scan.where is None else where,
            wanted=self.wanted,
            settings=dict(settings),
            large=None if self._large is None else _LargeScan(head_of(snapshot), where, tuple(hints)),
            combines=self._config[SEARCH_COMBINED] == "on",
        )

    @property
    def schema(self) -> pa.Schema:
        """Schema of the result."""
        table = self._table_scan.schema
        extra = [
            *([pa.field(SNIPPET, pa.string())] if self.wanted.snippet else []),
            *([pa.field(SCORE, pa.float32())] if self.wanted.score else []),
        ]
        taken = {name.lower() for name in table.names}
        for field in extra:
            if field.name in taken:
                raise SchemaError(
                    f"cannot return a `{field.name}` because the table has a column of that name",
                    hint="search without it",
                )
        return pa.schema([*(table.field(name) for name in self.wanted.columns or ()), *extra])

    def scan_of(self, columns: Sequence[str]) -> Scan:
        """Return the shared part of the tasks for some of the columns."""
        return dataclasses.replace(self._scan, wanted=self.wanted._replace(columns=list(columns)))

    @property
    def num_splits(self) -> int:
        """Number of splits that may hold a row; of a large table, those in its manifests."""
        return self._table_scan.num_splits if self._large is None else self._large.num_files

    @property
    def num_live_splits(self) -> int:
        """Number of splits of the table.

        Of a large one, those that were removed since its state are counted too.
        """
        return self.snapshot.num_files if self._large is None else self.snapshot.live_files.num_stored

    @property
    def config(self) -> Config:
        return self._table_scan.config

    def splits_with_hits(self) -> tuple[Split, ...] | None:
        """Return the splits with hits if the search or filter is small, else None."""
        if self._large is not None:
            return None
        if self._table_scan.tree is None:
            return self._splits_of_filter()
        few = Few(
            max_splits=self._config[settings.SEARCH_DRIVER_MAX_SPLITS],
            max_fetched_bytes=self._config[settings.SEARCH_DRIVER_MAX_FETCH],
            max_rows=self._config[settings.SEARCH_DRIVER_MAX_ROWS],
            limit=self.wanted.limit,
        )
        return splits_with_hits(self._table_scan, few)

    def _splits_of_filter(self) -> tuple[Split, ...] | None:
        """Return the splits with matches if the index finds few rows, else None."""
        if self._table_scan.where is None:
            return self._first_splits()
        plan = plan_filter(self._table_scan, FilterLimits.of(self._config))
        return tuple(plan.splits) if plan.is_small else None

    def _first_splits(self) -> tuple[Split, ...] | None:
        """Return the splits that hold the first rows, if few rows are wanted."""
        missing = self.wanted.limit
        if missing is None or missing > self._config[settings.SEARCH_DRIVER_MAX_ROWS]:
            return None
        first: list[Split] = []
        for split in self._table_scan.splits:
            if missing <= 0:
                break
            first.append(split)
            missing -= split.num_records or 0
        return tuple(first)

    def tasks(self) -> list[Task]:
        """Return the splits that may hold a row, in tasks of about the same size."""
        if self._large is None:
            return self._packed()
        max_bytes = self._config[settings.READ_MAX_PARTITION_BYTES]
        return [*self._large.tasks(max_bytes=max_bytes), *self._packed()]

    def _packed(self) -> list[Task]:
        splits = tuple(self._table_scan.splits)
        if self.wanted.limit is not None:
            return [splits] if splits else []
        share = 1 if self._table_scan.tree is None else _SEARCHED_SHARE
        return pack_splits(
            splits,
            max_bytes=self._config[settings.READ_MAX_PARTITION_BYTES],
            min_tasks=self._config[settings.READ_MIN_PARTITIONS] or 2 * (os.cpu_count() or 1),
            share=share,
        )


def pack_splits(splits: Iterable[Split], *, max_bytes: int, min_tasks: int, share: int = 1) -> list[Task]:
    """Pack splits into tasks in order.

    A task reads at most `max_bytes`; only 1/`share` of each split is read. Makes at least `min_tasks` tasks if the
    splits allow it.
    """
    weighed = [(split, split.size // share + _OPENING_BYTES) for split in splits]
    most = min(max_bytes, -(-sum(weight for _, weight in weighed) // min_tasks))
    tasks: list[list[Split]] = []
    held = 0
    for split, weight in weighed:
        if not tasks or held + weight > most:
            tasks.append([])
            held = 0
        tasks[-1].append(split)
        held += weight
    return [tuple(task) for task in tasks]


def in_batches(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Yield batches of medium size: join small tables, cut large ones without a copy."""
    waiting: list[pa.Table] = []
    for table in tables:
        if _is_full([*waiting, table]):
            yield from _cut(_joined(waiting))
            waiting = []
        if _is_full([table]):
            yield from _cut(table)
        else:
            waiting.append(table)
    yield from _cut(_joined(waiting))


_fields_of = functools.lru_cache(maxsize=_MOST_TABLES)(FieldMap.from_json)


@functools.lru_cache(maxsize=_MOST_TABLES)
def shared_splits(url: str, given: tuple[tuple[str, str], ...]) -> OpenSplits:
    """Return the open splits of a table, shared by its scans in this process.

    Splits never change.
    """
    config = Config.resolve(options=dict(given))
    return OpenSplits(open_store(url, config), config)


def _is_full(tables: Sequence[pa.Table]) -> bool:
    num_rows = sum(table.num_rows for table in tables)
    num_bytes: int = sum(table.nbytes for table in tables)
    return num_rows >= BATCH_ROWS or num_bytes >= _BATCH_BYTES


def _joined(tables: Sequence[pa.Table]) -> pa.Table | None:
    return pa.concat_tables(tables).combine_chunks() if tables else None


def _cut(table: pa.Table | None) -> Iterator[pa.RecordBatch]:
    if table is None or not table.num_rows:
        return
    row_bytes = max(1, table.nbytes // table.num_rows)
    yield from table.to_batches(max_chunksize=max(1, min(BATCH_ROWS, _BATCH_BYTES // row_bytes)))
