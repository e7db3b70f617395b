"""Scope of an overwrite: partitions matching a predicate, or of the new files.

The scope is evaluated again on each version that a commit is tried on, with that version's types of the partition
columns. Partitions are compared by value, not by spelling: `2026-01-01T00:00:00Z` and `2026-01-01 00:00:00` are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array
from indextables.log.commit.operations import Scope
from indextables.log.snapshot import Snapshot
from indextables.predicate.bound import BoundColumn
from indextables.protocol.actions import Add
from indextables.prune.partitions import PartitionChoice, PartitionValues
from indextables.prune.statistics import lookup

_MAPS = pa.map_(pa.string(), pa.string())


def scope_of_predicate(where: str, adds: Sequence[Add]) -> Scope:
    """Return the scope of a predicate, which must match every new file."""

    def files(snapshot: Snapshot) -> pa.Table:
        choice = PartitionChoice(where, snapshot)
        choice.check(add.partition_values for add in adds)
        return choice.files(snapshot)

    return Scope({"predicate": where}, files)


def scope_of_partitions(adds: Sequence[Add]) -> Scope:
    """Return the scope of the new files' partitions; empty without files."""
    partitions = [add.partition_values for add in adds]

    def files(snapshot: Snapshot) -> pa.Table:
        return files_of_partitions(snapshot, partitions)

    return Scope({"partitionOverwriteMode": "dynamic"}, files, needs_rows=True)


def files_of_partitions(snapshot: Snapshot, partitions: Iterable[Mapping[str, str | None]]) -> pa.Table:
    """Return the files of these partitions; the table has partition columns."""
    maps = to_array([list(values.items()) for values in partitions], _MAPS)
    wanted = set(_keys(pa.table({"partition_values": maps}), snapshot))
    return snapshot.files.filter(to_array([key in wanted for key in _keys(snapshot.files, snapshot)], pa.bool_()))


def _keys(files: pa.Table, snapshot: Snapshot) -> list[tuple[Any, ...]]:
    """Return comparable partition values of each file."""
    values = PartitionValues(files)
    schema = snapshot.schema
    columns = [BoundColumn((name,), schema.field(name).type) for name in snapshot.partition_columns]
    return list(zip(*(_values(files, values, column) for column in columns), strict=True))


def _values(files: pa.Table, values: PartitionValues, column: BoundColumn) -> list[Any]:
    """Return comparable values; an unreadable text equals only the same text."""
    read, unreadable = values.read(column)
    if pa.types.is_timestamp(read.type):
        read = pc.cast(read, pa.int64())
    # Only NaN differs from itself.
    found = ["NaN" if value != value else value for value in read.to_pylist()]
    if pc.any(unreadable).as_py():
        texts = lookup(files["partition_values"], column.name)
        for row in pc.indices_nonzero(unreadable).to_pylist():
            found[row] = ("unreadable", texts[row].as_py())
    return found
