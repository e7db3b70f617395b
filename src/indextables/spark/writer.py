"""Writing a DataFrame: tasks put splits into the store, and the driver makes one commit of them.

    begin   in a worker of the driver: checks options and schema against the table; writes nothing
    write   in a worker of each task: splits; where it fails, the task deletes what it put
    commit  in a worker of the driver: creates the table if there was none, and commits all splits at once; then, unless
            the process that saves does so, it looks after the table
    abort   in a worker of the driver: deletes what finished tasks put, as far as no version names it

Only the message of the one successful attempt of a task comes to the commit, so a retried task neither loses nor
doubles a row. An attempt that is killed may leave splits that no version names.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from indextables.clock import SYSTEM_CLOCK
from indextables.errors import (
    CommitConflictError,
    IndexTablesError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
)
from indextables.log.conflict import with_configuration
from indextables.log.create import new_metadata
from indextables.log.snapshot import Head
from indextables.ops.incoming import incoming_batches
from indextables.ops.on_write import after_write
from indextables.ops.split_rows import commit_splits, delete_splits, write_splits
from indextables.protocol.actions import Add
from indextables.protocol.features import NEW_TABLE_PROTOCOL, PARQUET_SPLITS, check_writable
from indextables.protocol.horizon import own_properties
from indextables.protocol.schema import schema_from_json, schema_to_json
from indextables.scan.partition_choice import PartitionChoice
from indextables.spark.options import IGNORE, SourceOptions
from indextables.spark.writing_options import check_options, spelled_settings, table_properties
from indextables.spark.writing_schema import arrow_schema, check_fits, spelled_columns
from indextables.split.fields import map_fields
from indextables.transaction_log import TransactionLog

logger = logging.getLogger(__name__)

_NOT_YET = -1


@dataclasses.dataclass(frozen=True)
class WrittenSplits(WriterCommitMessage):
    """What a task has put into the store. Seconds of waiting for rows are no part of the seconds of writing."""

    adds: tuple[Add, ...]
    num_rows: int
    num_bytes: int
    seconds: float
    seconds_waiting: float


class TableWriter(DataSourceArrowWriter):
    """One save of a DataFrame. It is pickled to every task: what it holds is small, and its text shows no secret."""

    def __init__(self, asked: SourceOptions, head: Head, columns: Sequence[str], *, overwrite: bool) -> None:
        self._asked = asked
        self._head = head
        self._columns = list(columns)
        self._overwrite = overwrite

    @classmethod
    def begin(cls, asked: SourceOptions, schema: StructType, *, overwrite: bool) -> TableWriter:
        """A writer of a DataFrame of this schema. Where it cannot be written the error says why, and nothing is
        touched."""
        check_options(asked, overwrite=overwrite)
        given = arrow_schema(schema)
        log = TransactionLog(asked.url, options=asked.settings)
        there = None if asked.create_only else _head_of(log, asked)
        _check_same(asked, there, log.url)
        asked = asked._replace(settings=spelled_settings(asked.settings, given if there is None else there.schema))
        head = _planned_head(asked, given) if there is None else there
        columns = spelled_columns(given, head.schema)
        check_fits(given, columns, head.schema)
        config = TransactionLog(asked.url, options=asked.settings).config
        map_fields(head.schema, config.with_properties(head.metadata.configuration), head.partition_columns)
        if asked.replace_where is not None:
            PartitionChoice(asked.replace_where, head)
        return cls(asked, head, columns, overwrite=overwrite)

    def __repr__(self) -> str:
        return f"TableWriter({self._asked.url!r}, overwrite={self._overwrite})"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenSplits:
        """Write the rows of a task into splits of the target size."""
        log = self._log()
        started = SYSTEM_CLOCK.monotonic()
        rows = _MeteredRows(iterator, self._columns)
        batches = incoming_batches(rows, self._head.schema)
        adds = write_splits(log.reader.store, self._head, log.config, batches, where=self._asked.replace_where)
        return WrittenSplits(
            adds=tuple(adds),
            num_rows=rows.num_rows,
            num_bytes=sum(add.size for add in adds),
            seconds=SYSTEM_CLOCK.monotonic() - started - rows.seconds_waiting,
            seconds_waiting=rows.seconds_waiting,
        )

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the splits of all tasks in one version. Where the log says no, they are deleted."""
        if any(message is None for message in messages):
            raise IndexTablesError("cannot commit because a task has not said what it wrote")
        log = self._log()
        adds = _adds(messages)
        try:
            version = commit_splits(log.reader.store, adds, lambda: self._commit(log, adds))
        except TableExistsError:
            if self._asked.create_only != IGNORE:
                raise
            logger.info("nothing is written to `%s` because there is a table", log.url)
            return
        if self._is_repeated(log, version, adds):
            delete_splits(log.reader.store, adds)
            logger.info("nothing is written to `%s` because version %d holds the batch already", log.url, version)
            return
        logger.info("version %d of `%s`: %s", version, log.url, _summary(messages))
        if not self._asked.is_looked_after:
            after_write(log, background=False)
        # The process may end once this returns, and a checkpoint in a thread with it.
        log.wait_for_checkpoint()

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete the splits of finished tasks, where some task failed.

        Without a failed task the commit itself has failed: it has deleted what it could be sure of, and what is left
        may be part of the table.
        """
        if all(message is not None for message in messages):
            return
        log = self._log()
        adds = _adds(messages)
        try:
            named = self._named(log, {add.path for add in adds})
        except IndexTablesError as error:
            logger.warning("%d splits stay until a purge because the log cannot be asked: %s", len(adds), error.message)
            return
        delete_splits(log.reader.store, [add for add in adds if add.path not in named])

    @property
    def head(self) -> Head:
        """What the table was when this began; the splits are written for it."""
        return self._head

    def of_batch(self, application_id: str, batch_id: int, head: Head) -> TableWriter:
        """The same for a batch of a stream whose splits were written for `head`."""
        asked = self._asked._replace(txn_app_id=application_id, txn_version=batch_id)
        return TableWriter(asked, head, self._columns, overwrite=self._overwrite)

    @property
    def _is_new(self) -> bool:
        return self._head.version == _NOT_YET

    def _log(self) -> TransactionLog:
        return TransactionLog(self._asked.url, options=self._asked.settings)

    def _commit(self, log: TransactionLog, adds: Sequence[Add]) -> int:
        head = self._create(log) if self._is_new else self._head
        batch_id = self._asked.txn_version
        if not self._overwrite and batch_id is not None and not adds:
            return head.version  # many batches of a stream bring no rows, and a repeated one brings none again
        if not self._overwrite:
            return log.add_files(adds, made_for=head, application_id=self._asked.txn_app_id, batch_id=batch_id)
        return log.overwrite_files(
            adds,
            where=self._asked.replace_where,
            dynamic=self._asked.is_dynamic,
            if_version=self._asked.if_version,
            made_for=head,
            application_id=self._asked.txn_app_id,
            batch_id=batch_id,
        )

    def _is_repeated(self, log: TransactionLog, version: int, adds: Sequence[Add]) -> bool:
        """Whether the version that holds a batch is of an earlier try, so that nothing names these splits."""
        if self._asked.txn_version is None or not adds:
            return False
        if version <= self._head.version:
            return True
        named = {action.path for action in log.read_version(version) if isinstance(action, Add)}
        return adds[0].path not in named

    def _create(self, log: TransactionLog) -> Head:
        """Put version 0, unless another writer was first with a table that these splits fit."""
        wanted = self._head.metadata
        try:
            created = log.initialize(
                wanted.schema_string,
                partition_columns=wanted.partition_columns,
                configuration=wanted.configuration,
                features=[PARQUET_SPLITS],
            )
        except SchemaError:
            if not self._asked.create_only:
                raise
            created = False
        if self._asked.create_only and not created:
            raise TableExistsError(
                f"cannot write a new table at `{log.url}` because another writer has made one meanwhile"
            )
        head = log.reader.head()[1]
        if created:
            return head
        if schema_from_json(wanted.schema_string) != head.schema:
            raise _other_table(log.url, "columns that may not be null")
        if own_properties(head.metadata.configuration) != wanted.configuration:
            raise _other_table(log.url, "other properties")
        return head

    def _named(self, log: TransactionLog, paths: set[str]) -> set[str]:
        """Those of the paths that some version since the beginning names."""
        try:
            snapshot = log.snapshot()
        except TableNotFoundError:
            return set()
        named = {path for path, is_live in snapshot.live_files.contains(paths).items() if is_live}
        for version in range(self._head.version + 1, snapshot.version + 1):
            named |= {action.path for action in log.read_version(version) if isinstance(action, Add)} & paths
        return named


class _MeteredRows:
    """The batches of a task under the table's names, counted on their way."""

    def __init__(self, batches: Iterator[pa.RecordBatch], columns: Sequence[str]) -> None:
        self._batches = iter(batches)
        self._columns = list(columns)
        self.num_rows = 0
        self.seconds_waiting = 0.0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        asked_at = SYSTEM_CLOCK.monotonic()
        try:
            batch = next(self._batches)
        finally:
            self.seconds_waiting += SYSTEM_CLOCK.monotonic() - asked_at
        self.num_rows += batch.num_rows
        return batch.rename_columns(self._columns)


