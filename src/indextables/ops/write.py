"""Write rows: into splits first, and then, in one commit, into the table.

Splits that were put are deleted again where it is certain that no version names them: the writing failed, or the log
said no. An interrupt or an unforeseen error in the middle of a commit deletes nothing, since the commit may have
happened. A process that dies leaves splits that no version names; they are not part of the table.
"""

from __future__ import annotations

import collections
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

from indextables.errors import CommitStateUnknownError, IndexTablesError, StorageError
from indextables.log.snapshot import Head
from indextables.ops.incoming import incoming_batches
from indextables.ops.partitioning import PartitionValues, by_partition
from indextables.protocol.actions import Add
from indextables.scan.partition_choice import PartitionChoice
from indextables.split.writer import SplitWriter
from indextables.transaction_log import TransactionLog

logger = logging.getLogger(__name__)

# Each has an index writer with memory of its own. A partition that comes back later gets another split.
_MOST_OPEN_PARTITIONS = 8


def append(log: TransactionLog, data: Any) -> int:
    """Add rows, and answer with the version that holds them."""
    return _commit(log, data, log.add_files)


def overwrite(log: TransactionLog, data: Any, *, where: str | None = None, if_version: int | None = None) -> int:
    """Put rows in the place of all that are there, and answer with the version that does.

    With `where` only the partitions that it is true of are replaced, and rows of others are refused.
    """
    return _commit(log, data, lambda adds: log.overwrite_files(adds, where=where, if_version=if_version), where)


def _commit(log: TransactionLog, data: Any, commit: Callable[[Sequence[Add]], int], where: str | None = None) -> int:
    adds: list[Add] = []
    try:
        _write_splits(log, data, adds, where)
    except BaseException:
        _delete(log, adds)
        raise
    try:
        return commit(adds)
    except CommitStateUnknownError:
        raise
    except IndexTablesError:
        _delete(log, adds)
        raise


def _write_splits(log: TransactionLog, data: Any, adds: list[Add], where: str | None) -> None:
    """Write all rows, and note every split that was put."""
    head = log.reader.head()[1]
    allowed = None if where is None else PartitionChoice(where, head)
    with _OpenPartitions(log, head, adds, allowed) as partitions:
        for batch in incoming_batches(data, head.schema):
            for values, rows in by_partition(batch, head.partition_columns):
                partitions.writer(values).write(rows)
        partitions.finish()


class _OpenPartitions(contextlib.ExitStack):
    """The writers of the partitions that rows were written to last."""

    def __init__(self, log: TransactionLog, head: Head, adds: list[Add], allowed: PartitionChoice | None) -> None:
        super().__init__()
        self._allowed = allowed
        self._store = log.reader.store
        self._config = log.config.with_properties(head.metadata.configuration)
        self._head = head
        self._adds = adds
        self._open: collections.OrderedDict[tuple[str | None, ...], SplitWriter] = collections.OrderedDict()

    def writer(self, values: PartitionValues) -> SplitWriter:
        """The writer of a partition. The one that was used longest ago gives way."""
        key = tuple(values.values())
        if key not in self._open:
            if self._allowed is not None:
                self._allowed.check([values])
            if len(self._open) >= _MOST_OPEN_PARTITIONS:
                self._end(next(iter(self._open)))
            self._open[key] = self.enter_context(
                SplitWriter(
                    self._store,
                    self._head.schema,
                    self._config,
                    partition_columns=self._head.partition_columns,
                    partition_values=values,
                    adds=self._adds,
                )
            )
        self._open.move_to_end(key)
        return self._open[key]

    def finish(self) -> None:
        """Put what is left of every partition."""
        while self._open:
            self._end(next(iter(self._open)))

    def _end(self, key: tuple[str | None, ...]) -> None:
        self._open.pop(key).finish()


def _delete(log: TransactionLog, adds: Sequence[Add]) -> None:
    try:
        log.reader.store.delete_many(add.path for add in adds)
    except StorageError as error:
        logger.warning("%d splits were written for nothing and stay until a purge: %s", len(adds), error.message)
