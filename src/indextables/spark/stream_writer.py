"""Writing a stream: every batch is one commit, made once however often Spark tries it.

Spark tells a batch's number and nothing of the query. The query's own id stands in its checkpoint: with a new
checkpoint the batches are those of another query. The log keeps the last batch of every query, also when versions are
cleaned up.

Spark makes a writer anew for the commit, so what the table was when splits were written comes with their messages.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from indextables.log.snapshot import Head
from indextables.spark.options import SourceOptions
from indextables.spark.query_id import query_id
from indextables.spark.worker_errors import without_traceback
from indextables.spark.writer import TableWriter, WrittenSplits
from indextables.spark.writing_options import check_stream_options


@dataclasses.dataclass(frozen=True)
class WrittenBatch(WriterCommitMessage):
    """What a task has put into the store, and what the table was when the batch began."""

    splits: WrittenSplits
    head: Head


class TableStreamWriter(DataSourceStreamArrowWriter):
    """The writer of a batch: in the output mode `append` its rows are added, in `complete` they replace all others."""

    def __init__(self, writer: TableWriter, application_id: str) -> None:
        self._writer = writer
        self._application_id = application_id

    @classmethod
    def begin(cls, asked: SourceOptions, schema: StructType, *, overwrite: bool) -> TableStreamWriter:
        """A writer of batches of this schema. Where they cannot be written, the error says why."""
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
        """Commit the splits of all tasks in one version, unless the log holds the batch: then they are deleted."""
        with without_traceback():
            self._of_batch(messages, batchId).commit(_splits(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Delete the splits of finished tasks, where some task failed."""
        self._of_batch(messages, batchId).abort(_splits(messages))

    def _of_batch(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> TableWriter:
        heads = [message.head for message in messages if isinstance(message, WrittenBatch)]
        return self._writer.of_batch(self._application_id, batch_id, heads[0] if heads else self._writer.head)


def _splits(messages: Sequence[WriterCommitMessage | None]) -> list[WriterCommitMessage | None]:
    return [message.splits if isinstance(message, WrittenBatch) else None for message in messages]
