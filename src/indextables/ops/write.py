"""Write rows: into splits first, and then, in one commit, into the table. Then the table may look after itself.

Splits that were put are deleted again where it is certain that no version names them: the writing failed, or the log
said no. A process that dies leaves splits that no version names; they are not part of the table.
"""

from __future__ import annotations

from typing import Any

from indextables.log.snapshot import Head
from indextables.ops.incoming import incoming_batches
from indextables.ops.on_write import after_write
from indextables.ops.split_rows import commit_splits, write_splits
from indextables.protocol.actions import Add
from indextables.transaction_log import TransactionLog


def append(log: TransactionLog, data: Any) -> int:
    """Add rows, and answer with the version that holds them."""
    head, adds = _write(log, data)
    version = commit_splits(log.reader.store, adds, lambda: log.add_files(adds, made_for=head))
    after_write(log)
    return version


def overwrite(log: TransactionLog, data: Any, *, where: str | None = None, if_version: int | None = None) -> int:
    """Put rows in the place of all that are there, and answer with the version that does.

    With `where` only the partitions that it is true of are replaced, and rows of others are refused.
    """
    head, adds = _write(log, data, where)
    version = commit_splits(
        log.reader.store,
        adds,
        lambda: log.overwrite_files(adds, where=where, if_version=if_version, made_for=head),
    )
    after_write(log)
    return version


def _write(log: TransactionLog, data: Any, where: str | None = None) -> tuple[Head, list[Add]]:
    """The add actions of all rows, and what the table was when they were written."""
    head = log.reader.head()[1]
    batches = incoming_batches(data, head.schema)
    return head, write_splits(log.reader.store, head, log.config, batches, where=where)