def _head_of(log: TransactionLog, asked: SourceOptions) -> Head | None:
    """What the table is now, without its doc mappings, which may be large; None where there is no table."""
    try:
        head = log.reader.head()[1]
    except TableNotFoundError:
        if asked.if_version is not None:
            raise CommitConflictError(
                f"cannot write to `{log.url}` because there is no table, and version {asked.if_version} was asked for"
            ) from None
        return None
    check_writable(head.protocol, log.url)
    if asked.if_version is not None and head.version != asked.if_version:
        raise CommitConflictError(
            f"cannot write to `{log.url}` because the table is at version {head.version}, not at version "
            f"{asked.if_version} as was asked for"
        )
    _check_partition_by(asked, head, log.url)
    metadata = head.metadata
    return dataclasses.replace(head, metadata=with_configuration(metadata, own_properties(metadata.configuration)))


def _check_same(asked: SourceOptions, there: Head | None, url: str) -> None:
    """Refuse to make or fill another table than the one that a write was made for."""
    if asked.table_id is not None and (there is None or there.metadata.id != asked.table_id):
        change = "is gone" if there is None else "was made anew"
        raise CommitConflictError(f"cannot write to `{url}` because the table {change} meanwhile")


def _check_partition_by(asked: SourceOptions, head: Head, url: str) -> None:
    if asked.partition_by is None:
        return
    if [name.lower() for name in asked.partition_by] != [name.lower() for name in head.partition_columns]:
        raise SchemaError(
            f"cannot write to `{url}` partitioned by ({', '.join(asked.partition_by)}) because the table is "
            f"partitioned by ({', '.join(head.partition_columns)})",
            hint="leave `partitionBy` out to write as the table is",
        )


