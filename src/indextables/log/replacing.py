"""Replacing files by others with the same rows, as a merge does, and noting of files that this could not be done."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.log.conflict import Conflict, rows_fit, sources_live
from indextables.log.operations import Answer, Plan, removes_of, snapshot_of, with_mappings
from indextables.log.snapshot import Head, Snapshot
from indextables.protocol.actions import Action, Add, Skip


class Replacement(NamedTuple):
    """Files that are taken out and the files that hold their rows from now on."""

    removed_paths: tuple[str, ...]
    adds: tuple[Add, ...]


@dataclasses.dataclass(frozen=True)
class RecordSkip:
    """Note that a file could not be processed; counted on what stands at the moment of the commit."""

    path: str
    reason: str
    operation: str
    partition_values: Mapping[str, str | None] | None
    size: int | None
    cooldown_ms: int
    name: str = "SKIP"
    needs_files: bool = True

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        return Plan([self.action(snapshot_of(now), timestamp_ms)], {"operation": self.operation})

    def action(self, snapshot: Snapshot, timestamp_ms: int) -> Skip:
        """The skip, counted on what stands."""
        known = snapshot.skips.get(self.path)
        return Skip(
            path=self.path,
            skip_timestamp=timestamp_ms,
            reason=self.reason,
            operation=self.operation,
            partition_values=None if self.partition_values is None else dict(self.partition_values),
            size=self.size,
            retry_after=timestamp_ms + self.cooldown_ms,
            skip_count=1 if known is None else known.skip_count + 1,
        )


@dataclasses.dataclass(frozen=True)
class Replace:
    """Replace groups of files by others with the same rows. A group that lost a source is dropped, others commit.

    `skips` are noted of files that could not be replaced, in the same version; of those that are gone, nothing is.
    `made_for` is what the new files were written for, where that was read before the commit began; it must fit still.
    """

    groups: Sequence[Replacement]
    skips: Sequence[RecordSkip] = ()
    made_for: Head | None = None
    name: str = "MERGE"
    needs_files: bool = True

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        if conflict := rows_fit(self.made_for or start, now):
            return conflict
        snapshot = snapshot_of(now)
        sources = [path for group in self.groups for path in group.removed_paths]
        live = snapshot.live_files.contains([*sources, *(skip.path for skip in self.skips)])
        verdicts = [sources_live({path: live[path] for path in group.removed_paths}) for group in self.groups]
        kept = [group for group, conflict in zip(self.groups, verdicts, strict=True) if conflict is None]
        skips = [skip.action(snapshot, timestamp_ms) for skip in self.skips if live[skip.path]]
        if not kept and not skips:
            return next((conflict for conflict in verdicts if conflict), Conflict("there is nothing to replace"))
        dropped = tuple(at for at, conflict in enumerate(verdicts) if conflict)
        changes = _replaced(snapshot, kept, timestamp_ms)
        return Plan([*changes, *skips], {"groups": len(kept), "skipped": len(skips)}, dropped)


def _replaced(snapshot: Snapshot, groups: Sequence[Replacement], timestamp_ms: int) -> list[Action]:
    sources = pa.array({path for group in groups for path in group.removed_paths}, pa.string())
    files = snapshot.files.filter(pc.is_in(snapshot.files["path"], value_set=sources))
    removes = removes_of(files, timestamp_ms, data_change=False)
    adds = [msgspec.structs.replace(add, data_change=False) for group in groups for add in group.adds]
    return [*removes, *with_mappings(adds, snapshot)]
