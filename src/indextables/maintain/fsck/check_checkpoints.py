"""Read back every state and checkpoint of a log, with all manifests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from indextables.errors import CheckpointError, CorruptLogError
from indextables.log.snapshot import Snapshot
from indextables.protocol.avro.state_manifest import ManifestInfo, StateManifest, resolve_manifest_path
from indextables.protocol.names import state_keys
from indextables.state.checkpoint_formats import formats_of
from indextables.state.cleanup.retention import Listing
from indextables.state.reader import StateReader
from indextables.store import ObjectStore


class CheckpointFinding(NamedTuple):
    """A problem of a checkpoint or of one of its manifests."""

    check: str
    path: str
    problem: str


class ReadCheckpoint(NamedTuple):
    """A checkpoint under its main key, with its snapshot if it is undamaged."""

    path: str
    snapshot: Snapshot | None
    findings: list[CheckpointFinding]


class CheckpointReader:
    """Reads the checkpoints of a listed log; reads a shared manifest once."""

    def __init__(self, store: ObjectStore, states: StateReader, listing: Listing) -> None:
        self._store = store
        self._states = states
        self._listing = listing
        self._manifests: dict[str, str | None] = {}
        self.num_read = 0
        self.needs_version_0 = False
        self.num_files: dict[int, int] = {}

    def read(self, version: int) -> Iterator[ReadCheckpoint]:
        """Yield the checkpoints of a version, one per format."""
        for kind, keys in formats_of(version, self._listing.checkpoints.get(version, ())).items():
            self.num_read += 1
            if kind == "avro-state":
                for key in (key for key in state_keys(version) if key in keys):
                    yield self._counted(self._read_state(version, key))
                continue
            snapshot = self._states.find_older(version, kind, keys)
            findings = [] if snapshot is not None else [CheckpointFinding("checkpoint", keys[0], "it is damaged")]
            yield self._counted(ReadCheckpoint(keys[0], snapshot, findings))

    def _counted(self, found: ReadCheckpoint) -> ReadCheckpoint:
        if found.snapshot is not None:
            self.num_files[found.snapshot.version] = found.snapshot.num_files
        return found

    def _read_state(self, version: int, key: str) -> ReadCheckpoint:
        state = self._states.find_state(version, key)
        if state is None:
            return ReadCheckpoint(key, None, [CheckpointFinding("checkpoint", key, "it is damaged")])
        self.needs_version_0 = self.needs_version_0 or state.metadata is None or state.protocol is None
        findings = list(self._manifest_findings(state))
        if findings:
            return ReadCheckpoint(key, None, findings)
        try:
            snapshot = self._states.snapshot_of(state)
            _ = snapshot.files
        except (CheckpointError, CorruptLogError) as error:
            return ReadCheckpoint(key, None, [CheckpointFinding("checkpoint", key, error.message)])
        return ReadCheckpoint(key, snapshot, _count_findings(state, snapshot, key))

    def _manifest_findings(self, state: StateManifest) -> Iterator[CheckpointFinding]:
        for info in state.manifests:
            key = resolve_manifest_path(info.path, state.state_version)
            if key not in self._manifests:
                self._manifests[key] = self._problem_of(info, key, state.state_version)
            problem = self._manifests[key]
            if problem is not None:
                yield CheckpointFinding("manifest", key, problem)

    def _problem_of(self, info: ManifestInfo, key: str, version: int) -> str | None:
        """Return why the manifest in the store cannot be decoded, or None.

        Reads the bytes from the store: a cached manifest proves nothing.
        """
        try:
            self._states.manifests.check(info, version)
        except CheckpointError as error:
            return "it is missing" if isinstance(error.__cause__, FileNotFoundError) else str(error)
        return None


def _count_findings(state: StateManifest, snapshot: Snapshot, key: str) -> list[CheckpointFinding]:
    """Compare a state's file count with its files, unless another writer counted."""
    if state.version_txn_id is None or state.num_files == snapshot.num_files:
        return []
    return [CheckpointFinding("checkpoint", key, f"it says {state.num_files} files and holds {snapshot.num_files}")]