def _planned_head(asked: SourceOptions, given: pa.Schema) -> Head:
    """What a table that is not there yet will be."""
    by_lower = {name.lower(): name for name in given.names}
    partition_by = [by_lower.get(name.lower(), name) for name in asked.partition_by or ()]
    metadata = new_metadata(
        schema_to_json(given), partition_by, table_properties(asked.settings), None, None, SYSTEM_CLOCK
    )
    return Head(_NOT_YET, 0, None, NEW_TABLE_PROTOCOL, metadata)


def _other_table(url: str, what: str) -> CommitConflictError:
    return CommitConflictError(
        f"cannot create the table at `{url}` because another writer has created one with {what} meanwhile",
        hint="write again, to the table that is there now",
    )


def _adds(messages: Sequence[WriterCommitMessage | None]) -> list[Add]:
    return [add for message in messages if isinstance(message, WrittenSplits) for add in message.adds]


def _summary(messages: Sequence[WriterCommitMessage | None]) -> str:
    written = [message for message in messages if isinstance(message, WrittenSplits)]
    return (
        f"{sum(message.num_rows for message in written)} rows in {sum(len(message.adds) for message in written)} "
        f"splits of {sum(message.num_bytes for message in written) / 1e6:.1f} MB by {len(written)} tasks, "
        f"{sum(message.seconds for message in written):.1f} s of writing"
    )
