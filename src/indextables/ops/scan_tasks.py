"""A scan in tasks: planned where the log is, run where only the splits can be reached.

A `Scan` says what is asked, and pickles small; a task is some splits of it. Whoever runs one needs nothing of the log.
All tasks together find the rows that `Table.search` finds. A limit is exact because it is one task.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from indextables.config import Config, settings
from indextables.errors import ConfigError, SchemaError
from indextables.log.snapshot import Snapshot
from indextables.ops.few_hits import Few, splits_with_hits
from indextables.ops.questions import Question, Split, SplitQuestion, bind_where
from indextables.ops.search import SCORE, SNIPPET, Wanted, checked, found_rows, stream_rows
from indextables.protocol.schema import schema_from_json
from indextables.split.fields import FieldMap
from indextables.split.open_splits import OpenSplits
from indextables.store import open_store
from indextables.transaction_log import TransactionLog

Task = tuple[Split, ...]

BATCH_ROWS = 10_000
_BATCH_BYTES = 16 << 20
# Opening a split costs a request, which takes as long as reading about this much.
_OPENING_BYTES = 1 << 20
# A search reads the index of a split and few of its rows.
_SEARCHED_SHARE = 8
_MOST_TABLES = 4


@dataclasses.dataclass(frozen=True)
class Scan:
    """What the tasks of a scan share: all that is needed to run one. `mapping` is the doc mapping by which the query
    is read."""

    url: str
    schema_string: str
    mapping: str
    query: str | None
    searches: Sequence[str]
    where: str | None
    wanted: Wanted
    settings: Mapping[str, str] = dataclasses.field(repr=False)  # among them may be secrets

    def read(self, task: Task) -> Iterator[pa.RecordBatch]:
        """The rows of a task in batches: the columns wanted, and then `_snippet` and `_score` where they are."""
        question = self._question(task)
        if self.wanted.limit is None:
            return _batches(stream_rows(question, self.wanted))
        return _batches([found_rows(question, self.wanted)])

    def read_at_once(self, task: Task) -> Iterator[pa.RecordBatch]:
        """The same where they are few: the splits are read side by side."""
        return _batches([found_rows(self._question(task), self.wanted)])

    def _question(self, task: Task) -> SplitQuestion:
        schema = schema_from_json(self.schema_string)
        return SplitQuestion(
            schema,
            _fields_of(self.mapping),
            _open_splits(self.url, tuple(sorted(self.settings.items()))),
            splits=task,
            query=self.query,
            searches=self.searches,
            where=None if self.where is None else bind_where(self.where, schema),
        )


class PlannedScan:
    """A scan of a table at one version, checked as far as the log tells, and its tasks."""

    def __init__(
        self,
        log: TransactionLog,
        snapshot: Snapshot,
        wanted: Wanted,
        *,
        query: str | None = None,
        searches: Sequence[str] = (),
        where: str | None = None,
        hints: Sequence[str] = (),
        settings: Mapping[str, str],
    ) -> None:
        """`searches` are search predicates as JSON. `hints` are predicates that may rule splits out and never decide on
        rows."""
        opened = _open_splits(log.url, tuple(sorted(settings.items())))
        self._question = Question(
            snapshot, log.config, opened, query=query, searches=searches, where=where, hints=hints
        )
        self.wanted = checked(self._question, wanted)
        if not (self.wanted.columns or wanted.score or wanted.snippet):
            raise ConfigError("cannot read no columns at all", hint="name one, or leave `columns` out")
        self._config = log.config.with_properties(snapshot.metadata.configuration)
        self._scan = Scan(
            url=log.url,
            schema_string=snapshot.metadata.schema_string,
            mapping=self._question.fields.to_json(),
            query=query,
            searches=tuple(searches),
            where=None if self._question.where is None else where,
            wanted=self.wanted,
            settings=dict(settings),
        )

    @property
    def schema(self) -> pa.Schema:
        """What the scan gives."""
        table = self._question.schema
        extra = [
            *([pa.field(SNIPPET, pa.string())] if self.wanted.snippet else []),
            *([pa.field(SCORE, pa.float32())] if self.wanted.score else []),
        ]
        taken = {name.lower() for name in table.names}
        for field in extra:
            if field.name in taken:
                raise SchemaError(
                    f"cannot give a `{field.name}` because the table has a column of that name",
                    hint="search without it",
                )
        return pa.schema([*(table.field(name) for name in self.wanted.columns or ()), *extra])

    def scan_of(self, columns: Sequence[str]) -> Scan:
        """What its tasks share where only some of the columns are read."""
        return dataclasses.replace(self._scan, wanted=self.wanted._replace(columns=list(columns)))

    @property
    def num_splits(self) -> int:
        """How many splits may hold a row."""
        return self._question.num_splits

    @property
    def snapshot(self) -> Snapshot:
        return self._question.snapshot

    @property
    def config(self) -> Config:
        return self._question.config

    def splits_with_hits(self) -> Task | None:
        """The splits that hold what a query finds, where these and the rows are few and it takes little to tell."""
        few = Few(
            max_splits=self._config[settings.SEARCH_DRIVER_MAX_SPLITS],
            max_fetched_bytes=self._config[settings.SEARCH_DRIVER_MAX_FETCH],
            max_rows=self._config[settings.SEARCH_DRIVER_MAX_ROWS],
        )
        return splits_with_hits(self._question, few)

    def tasks(self) -> list[Task]:
        """The splits that may hold a row, in tasks of about the same size; none where there is none."""
        splits = tuple(self._question.splits)
        if self.wanted.limit is not None:
            return [splits] if splits else []
        share = 1 if self._question.tree is None else _SEARCHED_SHARE
        return pack_splits(
            splits,
            max_bytes=self._config[settings.READ_MAX_PARTITION_BYTES],
            min_tasks=self._config[settings.READ_MIN_PARTITIONS] or 2 * (os.cpu_count() or 1),
            share=share,
        )


def pack_splits(splits: Iterable[Split], *, max_bytes: int, min_tasks: int, share: int = 1) -> list[Task]:
    """Splits in tasks, one behind the other: no more in a task than `max_bytes` of what is read, which is one part in
    `share`; and so many tasks at least where there are as many splits of one size."""
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


_fields_of = functools.lru_cache(maxsize=_MOST_TABLES)(FieldMap.from_json)


@functools.lru_cache(maxsize=_MOST_TABLES)
def _open_splits(url: str, given: tuple[tuple[str, str], ...]) -> OpenSplits:
    """What the tasks of one process have opened of a table; splits never change."""
    config = Config.resolve(options=dict(given))
    return OpenSplits(open_store(url, config), config)


def _batches(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Rows in batches that are neither tiny nor huge: small tables are joined, large ones are cut without a copy."""
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


def _is_full(tables: Sequence[pa.Table]) -> bool:
    num_rows = sum(table.num_rows for table in tables)
    num_bytes = sum(int(table.nbytes) for table in tables)
    return num_rows >= BATCH_ROWS or num_bytes >= _BATCH_BYTES


def _joined(tables: Sequence[pa.Table]) -> pa.Table | None:
    return pa.concat_tables(tables).combine_chunks() if tables else None


def _cut(table: pa.Table | None) -> Iterator[pa.RecordBatch]:
    if table is None or not table.num_rows:
        return
    row_bytes = max(1, table.nbytes // table.num_rows)
    yield from table.to_batches(max_chunksize=max(1, min(BATCH_ROWS, _BATCH_BYTES // row_bytes)))
