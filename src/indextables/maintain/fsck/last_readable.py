"""Find the newest readable version of a log, even if later ones are damaged.

If a state of another writer does not contain an existing version, the log has two histories. Both were committed, so
the result holds the files of both, except files that either history removed since they parted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array
from indextables.errors import CheckpointError, CorruptLogError, DivergedLogError, IndexTablesError, RetentionError
from indextables.log.divergence import check_contains
from indextables.log.files import LiveFiles, TableSource
from indextables.log.replay import fold
from indextables.log.segment import NEAR_VERSIONS
from indextables.log.snapshot import Snapshot
from indextables.protocol.doc_mapping import REGISTRY_PREFIX
from indextables.protocol.features import highest
from indextables.protocol.names import LOG_DIRECTORY
from indextables.state.cleanup.retention import Listing
from indextables.transaction_log import TransactionLog


class Readable(NamedTuple):
    """A version with its files; `problem` explains why no newer version is read.

    `diverged` is the error of a log with two histories; the snapshot then holds both.
    """

    snapshot: Snapshot
    problem: str | None
    diverged: DivergedLogError | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the snapshot holds every commit."""
        return self.problem is None or self.diverged is not None


def last_readable(log: TransactionLog) -> Readable:
    """Return the newest version, or the last one before the damage.

    Raises if no version of the log can be read.
    """
    damage: CorruptLogError | CheckpointError
    try:
        segment, snapshot = log.reader.newest_snapshot()
    except (CorruptLogError, CheckpointError) as error:
        damage = error
    else:
        if segment.gap is None:
            return Readable(snapshot, None)
        return Readable(snapshot, f"version {segment.gap} is missing while later ones exist")
    listing = Listing.of(log.reader.store.list(LOG_DIRECTORY))
    if isinstance(damage, DivergedLogError):
        with contextlib.suppress(IndexTablesError):
            return Readable(_both_histories(log, listing, damage), damage.message, damage)
    for version in sorted({*listing.versions, *listing.checkpoints}, reverse=True):
        with contextlib.suppress(CorruptLogError, CheckpointError, RetentionError):
            return Readable(log.snapshot(version=version), damage.message)
    raise damage


def _both_histories(log: TransactionLog, listing: Listing, diverged: DivergedLogError) -> Snapshot:
    """Combine both histories: all files that neither removed since they parted."""
    history = _Histories(log, listing)
    versions, states = history.of_versions(max(listing.versions)), history.newest_foreign()
    if states is None:
        raise diverged
    before, ours, theirs = (_paths(each) for each in (history.parting(diverged), versions, states))
    removed = to_array([*(before - ours), *(before - theirs)], pa.string())
    extra = states.files.filter(pc.invert(pc.is_in(states.files["path"], value_set=to_array([*ours], pa.string()))))
    files = pa.concat_tables([versions.files, extra])
    mappings = {REGISTRY_PREFIX + reference: text for reference, text in states.doc_mappings.items()}
    configuration = {**mappings, **versions.metadata.configuration}
    return dataclasses.replace(
        versions,
        version=max(versions.version, states.version),
        timestamp_ms=max(versions.timestamp_ms, states.timestamp_ms),
        protocol=highest(versions.protocol, states.protocol),
        metadata=msgspec.structs.replace(versions.metadata, configuration=configuration),
        live_files=LiveFiles(TableSource(files.filter(pc.invert(pc.is_in(files["path"], value_set=removed))))),
    )


class _Histories:
    """The history of the version files, and the history of another writer's states."""

    def __init__(self, log: TransactionLog, listing: Listing) -> None:
        self._log = log
        self._listing = listing

    def of_versions(self, newest: int) -> Snapshot:
        """Fold the version files onto a state of this library, if there is one."""
        own = (self._state(at) for at in self._listing.checkpoints if at <= newest)
        base = next((state for state in own if state is not None and state.txn_id), None)
        start = 0 if base is None else base.version + 1
        return fold(base, self._log.reader.read_versions(range(start, newest + 1)))

    def newest_foreign(self) -> Snapshot | None:
        """Return the newest state of another writer."""
        found = (self._state(at) for at in self._listing.checkpoints)
        return next((state for state in found if state is not None and not state.txn_id), None)

    def parting(self, diverged: DivergedLogError) -> Snapshot:
        """Return the newest state that both histories share, else version 0."""
        for at in self._listing.checkpoints:
            if at < diverged.state_version and (state := self._state(at)) is not None and self._is_common(state):
                return state
        return fold(None, self._log.reader.read_versions([0]))

    def _is_common(self, state: Snapshot) -> bool:
        if state.txn_id:
            return True
        near = itertools.takewhile(lambda at: at in self._listing.versions, range(state.version, 0, -1))
        files = self._log.reader.read_versions(sorted(itertools.islice(near, NEAR_VERSIONS)))
        try:
            check_contains(state, files, self._log.url)
        except DivergedLogError:
            return False
        return bool(files)

    def _state(self, version: int) -> Snapshot | None:
        keys = tuple(self._listing.checkpoints[version])
        return None if self._log.states is None else self._log.states.load({version: keys})


def _paths(snapshot: Snapshot) -> set[str]:
    return set(snapshot.files["path"].to_pylist())
