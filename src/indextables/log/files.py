"""The live files of a table, columnar: one Arrow table, and what later versions changed of it.

`LiveFiles` is immutable. Folding a version costs what the version holds, not what the table holds; the Arrow table is
made when somebody asks for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from indextables.protocol.file_table import FILES_SCHEMA, AddedFile, files_table


class FileSource(Protocol):
    """Files that stand somewhere, in parts, and are read when they are asked for."""

    def tables(self, keep: Keep | None = None) -> Iterator[pa.Table]:
        """The files part by part, less the parts whose partition bounds `keep` refuses."""


Bounds = Mapping[str, tuple[str | None, str | None]]
"""The least and the greatest value of partition columns over a part; a column that is not there is not known."""

Keep = Callable[[Bounds, bool], bool]
"""Whether a part with these bounds may hold what is sought. The flag: they were ordered by the type of the column."""


class TableSource:
    """Files that are in memory."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def tables(self, keep: Keep | None = None) -> Iterator[pa.Table]:
        yield self._table


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

    @functools.cached_property
    def table(self) -> pa.Table:
        """A row per live file, in the order in which they were added."""
        parts = list(self._parts(None)) or [FILES_SCHEMA.empty_table()]
        return parts[0] if len(parts) == 1 else pa.concat_tables(parts)

    def tables(self, keep: Keep | None = None) -> Iterator[pa.Table]:
        """The live files part by part, without holding them all; parts that `keep` refuses are not read."""
        return iter([self.table]) if "table" in self.__dict__ else self._parts(keep)

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
        live = set(pc.filter(self.table["path"], _is_in(self.table["path"], wanted)).to_pylist())
        return {path: path in live for path in wanted}

    def __reduce__(self) -> tuple[object, ...]:
        return _of_table, (self.table,)

    def _parts(self, keep: Keep | None) -> Iterator[pa.Table]:
        if self._base is not None:
            for table in self._base.tables(keep):
                yield _without(table, self._gone)
        if self._tail or self._base is None:
            yield files_table(self._tail.values())


def _of_table(table: pa.Table) -> LiveFiles:
    return LiveFiles(TableSource(table))


def _without(table: pa.Table, paths: frozenset[str]) -> pa.Table:
    if not paths:
        return table
    return table.filter(pc.invert(_is_in(table["path"], list(paths))))


def _is_in(column: Any, values: list[str]) -> Any:
    return pc.is_in(column, value_set=pa.array(values, pa.string()))
