"""The live files of a table, columnar: one Arrow table, and what later versions changed of it.

`LiveFiles` is immutable. Folding a version costs what the version holds, not what the table holds; the Arrow table is
made when somebody asks for it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.protocol.file_table import AddedFile, files_table


class LiveFiles:
    """What is live: a base table less the paths that are gone, and the files added since, the later add winning."""

    def __init__(
        self,
        base: pa.Table | None = None,
        gone: frozenset[str] = frozenset(),
        tail: Mapping[str, AddedFile] | None = None,
    ) -> None:
        self._base = base
        self._gone = gone
        self._tail = tail or {}

    @functools.cached_property
    def table(self) -> pa.Table:
        """A row per live file, in the order in which they were added."""
        parts = [] if self._base is None else [_without(self._base, self._gone)]
        if self._tail or not parts:
            parts.append(files_table(self._tail.values()))
        return parts[0] if len(parts) == 1 else pa.concat_tables(parts)

    def change(self, removed: Iterable[str], added: Mapping[str, AddedFile]) -> LiveFiles:
        """The files after some paths are removed and then others added, as a new value."""
        base, gone, tail = self._base, set(self._gone), dict(self._tail)
        if "table" in self.__dict__:
            base, gone, tail = self.table, set(), {}
        for path in removed:
            tail.pop(path, None)
            gone.add(path)
        for path, entry in added.items():
            tail.pop(path, None)
            gone.add(path)
            tail[path] = entry
        return LiveFiles(base, frozenset(gone) if base is not None else frozenset(), tail)

    def contains(self, paths: Iterable[str]) -> dict[str, bool]:
        """Which of these paths are live."""
        wanted = list(dict.fromkeys(paths))
        if "table" not in self.__dict__ and self._base is None:
            return {path: path in self._tail for path in wanted}
        live = set(pc.filter(self.table["path"], _is_in(self.table["path"], wanted)).to_pylist())
        return {path: path in live for path in wanted}

    def __reduce__(self) -> tuple[object, ...]:
        return LiveFiles, (self.table,)


def _without(table: pa.Table, paths: frozenset[str]) -> pa.Table:
    if not paths:
        return table
    return table.filter(pc.invert(_is_in(table["path"], list(paths))))


def _is_in(column: Any, values: list[str]) -> Any:
    return pc.is_in(column, value_set=pa.array(values, pa.string()))
