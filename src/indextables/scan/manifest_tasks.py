"""Tasks of a scan of a large table: each lists the files of a manifest itself.

The driver holds no file of a large table: it chooses manifests by the bounds of their partitions, and a task reads one
of them, or a part of its files. A task carries the paths that were removed since, as far as its manifest may have them,
so it needs neither the log nor the state.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from indextables.arrow_values import to_array
from indextables.config import Config, settings
from indextables.log.files import LiveFiles, TableSource, rows_left
from indextables.log.snapshot import Head, Snapshot
from indextables.protocol.avro.state_manifest import ManifestInfo
from indextables.prune.files import manifests_for
from indextables.runtime.pools import SHARED_POOLS
from indextables.state.manifests import ManifestReader, StateFiles
from indextables.state.path_bounds import SoughtPaths
from indextables.store import open_store

_MOST_TASKS = 10_000
_MOST_READERS = 4


class ManifestTask(NamedTuple):
    """A share of the files of one manifest: part number `part` of `num_parts`."""

    info: ManifestInfo
    state_version: int
    gone: tuple[str, ...]
    part: int
    num_parts: int


class LargeTable(NamedTuple):
    """Chosen manifests of a large table, and the files added since its state."""

    state: StateFiles
    manifests: Sequence[ManifestInfo]
    gone: frozenset[str]
    tail: LiveFiles

    @property
    def num_files(self) -> int:
        """Number of the files in the manifests and since, removed ones included."""
        return sum(info.num_entries for info in self.manifests) + self.tail.num_stored

    def tasks(self, *, max_bytes: int) -> Iterator[ManifestTask]:
        """Yield tasks of about as many bytes, by the mean size of the table's files."""
        state = self.state.state
        mean = state.total_bytes // max(1, state.num_files)
        wanted = sum(info.num_entries for info in self.manifests) * mean // max(1, max_bytes)
        removed = sorted({*state.tombstones, *self.gone})
        for info in self.manifests:
            share = min(wanted, _MOST_TASKS) * info.num_entries // max(1, self.num_files)
            num_parts = max(1, min(share, info.num_entries))
            gone = tuple(SoughtPaths(removed).those_in(info)) if removed else ()
            for part in range(num_parts):
                yield ManifestTask(info, state.state_version, gone, part, num_parts)


def large_table(snapshot: Snapshot, where: str | None, hints: Sequence[str], config: Config) -> LargeTable | None:
    """Return the part of a table to scan if it has more files than one process reads."""
    base, gone, tail = snapshot.live_files.parts
    if not isinstance(base, StateFiles):
        return None
    chosen = base.chosen(manifests_for(where, hints, snapshot))
    large = LargeTable(base, chosen, gone, LiveFiles(tail=tail))
    return large if large.num_files > config[settings.STATE_READ_MAX_FILES] else None


def snapshot_of(head: Head, files: LiveFiles) -> Snapshot:
    """Return a table that has these files alone."""
    return Snapshot(
        version=head.version,
        timestamp_ms=head.timestamp_ms,
        txn_id=head.txn_id,
        protocol=head.protocol,
        metadata=head.metadata,
        live_files=files,
        skips={},
        transactions={},
    )


def files_of(task: ManifestTask, url: str, given: tuple[tuple[str, str], ...]) -> LiveFiles:
    """Read the files of a task; a damaged or missing manifest is an error."""
    table = next(iter(_manifests(url, given).tables([task.info], task.state_version)))
    live: pa.Table = rows_left(table, to_array(task.gone, pa.string()), None)
    start, end = (live.num_rows * part // task.num_parts for part in (task.part, task.part + 1))
    return LiveFiles(TableSource(live.slice(start, end - start)))


@functools.lru_cache(maxsize=_MOST_READERS)
def _manifests(url: str, given: tuple[tuple[str, str], ...]) -> ManifestReader:
    config = Config.resolve(options=dict(given))
    return ManifestReader(open_store(url, config), config, SHARED_POOLS)
