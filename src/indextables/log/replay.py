"""The fold: versions in order make a snapshot. Pure.

Actions fold in line order. The newest metadata and protocol win; a table without a protocol action is 1/1. Times of
versions never go back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from indextables.errors import CorruptLogError
from indextables.log.files import LiveFiles
from indextables.log.metrics import REPLAY
from indextables.log.snapshot import NAMELESS, Head, Snapshot, mark_at
from indextables.protocol.actions import Action, Add, CommitInfo, Metadata, Protocol, Remove, Skip
from indextables.protocol.doc_mapping import registry_of
from indextables.protocol.features import LEGACY_PROTOCOL, PARQUET_SPLITS, highest
from indextables.protocol.file_table import AddedFile
from indextables.protocol.names import version_key
from indextables.protocol.version_file import commit_info, mark_of


class VersionFile(NamedTuple):
    """A version file that was read: its actions, and when it was committed."""

    version: int
    actions: tuple[Action, ...]
    timestamp_ms: int

    @property
    def info(self) -> CommitInfo | None:
        return commit_info(self.actions)

    @property
    def txn_id(self) -> str | None:
        """Transaction that the file names; `NAMELESS` if its writer left none, None for version 0, which has none."""
        info = self.info
        if info is not None:
            return info.txn_id
        return None if self.version == 0 else NAMELESS

    @property
    def mark(self) -> str:
        """Name by which the next version must know this one; `NAMELESS` if it has none."""
        return mark_of(self.version, self.actions) or NAMELESS

    @property
    def begins_a_table(self) -> bool:
        """Whether the file holds what version 0 holds: a protocol and a metadata action, and nothing else."""
        return sorted(type(action).__name__ for action in self.actions) == ["Metadata", "Protocol"]


def recorded_time_ms(version: int, actions: Sequence[Action]) -> int | None:
    """When a version says it was committed: by its own line; version 0, which has none, by the table's creation."""
    info = commit_info(actions)
    if info is not None:
        return info.timestamp
    created = [action.created_time for action in actions if isinstance(action, Metadata)]
    return created[0] if version == 0 and created else None


def fold(base: Snapshot | None, versions: Iterable[VersionFile]) -> Snapshot:
    """The snapshot after `versions`, which follow `base` without a gap (or start at version 0)."""
    state = _State(base)
    for file in versions:
        state.apply(file)
    return state.snapshot()


def advance(head: Head, versions: Sequence[VersionFile]) -> Head:
    """The head after `versions`, without looking at their files."""
    for file in versions:
        metadata, protocol = newest_definitions(file.actions)
        check_chain(head.version, head.mark, file, head.protocol)
        head = Head(
            version=file.version,
            timestamp_ms=max(head.timestamp_ms, file.timestamp_ms),
            txn_id=file.txn_id,
            protocol=protocol or head.protocol,
            metadata=metadata or head.metadata,
        )
    return head


def check_chain(version: int, mark: str | None, file: VersionFile, protocol: Protocol | None = None) -> None:
    """Refuse a version that does not stand on the one before it: another file took the place of one of the two.

    A version with a commit line names the version before it, unless that one is `NAMELESS`. Versions of other writers
    have no commit line and are taken as they come, but for two: the beginning of a table is no later version of it,
    unless it raises the protocol; and where the protocol in force keeps other writers out, there are none. `mark` is
    None where the version before is not known.
    """
    info = file.info
    if info is not None:
        stands = mark is None or (info.parent_txn_id or NAMELESS) == mark
        why = f"it stands on another version {version} than the one that is there"
    elif protocol is not None and PARQUET_SPLITS in (protocol.reader_features or ()):
        stands = False
        why = "it has no commit line, and all writers that may write this table leave one"
    else:
        stands = not file.begins_a_table or (protocol is not None and _raises(protocol, file))
        why = f"it begins a table, as version 0 does, and names no version {version} that it stands on"
    if not stands:
        raise BrokenChainError(
            f"cannot read version {file.version} because {why}",
            version=file.version,
            path=version_key(file.version),
            hint="another file has taken its place; `REPAIR INDEXFILES TRANSACTION LOG` writes a clean log",
        )


def _raises(protocol: Protocol, file: VersionFile) -> bool:
    """Whether a version asks for more than the protocol in force."""
    wanted = newest_definitions(file.actions)[1]
    return wanted is not None and highest(protocol, wanted) != highest(protocol, protocol)


