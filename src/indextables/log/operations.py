"""What can be committed: each operation says, for the newest version it is given, which actions it would write.

An operation is asked again whenever another writer was first, always with what it started from and what stands now. Its
answer is a `Plan`, a `Conflict`, or `Done` where the work turns out to be in the log already.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from indextables.errors import ConfigError
from indextables.log.conflict import Conflict, change_properties, rows_fit, still_at, with_configuration
from indextables.log.snapshot import Head, Snapshot
from indextables.protocol import features
from indextables.protocol.actions import Action, Add, Metadata, Remove
from indextables.protocol.actions import Protocol as ProtocolAction
from indextables.protocol.doc_mapping import (
    REGISTRY_PREFIX,
    deduplicate,
    registry_of,
    used_references,
    with_inline_mappings,
)
from indextables.protocol.paths import WRITTEN_PATH_TAG
from indextables.protocol.statistics import FOOTER_TAG


class Plan(NamedTuple):
    """What to write, and what to say of it in the history."""

    actions: Sequence[Action]
    parameters: Mapping[str, Any] = {}
    dropped_groups: tuple[int, ...] = ()


class Done(NamedTuple):
    """Nothing is to be written: the given version holds it."""

    version: int


Answer = Plan | Conflict | Done


class Batch(NamedTuple):
    """A batch of a streaming application, committed once however often it is tried."""

    application_id: str
    batch_id: int

    @classmethod
    def of(cls, application_id: str | None, batch_id: int | None) -> Batch | None:
        """The batch, or None where neither is given."""
        if application_id is None and batch_id is None:
            return None
        if application_id is None or batch_id is None:
            raise ConfigError("cannot commit a streaming batch with only one of `application_id` and `batch_id`")
        return cls(application_id, batch_id)


class Operation(Protocol):
    """Something to commit. `now` is a `Snapshot` where `needs_files` is true."""

    @property
    def name(self) -> str:
        """What the history calls it."""

    @property
    def needs_files(self) -> bool:
        """Whether the plan depends on the live files."""

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        """The actions on top of `now`, for an operation that was begun on `start`. `timestamp_ms` is the time, which
        may lie before the time that the newest version claims."""


@dataclasses.dataclass(frozen=True)
class Append:
    """Add files. Never looks at the files that are there.

    `made_for` is what the files were written for, where that was read before the commit began; it must fit still.
    """

    adds: Sequence[Add]
    batch: Batch | None = None
    made_for: Head | None = None
    name: str = "WRITE"

    @property
    def needs_files(self) -> bool:
        return self.batch is not None

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        if done := _committed_before(self.batch, now):
            return done
        if conflict := rows_fit(self.made_for or start, now):
            return conflict
        return Plan(with_mappings(self.adds, now), {"mode": "Append"})


class Scope(NamedTuple):
    """The part of a table that an operation is about: how the history calls it, and which of a snapshot's files are of
    it. With `needs_rows` an operation that brings no files changes nothing, and is no version."""

    parameters: Mapping[str, str]
    files: Callable[[Snapshot], pa.Table]
    needs_rows: bool = False


@dataclasses.dataclass(frozen=True)
class Overwrite:
    """Remove every file that is live at the moment of the commit, or those of a part of the table, and add others.

    `made_for` is what the files were written for, where that was read before the commit began; it must fit still.
    """

    adds: Sequence[Add]
    if_version: int | None = None
    batch: Batch | None = None
    scope: Scope | None = None
    made_for: Head | None = None
    name: str = "WRITE"
    needs_files: bool = True

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        if done := _committed_before(self.batch, now):
            return done
        fits = rows_fit(self.made_for or start, now)
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
    """Remove the files of a part of the table."""

    scope: Scope
    name: str = "DROP PARTITIONS"
    needs_files: bool = True

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        removes = removes_of(self.scope.files(snapshot_of(now)), timestamp_ms, data_change=True)
        return Plan(removes, self.scope.parameters) if removes else Done(now.version)


@dataclasses.dataclass(frozen=True)
class ChangeMetadata:
    """Set table properties; None takes one away. Only what others change while it is committed is concurrent, so the
    head that it starts from was read just before."""

    properties: Mapping[str, str | None]
    name: str = "SET PROPERTIES"
    needs_files: bool = False

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        changed = change_properties(start.metadata, self.properties, now.metadata)
        return changed if isinstance(changed, Conflict) else Plan([changed], {"properties": sorted(self.properties)})


@dataclasses.dataclass(frozen=True)
class UpgradeProtocol:
    """Raise the protocol. Never lowers it: the higher of both wins.

    An operation that `takes_over` may put the first version file on a table whose commits are states.
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
    """A version that changes nothing, for a state that needs a version of its own."""

    name: str
    needs_files: bool = False
    takes_over: bool = True

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        return Plan([])


@dataclasses.dataclass(frozen=True)
class Renormalize:
    """Name doc mappings in one more way, for a state that refers to them so, and drop those that no file names."""

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
    """The adds by reference to their doc mappings, behind a metadata action where a mapping is new to the table.

    Readers of tables below protocol 3 know no references: there each add carries its mapping.
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
    """The protocol that names the feature of our splits, where the table gets one and does not name it yet."""
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
    """Of a file's tags the one that says how its path was written: a remove must be spelled like its add."""
    return {key: value for key, value in tags or () if key == WRITTEN_PATH_TAG} or None


def _committed_before(batch: Batch | None, now: Head) -> Done | None:
    if batch is None:
        return None
    known = snapshot_of(now).transactions.get(batch.application_id)
    return Done(known[1]) if known is not None and batch.batch_id <= known[0] else None


def snapshot_of(now: Head) -> Snapshot:
    if not isinstance(now, Snapshot):
        raise TypeError("this operation was given a head where it needs a snapshot")
    return now
