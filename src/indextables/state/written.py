"""What writing a checkpoint gives, and what every writer checks: for whom it stands, and that the table is there."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from indextables.errors import CheckpointValidationError, CheckpointWriteError, ObjectExistsError, StorageError
from indextables.log.base import BaseSource
from indextables.log.segment import find_version
from indextables.log.snapshot import Snapshot
from indextables.protocol.last_checkpoint import LastCheckpoint, encode_last_checkpoint
from indextables.protocol.names import LAST_CHECKPOINT, LOG_DIRECTORY, version_key
from indextables.protocol.state_manifest import StateManifest
from indextables.store import ObjectStore

MOST_BYTES = (1 << 63) - 1
"""The most that a checkpoint can say of the size of a table."""


class PlaceTakenError(CheckpointValidationError):
    """What stands in the place of a checkpoint is not what should be there: it needs a version of its own."""


@dataclasses.dataclass(frozen=True)
class WrittenCheckpoint:
    """A checkpoint that stands in the store, whether this call put it there, and how much it put: `plain_bytes` is what
    the files hold before compression. `state` is None where it is JSON or Parquet."""

    hint: LastCheckpoint
    is_new: bool
    num_bytes: int = 0
    plain_bytes: int = 0
    state: StateManifest | None = None


def check_same(version: int, txn_id: str | None, snapshot: Snapshot) -> None:
    """Refuse to adopt a checkpoint that says to stand for another transaction."""
    if txn_id and snapshot.txn_id and txn_id != snapshot.txn_id:
        raise CheckpointValidationError(
            f"cannot use the checkpoint of version {version} because it stands for the transaction `{txn_id}`, and the "
            f"log holds `{snapshot.txn_id}` there: two kinds of writers are at work",
            version=version,
        )


def check_version_is_there(store: ObjectStore, bases: BaseSource, version: int) -> None:
    """A table that was deleted meanwhile, and perhaps made anew, must not get a checkpoint of its former life."""
    if find_version(store, version) is None and bases.txn_id_at(version - 1) is None:
        raise CheckpointWriteError(
            f"cannot write a checkpoint of `{store.location.url}` because the version is gone: {version}",
            version=version,
            path=version_key(version),
        )


def refuse_damaged(store: ObjectStore, version: int) -> PlaceTakenError:
    return PlaceTakenError(
        f"cannot write the checkpoint of version {version} of `{store.location.url}` because a damaged one stands in "
        "its place",
        hint="a checkpoint commits an empty version and writes its state",
    )


@contextlib.contextmanager
def writing(store: ObjectStore, version: int) -> Iterator[None]:
    """What the store refuses becomes an error about the checkpoint of a version; that a key is taken is no refusal."""
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
    """Let the hint name a checkpoint that is there already: where the hint is missing or damaged, names an older
    version, one that has no checkpoint, or another format at the same version."""
    if known is not None and known.version > adopted.version and bases.txn_id_at(known.version) is not None:
        return
    if known is None or known.version != adopted.version or known.format != adopted.format:
        put_hint(store, adopted)


def put_hint(store: ObjectStore, hint: LastCheckpoint) -> None:
    """Say where the newest checkpoint stands."""
    store.put(f"{LOG_DIRECTORY}/{LAST_CHECKPOINT}", encode_last_checkpoint(hint))
