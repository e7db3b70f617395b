"""Whole partitions by a predicate on partition columns: which files it is true of, and whether others would be.

The log alone decides, exactly, by the typed partition values of each file. Whoever changes what a predicate names goes
by this, so that the files that are taken away and the files that are let in are judged alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import SchemaError
from indextables.log.snapshot import Head, Snapshot
from indextables.predicate import bind, bound_columns, parse_predicate
from indextables.protocol.file_table import FILES_SCHEMA
from indextables.scan.partitions import files_exactly, is_partition

_COLUMNS = ("path", "partition_values")


class PartitionChoice:
    """The partitions of a table that a predicate is true of. A `SchemaError` where it names other columns too."""

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
        """The columns that the predicate names."""
        return [column.name for column in bound_columns(self._bound)]

    def files(self, snapshot: Snapshot) -> pa.Table:
        """Those of a snapshot's files that hold the chosen partitions."""
        return snapshot.files.filter(self._mask(snapshot.files))

    def check(self, partitions: Iterable[Mapping[str, str | None]]) -> None:
        """Refuse partitions that the predicate is not true of; the first of them is named in a `SchemaError`."""
        given = list(partitions)
        maps = [list(values.items()) for values in given]
        schema = pa.schema([FILES_SCHEMA.field(name) for name in _COLUMNS])
        mask = self._mask(pa.table({"path": [""] * len(given), "partition_values": maps}, schema))
        if pc.all(mask, min_count=0).as_py():
            return
        outside = given[pc.index(mask, value=False).as_py()]
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
