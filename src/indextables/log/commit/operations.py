"""Operations that can be committed; each plans its actions on the newest version.

An operation plans again whenever another writer commits first, always from its start and the newest version. The result
is a `Plan`, a `Conflict`, or `Done` if the log contains the work already.

`Replace` exchanges files for others with the same rows, like a merge, and records files that could not be merged.
`Restore` returns to an earlier version.

A purge deletes the files of old versions. It moves the horizon first, in a commit that fails if the table has moved
since the purge read it. A restore of an old version is therefore either visible to the purge, or sees the horizon.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array
from indextables.errors import ConfigError
from indextables.log.commit.conflict import (
    Conflict,
    change_properties,
    rows_fit,
    sources_live,
    still_at,
    with_configuration,
)
from indextables.log.snapshot import Head, Snapshot, refuse_purged
from indextables.protocol import features
from indextables.protocol.actions import Action, Add, Metadata, Remove, Skip
from indextables.protocol.actions import Protocol as ProtocolAction
from indextables.protocol.doc_mapping import (
    REGISTRY_PREFIX,
    deduplicate,
    registry_of,
    used_references,
    with_inline_mappings,
)
from indextables.protocol.file_table import adds_of
from indextables.protocol.horizon import HORIZON_KEY, horizon_of
from indextables.protocol.paths import WRITTEN_PATH_TAG
from indextables.protocol.statistics_tags import FOOTER_TAG


class Plan(NamedTuple):
    """Actions to write, and their parameters for the history."""

    actions: Sequence[Action]
    parameters: Mapping[str, Any] = {}
    dropped_groups: tuple[int, ...] = ()


class Done(NamedTuple):
    """Result without a write: the given version contains the work."""

    version: int


Answer = Plan | Conflict | Done


class Batch(NamedTuple):
    """Batch of a streaming application, committed once for any number of attempts."""

    application_id: str
    batch_id: int

    @classmethod
    def of(cls, application_id: str | None, batch_id: int | None) -> Batch | None:
        """Return the batch, or None if neither argument is given."""
        if application_id is None and batch_id is None:
            return None
        if application_id is None or batch_id is None:
            raise ConfigError("cannot commit a streaming batch with only one of `application_id` and `batch_id`")
        return cls(application_id, batch_id)


class Operation(Protocol):
    """Operation to commit. `now` is a `Snapshot` if `needs_files` is true."""

    @property
    def name(self) -> str:
        """Name in the history."""

    @property
    def needs_files(self) -> bool:
        """True if the plan depends on the live files."""

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        """Return the actions on top of `now` for an operation that began on `start`.

        `timestamp_ms` is the current time, which may be before the time of the newest version.
        """


@dataclasses.dataclass(frozen=True)
class Append:
    """Append of files, independent of the live files.

    `made_for` is the head for which the files were written, if it was read before the commit began; it must still fit.
    With `same_properties`, its table properties must still be in force.
    """

    adds: Sequence[Add]
    batch: Batch | None = None
    made_for: Head | None = None
    same_properties: bool = False
    name: str = "WRITE"

    @property
    def needs_files(self) -> bool:
        return self.batch is not None

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        if done := _committed_before(self.batch, now):
            return done
        if conflict := rows_fit(self.made_for or start, now, same_properties=self.same_properties):
            return conflict
        return Plan(with_mappings(self.adds, now), {"mode": "Append"})


class Scope(NamedTuple):
    """Part of a table for an operation: its name in the history, and its files.

    With `needs_rows`, an operation without new files changes nothing, and makes no version.
    """

    parameters: Mapping[str, str]
    files: Callable[[Snapshot], pa.Table]
    needs_rows: bool = False


@dataclasses.dataclass(frozen=True)
class Overwrite:
    """Replacement of all live files, or the files of a scope, by others.

    `made_for` and `same_properties` are as for `Append`.
    """

    adds: Sequence[Add]
    if_version: int | None = None
    batch: Batch | None = None
    scope: Scope | None = None
    made_for: Head | None = None
    same_properties: bool = False
    name: str = "WRITE"
    needs_files: bool = True

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        if done := _committed_before(self.batch, now):
            return done
        fits = rows_fit(self.made_for or start, now, same_properties=self.same_properties)
        conflict = fits or (still_at(self.if_version, now) if self.if_version is not None else None)
        if conflict:
            return conflict
        if self.scope is not None and self.scope.needs_rows and not self.adds:
            return Done(now.version)
        snapshot = snapshot_of(now)
        files = snapshot.files if self.scope is None else self.scope.files(snapshot)
        part = {} if self.scope is None else self.scope.parameters
        removes = removes_of(files, timestamp_ms, data_change=True)
        return Plan([*removes, *with_mappings(self.adds, now)], {"mode": "Overwrite", **part})


@dataclasses.dataclass(frozen=True)
class DropPartitions:
    """Removal of the files of a scope."""

    scope: Scope
    name: str = "DROP PARTITIONS"
    needs_files: bool = True

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        removes = removes_of(self.scope.files(snapshot_of(now)), timestamp_ms, data_change=True)
        return Plan(removes, self.scope.parameters) if removes else Done(now.version)


@dataclasses.dataclass(frozen=True)
class ChangeMetadata:
    """Change of table properties; None removes one.

    Only changes during the commit are concurrent, so the start is read right before it.
    """

    properties: Mapping[str, str | None]
    name: str = "SET PROPERTIES"
    needs_files: bool = False

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        changed = change_properties(start.metadata, self.properties, now.metadata)
        return changed if isinstance(changed, Conflict) else Plan([changed], {"properties": sorted(self.properties)})


@dataclasses.dataclass(frozen=True)
class UpgradeProtocol:
    """Upgrade of the protocol, never a downgrade: the higher of both wins.

    An operation with `takes_over` may put the first version file on a table whose commits are states.
    """

    wanted: ProtocolAction
    name: str = "UPGRADE PROTOCOL"
    needs_files: bool = False
    takes_over: bool = True

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        upgraded = features.highest(now.protocol, self.wanted)
        if features.highest(now.protocol, now.protocol) == upgraded:
            return Done(now.version)
        versions = {"minReaderVersion": upgraded.min_reader_version, "minWriterVersion": upgraded.min_writer_version}
        return Plan([upgraded], versions)


@dataclasses.dataclass(frozen=True)
class Empty:
    """Version without changes, for a state that needs its own version."""

    name: str
    needs_files: bool = False
    takes_over: bool = True

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        return Plan([])


@dataclasses.dataclass(frozen=True)
class Renormalize:
    """Registration of canonical doc mappings for a state, and removal of unused ones."""

    entries: Mapping[str, str]
    name: str = "RENORMALIZE"
    needs_files: bool = True
    takes_over: bool = True

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        used = used_references(snapshot_of(now).live_files.tables(columns=["doc_mapping_ref"]))
        wanted = {*self.entries, *(REGISTRY_PREFIX + reference for reference in used)}
        known = {**self.entries, **now.metadata.configuration}
        kept = {key: text for key, text in known.items() if key in wanted or not key.startswith(REGISTRY_PREFIX)}
        return Plan([]) if kept == now.metadata.configuration else Plan([with_configuration(now.metadata, kept)])


def with_mappings(adds: Sequence[Add], now: Head) -> list[Action]:
    """Return the adds with references to their doc mappings.

    A metadata action before them defines mappings that are new to the table. Readers of tables below protocol 3 know no
    references: there each add contains its mapping.
    """
    declared = _declared(adds, now.protocol)
    if now.protocol.min_reader_version < features.REFERENCES_VERSION:
        return [*declared, *with_inline_mappings(adds, registry_of(now.metadata.configuration))]
    slim, entries = deduplicate(adds)
    known = now.metadata.configuration
    new = {key: value for key, value in entries.items() if key not in known}
    definition: list[Metadata] = [with_configuration(now.metadata, {**known, **new})] if new else []
    return [*declared, *definition, *slim]


def _declared(adds: Sequence[Add], protocol: ProtocolAction) -> list[ProtocolAction]:
    """Return the protocol with the feature of our splits, if the table lacks it."""
    if features.PARQUET_SPLITS in (protocol.reader_features or ()):
        return []
    wanted = features.declaring(protocol, features.PARQUET_SPLITS)
    is_ours = any(add.tags is not None and FOOTER_TAG in add.tags for add in adds)
    return [wanted] if is_ours and wanted != protocol else []


def removes_of(files: pa.Table, timestamp_ms: int, *, data_change: bool) -> list[Remove]:
    return [
        Remove(
            path=file["path"],
            data_change=data_change,
            deletion_timestamp=timestamp_ms,
            partition_values=dict(file["partition_values"]),
            size=file["size"],
            tags=_written_path(file["tags"]),
        )
        for file in files.select(["path", "partition_values", "size", "tags"]).to_pylist()
    ]


def _written_path(tags: Sequence[tuple[str, str]] | None) -> dict[str, str] | None:
    """Return the tag with the written path: a remove must be spelled like its add."""
    return {key: value for key, value in tags or () if key == WRITTEN_PATH_TAG} or None


def _committed_before(batch: Batch | None, now: Head) -> Done | None:
    if batch is None:
        return None
    known = snapshot_of(now).transactions.get(batch.application_id)
    return Done(known[1]) if known is not None and batch.batch_id <= known[0] else None


def snapshot_of(now: Head) -> Snapshot:
    if not isinstance(now, Snapshot):
        raise TypeError("this operation needs a snapshot, not a head")
    return now


class Replacement(NamedTuple):
    """Files to remove, and the new files with their rows."""

    removed_paths: tuple[str, ...]
    adds: tuple[Add, ...]


@dataclasses.dataclass(frozen=True)
class RecordSkip:
    """Record of a file that could not be processed.

    The count continues from the newest version at the time of the commit.
    """

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
        """Return the skip, counted from the snapshot."""
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
    """Replacement of groups of files by others with the same rows.

    A group with a missing source is dropped; the others are committed. The same version records `skips` of live files
    that could not be replaced. `made_for` is the head for which the new files were written, if it was read before the
    commit began; it must still fit.
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
    sources = to_array({path for group in groups for path in group.removed_paths}, pa.string())
    files = snapshot.files.filter(pc.is_in(snapshot.files["path"], value_set=sources))
    removes = removes_of(files, timestamp_ms, data_change=False)
    adds = [msgspec.structs.replace(add, data_change=False) for group in groups for add in group.adds]
    return [*removes, *with_mappings(adds, snapshot)]


@dataclasses.dataclass(frozen=True)
class MoveHorizon:
    """Announcement that files of versions before the horizon will be deleted.

    It fails if the table has moved.
    """

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
    """Restore of the files of an earlier version.

    Schema and partitioning are restored too; properties and the batches of streams are kept.
    """

    target: Snapshot
    url: str
    name: str = "RESTORE"
    needs_files: bool = True

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        target, snapshot = self.target, snapshot_of(now)
        if target.metadata.id != now.metadata.id:
            return Conflict("the table was recreated")
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
    """Return the files that are not among the others."""
    known = others["path"].combine_chunks() if others.num_rows else to_array([], pa.string())
    return files.filter(pc.invert(pc.is_in(files["path"], value_set=known)))


def _with_definitions(now: Metadata, target: Metadata) -> Metadata:
    return msgspec.structs.replace(now, schema_string=target.schema_string, partition_columns=target.partition_columns)
