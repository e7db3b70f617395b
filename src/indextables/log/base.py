"""Where a snapshot can start other than at version 0: states and checkpoints, seen from below.

The log does not know their formats. It is given a source, and asks it for a snapshot to fold on.
"""

from __future__ import annotations

from typing import NoReturn, Protocol

from indextables.errors import CheckpointCorruptionError, CheckpointError
from indextables.log.segment import Checkpoints, Segment
from indextables.log.snapshot import Snapshot


class DamagedBaseError(CheckpointCorruptionError):
    """The files of a state turned out damaged when they were read: another base must take its place."""

    def __init__(self, message: str, *, version: int = -1, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.version = version


class BaseSource(Protocol):
    """Loads snapshots from states and checkpoints."""

    def load(self, candidates: Checkpoints) -> Snapshot | None:
        """The snapshot of the newest candidate that verifies, or None where none does."""

    def txn_id_at(self, version: int) -> str | None:
        """The transaction that the state of a version stands for: empty where it does not say, None where no state of
        that version verifies."""


def refuse_unread_state(segment: Segment, url: str) -> NoReturn:
    """The newest version stands on a state that nobody here can read."""
    raise CheckpointError(
        f"cannot read `{url}` because its files stand in the state of version {max(segment.checkpoints, default=-1)}, "
        "which could not be read, and the version files that are there do not make it up",
        hint="its version files and protocol can be read: `indextables log`",
    )
