"""What versions changed since a state, and what of that state they leave, found manifest by manifest."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.log.base import DamagedBaseError
from indextables.log.files import exact_sum
from indextables.log.replacing import Replace
from indextables.log.replay import BrokenChainError, VersionFile, check_chain
from indextables.log.snapshot import mark_at
from indextables.protocol.actions import Add, Remove
from indextables.protocol.file_table import AddedFile
from indextables.protocol.paths import WRITTEN_PATH_TAG
from indextables.protocol.state_manifest import ManifestInfo, StateManifest
from indextables.state.manifests import ManifestReader, StateFiles


@dataclasses.dataclass(frozen=True)
class Changes:
    """The files that were added and are still there, the paths that were removed, how many of them at once, and whether
    splits were merged. `written` holds how removed paths stand in the log, where that is not relative to the table."""

    added: Mapping[str, AddedFile]
    removed: frozenset[str] = frozenset()
    most_removed_at_once: int = 0
    has_merge: bool = False
    written: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def tombstones(self, dead: Iterable[str]) -> set[str]:
        """Dead paths as they are and as they were written: other engines match them by exact text."""
        return {spelling for path in dead for spelling in (path, self.written.get(path, path))}


NO_CHANGES = Changes({})


class Kept(NamedTuple):
    """What stays of a state: how many files of how many bytes, and which of its paths are dead now. `live` counts the
    live entries of each of its manifests; None where they were not read."""

    num_files: int
    total_bytes: int
    dead: frozenset[str]
    live: tuple[int, ...] | None = None

    def counted(self, base: StateManifest) -> list[ManifestInfo]:
        """The manifests of the state with the numbers of their live and dead entries, -1 where that is not known."""
        if self.live is None:
            infos = base.manifests
            known = [info.num_entries for info in infos] if not base.tombstones else _live_counts(base)
        else:
            infos, known = base.manifests, list(self.live)
        return [_counted(info, live) for info, live in zip(infos, known, strict=True)]


def changes_since(base: StateManifest, versions: Sequence[VersionFile]) -> Changes:
    """What the versions after a state changed; `DamagedBaseError` where they do not stand on its version."""
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
    """What the changes leave of a state; None where a path that it names was added again."""
    if not changes.added.keys().isdisjoint(base.tombstones):
        return None
    is_counted = _counts_hold(base)
    num_files, total_bytes = (base.num_files, base.total_bytes) if is_counted else (0, 0)
    sought = pa.array([*changes.added, *changes.removed], pa.string())
    dead: set[str] = set()
    if is_counted and not len(sought):
        return Kept(num_files, total_bytes, frozenset())
    live: list[int] = []
    for table in StateFiles(base, manifests).tables(columns=["path", "size"]):
        if not is_counted:
            num_files += table.num_rows
            total_bytes += sum_of_sizes(table)
        found = table.filter(pc.is_in(table["path"], value_set=sought))
        paths = found["path"].to_pylist()
        if not changes.added.keys().isdisjoint(paths):
            return None
        dead.update(paths)
        live.append(table.num_rows - found.num_rows)
        num_files -= found.num_rows
        total_bytes -= sum_of_sizes(found)
    return Kept(num_files, total_bytes, frozenset(dead), tuple(live))


def _live_counts(base: StateManifest) -> list[int]:
    """The live entries of each manifest as the state has them, where they add up."""
    counts = [info.live_entry_count for info in base.manifests]
    adds_up = min(counts, default=0) >= 0 and sum(counts) == base.num_files
    return counts if adds_up else [-1] * len(counts)


def _counted(info: ManifestInfo, live: int) -> ManifestInfo:
    dead = info.num_entries - live if live >= 0 else -1
    return msgspec.structs.replace(info, live_entry_count=live, tombstone_count=dead)


def sum_of_sizes(files: pa.Table) -> int:
    """The bytes of some files together."""
    return exact_sum(files["size"])


def _check_follow(base: StateManifest, versions: Sequence[VersionFile]) -> None:
    """Refuse to build on a state that an earlier table at this place has left, or on versions that were exchanged."""
    txn_id = base.version_txn_id
    mark = txn_id if base.metadata is None else mark_at(base.state_version, txn_id, base.metadata)
    try:
        check_chain(base.state_version, mark, versions[0], base.protocol)
        for before, file in itertools.pairwise(versions):
            check_chain(before.version, before.mark, file, base.protocol)
    except BrokenChainError as error:
        raise DamagedBaseError(error.message, version=base.state_version) from error


def _counts_hold(state: StateManifest) -> bool:
    """Whether a state's own numbers can be built on: it is one of ours, which alone say when their version was
    committed, and its manifests bear the numbers out."""
    num_entries = sum(info.num_entries for info in state.manifests)
    return state.version_timestamp is not None and state.num_files == num_entries - len(state.tombstones)
