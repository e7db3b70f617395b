"""Fold: versions in order make a snapshot; pure.

Actions fold in line order. The newest metadata and protocol win; a table without a protocol action has protocol 1/1.
Times of versions never go back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from indextables.errors import CorruptLogError
from indextables.log.files import LiveFiles
from indextables.log.metrics import REPLAY
from indextables.log.snapshot import NAMELESS, Head, Snapshot, identity_at
from indextables.protocol.actions import Action, Add, CommitInfo, Metadata, Protocol, Remove, Skip
from indextables.protocol.doc_mapping import registry_of
from indextables.protocol.features import LEGACY_PROTOCOL, PARQUET_SPLITS, highest
from indextables.protocol.file_table import AddedFile
from indextables.protocol.names import version_key
from indextables.protocol.version_file import commit_info, identity_of


class VersionFile(NamedTuple):
    """Decoded version file with its commit time."""

    version: int
    actions: tuple[Action, ...]
    timestamp_ms: int

    @property
    def info(self) -> CommitInfo | None:
        return commit_info(self.actions)

    @property
    def txn_id(self) -> str | None:
        """Transaction id; `NAMELESS` without one, None for version 0, which never has one."""
        info = self.info
        if info is not None:
            return info.txn_id
        return None if self.version == 0 else NAMELESS

    @property
    def identity(self) -> str:
        """Name by which the next version must refer to this one.

        `NAMELESS` if it has none.
        """
        return identity_of(self.version, self.actions) or NAMELESS

    @property
    def begins_a_table(self) -> bool:
        """True for the content of version 0: one protocol and one metadata action only."""
        return sorted(type(action).__name__ for action in self.actions) == ["Metadata", "Protocol"]


def recorded_time_ms(version: int, actions: Sequence[Action]) -> int | None:
    """Return the recorded commit time of a version.

    It is in the commit line, or for version 0, which has none, in the metadata.
    """
    info = commit_info(actions)
    if info is not None:
        return info.timestamp
    created = [action.created_time for action in actions if isinstance(action, Metadata)]
    return created[0] if version == 0 and created else None


def fold(base: Snapshot | None, versions: Iterable[VersionFile]) -> Snapshot:
    """Return the snapshot after `versions`, which follow `base` or start at version 0."""
    state = _State(base)
    for file in versions:
        state.apply(file)
    return state.snapshot()


def advance(head: Head, versions: Sequence[VersionFile]) -> Head:
    """Return the head after `versions`, ignoring their files."""
    for file in versions:
        metadata, protocol = newest_definitions(file.actions)
        check_chain(head.version, head.identity, file, head.protocol)
        head = Head(
            version=file.version,
            timestamp_ms=max(head.timestamp_ms, file.timestamp_ms),
            txn_id=file.txn_id,
            protocol=protocol or head.protocol,
            metadata=metadata or head.metadata,
            defined_by=head.definitions_version if metadata is None and protocol is None else file.version,
        )
    return head


def leap(head: Head, last: Sequence[VersionFile]) -> Head | None:
    """Return the head at the newest version, from the last two versions alone.

    Return None if the newest version does not prove that protocol and metadata are still those of `head`.
    """
    before, newest = last
    info = newest.info
    if info is None or info.definitions_version is None or info.definitions_version > head.version:
        return None
    check_chain(before.version, before.identity, newest, head.protocol)
    return Head(
        version=newest.version,
        timestamp_ms=max(head.timestamp_ms, newest.timestamp_ms),
        txn_id=newest.txn_id,
        protocol=head.protocol,
        metadata=head.metadata,
        defined_by=info.definitions_version,
    )


def check_chain(version: int, identity: str | None, file: VersionFile, protocol: Protocol | None = None) -> None:
    """Refuse a version that does not follow the one before it: one was replaced.

    A version with a commit line names the version before it, unless that one is `NAMELESS`. Versions of other writers
    have no commit line and are accepted, with two exceptions: the content of version 0 is refused as a later version,
    unless it raises the protocol; and a protocol that excludes other writers excludes such versions. `identity` is None
    if the version before is unknown.
    """
    info = file.info
    if info is not None:
        stands = identity is None or (info.parent_txn_id or NAMELESS) == identity
        why = f"it follows another version {version} than the existing one"
    elif protocol is not None and PARQUET_SPLITS in (protocol.reader_features or ()):
        stands = False
        why = "it has no commit line, and all writers that may write this table leave one"
    else:
        stands = not file.begins_a_table or (protocol is not None and _raises(protocol, file))
        why = f"it begins a table, as version 0 does, and names no version {version} before it"
    if not stands:
        raise BrokenChainError(
            f"cannot read version {file.version} because {why}",
            version=file.version,
            path=version_key(file.version),
            hint="another file has taken its place; `REPAIR INDEXFILES TRANSACTION LOG` writes a clean log",
        )


def _raises(protocol: Protocol, file: VersionFile) -> bool:
    """Return True if a version requires more than the protocol in force."""
    wanted = newest_definitions(file.actions)[1]
    return wanted is not None and highest(protocol, wanted) != highest(protocol, protocol)


class BrokenChainError(CorruptLogError):
    """Two consecutive versions do not match.

    A new listing of the log finds a state above them, if there is one.
    """


def newest_definitions(actions: Iterable[Action]) -> tuple[Metadata | None, Protocol | None]:
    """Return the last metadata and the last protocol among some actions."""
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
        f"cannot read version {version} because no version up to it has a metadata action",
        version=version,
        hint="version 0 of a table has its schema; restore it, or repair the log",
    )


def head_of(snapshot: Snapshot) -> Head:
    """Return the snapshot without its files."""
    return Head(**{field.name: getattr(snapshot, field.name) for field in dataclasses.fields(Head)})


class _State:
    """Mutable state of a fold."""

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
        self.defined_by = 0 if base is None else base.definitions_version
        self.removed: set[str] = set()
        self.added: dict[str, AddedFile] = {}

    def apply(self, file: VersionFile) -> None:
        if self.metadata is not None:
            identity = identity_at(self.version, self.txn_id, self.metadata)
            check_chain(self.version, identity, file, self.protocol or LEGACY_PROTOCOL)
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
                    self.defined_by = file.version
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
            defined_by=self.defined_by,
        )

    def _define(self, metadata: Metadata) -> None:
        if self.metadata is not None and self.metadata.configuration.keys() - metadata.configuration.keys():
            known, left = registry_of(self.metadata.configuration), registry_of(metadata.configuration)
            self.dropped_mappings.update({key: text for key, text in known.items() if key not in left})
        self.metadata = metadata
        self.defined_by = self.version

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
    """Return the newer skip, without shortening its cooldown or lowering its count."""
    if known is None:
        return new
    retry_after = max((moment for moment in (known.retry_after, new.retry_after) if moment is not None), default=None)
    return msgspec.structs.replace(new, retry_after=retry_after, skip_count=max(known.skip_count, new.skip_count))
