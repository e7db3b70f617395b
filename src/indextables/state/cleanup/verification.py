"""Verification of checkpoints before files are deleted.

A checkpoint is valid if it matches the transaction in the log at its version, and if this process can decode it with
all its files, like a reader without a cache. Correct bytes alone prove nothing: a reader with the same decoder must get
the files from them. Verified objects are remembered by their e-tag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from indextables.errors import CheckpointError, CorruptLogError, ObjectNotFoundError
from indextables.log.divergence import check_contains, versions_near
from indextables.log.reader import LogReader
from indextables.protocol.actions import Metadata
from indextables.protocol.avro.state_manifest import ManifestInfo, StateManifest, resolve_manifest_path
from indextables.protocol.names import sheet_key, state_keys
from indextables.state.cleanup.retention import Verified
from indextables.state.reader import StateReader
from indextables.store import ObjectMeta

_Sighting = tuple[str, int, str]


class Verifier:
    """Verifier of the checkpoints of one table.

    An unreachable object is an error, not damage. `problem` has the last fault of a manifest.
    """

    def __init__(self, reader: LogReader, states: StateReader) -> None:
        self._reader = reader
        self._states = states
        self._whole: set[_Sighting] = set()
        self._named: dict[_Sighting, frozenset[str]] = {}
        self.problem: str | None = None

    def verify(
        self, version: int, keys: Sequence[str], objects: Mapping[str, ObjectMeta] | None = None
    ) -> Verified | None:
        """Return the checkpoint that a reader of these keys would use, if it is valid.

        `objects` is a listing of the log; without one every manifest is requested by name.
        """
        for kind, of_kind in self._states.formats_at(version, keys).items():
            if kind == "avro-state":
                found = self._verify_states(version, of_kind, objects)
            else:
                snapshot = self._states.find_older(version, kind, of_kind)
                is_right = snapshot is not None and self._stands_for(version, snapshot.txn_id, snapshot.metadata)
                found = Verified(version, needs_versions=False, manifests=frozenset()) if is_right else None
            if found is not None:
                return found
        return None

    def keep_only(self, objects: Mapping[str, ObjectMeta]) -> None:
        """Forget verified objects that are gone."""
        self._whole = {sighting for sighting in set(self._whole) if sighting[0] in objects}
        self._named = {sighting: named for sighting, named in dict(self._named).items() if sighting[0] in objects}

    def manifests_of(
        self, version: int, keys: Sequence[str], objects: Mapping[str, ObjectMeta]
    ) -> frozenset[str] | None:
        """Return the manifests and filter sheets that the states among these keys can use.

        None if a state cannot be read.
        """
        named: set[str] = set()
        for key in set(keys) & set(state_keys(version)):
            sighting = (key, objects[key].size, objects[key].e_tag)
            known = self._named.get(sighting)
            if known is None:
                state = self._states.find_state(version, key)
                if state is None:
                    return None
                known = self._named[sighting] = _manifest_keys(state) | _sheet_keys(state)
            named |= known
        return frozenset(named)

    def _verify_states(
        self, version: int, keys: Sequence[str], objects: Mapping[str, ObjectMeta] | None
    ) -> Verified | None:
        for key in keys:
            state = self._states.find_state(version, key)
            if state is None or not self._stands_for(version, state.version_txn_id, state.metadata):
                continue
            if all(self._is_whole(info, version, objects) for info in state.manifests) and self._contains(state):
                needs_versions = state.metadata is None or state.protocol is None
                return Verified(version, needs_versions, _manifest_keys(state))
        return None

    def _stands_for(self, version: int, txn_id: str | None, metadata: Metadata | None) -> bool:
        """Return True if a checkpoint matches the transaction in the log.

        Checkpoints of other writers have none. If the version was cleaned up, the checkpoint must be of the same table,
        and below the newest version.
        """
        if not txn_id:
            return True
        try:
            return self._reader.identity_at(version) in (None, txn_id)
        except ObjectNotFoundError:
            head = self._reader.head()[1]
            return version < head.version and metadata is not None and metadata.id == head.metadata.id
        except CorruptLogError:
            return False

    def _contains(self, state: StateManifest) -> bool:
        """Return True if another writer's state contains the versions before it.

        They may be deleted next.
        """
        if state.version_txn_id:
            return True
        near = versions_near(self._reader.whole_segment(), state.state_version)
        try:
            check_contains(self._states.snapshot_of(state), self._reader.read_versions(near), self._reader.url)
        except (CorruptLogError, CheckpointError):
            return False
        return True

    def _is_whole(self, info: ManifestInfo, version: int, objects: Mapping[str, ObjectMeta] | None) -> bool:
        key = resolve_manifest_path(info.path, version)
        meta = self._find(key) if objects is None else objects.get(key)
        if meta is None:
            self.problem = f"`{key}` is missing"
            return False
        sighting = (key, meta.size, meta.e_tag)
        if sighting not in self._whole:
            try:
                self._states.manifests.check(info, version)
            except CheckpointError as error:
                self.problem = error.message
                return False
            self._whole.add(sighting)
        return True

    def _find(self, key: str) -> ObjectMeta | None:
        try:
            return self._reader.store.head(key)
        except ObjectNotFoundError:
            return None


def _sheet_keys(state: StateManifest) -> frozenset[str]:
    return frozenset(sheet_key(info.run) for info in state.manifests if info.run is not None)


def _manifest_keys(state: StateManifest) -> frozenset[str]:
    return frozenset(resolve_manifest_path(info.path, state.state_version) for info in state.manifests)
