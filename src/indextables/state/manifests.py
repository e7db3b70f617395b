"""The manifests of a state as file tables: fetched side by side, verified, decoded, and kept decoded on local disk.

A manifest of ours is named by its content, so what was decoded once is right for ever, for every process of the host.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from indextables.config import Config, settings
from indextables.errors import CheckpointCorruptionError, ObjectNotFoundError, StorageError
from indextables.log.base import DamagedBaseError
from indextables.log.files import Keep, rows_left
from indextables.log.pools import Pools
from indextables.protocol.file_columns import from_wire
from indextables.protocol.file_entry import is_our_name
from indextables.protocol.state_manifest import ManifestInfo, StateManifest, resolve_manifest_path
from indextables.resources import local_error, local_errors, open_file
from indextables.scratch import scratch_directory
from indextables.state import guarded
from indextables.state.decoded import DecodedManifests
from indextables.store import ObjectStore

STATE_READING = "state-reading"
_CORES = os.cpu_count() or 1
# The decoder uses all cores by itself: more manifests at once than cores only wait for each other.
_decoders = threading.BoundedSemaphore(_CORES)


class _Wanted(NamedTuple):
    """A manifest to be read: at least these columns of it."""

    key: str
    num_entries: int
    columns: Sequence[str] | None


class _Reading(NamedTuple):
    """A manifest that is being read."""

    future: concurrent.futures.Future[None]
    found: list[pa.Table]
    num_entries: int

    def result(self) -> pa.Table:
        self.future.result()
        return self.found.pop()


class ManifestReader:
    """Reads the manifests of one table."""

    def __init__(self, store: ObjectStore, config: Config, pools: Pools) -> None:
        self._store = store
        self._pools = pools
        self._workers = config[settings.STATE_READ_PARALLELISM]
        self._timeout_seconds = config[settings.CHECKPOINT_READ_TIMEOUT_SECONDS]
        self._most_entries_ahead = (_CORES + 1) * config[settings.STATE_ENTRIES_PER_MANIFEST]
        self._decoded = DecodedManifests(config)

    def remember(self, key: str, files: pa.Table) -> None:
        """Keep the files of a manifest that was just put: whoever reads it next is likely this process."""
        self._decoded.remember(key, files)

    def check(self, info: ManifestInfo, state_version: int) -> None:
        """Decode the bytes that stand in the store, whatever is kept of them; an error if a reader could not."""
        key = resolve_manifest_path(info.path, state_version)
        self._check_count(key, self._decode(_Wanted(key, info.num_entries, None)), info.num_entries)

    def tables(
        self, infos: Sequence[ManifestInfo], state_version: int, columns: Sequence[str] | None = None
    ) -> Iterator[pa.Table]:
        """The manifests one after the other, at least these columns of them, the next ones under way: as many as may be
        read side by side, and no more than memory should hold."""
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
                f"cannot read `{key}` because it holds {table.num_rows} files, and its state announces {num_entries}",
                path=key,
            )

    def _cached(self, wanted: _Wanted) -> pa.Table:
        """The manifest as it is kept; where nothing is kept for long, a few columns are decoded alone."""
        if wanted.columns is not None and not self._decoded.is_on_disk:
            known = self._decoded.find(wanted.key)
            return self._decode(wanted) if known is None else known
        return self._decoded.get(wanted.key, lambda: self._decode(wanted._replace(columns=None)))

    def _decode(self, wanted: _Wanted) -> pa.Table:
        key = wanted.key
        try:
            with self._on_disk(key) as path, _decoders:
                table = guarded.read_manifest(path, key, timeout_seconds=self._timeout_seconds, columns=wanted.columns)
            return from_wire(table, self._store.location)
        except (ObjectNotFoundError, FileNotFoundError) as error:
            raise CheckpointCorruptionError(f"cannot read `{key}` because it is not there", path=key) from error
        except ValueError as error:
            raise CheckpointCorruptionError(f"cannot read `{key}` because {error}", path=key) from error
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise local_error(f"read `{key}`", error) from error

    @contextlib.contextmanager
    def _on_disk(self, key: str) -> Iterator[str]:
        """A path of local disk that holds the manifest."""
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
    """The live files of a state: its manifests less its tombstones."""

    def __init__(self, state: StateManifest, manifests: ManifestReader) -> None:
        self.state = state
        self._manifests = manifests

    def tables(self, keep: Keep | None = None, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        infos = [
            info
            for info in self.state.manifests
            if keep is None or keep(info.partition_bounds or {}, is_our_name(info.path))
        ]
        dead = pa.array(self.state.tombstones, pa.string())
        try:
            for table in self._manifests.tables(infos, self.state.state_version, _with_path(columns)):
                yield rows_left(table, dead, columns)
        except CheckpointCorruptionError as error:
            raise DamagedBaseError(error.message, version=self.state.state_version, path=error.path) from error


def _with_path(columns: Sequence[str] | None) -> Sequence[str] | None:
    """Tombstones go by path, whatever is asked for."""
    return None if columns is None else list(dict.fromkeys(["path", *columns]))
