"""Reader of version files.

Decoded, checked, cached, and read in parallel if useful.

`walk_back` finds the metadata and the protocol in force without reading files.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from indextables.config import Config, settings
from indextables.errors import CorruptLogError, StorageError
from indextables.log.cache import MAX_VERSIONS, LogCache
from indextables.log.replay import (
    VersionFile,
    check_chain,
    head_of,
    missing_metadata,
    newest_definitions,
    recorded_time_ms,
)
from indextables.log.segment import Segment
from indextables.log.snapshot import Head, Snapshot
from indextables.protocol.features import LEGACY_PROTOCOL
from indextables.protocol.names import version_key
from indextables.protocol.version_file import decode_version, identity_of, peek_mark
from indextables.runtime.pools import VERSION_READING, InlinePools, Pools
from indextables.store import ObjectMeta, ObjectStore


class FoundVersion(NamedTuple):
    """Version file that was read by its name, without a listing."""

    file: VersionFile
    meta: ObjectMeta


class VersionReader:
    """Reader of the version files of one log; `newest` is the last listed segment."""

    def __init__(self, store: ObjectStore, config: Config, cache: LogCache, pools: Pools) -> None:
        self._store = store
        self._cache = cache
        self._pools = pools if store.is_remote else InlinePools()
        self._workers = config[settings.CHECKPOINT_PARALLELISM]
        self._timeout_seconds = config[settings.CHECKPOINT_READ_TIMEOUT_SECONDS]
        self.newest: Segment | None = None

    def read(self, version: int) -> VersionFile:
        """Return one version file, decoded and checked."""
        cached: VersionFile | None = self._cache.versions.get(version)
        if cached is not None:
            return cached
        file = self._read(version)
        self._cache.versions.put(version, file)
        return file

    def read_many(self, versions: Iterable[int]) -> list[VersionFile]:
        """Return several version files; cache only as many as fit."""
        wanted = list(versions)
        kept = set(wanted[-MAX_VERSIONS:])
        return self._pools.map(
            VERSION_READING,
            lambda version: self.read(version) if version in kept else self._read(version),
            wanted,
            workers=self._workers,
            timeout_seconds=self._timeout_seconds,
        )

    def identity_at(self, version: int) -> str | None:
        """Return the name by which the next version refers to this one; decode no more."""
        cached: VersionFile | None = self._cache.versions.get(version)
        if cached is not None:
            return identity_of(version, cached.actions)
        return peek_mark(self._get(version), version, self._store.location)

    def find(self, version: int) -> FoundVersion | None:
        """Return a version file by its name; None if it is missing or unreadable."""
        try:
            data, meta = self._store.get_object(version_key(version))
            actions = decode_version(data, version, self._store.location)
        except (StorageError, CorruptLogError):
            return None
        timestamp_ms = recorded_time_ms(version, actions)
        return None if timestamp_ms is None else FoundVersion(VersionFile(version, actions, timestamp_ms), meta)

    def _get(self, version: int) -> bytes:
        # No version above the newest one proves that it is still the listed file; its e-tag does.
        newest = self.newest
        e_tag = newest.newest_file.e_tag if newest and newest.newest_file and newest.newest == version else None
        return self._store.get(version_key(version), e_tag=e_tag)

    def _read(self, version: int) -> VersionFile:
        actions = decode_version(self._get(version), version, self._store.location)
        timestamp_ms = recorded_time_ms(version, actions)
        if timestamp_ms is None:
            timestamp_ms = self._store.head(version_key(version)).modified_ms
        return VersionFile(version, actions, timestamp_ms)


_SHARES = (1, 4, 16, 64, 256)


def walk_back(newest: int, base: Snapshot | None, read_versions: Callable[[range], Sequence[VersionFile]]) -> Head:
    """Return the head at a version; check and read version files down to the base."""
    files: list[VersionFile] = []
    for share in _shares_down(newest, 0 if base is None else base.version + 1):
        files[:0] = read_versions(share)
        if len(files) > 1 and _define_a_table(files):
            break
    if not files:
        assert base is not None  # noqa: S101 - no version file is read only if the base is the newest version
        return head_of(base)
    metadata, protocol = (None, None) if base is None else (base.metadata, base.protocol)
    identity = base.identity if base is not None and files[0].version == base.version + 1 else None
    for file in files:
        if file.version > 0:
            check_chain(file.version - 1, identity, file, protocol or LEGACY_PROTOCOL)
        found_metadata, found_protocol = newest_definitions(file.actions)
        metadata, protocol = found_metadata or metadata, found_protocol or protocol
        identity = file.identity
    if metadata is None:
        raise missing_metadata(newest)
    last = files[-1]
    defining = [file.version for file in files if any(newest_definitions(file.actions))]
    defined_by = max(defining, default=files[0].version if base is None else base.definitions_version)
    return Head(newest, last.timestamp_ms, last.txn_id, protocol or LEGACY_PROTOCOL, metadata, defined_by=defined_by)


def _define_a_table(files: Sequence[VersionFile]) -> bool:
    """Return True if the files have a metadata and a protocol action.

    A version without a commit line is first checked against older definitions.
    """
    settled = [file.actions for file in files if file.version == 0 or file.info is not None]
    metadata, protocol = newest_definitions(itertools.chain.from_iterable(settled))
    return metadata is not None and protocol is not None


def _shares_down(newest: int, floor: int) -> Iterator[range]:
    """Yield ranges from `newest` down to `floor`, the first ones small.

    The wanted actions are usually near the newest version.
    """
    sizes = iter(_SHARES)
    size = 1
    while newest >= floor:
        size = next(sizes, size)
        start = max(floor, newest - size + 1)
        yield range(start, newest + 1)
        newest = start - 1
