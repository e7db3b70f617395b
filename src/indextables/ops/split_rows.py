"""Rows into splits in the store, which belong to no table until somebody commits their add actions.

The rows of a few partitions are written as they come. Those of all others wait on local disk and are written one
partition after the other, so that a partition has as many splits as its size demands, in whatever order its rows came.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import pyarrow as pa

from indextables.config import Config, settings
from indextables.errors import CommitStateUnknownError, IndexTablesError, StorageError
from indextables.log.snapshot import Head
from indextables.ops.partitioning import PartitionValues, by_partition
from indextables.ops.spilled_rows import SpilledRows
from indextables.protocol.actions import Add
from indextables.scan.partition_choice import PartitionChoice
from indextables.split.writer import SplitWriter
from indextables.store import ObjectStore

logger = logging.getLogger(__name__)

# Each has an index writer with memory of its own.
_MOST_OPEN_PARTITIONS = 4

_Answer = TypeVar("_Answer")


def write_splits(
    store: ObjectStore, head: Head, config: Config, batches: Iterable[pa.RecordBatch], *, where: str | None = None
) -> list[Add]:
    """Write rows of a table's schema into splits, and answer with their add actions.

    Where that fails, the splits that were put are deleted again. `config` is of the handle; the table's properties
    stand behind it. With `where`, rows of partitions that it is not true of are refused.
    """
    adds: list[Add] = []
    try:
        with _Partitions(store, head, config.with_properties(head.metadata.configuration), adds, where) as partitions:
            for batch in batches:
                for values, rows in by_partition(batch, head.partition_columns):
                    partitions.write(values, rows)
            partitions.finish()
    except BaseException:
        delete_splits(store, adds)
        raise
    return adds


def commit_splits(store: ObjectStore, adds: Sequence[Add], commit: Callable[[], _Answer]) -> _Answer:
    """Commit splits that were written, and delete them where the log has said no.

    An interrupt or an unforeseen error in the middle deletes nothing, since the commit may have happened.
    """
    try:
        return commit()
    except CommitStateUnknownError:
        raise
    except IndexTablesError:
        delete_splits(store, adds)
        raise


def delete_splits(store: ObjectStore, adds: Sequence[Add]) -> None:
    """Delete splits that no version names. What cannot be deleted stays until a purge."""
    try:
        store.delete_many(add.path for add in adds)
    except StorageError as error:
        logger.warning("%d splits were written for nothing and stay until a purge: %s", len(adds), error.message)


class _Partitions(contextlib.ExitStack):
    """The partitions that rows have come of: the first ones with a writer, the others waiting."""

    def __init__(self, store: ObjectStore, head: Head, config: Config, adds: list[Add], where: str | None) -> None:
        super().__init__()
        self._store = store
        self._head = head
        self._config = config
        self._adds = adds
        self._allowed = None if where is None else PartitionChoice(where, head)
        self._seen: set[tuple[str | None, ...]] = set()
        self._open: dict[tuple[str | None, ...], SplitWriter] = {}
        directory = config[settings.INDEX_WRITER_TEMP_DIRECTORY_PATH]
        self._waiting = self.enter_context(SpilledRows(head.schema, directory))

    def write(self, values: PartitionValues, rows: pa.RecordBatch) -> None:
        """Take rows of a partition."""
        key = tuple(values.values())
        if key not in self._seen:
            if self._allowed is not None:
                self._allowed.check([values])
            self._seen.add(key)
            if len(self._open) < _MOST_OPEN_PARTITIONS:
                self._open[key] = self.enter_context(self._writer(values))
        if key in self._open:
            self._open[key].write(rows)
        else:
            self._waiting.add(values, rows)

    def finish(self) -> None:
        """Put what is left of every partition."""
        while self._open:
            self._open.pop(next(iter(self._open))).finish()
        for values, batches in self._waiting.drain():
            with self._writer(values) as writer:
                for batch in batches:
                    writer.write(batch)
                writer.finish()

    def _writer(self, values: PartitionValues) -> SplitWriter:
        return SplitWriter(
            self._store,
            self._head.schema,
            self._config,
            partition_columns=self._head.partition_columns,
            partition_values=values,
            adds=self._adds,
        )
