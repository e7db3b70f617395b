"""Restore: make the files of an earlier version live again, in a new version."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping

import pyarrow as pa

from indextables.errors import ConfigError, ObjectNotFoundError, RetentionError
from indextables.log.commit.operations import Restore
from indextables.log.snapshot import Snapshot
from indextables.maintain.one_row import answer_schema, one_row
from indextables.protocol.actions import Add, Remove
from indextables.runtime.pools import SHARED_POOLS
from indextables.store import ObjectStore
from indextables.transaction_log import TransactionLog

RESTORED_SCHEMA = answer_schema(
    table_path=pa.string(),
    status=pa.string(),
    restored_version=pa.int64(),
    new_version=pa.int64(),
    files_added=pa.int64(),
    files_removed=pa.int64(),
)

_MOST_HEADS = 1000
_WORKERS = 16
_MOST_NAMED = 3


def restore(
    log: TransactionLog, *, version: int | None = None, timestamp: str | datetime.datetime | int | None = None
) -> pa.Table:
    """Restore the table to a version or a time.

    Commits of other writers before the restore are undone too. The committed batches of streams stay recorded, so that
    no batch is written again.
    """
    if (version is None) == (timestamp is None):
        raise ConfigError("cannot restore a table: give a version or a timestamp, and not both")
    target = log.snapshot(version=version, timestamp=timestamp)
    _check_files(log, target)
    result = log.commit(Restore(target, log.url))
    row = {
        "table_path": log.url,
        "status": "SUCCESS" if result.committed else "NO_ACTION",
        "restored_version": target.version,
        "new_version": result.version,
        "files_added": sum(isinstance(action, Add) for action in result.actions),
        "files_removed": sum(isinstance(action, Remove) for action in result.actions),
    }
    return one_row(RESTORED_SCHEMA, row)


def _check_files(log: TransactionLog, target: Snapshot) -> None:
    """Refuse a version with missing files, even if the newest version names them too."""
    files = target.files.select(["path", "size"])
    sizes = dict(zip(*(column.to_pylist() for column in files.columns), strict=True))
    found = _sizes(log.reader.store, sizes)
    gone = sorted(path for path, size in sizes.items() if found.get(path) != size)
    if gone:
        named = ", ".join(f"`{path}`" for path in gone[:_MOST_NAMED])
        more = f" and {len(gone) - _MOST_NAMED} more" if len(gone) > _MOST_NAMED else ""
        raise RetentionError(
            f"cannot restore version {target.version} of `{log.url}` because files of it are missing or "
            f"changed: {named}{more}",
            version=target.version,
            path=log.url,
            hint="another version may be whole: `DESCRIBE INDEXTABLES HISTORY` lists them",
        )


def _sizes(store: ObjectStore, wanted: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes of the existing files."""
    if len(wanted) > _MOST_HEADS:
        return {meta.key: meta.size for meta in store.list() if meta.key in wanted}
    paths = list(wanted)
    sizes = SHARED_POOLS.map(
        "looking-at-files", lambda path: _size(store, path), paths, workers=_WORKERS if store.is_remote else 1
    )
    return dict(_known(zip(paths, sizes, strict=True)))


def _known(sizes: Iterable[tuple[str, int | None]]) -> Iterable[tuple[str, int]]:
    return ((path, size) for path, size in sizes if size is not None)


def _size(store: ObjectStore, path: str) -> int | None:
    try:
        return store.head(path).size
    except ObjectNotFoundError:
        return None
