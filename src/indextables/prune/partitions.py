"""Exact partition values of files, their bounds, and choices of whole partitions.

A missing key is null. `files_exactly` decides for every file whether all its rows match, which is always possible for a
predicate on partition columns; a value with unreadable text is an error.

`PartitionChoice` applies a predicate to removed and to new files alike. The log alone decides, by the typed partition
values of each file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_scalar, to_table
from indextables.errors import QueryError, SchemaError
from indextables.log.snapshot import Head, Snapshot
from indextables.predicate import bind, parse_predicate
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
from indextables.protocol.file_table import FILES_SCHEMA
from indextables.prune.lenient_text import parse_texts
from indextables.prune.masks import fold, surely, uniform
from indextables.prune.statistics import lookup


class PartitionValues:
    """The partition values of a file table; each column is parsed once."""

    def __init__(self, files: pa.Table) -> None:
        self._maps = files["partition_values"]
        self._parsed: dict[str, tuple[pa.Array[Any], pa.Array[Any]]] = {}

    def leaf(self, leaf: BoundLeaf) -> tuple[pa.Array[Any], pa.Array[Any]]:
        """Return masks, without nulls, of true and of unreadable values of a leaf."""
        values, unreadable = self.read(leaf.column)
        stored = BoundColumn(leaf.column.path, stored_type(leaf.column.type))
        return surely(leaf_mask(_on(leaf, stored), values)), unreadable

    def read(self, column: BoundColumn) -> tuple[pa.Array[Any], pa.Array[Any]]:
        """Return the values of a column, and a mask of the unreadable ones."""
        if column.name not in self._parsed:
            texts = lookup(self._maps, column.name)
            values = parse_texts(texts, column.type)
            self._parsed[column.name] = values, pc.and_(pc.is_valid(texts), pc.is_null(values))
        return self._parsed[column.name]


def files_exactly(files: pa.Table, bound: BoundPredicate, partition_columns: Sequence[str]) -> pa.Array[Any]:
    """Return a mask, without nulls, of the files in which all rows match.

    No row of the other files matches. Raises a `QueryError` if the predicate reads another column than partition
    columns, or an unreadable value.
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
    """Return minimum and maximum of each partition column, in the files' spelling.

    Values are ordered by the column's type. Nulls are skipped: bounds never show that there are none. A column is left
    out if all its values are null, or if a value is unreadable or NaN.
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


_COLUMNS = ("path", "partition_values")


class PartitionChoice:
    """The partitions of a table that match a predicate on partition columns.

    A predicate on other columns raises a `SchemaError`.
    """

    def __init__(self, where: str, head: Head) -> None:
        self._where = where
        self._partition_columns = head.partition_columns
        self._bound = bind(parse_predicate(where), head.schema)
        for column in bound_columns(self._bound):
            if not is_partition(column, head.partition_columns):
                raise SchemaError(
                    f"cannot choose partitions by `{where}` because `{column.name}` is not a partition column",
                    hint=f"the partition columns are {', '.join(f'`{name}`' for name in head.partition_columns)}"
                    if head.partition_columns
                    else "the table has no partition columns",
                )

    @property
    def columns(self) -> list[str]:
        """The columns in the predicate."""
        return [column.name for column in bound_columns(self._bound)]

    def files(self, snapshot: Snapshot) -> pa.Table:
        """Return the files of the chosen partitions in a snapshot."""
        return snapshot.files.filter(self._mask(snapshot.files))

    def check(self, partitions: Iterable[Mapping[str, str | None]]) -> None:
        """Refuse partitions that do not match; the `SchemaError` names the first one."""
        given = list(partitions)
        schema = pa.schema([FILES_SCHEMA.field(name) for name in _COLUMNS])
        mask = self._mask(to_table([{"path": "", "partition_values": dict(values)} for values in given], schema))
        if pc.all(mask, min_count=0).as_py():
            return
        outside = given[pc.index(mask, to_scalar(value=False)).as_py()]
        raise SchemaError(
            f"cannot write rows of the partition {self._shown(outside)} because `{self._where}` is not true of it",
            hint="write only rows of the partitions that are replaced",
        )

    def _mask(self, files: pa.Table) -> Any:
        return files_exactly(files, self._bound, self._partition_columns)

    def _shown(self, values: Mapping[str, str | None]) -> str:
        texts = {name: values.get(name) for name in self._partition_columns}
        shown = ", ".join(f"{name}={'NULL' if text is None else text[:60]}" for name, text in texts.items())
        return f"`{shown}`" if shown else "of all rows"
