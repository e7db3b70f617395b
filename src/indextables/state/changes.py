"""Changes since a state, and the remaining files of the state."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array
from indextables.log.base import DamagedBaseError
from indextables.log.commit.operations import Replace
from indextables.log.files import exact_sum
from indextables.log.replay import BrokenChainError, VersionFile, check_chain
from indextables.log.snapshot import identity_at
from indextables.protocol.actions import Add, Remove
from indextables.protocol.avro.state_manifest import ManifestInfo, StateManifest
from indextables.protocol.file_table import AddedFile
from indextables.protocol.paths import WRITTEN_PATH_TAG
from indextables.state.manifests import ManifestReader, StateFiles
from indextables.state.path_bounds import SoughtPaths, path_bounds


@dataclasses.dataclass(frozen=True)
class Changes:
    """Added files that still exist, removed paths, and facts about the versions.

    `written` has the removed paths in their written form, if it is not relative to the table.
    """

    added: Mapping[str, AddedFile]
    removed: frozenset[str] = frozenset()
    most_removed_at_once: int = 0
    has_merge: bool = False
    written: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def tombstones(self, dead: Iterable[str]) -> set[str]:
        """Return dead paths, relative and as written: other engines match exact text."""
        return {spelling for path in dead for spelling in (path, self.written.get(path, path))}


NO_CHANGES = Changes({})


class Kept(NamedTuple):
    """Remaining part of a state: number and bytes of its files, and its dead paths.

    `manifests` have their live and dead counts, -1 if unknown.
    """

    num_files: int
    total_bytes: int
    dead: frozenset[str]
    manifests: tuple[ManifestInfo, ...]


def changes_since(base: StateManifest, versions: Sequence[VersionFile]) -> Changes:
    """Return the changes of the versions after a state.

    Raise `DamagedBaseError` if they do not follow its version.
    """
    _check_follow(base, versions)
    added: dict[str, AddedFile] = {}
    removed: set[str] = set()
    written: dict[str, str] = {}
    most_removed_at_once = 0
    has_merge = False
    timestamp_ms = base.created_at if base.version_timestamp is None else base.version_timestamp
    for file in versions:
        timestamp_ms = max(timestamp_ms, file.timestamp_ms)
        num_removed = 0
        for action in file.actions:
            if isinstance(action, Add):
                added.pop(action.path, None)
                added[action.path] = AddedFile(action, file.version, timestamp_ms)
            elif isinstance(action, Remove):
                added.pop(action.path, None)
                removed.add(action.path)
                if action.tags and (text := action.tags.get(WRITTEN_PATH_TAG)):
                    written[action.path] = text
                num_removed += 1
        most_removed_at_once = max(most_removed_at_once, num_removed)
        has_merge = has_merge or (file.info is not None and file.info.operation == Replace.name)
    return Changes(added, frozenset(removed), most_removed_at_once, has_merge, written)


def kept_of(base: StateManifest, changes: Changes, manifests: ManifestReader) -> Kept | None:
    """Return the remaining part of a state; None if one of its paths was added again.

    Only manifests that may have a changed path are read, and all of a state whose counts are not reliable.
    """
    if not changes.added.keys().isdisjoint(base.tombstones):
        return None
    is_counted = _counts_hold(base)
    num_files, total_bytes = (base.num_files, base.total_bytes) if is_counted else (0, 0)
    paths = SoughtPaths((*changes.added, *changes.removed))
    read = [at for at, info in enumerate(base.manifests) if not is_counted or paths.may_be_in(info)]
    known = [_counted(info, live) for info, live in zip(base.manifests, _live_counts(base), strict=True)]
    sought = to_array([*changes.added, *changes.removed], pa.string())
    dead: set[str] = set()
    chosen = msgspec.structs.replace(base, manifests=tuple(base.manifests[at] for at in read))
    for at, table in zip(read, StateFiles(chosen, manifests).tables(columns=["path", "size"]), strict=True):
        if not is_counted:
            num_files += table.num_rows
            total_bytes += sum_of_sizes(table)
        found = table.filter(pc.is_in(table["path"], value_set=sought))
        gone = found["path"].to_pylist()
        if not changes.added.keys().isdisjoint(gone):
            return None
        dead.update(gone)
        known[at] = _counted(_bounded(known[at], table), table.num_rows - found.num_rows)
        num_files -= found.num_rows
        total_bytes -= sum_of_sizes(found)
    return Kept(num_files, total_bytes, frozenset(dead), tuple(known))


def _live_counts(base: StateManifest) -> list[int]:
    """Return the live count of each manifest from the state, if the counts add up."""
    if not base.tombstones:
        return [info.num_entries for info in base.manifests]
    counts = [info.live_entry_count for info in base.manifests]
    adds_up = min(counts, default=0) >= 0 and sum(counts) == base.num_files
    return counts if adds_up else [-1] * len(counts)


def _counted(info: ManifestInfo, live: int) -> ManifestInfo:
    dead = info.num_entries - live if live >= 0 else -1
    return msgspec.structs.replace(info, live_entry_count=live, tombstone_count=dead)


def _bounded(info: ManifestInfo, files: pa.Table) -> ManifestInfo:
    """Add bounds to a manifest without them, so that it is not read again.

    Bounds of live paths suffice: a dead one is found among the tombstones.
    """
    if info.path_bounds is not None:
        return info
    return msgspec.structs.replace(info, path_bounds=path_bounds(files["path"]))


def sum_of_sizes(files: pa.Table) -> int:
    """Return the total bytes of some files."""
    return exact_sum(files["size"])


def _check_follow(base: StateManifest, versions: Sequence[VersionFile]) -> None:
    """Refuse a state of an earlier table at this address, and exchanged versions."""
    txn_id = base.version_txn_id
    identity = txn_id if base.metadata is None else identity_at(base.state_version, txn_id, base.metadata)
    try:
        check_chain(base.state_version, identity, versions[0], base.protocol)
        for before, file in itertools.pairwise(versions):
            check_chain(before.version, before.identity, file, base.protocol)
    except BrokenChainError as error:
        raise DamagedBaseError(error.message, version=base.state_version) from error


def _counts_hold(state: StateManifest) -> bool:
    """Return True if a state's own counts are reliable.

    It must be a state of this library, as only these have a commit time, and its manifests must confirm the counts.
    """
    num_entries = sum(info.num_entries for info in state.manifests)
    return state.version_timestamp is not None and state.num_files == num_entries - len(state.tombstones)
