"""Writing states: one new manifest with what is new, the old ones by reference, removals as tombstones.

A state is a pure function of the log up to its version, so one that is there already is adopted if it verifies and
stands for the same transaction. It is put if absent, after everything that it names; the hint comes last. A state may
be missing or written anew at any time: the log alone decides what the table is.
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
    CheckpointWriteError,
    ObjectExistsError,
    ObjectNotFoundError,
)
from indextables.log.base import DamagedBaseError
from indextables.log.reader import LogReader
from indextables.log.segment import Segment
from indextables.log.snapshot import Snapshot
from indextables.protocol.actions import Metadata
from indextables.protocol.doc_mapping import registry_of, replace_references, used_references
from indextables.protocol.file_entry import encode_manifest, manifest_name
from indextables.protocol.file_table import files_table
from indextables.protocol.last_checkpoint import LastCheckpoint
from indextables.protocol.names import LOG_DIRECTORY, state_keys
from indextables.protocol.state_manifest import (
    ManifestInfo,
    StateManifest,
    encode_state_manifest,
    resolve_manifest_path,
)
from indextables.state.changes import changes_since, kept_of, sum_of_sizes
from indextables.state.compaction import ReadFiles, laid_out, needs_compaction
from indextables.state.reader import StateReader
from indextables.state.reuse import MANIFESTS, ReusedManifests
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
from indextables.store import ObjectStore

logger = logging.getLogger(__name__)

ComputeBounds = Callable[[pa.Table, Metadata], dict[str, tuple[str | None, str | None]] | None]
"""The bounds of the partition columns over some files; None where nothing is known."""


class _PutManifest(NamedTuple):
    key: str
    info: ManifestInfo
    num_bytes: int
    plain_bytes: int
    size_of_files: int
    references: frozenset[str]


class _Built(NamedTuple):
    """A state to be put, and the manifests that were put for it."""

    state: StateManifest
    manifests: Sequence[_PutManifest]


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
        references: Mapping[str, str] | None = None,
    ) -> WrittenCheckpoint:
        """The state of a snapshot: adopted where it is there, else written on the newest one before it.

        A compacted state may name doc mappings by other `references`, which the snapshot's registry must know.
        """
        existing = self._states.state_at(snapshot.version)
        if existing is not None:
            return self._adopt(existing, snapshot)
        built = None if compact or references else self._on_base(reader, segment, snapshot)
        return self._put(built or self._compacted(snapshot, references or {}), snapshot)

    def _on_base(self, reader: LogReader, segment: Segment, snapshot: Snapshot) -> _Built | None:
        """The state with what is new since the newest one before it; None where there is none that can be built on, or
        it must be compacted."""
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
            manifests=tuple(_by_log_path(info, base.state_version) for info in kept.counted(base)),
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
                "files would refer to doc mappings that the table does not hold",
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
        # Put again where it is there already: its age protects it from garbage collection.
        with writing(self._store, snapshot.version):
            self._store.put(f"{MANIFESTS}/{name}", data)
        self._states.manifests.remember(f"{MANIFESTS}/{name}", files)
        versions = pc.min_max(files["added_at_version"]).as_py()
        info = ManifestInfo(
            path=f"manifests/{name}",
            num_entries=files.num_rows,
            min_added_at_version=versions["min"],
            max_added_at_version=versions["max"],
            partition_bounds=self._bounds(files, snapshot.metadata) if snapshot.partition_columns else None,
            live_entry_count=files.num_rows,
        )
        references = frozenset(used_references([files]))
        return _PutManifest(f"{MANIFESTS}/{name}", info, len(data), files.nbytes, sum_of_sizes(files), references)

    def _frame(self, snapshot: Snapshot, num_files: int, total_bytes: int) -> StateManifest:
        """The state without its manifests."""
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
        """The state that stands where another was to be put."""
        found = self._states.state_at(version)
        if found is not None:
            return found
        try:
            self._store.head(state_keys(version)[0])
        except ObjectNotFoundError:
            raise CheckpointWriteError(
                f"cannot write the state of version {version} of `{self._store.location.url}` because the store says "
                "that it is there, and it is not",
                version=version,
                path=state_keys(version)[0],
            ) from refusal
        raise refuse_damaged(self._store, version) from refusal


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
