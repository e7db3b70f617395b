"""Reading version files: decoded and checked, kept as long as they fit, and side by side where that pays."""

from __future__ import annotations

from collections.abc import Iterable

from indextables.config import Config, settings
from indextables.log.cache import MAX_VERSIONS, LogCache
from indextables.log.pools import VERSION_READING, InlinePools, Pools
from indextables.log.replay import VersionFile, recorded_time_ms
from indextables.log.segment import Segment
from indextables.protocol.names import version_key
from indextables.protocol.version_file import decode_version, mark_of, peek_mark
from indextables.store import ObjectStore


class VersionReader:
    """Reads the version files of one log. `newest` is the segment that was listed last."""

    def __init__(self, store: ObjectStore, config: Config, cache: LogCache, pools: Pools) -> None:
        self._store = store
        self._cache = cache
        self._pools = pools if store.is_remote else InlinePools()
        self._workers = config[settings.CHECKPOINT_PARALLELISM]
        self._timeout_seconds = config[settings.CHECKPOINT_READ_TIMEOUT_SECONDS]
        self.newest: Segment | None = None

    def read(self, version: int) -> VersionFile:
        """One version file, decoded and checked."""
        cached: VersionFile | None = self._cache.versions.get(version)
        if cached is not None:
            return cached
        file = self._read(version)
        self._cache.versions.put(version, file)
        return file

    def read_many(self, versions: Iterable[int]) -> list[VersionFile]:
        """Several version files; only what fits into the cache goes through it."""
        wanted = list(versions)
        kept = set(wanted[-MAX_VERSIONS:])
        return self._pools.map(
            VERSION_READING,
            lambda version: self.read(version) if version in kept else self._read(version),
            wanted,
            workers=self._workers,
            timeout_seconds=self._timeout_seconds,
        )

    def mark_at(self, version: int) -> str | None:
        """By what the next version knows this one, if it can; without decoding all of it."""
        cached: VersionFile | None = self._cache.versions.get(version)
        if cached is not None:
            return mark_of(version, cached.actions)
        return peek_mark(self._get(version), version, self._store.location)

    def _get(self, version: int) -> bytes:
        # Nothing above the newest version tells whether it is still the file that was listed; its e-tag does.
        newest = self.newest
        e_tag = newest.newest_file.e_tag if newest and newest.newest_file and newest.newest == version else None
        return self._store.get(version_key(version), e_tag=e_tag)

    def _read(self, version: int) -> VersionFile:
        actions = decode_version(self._get(version), version, self._store.location)
        timestamp_ms = recorded_time_ms(version, actions)
        if timestamp_ms is None:
            timestamp_ms = self._store.head(version_key(version)).modified_ms
        return VersionFile(version, actions, timestamp_ms)
