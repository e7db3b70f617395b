"""The manifests of a state as file tables: fetched side by side, verified, decoded, and kept decoded on local disk.

A manifest of ours is named by its content, so what was decoded once is right for ever, for every process of the host.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from indextables.config import Config, settings
from indextables.errors import CheckpointCorruptionError, ObjectNotFoundError
from indextables.log.base import DamagedBaseError
from indextables.log.files import Keep
from indextables.log.pools import Pools
from indextables.protocol.file_columns import relative_paths
from indextables.protocol.file_entry import is_our_name
from indextables.protocol.state_manifest import ManifestInfo, StateManifest, resolve_manifest_path
from indextables.state import guarded
from indextables.state.decoded import DecodedManifests
from indextables.store import ObjectStore

STATE_READING = "state-reading"
# The decoder uses all cores by itself: more manifests at once than cores only wait for each other.
_decoders = threading.BoundedSemaphore(os.cpu_count() or 1)


class ManifestReader:
    """Reads the manifests of one table."""

    def __init__(self, store: ObjectStore, config: Config, pools: Pools) -> None:
        self._store = store
        self._pools = pools
        self._workers = config[settings.STATE_READ_PARALLELISM]
        self._timeout_seconds = config[settings.CHECKPOINT_READ_TIMEOUT_SECONDS]
        self._decoded = DecodedManifests(config)

    def tables(self, infos: Sequence[ManifestInfo], state_version: int) -> Iterator[pa.Table]:
        """The manifests one after the other; as many are under way at once as may be read side by side."""
        wanted = [(resolve_manifest_path(info.path, state_version), info.num_entries) for info in infos]
        for start in range(0, len(wanted), self._workers):
            share = wanted[start : start + self._workers]
            yield from self._pools.map(STATE_READING, self._read, share, workers=self._workers)

    def _read(self, wanted: tuple[str, int]) -> pa.Table:
        key, num_entries = wanted
        table = self._decoded.get(key, lambda: self._decode(key)) if is_our_name(key) else self._decode(key)
        if table.num_rows != num_entries:
            raise CheckpointCorruptionError(
                f"cannot read `{key}` because it holds {table.num_rows} files, and its state announces {num_entries}"
            )
        return table

    def _decode(self, key: str) -> pa.Table:
        try:
            with self._on_disk(key) as path, _decoders:
                table = guarded.read_manifest(path, key, timeout_seconds=self._timeout_seconds)
            return relative_paths(table, self._store.location)
        except (ObjectNotFoundError, FileNotFoundError) as error:
            raise CheckpointCorruptionError(f"cannot read `{key}` because it is not there") from error
        except ValueError as error:
            raise CheckpointCorruptionError(f"cannot read `{key}` because {error}") from error

    @contextlib.contextmanager
    def _on_disk(self, key: str) -> Iterator[str]:
        """A path of local disk that holds the manifest."""
        if self._store.location.family == "file":
            yield f"{self._store.location.path}/{key}"
            return
        data = self._store.get(key)
        with tempfile.TemporaryDirectory(prefix="indextables-") as directory:
            path = os.path.join(directory, "manifest.avro")
            with open(path, "wb") as file:
                file.write(data)
            yield path


class StateFiles:
    """The live files of a state: its manifests less its tombstones."""

    def __init__(self, state: StateManifest, manifests: ManifestReader) -> None:
        self.state = state
        self._manifests = manifests

    def tables(self, keep: Keep | None = None) -> Iterator[pa.Table]:
        infos = [
            info
            for info in self.state.manifests
            if keep is None or keep(info.partition_bounds or {}, is_our_name(info.path))
        ]
        dead = pa.array(self.state.tombstones, pa.string())
        try:
            for table in self._manifests.tables(infos, self.state.state_version):
                yield table if not len(dead) else table.filter(pc.invert(pc.is_in(table["path"], value_set=dead)))
        except CheckpointCorruptionError as error:
            raise DamagedBaseError(error.message, version=self.state.state_version) from error
