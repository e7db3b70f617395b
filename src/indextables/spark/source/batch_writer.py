"""Save of a DataFrame: tasks write splits, and the driver commits them at once.

    begin   in a worker of the driver: check options and schema against the table; write nothing
    write   in a worker of each task: write splits; if the task fails, it deletes them
    commit  in a worker of the driver: create the table if there is none, commit all splits in one version, then run the
            automatic maintenance, unless the saving process runs it
    abort   in a worker of the driver: delete the splits of finished tasks that no version names

Only the message of a task's successful attempt reaches the commit, so a retried task neither loses nor duplicates a
row. A killed attempt may leave splits that no version names.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from indextables.clock import SYSTEM_CLOCK
from indextables.config import Config
from indextables.errors import (
    CommitConflictError,
    IndexTablesError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
)
from indextables.ingest.batches import incoming_batches
from indextables.log.commit.conflict import with_configuration
from indextables.log.commit.create import new_metadata
from indextables.log.segment import Segment
from indextables.log.snapshot import Head
from indextables.maintain.on_write import after_write
from indextables.protocol.actions import Add
from indextables.protocol.features import NEW_TABLE_PROTOCOL, PARQUET_SPLITS, check_writable
from indextables.protocol.horizon import own_properties
from indextables.protocol.schema import schema_from_json, schema_to_json
from indextables.prune.partitions import PartitionChoice
from indextables.spark.options.save_options import check_options, spelled_settings, table_properties
from indextables.spark.options.save_schema import arrow_schema, check_fits, spelled_columns
from indextables.spark.options.source_options import IGNORE, SourceOptions
from indextables.split.index.fields import map_fields
from indextables.store import open_store
from indextables.transaction_log import TransactionLog
from indextables.writer.split_rows import commit_splits, delete_splits, write_splits

logger = logging.getLogger(__name__)

_NOT_YET = -1
_MOST_CONFIGURATION = 64 << 10


@dataclasses.dataclass(frozen=True)
class WrittenSplits(WriterCommitMessage):
    """The splits that a task has written; `seconds` excludes waiting for rows."""

    adds: tuple[Add, ...]
    num_rows: int
    num_bytes: int
    seconds: float
    seconds_waiting: float


class TableWriter(DataSourceArrowWriter):
    """One save of a DataFrame.

    It is pickled to every task, so it is small. Its text shows no secret.
    """

    def __init__(
        self,
        asked: SourceOptions,
        head: Head,
        columns: Sequence[str],
        *,
        overwrite: bool,
        known: tuple[Segment, Head] | None = None,
    ) -> None:
        """Keep the values of a save; `known` is the head of the log at its start."""
        self._known = known
        self._asked = asked
        self._head = head
        self._columns = list(columns)
        self._overwrite = overwrite

    @classmethod
    def begin(cls, asked: SourceOptions, schema: StructType, *, overwrite: bool) -> TableWriter:
        """Return a writer for a DataFrame of this schema.

        An error says why the DataFrame cannot be written; the table is then unchanged.
        """
        check_options(asked, overwrite=overwrite)
        given = arrow_schema(schema)
        log = TransactionLog(asked.url, options=asked.settings)
        there = None if asked.create_only else _head_of(log, asked)
        _check_same(asked, there, log.url)
        asked = asked._replace(settings=spelled_settings(asked.settings, given if there is None else there.schema))
        head = _planned_head(asked, given) if there is None else there
        columns = spelled_columns(given, head.schema)
        check_fits(given, columns, head.schema)
        config = Config.resolve(options=asked.settings)
        map_fields(head.schema, config.with_properties(head.metadata.configuration), head.partition_columns)
        if asked.replace_where is not None:
            PartitionChoice(asked.replace_where, head)
        known = None if there is None else _small(log.reader.known_head())
        return cls(asked, head, columns, overwrite=overwrite, known=known)

    def __repr__(self) -> str:
        return f"TableWriter({self._asked.url!r}, overwrite={self._overwrite})"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenSplits:
        """Write the rows of a task into splits of the target size."""
        config = Config.resolve(options=self._asked.settings)
        store = open_store(self._asked.url, config)
        started = SYSTEM_CLOCK.monotonic()
        rows = _MeteredRows(iterator, self._columns)
        batches = incoming_batches(rows, self._head.schema)
        adds = write_splits(store, self._head, config, batches, where=self._asked.replace_where)
        return WrittenSplits(
            adds=tuple(adds),
            num_rows=rows.num_rows,
            num_bytes=sum(add.size for add in adds),
            seconds=SYSTEM_CLOCK.monotonic() - started - rows.seconds_waiting,
            seconds_waiting=rows.seconds_waiting,
        )

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the splits of all tasks in one version; delete them if the log refuses."""
        if any(message is None for message in messages):
            raise IndexTablesError("cannot commit because a task did not report its splits")
        log = self._log()
        if self._known is not None:
            log.reader.start_from(*self._known)
        adds = _adds(messages)
        try:
            version = commit_splits(log.reader.store, adds, lambda: self._commit(log, adds))
        except TableExistsError:
            if self._asked.create_only != IGNORE:
                raise
            logger.info("nothing is written to `%s` because a table exists", log.url)
            return
        if self._is_repeated(log, version, adds):
            delete_splits(log.reader.store, adds)
            logger.info("nothing is written to `%s` because version %d holds the batch already", log.url, version)
            return
        logger.info("version %d of `%s`: %s", version, log.url, _summary(messages))
        if not self._asked.is_looked_after:
            after_write(log, background=False)
        # The process may end after this returns, and would end a thread that writes a checkpoint.
        log.wait_for_checkpoint()

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete the splits of finished tasks after a task has failed.

        If no task has failed, the commit itself has failed. It has deleted the splits that it could, and the others may
        be part of the table.
        """
        if all(message is not None for message in messages):
            return
        log = self._log()
        adds = _adds(messages)
        try:
            named = self._named(log, {add.path for add in adds})
        except IndexTablesError as error:
            logger.warning("%d splits stay until a purge because the log is not readable: %s", len(adds), error.message)
            return
        delete_splits(log.reader.store, [add for add in adds if add.path not in named])

    @property
    def head(self) -> Head:
        """The table at the start of the save; the splits are written for it."""
        return self._head

    def of_batch(self, application_id: str, batch_id: int, head: Head) -> TableWriter:
        """Return a copy for a batch of a stream whose splits were written for `head`."""
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
            return head.version  # many batches of a stream have no rows, and a repeated one has none again
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
        """Return whether an earlier attempt committed this batch.

        No version names these splits then.
        """
        if self._asked.txn_version is None or not adds:
            return False
        if version <= self._head.version:
            return True
        named = {action.path for action in log.read_version(version) if isinstance(action, Add)}
        return adds[0].path not in named

    def _create(self, log: TransactionLog) -> Head:
        """Write version 0, unless another writer has created a fitting table."""
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
                f"cannot write a new table at `{log.url}` because another writer has created one meanwhile"
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
        """Return the paths that a version since the start of the save names."""
        try:
            snapshot = log.snapshot()
        except TableNotFoundError:
            return set()
        named = {path for path, is_live in snapshot.live_files.contains(paths).items() if is_live}
        for version in range(self._head.version + 1, snapshot.version + 1):
            named |= {action.path for action in log.read_version(version) if isinstance(action, Add)} & paths
        return named


class _MeteredRows:
    """The batches of a task in the table's spelling, with counts of rows and seconds."""

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
    """Return the table's head without its doc mappings; None without a table.

    Doc mappings may be large.
    """
    try:
        head = log.reader.head()[1]
    except TableNotFoundError:
        if asked.if_version is not None:
            raise CommitConflictError(
                f"cannot write to `{log.url}` because there is no table, and version {asked.if_version} is required"
            ) from None
        return None
    check_writable(head.protocol, log.url)
    if asked.if_version is not None and head.version != asked.if_version:
        raise CommitConflictError(
            f"cannot write to `{log.url}` because the table is at version {head.version}, not at version "
            f"{asked.if_version} as requested"
        )
    _check_partition_by(asked, head, log.url)
    metadata = head.metadata
    return dataclasses.replace(head, metadata=with_configuration(metadata, own_properties(metadata.configuration)))


def _small(known: tuple[Segment, Head] | None) -> tuple[Segment, Head] | None:
    """Return the known log if it may travel to every task: doc mappings may be large."""
    if known is None or sum(map(len, known[1].metadata.configuration.values())) > _MOST_CONFIGURATION:
        return None
    return known


def _check_same(asked: SourceOptions, there: Head | None, url: str) -> None:
    """Refuse to write to another table than the one that the write was planned for."""
    if asked.table_id is not None and (there is None or there.metadata.id != asked.table_id):
        change = "was deleted" if there is None else "was created again"
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
    """Return the head of a table that does not exist yet."""
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