class BrokenChainError(CorruptLogError):
    """Two versions that do not belong together. A new look at the log finds a state above them, if there is one."""


def newest_definitions(actions: Iterable[Action]) -> tuple[Metadata | None, Protocol | None]:
    """The last metadata and the last protocol among some actions."""
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    for action in actions:
        if isinstance(action, Metadata):
            metadata = action
        elif isinstance(action, Protocol):
            protocol = action
    return metadata, protocol


def missing_metadata(version: int) -> CorruptLogError:
    return CorruptLogError(
        f"cannot read version {version} because no version up to it holds a metadata action",
        version=version,
        hint="version 0 of a table holds its schema; restore it, or repair the log",
    )


def head_of(snapshot: Snapshot) -> Head:
    """The snapshot without its files."""
    return Head(**{field.name: getattr(snapshot, field.name) for field in dataclasses.fields(Head)})


class _State:
    """The one mutable thing of a fold, gone when it ends."""

    def __init__(self, base: Snapshot | None) -> None:
        self.version = -1 if base is None else base.version
        self.timestamp_ms = -(2**63) if base is None else base.timestamp_ms
        self.txn_id = None if base is None else base.txn_id
        self.protocol = None if base is None else base.protocol
        self.metadata = None if base is None else base.metadata
        self.live_files = LiveFiles() if base is None else base.live_files
        self.skips = {} if base is None else dict(base.skips)
        self.transactions = {} if base is None else dict(base.transactions)
        self.source = REPLAY if base is None else base.source
        self.dropped_mappings = {} if base is None else dict(base.dropped_mappings)
        self.removed: set[str] = set()
        self.added: dict[str, AddedFile] = {}

    def apply(self, file: VersionFile) -> None:
        if self.metadata is not None:
            mark = mark_at(self.version, self.txn_id, self.metadata)
            check_chain(self.version, mark, file, self.protocol or LEGACY_PROTOCOL)
        self.version = file.version
        self.timestamp_ms = max(self.timestamp_ms, file.timestamp_ms)
        self.txn_id = file.txn_id
        for action in file.actions:
            match action:
                case Add():
                    self._add(action)
                case Remove():
                    self._remove(action.path)
                case Metadata():
                    self._define(action)
                case Protocol():
                    self.protocol = action
                case Skip():
                    self.skips[action.path] = _stronger(self.skips.get(action.path), action)
                case CommitInfo() if action.application_id is not None and action.batch_id is not None:
                    self._batch(action.application_id, action.batch_id)

    def snapshot(self) -> Snapshot:
        if self.metadata is None:
            raise missing_metadata(self.version)
        return Snapshot(
            version=self.version,
            timestamp_ms=self.timestamp_ms,
            txn_id=self.txn_id,
            protocol=self.protocol or LEGACY_PROTOCOL,
            metadata=self.metadata,
            live_files=self.live_files.change(self.removed, self.added),
            skips=self.skips,
            transactions=self.transactions,
            source=self.source,
            dropped_mappings=self.dropped_mappings,
        )

    def _define(self, metadata: Metadata) -> None:
        if self.metadata is not None and self.metadata.configuration.keys() - metadata.configuration.keys():
            known, left = registry_of(self.metadata.configuration), registry_of(metadata.configuration)
            self.dropped_mappings.update({key: text for key, text in known.items() if key not in left})
        self.metadata = metadata

    def _add(self, add: Add) -> None:
        self.added.pop(add.path, None)
        self.added[add.path] = AddedFile(add, self.version, self.timestamp_ms)

    def _remove(self, path: str) -> None:
        self.added.pop(path, None)
        self.removed.add(path)
        self.skips.pop(path, None)

    def _batch(self, application_id: str, batch_id: int) -> None:
        known = self.transactions.get(application_id)
        if known is None or batch_id >= known[0]:
            self.transactions[application_id] = (batch_id, self.version)


def _stronger(known: Skip | None, new: Skip) -> Skip:
    """A later skip never shortens a cooldown or a count."""
    if known is None:
        return new
    retry_after = max((moment for moment in (known.retry_after, new.retry_after) if moment is not None), default=None)
    return msgspec.structs.replace(new, retry_after=retry_after, skip_count=max(known.skip_count, new.skip_count))
