"""Write rows into splits in the store; they belong to no table until a commit.

The rows of the first few partitions are written as they arrive. The rows of all others wait on local disk and are
written one partition after the other. So the number of splits of a partition depends on its size, not on the order of
the rows.
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
from indextables.protocol.actions import Add
from indextables.prune.partitions import PartitionChoice
from indextables.split.writer import SplitWriter
from indextables.store import ObjectStore
from indextables.writer.partitioned_rows import PartitionValues, SpilledRows, by_partition

logger = logging.getLogger(__name__)

# Each open partition has an index writer with its own memory.
_MOST_OPEN_PARTITIONS = 4

_Answer = TypeVar("_Answer")


def write_splits(
    store: ObjectStore, head: Head, config: Config, batches: Iterable[pa.RecordBatch], *, where: str | None = None
) -> list[Add]:
    """Write rows of a table's schema into splits, and return their add actions.

    If that fails, the splits are deleted again. `config` is the handle's; the table's properties rank below it. With
    `where`, rows of other partitions are refused.
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
    """Commit written splits; delete them if the log refuses the commit.

    An interrupt or an unexpected error deletes nothing, since the commit may have happened.
    """
    try:
        return commit()
    except CommitStateUnknownError:
        raise
    except IndexTablesError:
        delete_splits(store, adds)
        raise


def delete_splits(store: ObjectStore, adds: Sequence[Add]) -> None:
    """Delete splits that no version names; a purge deletes the rest after a failure."""
    try:
        store.delete_many(add.path for add in adds)
    except StorageError as error:
        logger.warning("%d uncommitted splits stay until a purge: %s", len(adds), error.message)


class _Partitions(contextlib.ExitStack):
    """The partitions seen so far: the first ones have a writer, the others wait."""

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
        """Write or spill rows of a partition."""
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
        """Finish the splits of all partitions."""
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
