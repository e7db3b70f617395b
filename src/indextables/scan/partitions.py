"""Partition values: the exact value of a partition column in each file, and the bounds of all of them.

A key that is missing is NULL. `files_exactly` decides for every file whether all its rows match, which a predicate on
partition columns always allows; where a value's text cannot be read it refuses to guess.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import QueryError
from indextables.predicate.arrow import leaf_mask
from indextables.predicate.bound import (
    BoundAnd,
    BoundColumn,
    BoundConstant,
    BoundLeaf,
    BoundOr,
    BoundPredicate,
    bound_columns,
    kind_of,
    stored_type,
)
from indextables.scan.masks import fold, surely, uniform
from indextables.scan.statistics import lookup
from indextables.scan.texts import parse_texts


class PartitionValues:
    """The values of the partition columns of a file table, each column parsed once."""

    def __init__(self, files: pa.Table) -> None:
        self._maps = files["partition_values"]
        self._parsed: dict[str, tuple[pa.Array[Any], pa.Array[Any]]] = {}

    def leaf(self, leaf: BoundLeaf) -> tuple[pa.Array[Any], pa.Array[Any]]:
        """Where a leaf is true, and where it is unknown because a value cannot be read; neither mask holds nulls."""
        values, unreadable = self.read(leaf.column)
        stored = BoundColumn(leaf.column.path, stored_type(leaf.column.type))
        return surely(leaf_mask(_on(leaf, stored), values)), unreadable

    def read(self, column: BoundColumn) -> tuple[pa.Array[Any], pa.Array[Any]]:
        """The values of a column, and where there is one that cannot be read."""
        if column.name not in self._parsed:
            texts = lookup(self._maps, column.name)
            values = parse_texts(texts, column.type)
            self._parsed[column.name] = values, pc.and_(pc.is_valid(texts), pc.is_null(values))
        return self._parsed[column.name]


def files_exactly(files: pa.Table, bound: BoundPredicate, partition_columns: Sequence[str]) -> pa.Array[Any]:
    """The files all of whose rows match, the others having none: a mask without nulls.

    A `QueryError` if the predicate reads a column that is no partition column, or a value that cannot be read.
    """
    values = PartitionValues(files)
    for column in bound_columns(bound):
        if not is_partition(column, partition_columns):
            raise QueryError(
                f"cannot choose whole files by column `{column.name}` because it is not a partition column",
                hint=f"the partition columns are {', '.join(f'`{name}`' for name in partition_columns) or 'none'}",
            )
        _check_readable(values, files, column)
    return _exactly(bound, values, files.num_rows)


def compute_bounds(files: pa.Table, partition_columns: Sequence[str], schema: pa.Schema) -> dict[str, tuple[str, str]]:
    """The least and the greatest value of each partition column, ordered by its type, spelled as the files do.

    NULLs are passed over: bounds never say that there are none, and pruning never takes them to. A column is left out
    where it is NULL throughout, or where a value cannot be read or is NaN.
    """
    values = PartitionValues(files)
    found: dict[str, tuple[str, str]] = {}
    for name in partition_columns:
        column = BoundColumn((name,), schema.field(name).type)
        if kind_of(column.type) == "other":
            continue
        parsed, unreadable = values.read(column)
        if pc.any(unreadable).as_py() or _has_nan(parsed) or parsed.null_count == len(parsed):
            continue
        texts = lookup(files["partition_values"], name)
        ends = pc.min_max(parsed)
        found[name] = _spelled(texts, parsed, ends["min"]), _spelled(texts, parsed, ends["max"])
    return found


def is_partition(column: BoundColumn, partition_columns: Sequence[str]) -> bool:
    return len(column.path) == 1 and column.path[0] in partition_columns


def _exactly(bound: BoundPredicate, values: PartitionValues, num_files: int) -> pa.Array[Any]:
    if isinstance(bound, BoundConstant):
        return uniform(bound.value, num_files)
    if not isinstance(bound, BoundAnd | BoundOr):
        return values.leaf(bound)[0]
    join = pc.and_ if isinstance(bound, BoundAnd) else pc.or_
    return fold(join, [_exactly(term, values, num_files) for term in bound.terms])


def _check_readable(values: PartitionValues, files: pa.Table, column: BoundColumn) -> None:
    unreadable = values.read(column)[1]
    if not pc.any(unreadable).as_py():
        return
    row = pc.indices_nonzero(unreadable)[0].as_py()
    text = lookup(files["partition_values"], column.name)[row].as_py()
    raise QueryError(
        f"cannot choose files by column `{column.name}` because its value `{text[:60]}` in file "
        f"`{files['path'][row].as_py()}` is not a `{column.type}`"
    )


def _on(leaf: Any, column: BoundColumn) -> Any:
    return dataclasses.replace(leaf, column=column)


def _has_nan(values: pa.Array[Any]) -> bool:
    return bool(pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py())


def _spelled(texts: pa.Array[Any], values: pa.Array[Any], value: pa.Scalar[Any]) -> str:
    return str(texts[pc.index(values, value).as_py()].as_py())
