"""The live files of a table, columnar: Arrow tables part by part, and what later versions changed of them.

`LiveFiles` is immutable. Folding a version costs what the version holds, not what the table holds; one Arrow table of
everything is made only when somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from indextables.caching import lazy_property
from indextables.protocol.file_table import FILES_SCHEMA, AddedFile, files_table


class FileSource(Protocol):
    """Files that stand somewhere, in parts, and are read when they are asked for."""

    def tables(self, keep: Keep | None = None, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The files part by part, all columns or some, less the parts whose partition bounds `keep` refuses."""


Bounds = Mapping[str, tuple[str | None, str | None]]
"""The least and the greatest value of partition columns over a part; a column that is not there is not known."""

Keep = Callable[[Bounds, bool], bool]
"""Whether a part with these bounds may hold what is sought. The flag: they were ordered by the type of the column."""


class TableSource:
    """Files that are in memory."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def tables(self, keep: Keep | None = None, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        yield self._table if columns is None else self._table.select(list(columns))


class LiveFiles:
    """What is live: a base less the paths that are gone, and the files added since, the later add winning."""

    def __init__(
        self,
        base: FileSource | None = None,
        gone: frozenset[str] = frozenset(),
        tail: Mapping[str, AddedFile] | None = None,
    ) -> None:
        self._base = base
        self._gone = gone
        self._tail = tail or {}

    @lazy_property
    def table(self) -> pa.Table:
        """A row per live file, in the order in which they were added."""
        parts = list(self._parts(None, None)) or [FILES_SCHEMA.empty_table()]
        return parts[0] if len(parts) == 1 else pa.concat_tables(parts)

    def tables(self, keep: Keep | None = None, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The live files part by part, without holding them all; parts that `keep` refuses are not read."""
        if "table" in self.__dict__:
            return TableSource(self.table).tables(keep, columns)
        return self._parts(keep, columns)

    def change(self, removed: Iterable[str], added: Mapping[str, AddedFile]) -> LiveFiles:
        """The files after some paths are removed and then others added, as a new value."""
        base, gone, tail = self._base, set(self._gone), dict(self._tail)
        if "table" in self.__dict__:
            base, gone, tail = TableSource(self.table), set(), {}
        for path in (*removed, *added):
            tail.pop(path, None)
            gone.add(path)
        tail.update(added)
        return LiveFiles(base, frozenset(gone) if base is not None else frozenset(), tail)

    def contains(self, paths: Iterable[str]) -> dict[str, bool]:
        """Which of these paths are live."""
        wanted = list(dict.fromkeys(paths))
        if self._base is None:
            return {path: path in self._tail for path in wanted}
        sought = pa.array(wanted, pa.string())
        live: set[str] = set()
        for table in self.tables(columns=["path"]):
            live.update(pc.filter(table["path"], pc.is_in(table["path"], value_set=sought)).to_pylist())
        return {path: path in live for path in wanted}

    def __reduce__(self) -> tuple[object, ...]:
        return _of_table, (self.table,)

    def _parts(self, keep: Keep | None, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        if self._base is not None:
            gone = pa.array(self._gone, pa.string())
            for table in self._base.tables(keep, None if columns is None else list({"path", *columns})):
                yield rows_left(table, gone, columns)
        if self._tail or self._base is None:
            yield from TableSource(files_table(self._tail.values())).tables(keep, columns)


def exact_sum(numbers: pa.ChunkedArray[Any]) -> int:
    """Sum whole numbers of 64 bits; Arrow's own sum of them wraps around. Null counts as 0."""
    high, low = pc.shift_right(numbers, 32), pc.bit_wise_and(numbers, (1 << 32) - 1)
    return (int(pc.sum(high, min_count=0).as_py()) << 32) + int(pc.sum(low, min_count=0).as_py())


def rows_left(table: pa.Table, gone: pa.Array[Any], columns: Sequence[str] | None) -> pa.Table:
    """The rows of a table, or some columns of them, less those whose path is gone."""
    chosen = table if columns is None else table.select(list(columns))
    return chosen.filter(pc.invert(pc.is_in(table["path"], value_set=gone))) if len(gone) else chosen


def _of_table(table: pa.Table) -> LiveFiles:
    return LiveFiles(TableSource(table))
