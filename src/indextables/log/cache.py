"""Caches of an open log: bounded, with a time to live, and counted.

All entries are immutable by their key, which contains the file's size and e-tag, so an entry can be old but never
wrong; the time to live bounds memory. The newest version is never read from a cache unless the caller allows staleness.
A write drops entries about the newest version, a checkpoint drops everything, an upgrade the protocol, a schema change
the metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import msgspec

from indextables.runtime.caching import BoundedCache

MAX_VERSIONS = 1000
_MAX_FEW = 16

_Value = TypeVar("_Value")


class CacheStats(msgspec.Struct, frozen=True, kw_only=True):
    """Hit rates, from 0 to 1, since the log was opened; 0 without any lookup."""

    protocol: float
    metadata: float
    version: float
    files: float
    versions_list: float
    checkpoints: float
    hits: int
    misses: int


class _CountedCache(Generic[_Value]):
    """Bounded cache with a time to live that counts its hits; threads may share it."""

    def __init__(self, max_size: int, ttl_seconds: float, timer: Callable[[], float], *, enabled: bool) -> None:
        self._entries: BoundedCache[Hashable, _Value] = BoundedCache(max_size, ttl_seconds=ttl_seconds, timer=timer)
        self._enabled = enabled
        self.hits = 0
        self.misses = 0

    def get(self, key: Hashable) -> _Value | None:
        value = self._entries.get(key) if self._enabled else None
        if value is None:
            self.misses += 1
        else:
            self.hits += 1
        return value

    def put(self, key: Hashable, value: _Value) -> None:
        if self._enabled:
            self._entries.put(key, value)

    def clear(self) -> None:
        self._entries.clear()

    @property
    def hit_rate(self) -> float:
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0


class LogCache:
    """All caches of one open log."""

    def __init__(self, ttl_seconds: float, timer: Callable[[], float], *, enabled: bool) -> None:
        def cache(max_size: int) -> _CountedCache[Any]:
            return _CountedCache(max_size, max(ttl_seconds, 0.001), timer, enabled=enabled and ttl_seconds > 0)

        self.versions = cache(MAX_VERSIONS)
        self.snapshots = cache(_MAX_FEW)
        self.metadata = cache(_MAX_FEW)
        self.protocol = cache(_MAX_FEW)
        self.versions_list = cache(1)
        self.checkpoints = cache(1)

    def after_write(self) -> None:
        """Drop entries about the newest version after it has changed."""
        self.versions_list.clear()

    def after_upgrade(self) -> None:
        self.protocol.clear()

    def after_schema_change(self) -> None:
        self.metadata.clear()

    def clear(self) -> None:
        """Drop everything.

        After a checkpoint, on request, and after the table was recreated.
        """
        for cache in self._all():
            cache.clear()

    def stats(self) -> CacheStats:
        return CacheStats(
            protocol=self.protocol.hit_rate,
            metadata=self.metadata.hit_rate,
            version=self.versions.hit_rate,
            files=self.snapshots.hit_rate,
            versions_list=self.versions_list.hit_rate,
            checkpoints=self.checkpoints.hit_rate,
            hits=sum(cache.hits for cache in self._all()),
            misses=sum(cache.misses for cache in self._all()),
        )

    def _all(self) -> tuple[_CountedCache[Any], ...]:
        return (self.versions, self.snapshots, self.metadata, self.protocol, self.versions_list, self.checkpoints)
