"""Where a snapshot can start other than at version 0: states and checkpoints, seen from below.

The log does not know their formats. It is given a source, and asks it for a snapshot to fold on.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

from indextables.errors import CheckpointCorruptionError, CheckpointError, CorruptLogError
from indextables.log.divergence import check_contains, newest_file_below, versions_near
from indextables.log.replay import VersionFile
from indextables.log.segment import Checkpoints, Segment, segment_from, whole_segment
from indextables.log.snapshot import NAMELESS, Snapshot
from indextables.store import ObjectStore

logger = logging.getLogger(__name__)


class DamagedBaseError(CheckpointCorruptionError):
    """The files of a state turned out damaged when they were read: another base must take its place."""


class BaseSource(Protocol):
    """Loads snapshots from states and checkpoints."""

    def load(self, candidates: Checkpoints) -> Snapshot | None:
        """The snapshot of the newest candidate that verifies, or None where none does."""

    def txn_id_at(self, version: int) -> str | None:
        """The transaction that the state of a version stands for: empty where it does not say, None where no state of
        that version verifies."""

    def hinted_version(self) -> int | None:
        """The version of the newest checkpoint as far as a hint says, which may be wrong."""


class BaseChoice:
    """Chooses the states to start from: those that verify, are not distrusted, and belong to this table."""

    def __init__(
        self,
        bases: BaseSource,
        mark_at: Callable[[int], str | None],
        read_versions: Callable[[Sequence[int]], Sequence[VersionFile]],
        url: str,
    ) -> None:
        self._bases = bases
        self._mark_at = mark_at
        self._read_versions = read_versions
        self._url = url
        self._distrusted: set[int | None] = set()
        self._contained: set[tuple[int, int]] = set()

    def whole_segment(self, store: ObjectStore) -> Segment:
        """The newest segment. A state of ours whose version is gone is no part of it: the newest version is never
        cleaned up, so the state is what a checkpoint of an earlier table at this place has left."""
        strays: set[int] = set()
        segment = whole_segment(store)
        while segment.newest_file is None and self._bases.txn_id_at(segment.newest):
            logger.warning("ignoring the state of version %d of `%s`: it has no version", segment.newest, self._url)
            strays.add(segment.newest)
            segment = whole_segment(store, strays)
        return segment

    def newest_segment(self, store: ObjectStore) -> Segment:
        """The newest segment, listed from the checkpoint on that the hint names, where there is one."""
        hinted = self._bases.hinted_version()
        segment = None if hinted is None else segment_from(store, hinted)
        return self.whole_segment(store) if segment is None else segment

    def newest_for(self, segment: Segment, wanted: int) -> Snapshot | None:
        """The newest state at or below a version."""
        candidates = {
            version: keys
            for version, keys in segment.checkpoints.items()
            if version <= wanted and version not in self._distrusted
        }
        while candidates:
            base = self._bases.load(candidates)
            if base is None:
                return None
            if self.belongs(base, segment) and not _is_mislabelled(base, segment):
                self._check_contains_versions(base, segment)
                return base if base.txn_id else self._named(base, segment)
            logger.warning("passing over the state of version %d: it stands for another version", base.version)
            candidates = {version: keys for version, keys in candidates.items() if version < base.version}
        return None

    def is_of_another_writer(self, version: int) -> bool:
        """Whether the state of a version names no transaction, as those of other writers."""
        return self._bases.txn_id_at(version) == ""

    def _named(self, base: Snapshot, segment: Segment) -> Snapshot:
        """The state of another writer, which does not say what it stands for, with what its version file says."""
        if base.version == 0 or not segment.covers(base.version):
            return base
        try:
            return dataclasses.replace(base, txn_id=self._mark_at(base.version) or NAMELESS)
        except CorruptLogError:
            return base

    def _check_contains_versions(self, base: Snapshot, segment: Segment) -> None:
        """Refuse a state of another writer that lacks a version which is there, once for each state."""
        if base.txn_id or (base.version, base.timestamp_ms) in self._contained:
            return
        near = versions_near(segment, base.version)
        if near:
            check_contains(base, self._read_versions(near), self._url)
        elif (older := newest_file_below(segment, base.version)) is not None and older in segment.checkpoints:
            below = self._bases.load({older: segment.checkpoints[older]})
            if below is not None:
                self._check_contains_versions(below, segment)
        self._contained.add((base.version, base.timestamp_ms))

    def distrust(self, error: DamagedBaseError) -> None:
        """Never start from a state again whose files turned out damaged."""
        logger.warning("passing over the state of version %d: %s", error.version, error.message)
        self._distrusted.add(error.version)

    def belongs(self, base: Snapshot, segment: Segment) -> bool:
        """Whether a state stands for the version that is there, where both say who they are."""
        if not base.txn_id or not segment.covers(base.version):
            return True
        return self._mark_at(base.version) in (None, base.txn_id)


def _is_mislabelled(base: Snapshot, segment: Segment) -> bool:
    """Whether a state of version 0 holds a later version: other engines number it so where they find no version file
    but the first. Version 0 itself holds no files."""
    return base.version == 0 and not base.txn_id and segment.newest > 0


def refuse_unread_state(segment: Segment, url: str) -> NoReturn:
    """The newest version stands on a state that nobody here can read."""
    raise CheckpointError(
        f"cannot read `{url}` because its files stand in the state of version {max(segment.checkpoints, default=-1)}, "
        "which could not be read, and the version files that are there do not make it up",
        version=max(segment.checkpoints, default=None),
        path=url,
        hint="its version files and protocol can be read: `indextables log`",
    )
