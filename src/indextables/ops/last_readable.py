"""The newest version of a log that can be read whole, also where later ones are damaged."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from indextables.errors import CheckpointError, CorruptLogError, RetentionError
from indextables.log.snapshot import Snapshot
from indextables.protocol.names import LOG_DIRECTORY
from indextables.state.retention import Listing
from indextables.transaction_log import TransactionLog


class Readable(NamedTuple):
    """A version with its files; `problem` says why no newer one is read, where there is one."""

    snapshot: Snapshot
    problem: str | None


def last_readable(log: TransactionLog) -> Readable:
    """The newest version, or the last before the damage. A log of which no version can be read is an error."""
    damage: CorruptLogError | CheckpointError
    try:
        segment, snapshot = log.reader.newest_snapshot()
    except (CorruptLogError, CheckpointError) as error:
        damage = error
    else:
        if segment.gap is None:
            return Readable(snapshot, None)
        return Readable(snapshot, f"version {segment.gap} is missing while later ones are there")
    listing = Listing.of(log.reader.store.list(LOG_DIRECTORY))
    for version in sorted({*listing.versions, *listing.checkpoints}, reverse=True):
        with contextlib.suppress(CorruptLogError, CheckpointError, RetentionError):
            return Readable(log.snapshot(version=version), damage.message)
    raise damage
