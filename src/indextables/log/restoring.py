"""Going back to an earlier version, and how far back one can go.

A purge deletes the files of old versions. It moves the horizon first, in a commit that fails where the table has moved
since the purge looked at it. So whoever goes back to an old version is either seen by the purge, or sees the horizon.
"""

from __future__ import annotations

import dataclasses

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import RetentionError
from indextables.log.conflict import Conflict, still_at, with_configuration
from indextables.log.operations import Answer, Done, Plan, removes_of, snapshot_of, with_mappings
from indextables.log.snapshot import Head, Snapshot
from indextables.protocol.actions import Metadata
from indextables.protocol.file_table import adds_of
from indextables.protocol.horizon import HORIZON_KEY, horizon_of


def refuse_purged(version: int, newest: Head, url: str) -> None:
    """Refuse a version that lies before the horizon."""
    horizon = horizon_of(newest.metadata.configuration)
    if version < horizon:
        raise RetentionError(
            f"cannot read version {version} of `{url}` because a purge has deleted files of versions before {horizon}",
            version=version,
            path=url,
            hint=f"the versions {horizon} to {newest.version} can be read",
        )


@dataclasses.dataclass(frozen=True)
class MoveHorizon:
    """Say that files of the versions before one are about to be deleted. Fails where the table has moved."""

    horizon: int
    if_version: int
    name: str = "PURGE"
    needs_files: bool = False

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        if conflict := still_at(self.if_version, now):
            return conflict
        configuration = now.metadata.configuration
        if horizon_of(configuration) >= self.horizon:
            return Done(now.version)
        moved = with_configuration(now.metadata, {**configuration, HORIZON_KEY: str(self.horizon)})
        return Plan([moved], {"horizonVersion": self.horizon})


@dataclasses.dataclass(frozen=True)
class Restore:
    """Make the files of an earlier version the live ones again. Schema and partitioning go back too; properties and
    what streams have committed stay."""

    target: Snapshot
    url: str
    name: str = "RESTORE"
    needs_files: bool = True

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        target, snapshot = self.target, snapshot_of(now)
        if target.metadata.id != now.metadata.id:
            return Conflict("the table was made anew")
        refuse_purged(target.version, now, self.url)
        defined = _with_definitions(now.metadata, target.metadata)
        definitions = [defined] if defined != now.metadata else []
        removes = removes_of(_less(snapshot.files, target.files), timestamp_ms, data_change=True)
        back = adds_of(target.describe(_less(target.files, snapshot.files)))
        adds = [msgspec.structs.replace(add, data_change=True) for add in back]
        if not (definitions or removes or adds):
            return Done(now.version)
        added = with_mappings(adds, dataclasses.replace(now, metadata=defined))
        return Plan([*definitions, *removes, *added], {"version": target.version})


def _less(files: pa.Table, others: pa.Table) -> pa.Table:
    """The files that are not among the others."""
    known = others["path"].combine_chunks() if others.num_rows else pa.array([], pa.string())
    return files.filter(pc.invert(pc.is_in(files["path"], value_set=known)))


def _with_definitions(now: Metadata, target: Metadata) -> Metadata:
    return msgspec.structs.replace(now, schema_string=target.schema_string, partition_columns=target.partition_columns)
