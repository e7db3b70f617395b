"""Writer of states.

A new manifest with new files, references to old manifests, tombstones.

A state is a pure function of the log up to its version, so an existing one is adopted if it is valid and has the same
transaction. It is put if absent, after all its manifests; the hint is last. A state may be missing or rewritten at any
time: only the log defines the table.

A new state reuses the manifests of the previous one. `ReusedManifests` checks that they exist and renews old ones:
garbage collection deletes unreferenced manifests of some age, and may decide so while a state that refers to them again
is being written. Manifests of half that age are therefore put again, the same bytes under the same key. Ages are by the
store's clock: relative to the time of an object that was put just before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.clock import Clock
from indextables.config import Config, settings
from indextables.errors import (
    CheckpointCorruptionError,
    CheckpointWriteError,
    ObjectExistsError,
    ObjectNotFoundError,
)
from indextables.log.base import DamagedBaseError
from indextables.log.reader import LogReader
from indextables.log.segment import Segment
from indextables.log.snapshot import Snapshot
from indextables.protocol.actions import Metadata
from indextables.protocol.avro.file_entry import encode_manifest, manifest_name, verify_manifest
from indextables.protocol.avro.state_manifest import (
    ManifestInfo,
    StateManifest,
    encode_state_manifest,
    resolve_manifest_path,
)
from indextables.protocol.checkpoint.last_checkpoint import LastCheckpoint
from indextables.protocol.doc_mapping import registry_of, replace_references, used_references
from indextables.protocol.file_table import files_table
from indextables.protocol.names import LOG_DIRECTORY, state_keys
from indextables.state.changes import changes_since, kept_of, sum_of_sizes
from indextables.state.compaction import ReadFiles, laid_out, needs_compaction
from indextables.state.path_bounds import path_bounds
from indextables.state.reader import StateReader
from indextables.state.written import (
    MOST_BYTES,
    WrittenCheckpoint,
    check_same,
    check_version_is_there,
    prefer,
    put_hint,
    refuse_damaged,
    writing,
)
from indextables.store import ObjectMeta, ObjectStore

MANIFESTS = f"{LOG_DIRECTORY}/manifests"

_HALF_AN_HOUR_MS = 1_800_000
_FEW = 3


class ReusedManifests:
    """Existing manifests of a state; `DamagedBaseError` if one is missing or damaged."""

    def __init__(self, store: ObjectStore, state: StateManifest, config: Config) -> None:
        self._store = store
        self._state_version = state.state_version
        self._oldest_ms = config[settings.STATE_GC_MIN_MANIFEST_AGE_HOURS] * _HALF_AN_HOUR_MS
        keys = {resolve_manifest_path(info.path, state.state_version) for info in state.manifests}
        listed = {meta.key: meta for meta in store.list(MANIFESTS) if meta.key in keys} if len(keys) > _FEW else {}
        self._found = [listed.get(key) or self._look_at(key) for key in sorted(keys)]

    def keep_young(self, just_put: str | None) -> None:
        """Put the older manifests again.

        `just_put` is a key with the current time; without one, the smallest manifest is put again, to learn the time at
        the least cost.
        """
        collected = [meta for meta in self._found if meta.key.startswith(f"{MANIFESTS}/")]
        if not collected:
            return
        if just_put is None:
            just_put = min(collected, key=lambda meta: meta.size).key
            self._put_again(just_put)
        now_ms = self._store.head(just_put).modified_ms
        for meta in collected:
            if meta.key != just_put and now_ms - meta.modified_ms > self._oldest_ms:
                self._put_again(meta.key)

    def _look_at(self, key: str) -> ObjectMeta:
        """Request a manifest by name.

        A copy in a local cache proves nothing, and a listing may miss objects.
        """
        try:
            return self._store.head(key)
        except ObjectNotFoundError as error:
            raise self._damaged(f"`{key}` is missing") from error

    def _put_again(self, key: str) -> None:
        try:
            data = self._store.get(key)
            verify_manifest(key, data)
        except ObjectNotFoundError as error:
            raise self._damaged(f"`{key}` is missing") from error
        except CheckpointCorruptionError as error:
            raise self._damaged(error.message) from error
        self._store.put(key, data)

    def _damaged(self, why: str) -> DamagedBaseError:
        return DamagedBaseError(why, version=self._state_version)


logger = logging.getLogger(__name__)

ComputeBounds = Callable[[pa.Table, Metadata], dict[str, tuple[str | None, str | None]] | None]
"""Function that returns the bounds of partition columns of files; None if unknown."""


class _PutManifest(NamedTuple):
    key: str
    info: ManifestInfo
    num_bytes: int
    plain_bytes: int
    size_of_files: int
    references: frozenset[str]


class _Built(NamedTuple):
    """State to put, with its new manifests."""

    state: StateManifest
    manifests: Sequence[_PutManifest]


class StateWriter:
    """Writer of the states of one table."""

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
        references: Mapping[str, str] | None = None,
    ) -> WrittenCheckpoint:
        """Return the state of a snapshot: adopted, or written on top of the previous one.

        A compacted state may use other `references` to doc mappings, which the snapshot's registry must contain.
        """
        existing = self._states.state_at(snapshot.version)
        if existing is not None:
            return self._adopt(existing, snapshot)
        built = None if compact or references else self._on_base(reader, segment, snapshot)
        return self._put(built or self._compacted(snapshot, references or {}), snapshot)

    def _on_base(self, reader: LogReader, segment: Segment, snapshot: Snapshot) -> _Built | None:
        """Build the state on top of the newest one before it.

        Return None if there is no such state, or if it must be compacted.
        """
        readable = range(segment.oldest - 1, snapshot.version)
        older = sorted((at for at in segment.checkpoints if at in readable), reverse=True)
        base = next((state for at in older if (state := self._states.state_at(at))), None)
        if base is None:
            return None
        try:
            return self._incremental(reader, base, snapshot)
        except DamagedBaseError as error:
            logger.warning("not building on the state of version %d: %s", error.version, error.message)
            return None

    def _incremental(self, reader: LogReader, base: StateManifest, snapshot: Snapshot) -> _Built | None:
        reused = ReusedManifests(self._store, base, self._config)
        changes = changes_since(base, reader.read_versions(range(base.state_version + 1, snapshot.version + 1)))
        kept = kept_of(base, changes, self._states.manifests)
        if kept is None:
            return None
        new = files_table(changes.added.values())
        state = msgspec.structs.replace(
            self._frame(snapshot, kept.num_files + new.num_rows, kept.total_bytes + sum_of_sizes(new)),
            manifests=tuple(_by_log_path(info, base.state_version) for info in kept.manifests),
            schema_registry={**base.schema_registry, **registry_of(snapshot.metadata.configuration)},
            tombstones=tuple(sorted({*base.tombstones, *changes.tombstones(kept.dead)})),
        )
        if needs_compaction(state, changes, self._config):
            return None
        written = self._put_manifests(lambda _: iter([new]), snapshot)
        with writing(self._store, snapshot.version):
            reused.keep_young(written[-1].key if written else None)
        infos = (*state.manifests, *(each.info for each in written))
        return _Built(msgspec.structs.replace(state, manifests=infos), written)

    def _compacted(self, snapshot: Snapshot, references: Mapping[str, str]) -> _Built:
        if not snapshot.doc_mappings.keys() >= set(references.values()):
            raise CheckpointWriteError(
                f"cannot write the state of version {snapshot.version} of `{self._store.location.url}` because its "
                "files would refer to doc mappings that the table does not have",
                version=snapshot.version,
            )
        written = self._put_manifests(lambda columns: snapshot.live_files.tables(columns=columns), snapshot, references)
        frame = self._frame(
            snapshot, sum(each.info.num_entries for each in written), sum(each.size_of_files for each in written)
        )
        used = {reference for each in written for reference in each.references}
        known = snapshot.doc_mappings
        return _Built(
            msgspec.structs.replace(
                frame,
                manifests=tuple(each.info for each in written),
                schema_registry={**frame.schema_registry, **{name: known[name] for name in used & known.keys()}},
            ),
            written,
        )

    def _put_manifests(
        self, read: ReadFiles, snapshot: Snapshot, references: Mapping[str, str] | None = None
    ) -> list[_PutManifest]:
        types = {name: snapshot.schema.field(name).type for name in snapshot.partition_columns}
        return [
            self._put_manifest(replace_references(chunk, references) if references else chunk, snapshot)
            for chunk in laid_out(read, types, self._config[settings.STATE_ENTRIES_PER_MANIFEST])
        ]

    def _put_manifest(self, files: pa.Table, snapshot: Snapshot) -> _PutManifest:
        data = encode_manifest(files, codec=self._codec, level=self._level)
        name = manifest_name(data)
        # Put it again even if it exists: its age protects it from garbage collection.
        with writing(self._store, snapshot.version):
            self._store.put(f"{MANIFESTS}/{name}", data)
        self._states.manifests.remember(f"{MANIFESTS}/{name}", files)
        versions = pc.min_max(files["added_at_version"]).as_py()
        references = frozenset(used_references([files]))
        info = ManifestInfo(
            path=f"manifests/{name}",
            num_entries=files.num_rows,
            min_added_at_version=versions["min"],
            max_added_at_version=versions["max"],
            partition_bounds=self._bounds(files, snapshot.metadata) if snapshot.partition_columns else None,
            live_entry_count=files.num_rows,
            path_bounds=path_bounds(files["path"]),
            doc_mapping_refs=tuple(sorted(references)),
            run=snapshot.version,
        )
        return _PutManifest(f"{MANIFESTS}/{name}", info, len(data), files.nbytes, sum_of_sizes(files), references)

    def _frame(self, snapshot: Snapshot, num_files: int, total_bytes: int) -> StateManifest:
        """Return the state without its manifests."""
        return StateManifest(
            state_version=snapshot.version,
            created_at=self._clock.now_ms(),
            num_files=num_files,
            total_bytes=min(total_bytes, MOST_BYTES),
            schema_registry=registry_of(snapshot.metadata.configuration),
            metadata=snapshot.metadata,
            protocol=snapshot.protocol,
            skips=dict(snapshot.skips),
            transactions=dict(snapshot.transactions),
            version_timestamp=snapshot.timestamp_ms,
            version_txn_id=snapshot.txn_id or None,
        )

    def _put(self, built: _Built, snapshot: Snapshot) -> WrittenCheckpoint:
        state, hint = built.state, hint_of(built.state)
        data = encode_state_manifest(state, codec=self._codec, level=self._level)
        check_version_is_there(self._store, self._states, state.state_version)
        try:
            with writing(self._store, state.state_version):
                self._store.put_if_absent(state_keys(state.state_version)[0], data)
        except ObjectExistsError as error:
            return self._adopt(self._existing(state.state_version, error), snapshot)
        with writing(self._store, state.state_version):
            put_hint(self._store, hint)
        num_bytes = len(data) + sum(each.num_bytes for each in built.manifests)
        plain_bytes = sum(each.plain_bytes for each in built.manifests)
        return WrittenCheckpoint(hint, is_new=True, num_bytes=num_bytes, plain_bytes=plain_bytes, state=state)

    def _adopt(self, state: StateManifest, snapshot: Snapshot) -> WrittenCheckpoint:
        check_same(snapshot.version, state.version_txn_id, snapshot)
        hint = hint_of(state)
        prefer(self._store, self._states, self._states.hint(), hint)
        return WrittenCheckpoint(hint, is_new=False, state=state)

    def _existing(self, version: int, refusal: ObjectExistsError) -> StateManifest:
        """Return the existing state at a taken key."""
        found = self._states.state_at(version)
        if found is not None:
            return found
        try:
            self._store.head(state_keys(version)[0])
        except ObjectNotFoundError:
            raise CheckpointWriteError(
                f"cannot write the state of version {version} of `{self._store.location.url}` because the store "
                "reports that it exists, but it does not",
                version=version,
                path=state_keys(version)[0],
            ) from refusal
        raise refuse_damaged(self._store, version) from refusal


def hint_of(state: StateManifest) -> LastCheckpoint:
    """Return the content of `_last_checkpoint` for a state."""
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
    """Return the manifest with its path from the log, which is valid in every state."""
    path = resolve_manifest_path(info.path, state_version).removeprefix(f"{LOG_DIRECTORY}/")
    return msgspec.structs.replace(info, path=path)
