"""A planned load: the table is open at one version, and all options are checked."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from pyspark.sql.types import StructType

from indextables.errors import IndexTablesError
from indextables.log.snapshot import Snapshot
from indextables.scan.scan_tasks import PlannedScan, Scan, Task
from indextables.scan.search import Projection
from indextables.spark.options.arrow_types import find_columns, to_spark_schema
from indextables.spark.options.source_options import SourceOptions
from indextables.transaction_log import TransactionLog

VERSION = "indextables.version"
_MOST_LOGS = 16
_SETTLED_SECONDS = 1.0


class ScanPlan:
    """The plan of a load; `asked` holds its options with the version fixed."""

    def __init__(self, asked: SourceOptions, planned: PlannedScan) -> None:
        self.asked = asked
        self._planned = planned

    @classmethod
    def open(cls, asked: SourceOptions) -> ScanPlan:
        """Open the table at the requested or the newest version, and check the options."""
        try:
            return cls._open(asked)
        except IndexTablesError as error:
            # Spark shows users the whole traceback, and they only need the message.
            raise error.with_traceback(None) from None

    @classmethod
    def _open(cls, asked: SourceOptions) -> ScanPlan:
        log = open_log(asked.url, tuple(sorted(asked.settings.items())))
        snapshot = asked_snapshot(log, asked)
        plan = cls.of_files(asked, log, snapshot)
        plan.asked = settled(asked._replace(url=log.url), snapshot)
        return plan

    @classmethod
    def of_files(cls, asked: SourceOptions, log: TransactionLog, snapshot: Snapshot) -> ScanPlan:
        """Plan a scan of the files of a snapshot, whatever version the options name."""
        wanted = Projection(
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
        """Return the columns of the load, in order."""
        schema = to_spark_schema(self._planned.schema)
        if self.asked.shows_version:
            for field in schema.fields[:1]:
                field.metadata = {**field.metadata, VERSION: self.asked.version}
        return schema

    def scan(self, schema: StructType) -> tuple[Scan, list[int]]:
        """Return the scan for the columns of a schema, and their positions in its batches.

        The schema is the load's own, or one that the user gave.
        """
        known = self._planned.schema
        columns = list(self._planned.wanted.columns or ())
        places = find_columns(schema, known)
        # A batch without columns would lose its number of rows.
        read = sorted({place for place in places if place < len(columns)}) or list(range(len(columns)))[:1]
        scan = self._planned.scan_of([columns[place] for place in read])
        moved = {place: number for number, place in enumerate([*read, *range(len(columns), len(known))])}
        return scan, [moved[place] for place in places]

    def splits_with_hits(self) -> Task | None:
        """Return the splits with hits if a search has few hits; else None."""
        return self._planned.splits_with_hits()

    @property
    def num_splits(self) -> int:
        """Number of splits that may hold a matching row."""
        return self._planned.num_splits

    @property
    def num_live_splits(self) -> int:
        return self._planned.num_live_splits

    def tasks(self) -> list[Task]:
        """Return the splits to read, packed into tasks."""
        return self._planned.tasks()


@functools.lru_cache(maxsize=_MOST_LOGS)
def open_log(url: str, given: tuple[tuple[str, str], ...]) -> TransactionLog:
    """Return the cached log of a table; its reads always see the newest version."""
    return TransactionLog(url, options=dict(given))


def settled(asked: SourceOptions, snapshot: Snapshot) -> SourceOptions:
    """Fix the version of a load, and the table that has it."""
    return asked._replace(version=snapshot.version, timestamp=None, table_id=snapshot.metadata.id)


def asked_snapshot(log: TransactionLog, asked: SourceOptions) -> Snapshot:
    """Return the version of a load; list nothing if this process has just settled it.

    Spark asks several times for the version that was settled when it analysed the query. A version that a user names is
    always looked up: another table may be at the address since the last listing.
    """
    if asked.version is not None and asked.table_id is not None:
        recent = log.reader.recent_snapshot(asked.version, _SETTLED_SECONDS)
        if recent is not None and recent.metadata.id == asked.table_id:
            return recent
    return log.snapshot(version=asked.version, timestamp=asked.timestamp)


def _names_of(asked: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return columns in the table's spelling, ignoring case.

    Unknown names stay unchanged, to be refused later.
    """
    names = {name.lower(): name for name in known}
    return [names.get(name.lower(), name) for name in asked]
