"""Manifests that a new state takes over from the one before it: seen to be there, and kept from growing old.

Garbage collection takes manifests that no state names once they are old enough, and may decide so while a state that
names them again is being written. So what is half as old is put again, the same bytes under the same key. Ages are told
by the store's clock: by the time that it gives to something that was put just now.
"""

from __future__ import annotations

from indextables.config import Config, settings
from indextables.errors import CheckpointCorruptionError, ObjectNotFoundError
from indextables.log.base import DamagedBaseError
from indextables.protocol.file_entry import verify_manifest
from indextables.protocol.names import LOG_DIRECTORY
from indextables.protocol.state_manifest import StateManifest, resolve_manifest_path
from indextables.store import ObjectMeta, ObjectStore

MANIFESTS = f"{LOG_DIRECTORY}/manifests"

_HALF_AN_HOUR_MS = 1_800_000
_FEW = 3


class ReusedManifests:
    """The manifests of a state, as the store has them; `DamagedBaseError` where one is missing or damaged."""

    def __init__(self, store: ObjectStore, state: StateManifest, config: Config) -> None:
        self._store = store
        self._state_version = state.state_version
        self._oldest_ms = config[settings.STATE_GC_MIN_MANIFEST_AGE_HOURS] * _HALF_AN_HOUR_MS
        keys = {resolve_manifest_path(info.path, state.state_version) for info in state.manifests}
        listed = {meta.key: meta for meta in store.list(MANIFESTS) if meta.key in keys} if len(keys) > _FEW else {}
        self._found = [listed.get(key) or self._look_at(key) for key in sorted(keys)]

    def keep_young(self, just_put: str | None) -> None:
        """Put the older ones again. `just_put` is a key whose time is now; where there is none, the smallest manifest
        is put again, to learn the time at the least cost."""
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
        """Ask for one by name: a copy in a local cache proves nothing, and a listing may miss what is there."""
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
