"""Streaming read: the rows of a table at the start, then the rows added to it.

One process follows the log while the query runs. The two offsets of a batch alone decide its rows, so a repeated batch
has the same rows. Tasks carry everything that they need to run.

Spark keeps the end offset of each batch in its checkpoint. When it repeats the first batch, it asks again for the
initial offset, and the table may have changed by then. So the initial offset is a mark without content, and every later
offset contains the start of the stream.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from indextables.errors import ConfigError, CorruptLogError, IndexTablesError
from indextables.runtime.caching import lazy_property
from indextables.scan.added_rows import AddedRows, Limit, Position
from indextables.scan.scan_tasks import Scan, Task
from indextables.spark.compat.stream_classes import (
    HAS_READ_LIMITS,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from indextables.spark.jvm.worker_errors import without_traceback
from indextables.spark.options.arrow_types import conform_batch, to_checked_schema
from indextables.spark.options.source_options import SourceOptions
from indextables.spark.options.stream_options import BOUNDS, LATEST, StreamOptions
from indextables.spark.scan.planned_scan import ScanPlan, open_log
from indextables.transaction_log import TransactionLog

BEGINNING = {"position": "beginning"}
_UNKNOWN = Position(-1)
_LONGEST_QUOTE = 200


class StreamOffset(NamedTuple):
    """A position in the stream of one table, and the start of the stream."""

    table_id: str
    begin: Position
    position: Position

    @classmethod
    def read(cls, offset: Mapping[str, Any]) -> StreamOffset:
        """Parse an offset that Spark returns."""
        try:
            return cls(str(offset["tableId"]), _position(offset["begin"]), _position(offset["position"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ConfigError(
                f"cannot continue a stream because `{str(offset)[:_LONGEST_QUOTE]}` is no offset of a table",
                hint="the checkpoint belongs to another source: start with another `checkpointLocation`",
            ) from error

    def json(self) -> dict[str, Any]:
        """Return the offset as Spark keeps it."""
        return {"tableId": self.table_id, "begin": self.begin._asdict(), "position": self.position._asdict()}


def _position(given: Mapping[str, Any]) -> Position:
    return Position(int(given["version"]), int(given["passed"]), bool(given["whole"]))


@dataclasses.dataclass(frozen=True)
class StreamTask(InputPartition):
    """Splits of a batch, their scan, and the positions of the columns."""

    scan: Scan
    splits: Task
    places: tuple[int, ...]


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a table.

    It is pickled to every task, and opens nothing before its first use.
    """

    def __init__(self, asked: SourceOptions, schema: StructType) -> None:
        with without_traceback():
            self._options = StreamOptions.parse(asked)
        self._asked = asked
        self._schema = schema
        self._last: int | None = None
        self._known_begin: Position | None = None
        _check_limits(asked)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_rows"}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - as Spark calls it
        return BEGINNING

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit for Spark, which supports one kind; `latestOffset` applies all."""
        limit = self._options.limit
        if limit.max_files is not None:
            return ReadMaxFiles(limit.max_files)
        return ReadAllAvailable() if limit.max_bytes is None else ReadMaxBytes(limit.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of this run at the newest version.

        Later commits belong to another run.
        """
        with without_traceback():
            self._last = self._rows.newest()

    def latestOffset(  # noqa: N802
        self, start: Mapping[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return the end of the next batch; before Spark 4.2, `start` is unknown."""
        with without_traceback():
            newest = self._rows.newest() if self._last is None else self._last
            if start is None:
                return self._end(newest).json()
            offset = self._begin(newest) if start == BEGINNING else self._checked(start)
            if offset.position.version > newest + 1:
                raise self._lost_versions(offset.position.version, newest)
            bounds = Limit() if isinstance(limit, ReadAllAvailable) else self._options.limit
            return offset._replace(position=self._rows.advance(offset.position, newest, bounds)).json()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return the rows between two offsets, packed into tasks."""
        with without_traceback():
            last = self._checked(end)
            first = last.begin if start == BEGINNING else self._checked(start).position
            if first == _UNKNOWN:
                first = self._begin(last.position.version - 1).begin
            if first.version > last.position.version:
                raise self._lost_versions(first.version, last.position.version - 1)
            files = self._rows.files(first, last.position)
            if not files.num_rows:
                return []
            plan = ScanPlan.of_files(self._asked, self._log, self._rows.snapshot_of(files))
            scan, places = plan.scan(self._schema)
            return [StreamTask(scan, splits, tuple(places)) for splits in plan.tasks()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task; a damaged or missing split is an error."""
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

    def _end(self, newest: int) -> StreamOffset:
        """Return the end of a version, for a Spark that does not pass the start.

        The begin only matters for the first batch of a stream. It stays the same while the process runs, because Spark
        takes every other offset for new rows. A stream that continues does not fail if its start is gone by now.
        """
        if self._known_begin is None:
            try:
                self._known_begin = self._begin(newest).begin
            except IndexTablesError:
                self._known_begin = _UNKNOWN
        return StreamOffset(self._rows.table_id, self._known_begin, Position(newest + 1))

    def _lost_versions(self, version: int, newest: int) -> CorruptLogError:
        return CorruptLogError(
            f"cannot continue the stream of `{self._log.url}` at version {version} because "
            f"the table is at version {newest}",
            hint="part of its log is missing: restore it, or start with another `checkpointLocation`",
        )

    def _checked(self, given: Mapping[str, Any]) -> StreamOffset:
        offset = StreamOffset.read(given)
        if offset.table_id != self._rows.table_id:
            raise IndexTablesError(
                f"cannot continue the stream of `{self._log.url}` because another table is there now",
                hint="start with another `checkpointLocation`",
            )
        return offset


def _check_limits(asked: SourceOptions) -> None:
    """Refuse bounds of a batch if this Spark cannot pass the start of a batch."""
    given = [name for name in BOUNDS if name in asked.stream]
    if given and not HAS_READ_LIMITS:
        raise ConfigError(
            f"cannot read a stream with the option `{given[0]}` because Spark {pyspark.__version__} bounds no batches",
            hint="leave it out, and every batch reads all new rows; Spark 4.2 and newer bound batches",
        )
