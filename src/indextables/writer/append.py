"""Write rows: put splits first, then commit them to the table once.

Splits are deleted again only if it is certain that no version names them: the write failed, or the log refused the
commit. A process that dies leaves splits that no version names; they are not part of the table.
"""

from __future__ import annotations

from typing import Any, Protocol

from indextables.errors import CommitConflictError, ConfigError, QueryError, SchemaError
from indextables.ingest.batches import can_be_read_again, incoming_batches
from indextables.log.commit.conflict import rows_fit
from indextables.log.snapshot import Head
from indextables.protocol.actions import Add
from indextables.transaction_log import TransactionLog
from indextables.writer.split_rows import commit_splits, write_splits


def append(log: TransactionLog, data: Any) -> int:
    """Append rows, and return the version that holds them."""

    def commit(adds: list[Add], head: Head, *, same_properties: bool) -> int:
        return log.add_files(adds, made_for=head, same_properties=same_properties)

    return _write(log, data, commit)


def overwrite(log: TransactionLog, data: Any, *, where: str | None = None, if_version: int | None = None) -> int:
    """Replace all rows, and return the new version.

    With `where`, replace only the matching partitions, and refuse rows of other partitions.
    """

    def commit(adds: list[Add], head: Head, *, same_properties: bool) -> int:
        return log.overwrite_files(
            adds, where=where, if_version=if_version, made_for=head, same_properties=same_properties
        )

    return _write(log, data, commit, where)


class _Commit(Protocol):
    def __call__(self, adds: list[Add], head: Head, *, same_properties: bool) -> int: ...


def _write(log: TransactionLog, data: Any, commit: _Commit, where: str | None = None) -> int:
    """Write for the known version, without looking for a newer one.

    The commit detects a newer version. If another writer has changed the table, write again for the newest version.
    Data that can be read only once is written for the newest version from the start.
    """
    known = log.reader.known_head() if can_be_read_again(data) else None
    if known is not None:
        try:
            return _write_for(log, known[1], data, commit, where, same_properties=True)
        except (CommitConflictError, ConfigError, QueryError, SchemaError):
            newest = log.reader.head()[1]
            if rows_fit(known[1], newest, same_properties=True) is None:
                raise
    return _write_for(log, log.reader.head()[1], data, commit, where, same_properties=False)


def _write_for(
    log: TransactionLog, head: Head, data: Any, commit: _Commit, where: str | None, *, same_properties: bool
) -> int:
    store = log.reader.store
    adds = write_splits(store, head, log.config, incoming_batches(data, head.schema), where=where)
    return commit_splits(store, adds, lambda: commit(adds, head, same_properties=same_properties))
