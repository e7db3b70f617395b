"""Reading a stream: the rows that a table holds at the start, and then those that are added to it.

One process follows the log for as long as the query runs. What a batch holds is decided by its two offsets alone, so a
batch that is repeated holds the same rows. Tasks bring all that is needed to run them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from indextables.caching import lazy_property
from indextables.errors import CorruptLogError, IndexTablesError
from indextables.ops.added_rows import AddedRows, Limit, Position
from indextables.ops.scan_tasks import Scan, Task
from indextables.spark.arrow_types import conform_batch, to_checked_schema
from indextables.spark.options import SourceOptions
from indextables.spark.scans import ScanPlan, open_log
from indextables.spark.stream_offset import BEGINNING, StreamOffset
from indextables.spark.stream_options import LATEST, StreamOptions
from indextables.spark.worker_errors import without_traceback
from indextables.transaction_log import TransactionLog


@dataclasses.dataclass(frozen=True)
class StreamTask(InputPartition):
    """Some splits of a batch, what is asked of them, and where the columns stand."""

    scan: Scan
    splits: Task
    places: tuple[int, ...]


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a table. It is pickled to every task, and opens nothing before it is asked."""

    def __init__(self, asked: SourceOptions, schema: StructType) -> None:
        with without_traceback():
            self._options = StreamOptions.parse(asked)
        self._asked = asked
        self._schema = schema
        self._last: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_rows"}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - as Spark calls it
        return BEGINNING

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark knows limits of one kind; which ones hold is decided by `latestOffset`."""
        limit = self._options.limit
        if limit.max_files is not None:
            return ReadMaxFiles(limit.max_files)
        return ReadAllAvailable() if limit.max_bytes is None else ReadMaxBytes(limit.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is committed from now on is for another run."""
        with without_traceback():
            self._last = self._rows.newest()

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """How far the next batch goes."""
        with without_traceback():
            newest = self._rows.newest() if self._last is None else self._last
            offset = self._begin(newest) if start == BEGINNING else self._checked(start)
            if offset.position.version > newest + 1:
                raise CorruptLogError(
                    f"cannot go on with the stream of `{self._log.url}` at version {offset.position.version} because "
                    f"the table is at version {newest}",
                    hint="a part of its log is gone: restore it, or start with another `checkpointLocation`",
                )
            bounds = Limit() if isinstance(limit, ReadAllAvailable) else self._options.limit
            return offset._replace(position=self._rows.advance(offset.position, newest, bounds)).json()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """The rows between two offsets, in tasks."""
        with without_traceback():
            last = self._checked(end)
            first = last.begin if start == BEGINNING else self._checked(start).position
            files = self._rows.files(first, last.position)
            if not files.num_rows:
                return []
            plan = ScanPlan.of_files(self._asked, self._log, self._rows.snapshot_of(files))
            scan, places = plan.scan(self._schema)
            return [StreamTask(scan, splits, tuple(places)) for splits in plan.tasks()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task. A damaged or missing split is an error."""
        if not isinstance(partition, StreamTask):
            raise IndexTablesError(f"cannot read `{partition!r}` because it is no task of a stream")
        schema = to_checked_schema(self._schema)
        with without_traceback():
            for batch in partition.scan.read(partition.splits):
                yield conform_batch(batch, schema, partition.places)

    @property
    def _log(self) -> TransactionLog:
        return open_log(self._asked.url, tuple(sorted(self._asked.settings.items())))

    @lazy_property
    def _rows(self) -> AddedRows:
        return AddedRows(self._log, on_removed_rows=self._options.on_removed_rows)

    def _begin(self, newest: int) -> StreamOffset:
        version, timestamp = self._options.starting_version, self._options.starting_timestamp
        if timestamp is not None:
            begin = self._rows.at_moment(timestamp, newest)
        elif version is None:
            begin = Position(newest, whole=True)
        else:
            begin = self._rows.at_version(newest + 1 if version == LATEST else int(version), newest)
        return StreamOffset(self._rows.table_id, begin, begin)

    def _checked(self, given: Mapping[str, Any]) -> StreamOffset:
        offset = StreamOffset.read(given)
        if offset.table_id != self._rows.table_id:
            raise IndexTablesError(
                f"cannot go on with the stream of `{self._log.url}` because another table is there now",
                hint="start with another `checkpointLocation`",
            )
        return offset
