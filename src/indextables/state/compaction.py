"""When a state is written anew instead of added to, and how its files are laid out then. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from indextables.config import Config, settings
from indextables.protocol.state_manifest import StateManifest


def needs_compaction(state: StateManifest, num_removed: int, config: Config) -> bool:
    """Whether a state has gathered too many tombstones or manifests, or would lose too many files at once."""
    num_entries = sum(info.num_entries for info in state.manifests)
    if num_entries and len(state.tombstones) / num_entries > config[settings.STATE_COMPACTION_TOMBSTONE_THRESHOLD]:
        return True
    large = config[settings.STATE_COMPACTION_LARGE_REMOVE_THRESHOLD]
    if large is not None and num_removed > large:
        return True
    needed = math.ceil(state.num_files / config[settings.STATE_ENTRIES_PER_MANIFEST])
    return len(state.manifests) - needed > config[settings.STATE_COMPACTION_MAX_MANIFESTS]


def is_compact(state: StateManifest, config: Config) -> bool:
    """Whether compacting a state would change nothing."""
    needed = math.ceil(state.num_files / config[settings.STATE_ENTRIES_PER_MANIFEST])
    return not state.tombstones and len(state.manifests) <= needed


def sorted_chunks(files: pa.Table, partition_columns: Sequence[str], size: int) -> Iterator[pa.Table]:
    """The files in the order of their partitions, so that a manifest holds few of them, in chunks of a size."""
    keys = [pc.map_lookup(files["partition_values"], column, "first") for column in partition_columns]
    order: pa.Table = pa.table({f"k{at}": key for at, key in enumerate(keys)} | {"path": files["path"]})
    indices = pc.sort_indices(order, sort_keys=[(name, "ascending") for name in order.column_names])
    ordered = files.take(indices)
    for start in range(0, ordered.num_rows, size):
        yield ordered.slice(start, size)
