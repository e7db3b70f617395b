"""Manifests of a state as file tables.

Fetched in parallel, verified, decoded, cached.

A manifest of this library is named by its content, so its decoded form on local disk is valid without end, for every
process of the host.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import itertools
import os
import threading
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from indextables.arrow_values import to_array
from indextables.config import Config, settings
from indextables.errors import CheckpointCorruptionError, ObjectNotFoundError, StorageError
from indextables.log.base import DamagedBaseError
from indextables.log.files import Keep, rows_left
from indextables.protocol.avro.file_entry import is_our_name
from indextables.protocol.avro.state_manifest import ManifestInfo, StateManifest, resolve_manifest_path
from indextables.protocol.file_columns import from_wire
from indextables.runtime.pools import Pools
from indextables.runtime.resources import local_error, local_errors, open_file
from indextables.runtime.scratch import scratch_directory
from indextables.state import sandbox
from indextables.state.manifest_cache import DecodedManifests
from indextables.store import ObjectStore

STATE_READING = "state-reading"
_NAMED = ["path", "size"]
_MOST_NAMED = 200_000
_CORES = os.cpu_count() or 1
# The decoder uses all cores itself: more parallel manifests than cores only wait for each other.
_decoders = threading.BoundedSemaphore(_CORES)


class _Wanted(NamedTuple):
    """Manifest to read, with at least these columns."""

    key: str
    num_entries: int
    columns: Sequence[str] | None


class _Reading(NamedTuple):
    """Running read of a manifest."""

    future: concurrent.futures.Future[None]
    found: list[pa.Table]
    num_entries: int

    def result(self) -> pa.Table:
        self.future.result()
        return self.found.pop()


class ManifestReader:
    """Reader of the manifests of one table."""

    def __init__(self, store: ObjectStore, config: Config, pools: Pools) -> None:
        self._store = store
        self._pools = pools
        self._workers = config[settings.STATE_READ_PARALLELISM]
        self._timeout_seconds = config[settings.CHECKPOINT_READ_TIMEOUT_SECONDS]
        self._most_entries_ahead = (_CORES + 1) * config[settings.STATE_ENTRIES_PER_MANIFEST]
        self._decoded = DecodedManifests(config)

    def remember(self, key: str, files: pa.Table) -> None:
        """Keep the files of a manifest that was just put.

        This process likely reads it next.
        """
        self._decoded.remember(key, files)

    def check(self, info: ManifestInfo, state_version: int) -> None:
        """Decode the bytes in the store, ignoring caches; raise if a reader could not."""
        key = resolve_manifest_path(info.path, state_version)
        self._check_count(key, self._decode(_Wanted(key, info.num_entries, None)), info.num_entries)

    def tables(
        self, infos: Sequence[ManifestInfo], state_version: int, columns: Sequence[str] | None = None
    ) -> Iterator[pa.Table]:
        """Yield the manifests in order, with at least these columns, and read ahead.

        The number of parallel reads and the entries in memory are limited.
        """
        wanted = [_Wanted(resolve_manifest_path(info.path, state_version), info.num_entries, columns) for info in infos]
        if len(wanted) <= 1 or self._workers == 1:
            yield from map(self._read, wanted)
            return
        under_way: collections.deque[_Reading] = collections.deque()
        try:
            for each in wanted:
                while under_way and self._is_enough(under_way, each.num_entries):
                    yield under_way.popleft().result()
                under_way.append(self._begin(each))
            while under_way:
                yield under_way.popleft().result()
        finally:
            for reading in under_way:
                reading.future.cancel()

    def _is_enough(self, under_way: Collection[_Reading], next_entries: int) -> bool:
        held = sum(reading.num_entries for reading in under_way)
        return len(under_way) >= self._workers or held + next_entries > self._most_entries_ahead

    def _begin(self, wanted: _Wanted) -> _Reading:
        found: list[pa.Table] = []
        future = self._pools.submit(STATE_READING, lambda: found.append(self._read(wanted)), workers=self._workers)
        return _Reading(future, found, wanted.num_entries)

    def _read(self, wanted: _Wanted) -> pa.Table:
        table = self._cached(wanted) if is_our_name(wanted.key) else self._decode(wanted)
        self._check_count(wanted.key, table, wanted.num_entries)
        return table

    @staticmethod
    def _check_count(key: str, table: pa.Table, num_entries: int) -> None:
        if table.num_rows != num_entries:
            raise CheckpointCorruptionError(
                f"cannot read `{key}` because it has {table.num_rows} files, and its state declares {num_entries}",
                path=key,
            )

    def _cached(self, wanted: _Wanted) -> pa.Table:
        """Return the manifest from the cache.

        Decode only some columns if it is not on disk.
        """
        if wanted.columns is not None and not self._decoded.is_on_disk:
            known = self._decoded.find(wanted.key)
            return self._decode(wanted) if known is None else known
        return self._decoded.get(wanted.key, lambda: self._decode(wanted._replace(columns=None)))

    def _decode(self, wanted: _Wanted) -> pa.Table:
        key = wanted.key
        try:
            with self._on_disk(key) as path, _decoders:
                table = sandbox.read_manifest(path, key, timeout_seconds=self._timeout_seconds, columns=wanted.columns)
            return from_wire(table, self._store.location)
        except (ObjectNotFoundError, FileNotFoundError) as error:
            raise CheckpointCorruptionError(f"cannot read `{key}` because it does not exist", path=key) from error
        except ValueError as error:
            raise CheckpointCorruptionError(f"cannot read `{key}` because {error}", path=key) from error
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise local_error(f"read `{key}`", error) from error

    @contextlib.contextmanager
    def _on_disk(self, key: str) -> Iterator[str]:
        """Yield a local path of the manifest."""
        if self._store.location.family == "file":
            path = f"{self._store.location.path}/{key}"
            if not os.path.isfile(path):  # a pipe or a device may have no end
                raise FileNotFoundError(path)
            yield path
            return
        data = self._store.get(key)
        with scratch_directory() as directory:
            path = os.path.join(directory, "manifest.avro")
            with local_errors(f"keep `{key}` on local disk"), open(path, "wb", opener=open_file) as file:
                file.write(data)
            yield path


class StateFiles:
    """Live files of a state: its manifests without its tombstones."""

    def __init__(self, state: StateManifest, manifests: ManifestReader) -> None:
        self.state = state
        self._manifests = manifests
        self._named: dict[str, pa.Table] = {}

    @property
    def num_files(self) -> int:
        return self.state.num_files

    def chosen(self, keep: Keep | None) -> Sequence[ManifestInfo]:
        """Return the manifests that `keep` does not refuse."""
        infos = self.state.manifests
        if keep is None:
            return infos
        return list(
            itertools.compress(infos, keep([(info.partition_bounds or {}, is_our_name(info.path)) for info in infos]))
        )

    def tables(self, keep: Keep | None = None, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        infos = self.chosen(keep)
        dead = to_array(self.state.tombstones, pa.string())
        try:
            tables = self._manifests.tables(infos, self.state.state_version, _with_path(columns))
            for info, table in zip(infos, tables, strict=True):
                if self.state.num_files <= _MOST_NAMED and "size" in table.column_names:
                    self._named[info.path] = table.select(_NAMED)
                yield rows_left(table, dead, columns)
        except CheckpointCorruptionError as error:
            raise DamagedBaseError(error.message, version=self.state.state_version, path=error.path) from error

    def entries(self, infos: Sequence[ManifestInfo], columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield some columns of all entries of manifests, also of removed files."""
        for table in self._manifests.tables(infos, self.state.state_version, columns):
            yield table.select(list(columns))

    def paths_and_sizes(self, infos: Sequence[ManifestInfo]) -> Iterator[pa.Table]:
        """Yield paths and sizes of all entries, without reading a manifest again."""
        for info in infos:
            known = self._named.get(info.path)
            yield from self.entries([info], _NAMED) if known is None else [known]


def _with_path(columns: Sequence[str] | None) -> Sequence[str] | None:
    """Add the column `path`, which tombstones need, to the requested columns."""
    return None if columns is None else list(dict.fromkeys(["path", *columns]))
