"""Writing states: one new manifest with what is new, the old ones by reference, removals as tombstones.

A state is a pure function of the log up to its version, so one that is there already is adopted if it verifies and
stands for the same transaction. It is put if absent, after everything that it names; the hint comes last. A state may
be missing or written anew at any time: the log alone decides what the table is.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.clock import Clock
from indextables.config import Config, settings
from indextables.errors import (
    CheckpointValidationError,
    CheckpointWriteError,
    ObjectExistsError,
    ObjectNotFoundError,
)
from indextables.log.base import DamagedBaseError
from indextables.log.reader import LogReader
from indextables.log.segment import Segment, find_version
from indextables.log.snapshot import Snapshot
from indextables.protocol.actions import Add, Metadata, Remove
from indextables.protocol.doc_mapping import registry_of, without_registry
from indextables.protocol.file_entry import encode_manifest, manifest_name
from indextables.protocol.file_table import AddedFile, files_table
from indextables.protocol.last_checkpoint import LastCheckpoint, encode_last_checkpoint
from indextables.protocol.names import LAST_CHECKPOINT, LOG_DIRECTORY, state_keys
from indextables.protocol.state_manifest import (
    ManifestInfo,
    StateManifest,
    encode_state_manifest,
    resolve_manifest_path,
)
from indextables.state.compaction import needs_compaction, sorted_chunks
from indextables.state.manifests import StateFiles
from indextables.state.reader import StateReader
from indextables.state.written import DamagedStateError, WrittenCheckpoint
from indextables.store import ObjectStore

logger = logging.getLogger(__name__)

_MANIFESTS = f"{LOG_DIRECTORY}/manifests"


ComputeBounds = Callable[[pa.Table, Metadata], dict[str, tuple[str | None, str | None]] | None]
"""The bounds of the partition columns over some files; None where nothing is known."""


@dataclasses.dataclass(frozen=True)
class WrittenState:
    """A state that stands in the store, and whether this call put it there."""

    state: StateManifest
    is_new: bool
    num_bytes: int


class StateWriter:
    """Writes the states of one table."""

    def __init__(
        self, store: ObjectStore, config: Config, clock: Clock, states: StateReader, bounds: ComputeBounds
    ) -> None:
        self._store = store
        self._bounds = bounds
        self._config = config
        self._clock = clock
        self._states = states
        self._codec = config[settings.STATE_COMPRESSION]
        self._level = config[settings.STATE_COMPRESSION_LEVEL]

    def write(
        self,
        reader: LogReader,
        segment: Segment,
        snapshot: Snapshot,
        *,
        compact: bool = False,
        references: object = None,
    ) -> WrittenCheckpoint:
        """The state of a snapshot: adopted where it is there, else written on the newest one before it."""
        existing = self._states.state_at(snapshot.version)
        if existing is not None:
            _check_same(existing, snapshot)
            return WrittenCheckpoint(hint_of(existing), is_new=False, state=existing)
        base = None if compact else self._base(segment, snapshot.version)
        try:
            planned = None if base is None else self._incremental(reader, base, snapshot)
        except DamagedBaseError as error:
            logger.warning("not building on the state of version %d: %s", error.version, error.message)
            planned = None
        if planned is None or needs_compaction(planned[0], planned[2], self._config):
            state, num_bytes = self._compacted(snapshot)
        else:
            state, num_bytes = self._with_new_manifest(*planned[:2])
        return self._put(state, snapshot, num_bytes)

    def _base(self, segment: Segment, version: int) -> StateManifest | None:
        older = [at for at in segment.checkpoints if segment.oldest - 1 <= at < version]
        return next((state for at in sorted(older, reverse=True) if (state := self._states.state_at(at))), None)

    def _incremental(
        self, reader: LogReader, base: StateManifest, snapshot: Snapshot
    ) -> tuple[StateManifest, pa.Table, int] | None:
        """The state on top of `base`, the table of its new files, and how many were removed; None where it must be
        compacted, because a path of the base came back."""
        added: dict[str, AddedFile] = {}
        removed: set[str] = set()
        timestamp_ms = snapshot.timestamp_ms
        for file in reader.read_versions(range(base.state_version + 1, snapshot.version + 1)):
            timestamp_ms = max(base.version_timestamp or 0, file.timestamp_ms)
            for action in file.actions:
                if isinstance(action, Add):
                    added[action.path] = AddedFile(action, file.version, timestamp_ms)
                elif isinstance(action, Remove):
                    added.pop(action.path, None)
                    removed.add(action.path)
        self._check_manifests(base)
        in_base = self._live_in(base, [*added, *removed])
        if any(path in in_base for path in added) or set(added) & set(base.tombstones):
            return None
        dead = sorted(removed & in_base)
        infos = tuple(_by_log_path(info, base.state_version) for info in base.manifests)
        state = msgspec.structs.replace(
            self._frame(snapshot), manifests=infos, tombstones=tuple(sorted({*base.tombstones, *dead}))
        )
        return state, files_table(added.values()), len(dead)

    def _check_manifests(self, base: StateManifest) -> None:
        """See that what is to be referenced is there: a copy of it in a local cache proves nothing."""
        for info in base.manifests:
            key = resolve_manifest_path(info.path, base.state_version)
            try:
                self._store.head(key)
            except ObjectNotFoundError as error:
                raise DamagedBaseError(f"`{key}` is missing", version=base.state_version) from error

    def _live_in(self, base: StateManifest, paths: Sequence[str]) -> set[str]:
        if not paths:
            return set()
        wanted = pa.array(paths, pa.string())
        found: set[str] = set()
        for table in StateFiles(base, self._states.manifests).tables():
            found.update(pc.filter(table["path"], pc.is_in(table["path"], value_set=wanted)).to_pylist())
        return found

    def _with_new_manifest(self, state: StateManifest, new: pa.Table) -> tuple[StateManifest, int]:
        if not new.num_rows:
            return state, 0
        assert state.metadata is not None  # noqa: S101 - the frame of every state of ours holds it
        info, num_bytes = self._put_manifest(new, state.metadata)
        return msgspec.structs.replace(state, manifests=(*state.manifests, info)), num_bytes

    def _compacted(self, snapshot: Snapshot) -> tuple[StateManifest, int]:
        size = self._config[settings.STATE_ENTRIES_PER_MANIFEST]
        written = [
            self._put_manifest(chunk, snapshot.metadata)
            for chunk in sorted_chunks(snapshot.files, snapshot.partition_columns, size)
        ]
        infos = tuple(info for info, _ in written)
        return msgspec.structs.replace(self._frame(snapshot), manifests=infos), sum(size for _, size in written)

    def _put_manifest(self, files: pa.Table, metadata: Metadata) -> tuple[ManifestInfo, int]:
        data = encode_manifest(files, codec=self._codec, level=self._level)
        name = manifest_name(data)
        # Put again where it is there already: its age protects it from garbage collection.
        self._store.put(f"{_MANIFESTS}/{name}", data)
        versions = pc.min_max(files["added_at_version"]).as_py()
        info = ManifestInfo(
            path=f"manifests/{name}",
            num_entries=files.num_rows,
            min_added_at_version=versions["min"],
            max_added_at_version=versions["max"],
            partition_bounds=self._bounds(files, metadata) if metadata.partition_columns else None,
            live_entry_count=files.num_rows,
        )
        return info, len(data)

    def _frame(self, snapshot: Snapshot) -> StateManifest:
        """The state without its manifests."""
        configuration = snapshot.metadata.configuration
        return StateManifest(
            state_version=snapshot.version,
            created_at=self._clock.now_ms(),
            num_files=snapshot.num_files,
            total_bytes=snapshot.total_bytes,
            schema_registry=registry_of(configuration),
            metadata=msgspec.structs.replace(snapshot.metadata, configuration=without_registry(configuration)),
            protocol=snapshot.protocol,
            skips=dict(snapshot.skips),
            transactions=dict(snapshot.transactions),
            version_timestamp=snapshot.timestamp_ms,
            version_txn_id=snapshot.txn_id,
        )

    def _put(self, state: StateManifest, snapshot: Snapshot, num_bytes: int) -> WrittenCheckpoint:
        data = encode_state_manifest(state, codec=self._codec, level=self._level)
        self._check_version_is_there(state.state_version)
        try:
            self._store.put_if_absent(state_keys(state.state_version)[0], data)
        except ObjectExistsError:
            existing = self._states.state_at(state.state_version)
            if existing is None:
                raise DamagedStateError(
                    f"cannot write the state of version {state.state_version} of `{self._store.location.url}` because "
                    "a damaged one stands in its place",
                    hint="a checkpoint commits an empty version and writes its state",
                ) from None
            _check_same(existing, snapshot)
            return WrittenCheckpoint(hint_of(existing), is_new=False, state=existing)
        self._put_hint(state)
        return WrittenCheckpoint(hint_of(state), is_new=True, num_bytes=num_bytes + len(data), state=state)

    def _check_version_is_there(self, version: int) -> None:
        """A table that was deleted meanwhile, and perhaps made anew, must not get a state of its former life."""
        if find_version(self._store, version) is None and self._states.state_at(version - 1) is None:
            raise CheckpointWriteError(
                f"cannot write a state of `{self._store.location.url}` because the version is gone: {version}"
            )

    def _put_hint(self, state: StateManifest) -> None:
        self._store.put(f"{LOG_DIRECTORY}/{LAST_CHECKPOINT}", encode_last_checkpoint(hint_of(state)))


def hint_of(state: StateManifest) -> LastCheckpoint:
    """What `_last_checkpoint` says of a state."""
    return LastCheckpoint(
        version=state.state_version,
        size=state.num_files,
        size_in_bytes=state.total_bytes,
        num_files=state.num_files,
        created_time=state.created_at,
        format="avro-state",
        state_dir=f"state-v{state.state_version:020d}",
    )


def _by_log_path(info: ManifestInfo, state_version: int) -> ManifestInfo:
    """The manifest by its path from the log, which means the same in every state."""
    path = resolve_manifest_path(info.path, state_version).removeprefix(f"{LOG_DIRECTORY}/")
    return msgspec.structs.replace(info, path=path)


def _check_same(state: StateManifest, snapshot: Snapshot) -> None:
    if state.version_txn_id is not None and snapshot.txn_id is not None and state.version_txn_id != snapshot.txn_id:
        raise CheckpointValidationError(
            f"cannot use the state of version {state.state_version} because it stands for the transaction "
            f"`{state.version_txn_id}`, and the log holds `{snapshot.txn_id}` there: two kinds of writers are at work"
        )
