"""Streaming write: every batch is one commit, made once even if Spark retries it.

Spark passes a batch's number and nothing about the query. The id of the query is in its checkpoint, so batches of a new
checkpoint belong to another query. The log keeps the last batch of every query, even after old versions are cleaned up.

Spark creates a new writer for the commit, so the messages of tasks carry the table's head at the time of their writes.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from indextables.config import Config
from indextables.errors import ConfigError, IndexTablesError, ObjectNotFoundError
from indextables.log.snapshot import Head
from indextables.spark.compat.stream_classes import DataSourceStreamArrowWriter
from indextables.spark.jvm.worker_errors import without_traceback
from indextables.spark.options.save_options import check_stream_options
from indextables.spark.options.source_options import SourceOptions
from indextables.spark.source.batch_writer import TableWriter, WrittenSplits
from indextables.store import open_store

_METADATA = "metadata"
_HINT = (
    "or name the application by the option `txnAppId`: a name that no other query into the table has, and a new one "
    "whenever the query starts with a new checkpoint"
)


def query_id(asked: SourceOptions) -> str:
    """Return the id of this query: the option `txnAppId` or the checkpoint's id."""
    if asked.txn_app_id is not None:
        return asked.txn_app_id
    place = asked.stream.get("checkpointLocation")
    if place is None:
        raise ConfigError(
            "cannot write a stream without the option `checkpointLocation` because batches are identified by its id",
            hint=f"a setting of the session does not reach the writer; give the option, {_HINT}",
        )
    try:
        store = open_store(place, Config.resolve(options=asked.settings))
        found = json.loads(store.get(_METADATA))["id"]
    except ObjectNotFoundError as error:
        raise ConfigError(
            f"cannot write a stream because there is no `{_METADATA}` in its checkpoint `{place}`",
            hint=f"give the whole address, as in `file:/...` or `s3://...`, {_HINT}",
        ) from error
    except IndexTablesError as error:
        raise ConfigError(
            f"cannot write a stream because its checkpoint `{place}` cannot be read here: {error.message}",
            hint=f"put the checkpoint where tables can be, {_HINT}",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"cannot write a stream because `{_METADATA}` in its checkpoint `{place}` holds no id of a query",
            hint=f"start with a new checkpoint, {_HINT}",
        ) from error
    return str(found)


@dataclasses.dataclass(frozen=True)
class WrittenBatch(WriterCommitMessage):
    """The splits that a task has written, and the head at the start of the batch."""

    splits: WrittenSplits
    head: Head


class TableStreamWriter(DataSourceStreamArrowWriter):
    """The writer of a batch: `append` adds its rows, `complete` replaces all rows."""

    def __init__(self, writer: TableWriter, application_id: str) -> None:
        self._writer = writer
        self._application_id = application_id

    @classmethod
    def begin(cls, asked: SourceOptions, schema: StructType, *, overwrite: bool) -> TableStreamWriter:
        """Return a writer for batches of this schema; refuse other schemas."""
        with without_traceback():
            check_stream_options(asked)
            application_id = query_id(asked)
            asked = asked._replace(txn_app_id=None, stream={})
            return cls(TableWriter.begin(asked, schema, overwrite=overwrite), application_id)

    def __repr__(self) -> str:
        return f"TableStreamWriter({self._writer!r})"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenBatch:
        """Write the rows of a task into splits."""
        return WrittenBatch(self._writer.write(iterator), self._writer.head)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Commit the splits of all tasks in one version.

        If the log contains the batch already, delete the splits instead.
        """
        with without_traceback():
            self._of_batch(messages, batchId).commit(_splits(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Delete the splits of finished tasks after a task has failed."""
        self._of_batch(messages, batchId).abort(_splits(messages))

    def _of_batch(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> TableWriter:
        heads = [message.head for message in messages if isinstance(message, WrittenBatch)]
        return self._writer.of_batch(self._application_id, batch_id, heads[0] if heads else self._writer.head)


def _splits(messages: Sequence[WriterCommitMessage | None]) -> list[WriterCommitMessage | None]:
    return [message.splits if isinstance(message, WrittenBatch) else None for message in messages]
