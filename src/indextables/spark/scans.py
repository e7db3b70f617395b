"""A load, planned: the table is opened at one version, and everything that can be wrong with its options is said."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from pyspark.sql.types import StructType

from indextables.errors import IndexTablesError
from indextables.log.snapshot import Snapshot
from indextables.ops.scan_tasks import PlannedScan, Scan, Task
from indextables.ops.search import Wanted
from indextables.spark.arrow_types import find_columns, to_spark_schema
from indextables.spark.options import SourceOptions
from indextables.transaction_log import TransactionLog

VERSION = "indextables.version"
_MOST_LOGS = 16


class ScanPlan:
    """The plan of a load. `asked` is what was asked for with the version settled."""

    def __init__(self, asked: SourceOptions, planned: PlannedScan) -> None:
        self.asked = asked
        self._planned = planned

    @classmethod
    def open(cls, asked: SourceOptions) -> ScanPlan:
        """Open the table at the version or moment asked for, else at its newest version, and check the options."""
        try:
            return cls._open(asked)
        except IndexTablesError as error:
            # Spark shows users the whole traceback; of ours they need the message.
            raise error.with_traceback(None) from None

    @classmethod
    def _open(cls, asked: SourceOptions) -> ScanPlan:
        log = open_log(asked.url, tuple(sorted(asked.settings.items())))
        snapshot = log.snapshot(version=asked.version, timestamp=asked.timestamp)
        plan = cls.of_files(asked, log, snapshot)
        plan.asked = asked._replace(url=log.url, version=snapshot.version, timestamp=None)
        return plan

    @classmethod
    def of_files(cls, asked: SourceOptions, log: TransactionLog, snapshot: Snapshot) -> ScanPlan:
        """The plan for the files of a snapshot, whatever version is asked for."""
        wanted = Wanted(
            columns=None if asked.columns is None else _names_of(asked.columns, snapshot.schema.names),
            limit=asked.limit,
            score=asked.score,
            snippet=None if asked.snippet is None else _names_of([asked.snippet], snapshot.schema.names)[0],
        )
        planned = PlannedScan(
            log,
            snapshot,
            wanted,
            query=asked.search,
            searches=asked.searches,
            where=asked.where,
            hints=asked.hints,
            settings=asked.settings,
        )
        return cls(asked, planned)

    def spark_schema(self) -> StructType:
        """The columns that the load gives, in order."""
        schema = to_spark_schema(self._planned.schema)
        if self.asked.shows_version:
            for field in schema.fields[:1]:
                field.metadata = {**field.metadata, VERSION: self.asked.version}
        return schema

    def scan(self, schema: StructType) -> tuple[Scan, list[int]]:
        """The scan for the columns of a schema, and where they stand in its batches.

        The schema is the load's own, or one that the user gave.
        """
        known = self._planned.schema
        columns = list(self._planned.wanted.columns or ())
        places = find_columns(schema, known)
        # A batch without columns would not say how many rows it has.
        read = sorted({place for place in places if place < len(columns)}) or list(range(len(columns)))[:1]
        scan = self._planned.scan_of([columns[place] for place in read])
        moved = {place: number for number, place in enumerate([*read, *range(len(columns), len(known))])}
        return scan, [moved[place] for place in places]

    def splits_with_hits(self) -> Task | None:
        """The splits that hold what a search finds, where that is little; else None."""
        return self._planned.splits_with_hits()

    @property
    def num_splits(self) -> int:
        """How many splits may hold a row."""
        return self._planned.num_splits

    @property
    def num_live_splits(self) -> int:
        return self._planned.snapshot.num_files

    def tasks(self) -> list[Task]:
        """The splits to read, in tasks."""
        return self._planned.tasks()


@functools.lru_cache(maxsize=_MOST_LOGS)
def open_log(url: str, given: tuple[tuple[str, str], ...]) -> TransactionLog:
    """The log of a table, which knows what it has read before; it always answers with the newest version."""
    return TransactionLog(url, options=dict(given))


def _names_of(asked: Sequence[str], known: Sequence[str]) -> list[str]:
    """Columns by the names that the table gives them: Spark ignores case. Unknown ones stay, to be refused."""
    names = {name.lower(): name for name in known}
    return [names.get(name.lower(), name) for name in asked]
