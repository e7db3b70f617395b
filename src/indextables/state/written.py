"""Result of a checkpoint write, and the checks of all checkpoint writers.

They check the transaction of the checkpoint, and that the table still exists.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from indextables.errors import CheckpointValidationError, CheckpointWriteError, ObjectExistsError, StorageError
from indextables.log.base import BaseSource
from indextables.log.segment import find_version
from indextables.log.snapshot import Snapshot
from indextables.protocol.avro.state_manifest import StateManifest
from indextables.protocol.checkpoint.last_checkpoint import LastCheckpoint, encode_last_checkpoint
from indextables.protocol.names import LAST_CHECKPOINT, LOG_DIRECTORY, version_key
from indextables.store import ObjectStore

MOST_BYTES = (1 << 63) - 1
"""Maximum size of a table in a checkpoint."""


class PlaceTakenError(CheckpointValidationError):
    """The existing checkpoint is wrong: the new one needs its own version."""


@dataclasses.dataclass(frozen=True)
class WrittenCheckpoint:
    """Checkpoint in the store.

    `is_new` is True if this call put it; `num_bytes` is the size of its files, `plain_bytes` their size before
    compression. `state` is None for JSON and Parquet.
    """

    hint: LastCheckpoint
    is_new: bool
    num_bytes: int = 0
    plain_bytes: int = 0
    state: StateManifest | None = None


def check_same(version: int, txn_id: str | None, snapshot: Snapshot) -> None:
    """Refuse to adopt a checkpoint of another transaction."""
    if txn_id and snapshot.txn_id and txn_id != snapshot.txn_id:
        raise CheckpointValidationError(
            f"cannot use the checkpoint of version {version} because it belongs to transaction `{txn_id}`, but the log "
            f"has `{snapshot.txn_id}` at this version: two kinds of writers are active",
            version=version,
        )


def check_version_is_there(store: ObjectStore, bases: BaseSource, version: int) -> None:
    """Refuse a checkpoint of a table that was deleted, and perhaps recreated."""
    if find_version(store, version) is None and bases.txn_id_at(version - 1) is None:
        raise CheckpointWriteError(
            f"cannot write a checkpoint of `{store.location.url}` because the version is gone: {version}",
            version=version,
            path=version_key(version),
        )


def refuse_damaged(store: ObjectStore, version: int) -> PlaceTakenError:
    return PlaceTakenError(
        f"cannot write the checkpoint of version {version} of `{store.location.url}` because there is a damaged one",
        hint="a checkpoint commits an empty version and writes its state",
    )


@contextlib.contextmanager
def writing(store: ObjectStore, version: int) -> Iterator[None]:
    """Convert store errors to errors about the checkpoint of a version.

    A taken key is not converted.
    """
    try:
        yield
    except ObjectExistsError:
        raise
    except StorageError as error:
        raise CheckpointWriteError(
            f"cannot write the checkpoint of version {version} of `{store.location.url}`: {error.message}",
            version=version,
            path=error.path,
            hint=error.hint,
        ) from error


def prefer(store: ObjectStore, bases: BaseSource, known: LastCheckpoint | None, adopted: LastCheckpoint) -> None:
    """Let the hint name an existing checkpoint, unless it has a newer valid one.

    The hint is rewritten if it is missing or damaged, or names an older version, a version without a checkpoint, or
    another format at the same version.
    """
    if known is not None and known.version > adopted.version and bases.txn_id_at(known.version) is not None:
        return
    if known is None or known.version != adopted.version or known.format != adopted.format:
        put_hint(store, adopted)


def put_hint(store: ObjectStore, hint: LastCheckpoint) -> None:
    """Write the hint of the newest checkpoint."""
    store.put(f"{LOG_DIRECTORY}/{LAST_CHECKPOINT}", encode_last_checkpoint(hint))
