"""Bases of snapshots: states and checkpoints, instead of version 0.

The log does not know their formats. It loads a snapshot from a source, and folds later versions onto it.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

from indextables.errors import CheckpointCorruptionError, CheckpointError, CorruptLogError
from indextables.log.divergence import check_contains, newest_file_below, versions_near
from indextables.log.replay import VersionFile
from indextables.log.segment import Checkpoints, Files, Segment, segment_from, whole_segment
from indextables.log.snapshot import NAMELESS, Snapshot
from indextables.store import ObjectStore

logger = logging.getLogger(__name__)


class DamagedBaseError(CheckpointCorruptionError):
    """The files of a state are damaged, which was found while reading them.

    The reader must use another base.
    """


class BaseSource(Protocol):
    """Source of snapshots from states and checkpoints."""

    def load(self, candidates: Checkpoints) -> Snapshot | None:
        """Return the snapshot of the newest valid candidate, or None."""

    def txn_id_at(self, version: int) -> str | None:
        """Return the transaction of the state of a version.

        The result is empty if the state names no transaction, and None if no state of this version is valid.
        """

    def hinted_version(self) -> int | None:
        """Return the version of the newest checkpoint from a hint, which may be wrong."""


class BaseChoice:
    """Choice of a base: a valid, trusted state of this table."""

    def __init__(
        self,
        bases: BaseSource,
        identity_at: Callable[[int], str | None],
        read_versions: Callable[[Sequence[int]], Sequence[VersionFile]],
        url: str,
    ) -> None:
        self._bases = bases
        self._identity_at = identity_at
        self._read_versions = read_versions
        self._url = url
        self._distrusted: set[int | None] = set()
        self._contained: set[tuple[int, int]] = set()

    def whole_segment(self, store: ObjectStore, files: Files = None) -> Segment:
        """Return the newest segment, without stray states of this library.

        A state of this library without its version is stray: clean-up never deletes the newest version, so the state is
        left over from an earlier table at the same address.
        """
        strays: set[int] = set()
        segment = whole_segment(store, files=files)
        while segment.newest_file is None and self._bases.txn_id_at(segment.newest):
            logger.warning(
                "ignoring the state of version %d of `%s`: its version file is missing", segment.newest, self._url
            )
            strays.add(segment.newest)
            segment = whole_segment(store, strays, files)
        return segment

    def newest_segment(self, store: ObjectStore) -> Segment:
        """Return the newest segment, listed from the hinted checkpoint on if possible."""
        hinted = self._bases.hinted_version()
        segment = None if hinted is None else segment_from(store, hinted)
        return self.whole_segment(store) if segment is None else segment

    def newest_for(self, segment: Segment, wanted: int) -> Snapshot | None:
        """Return the newest state at or below a version."""
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
            logger.warning("skipping the state of version %d: it belongs to another version", base.version)
            candidates = {version: keys for version, keys in candidates.items() if version < base.version}
        return None

    def is_of_another_writer(self, version: int) -> bool:
        """Return True if the state of a version has no transaction id: another writer's."""
        return self._bases.txn_id_at(version) == ""

    def _named(self, base: Snapshot, segment: Segment) -> Snapshot:
        """Return another writer's state with the transaction id of its version file.

        The state itself has none.
        """
        if base.version == 0 or not segment.covers(base.version):
            return base
        try:
            return dataclasses.replace(base, txn_id=self._identity_at(base.version) or NAMELESS)
        except CorruptLogError:
            return base

    def _check_contains_versions(self, base: Snapshot, segment: Segment) -> None:
        """Refuse another writer's state that lacks an existing version.

        Check a state once.
        """
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
        """Never start again from a state with damaged files."""
        logger.warning("skipping the state of version %d: %s", error.version, error.message)
        self._distrusted.add(error.version)

    def belongs(self, base: Snapshot, segment: Segment) -> bool:
        """Return True if a state and its version file have the same identity.

        Either may have none; then they match.
        """
        if not base.txn_id or not segment.covers(base.version):
            return True
        return self._identity_at(base.version) in (None, base.txn_id)


def _is_mislabelled(base: Snapshot, segment: Segment) -> bool:
    """Return True for a state of version 0 that has a later version's files.

    Other engines number a state so if they find no version file but the first. Version 0 itself has no files.
    """
    return base.version == 0 and not base.txn_id and segment.newest > 0


def refuse_unread_state(segment: Segment, url: str) -> NoReturn:
    """Raise the error for a newest version that depends on an unreadable state."""
    raise CheckpointError(
        f"cannot read `{url}` because its files are in the state of version {max(segment.checkpoints, default=-1)}, "
        "which cannot be read, and the existing version files cannot replace it",
        version=max(segment.checkpoints, default=None),
        path=url,
        hint="its version files and protocol can be read: `indextables log`",
    )
