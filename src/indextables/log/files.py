"""Live files of a table: Arrow tables in parts, and changes of later versions.

`LiveFiles` is immutable. The cost of folding a version depends on the version, not on the table; one Arrow table of all
files is made only on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar, to_table
from indextables.errors import CheckpointCorruptionError
from indextables.protocol.file_table import FILES_SCHEMA, AddedFile, files_table
from indextables.runtime.caching import lazy_property

_MOST_LISTED_LATER = 64


class FileSource(Protocol):
    """Stored files in parts, read on demand."""

    @property
    def num_files(self) -> int:
        """Number of the files by the facts of their source, which may be wrong."""

    def tables(self, keep: Keep | None = None, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the files in parts, all columns or some; skip parts that `keep` refuses."""


Bounds = Mapping[str, tuple[str | None, str | None]]
"""Minimum and maximum of partition columns in a part; a missing column is unknown."""

Keep = Callable[[Sequence[tuple[Bounds, bool]]], Sequence[bool]]
"""Choice of parts by their bounds, for all parts at once; a flag means typed order of the bounds.

It returns True for each part that may contain matching files.
"""


class TableSource:
    """Files in memory."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @property
    def num_files(self) -> int:
        return int(self._table.num_rows)

    def tables(self, keep: Keep | None = None, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        yield self._table if columns is None else self._table.select(list(columns))


class LiveFiles:
    """Live files: a base without removed paths, and the files added later.

    The last add wins.
    """

    def __init__(
        self,
        base: FileSource | None = None,
        gone: frozenset[str] = frozenset(),
        tail: Mapping[str, AddedFile] | None = None,
        recover: Callable[[CheckpointCorruptionError], LiveFiles] | None = None,
        origin: FileSource | None = None,
    ) -> None:
        """Keep the parts.

        `recover` returns the same files from another base if this one is damaged. `origin` is the source that the base
        was read from.
        """
        self.origin = base if origin is None else origin
        self._base = base
        self._gone = gone
        self._tail = tail or {}
        self._recover = recover
        self._other: LiveFiles | None = None

    def recovering(self, recover: Callable[[CheckpointCorruptionError], LiveFiles]) -> LiveFiles:
        """Return the files with a way to read them if the base is damaged."""
        files = LiveFiles(self._base, self._gone, self._tail, recover, self.origin)
        if "table" in self.__dict__:
            files.__dict__["table"] = self.table
        return files

    @property
    def parts(self) -> tuple[FileSource | None, frozenset[str], Mapping[str, AddedFile]]:
        """Stored files, the paths removed from them, and the files added later."""
        return self._base, self._gone, self._tail

    @property
    def num_stored(self) -> int:
        """Number of files to read for all of them, about."""
        return (0 if self._base is None else self._base.num_files) + len(self._tail)

    @property
    def is_in_memory(self) -> bool:
        """Whether the files can be listed without reading, and soon."""
        is_read = "table" in self.__dict__ or self._base is None or isinstance(self._base, TableSource)
        return is_read and len(self._tail) <= _MOST_LISTED_LATER

    @lazy_property
    def table(self) -> pa.Table:
        """One row per live file, in the order of their adds."""
        parts = self.chosen(None) or [to_table([], FILES_SCHEMA)]
        return parts[0] if len(parts) == 1 else pa.concat_tables(parts)

    def chosen(self, keep: Keep | None) -> list[pa.Table]:
        """Return the live files of the parts that `keep` does not refuse."""
        if "table" in self.__dict__:
            return [self.table]
        try:
            return list(self.tables(keep))
        except CheckpointCorruptionError:
            if self._other is None:
                raise
            return self._other.chosen(keep)

    def tables(self, keep: Keep | None = None, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the live files in parts, without holding all.

        Skip parts that `keep` refuses. Damage of the first part leads to another base; damage of a later part is an
        error, and the next read starts from another base.
        """
        if "table" in self.__dict__:
            return TableSource(self.table).tables(keep, columns)
        return self._parts(keep, columns) if self._recover is None else self._safe_parts(keep, columns)

    def _safe_parts(self, keep: Keep | None, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        if self._other is None:
            has_begun = False
            try:
                for table in self._parts(keep, columns):
                    has_begun = True
                    yield table
                return
            except CheckpointCorruptionError as error:
                if self._recover is None:
                    raise
                self._other = self._recover(error)
                if has_begun:
                    raise
        yield from self._other.tables(keep, columns)

    def change(self, removed: Iterable[str], added: Mapping[str, AddedFile]) -> LiveFiles:
        """Return the files after removing paths and then adding others, as a new value."""
        base, gone, tail = self._base, set(self._gone), dict(self._tail)
        if "table" in self.__dict__:
            base, gone, tail = TableSource(self.table), set(), {}
        for path in (*removed, *added):
            tail.pop(path, None)
            gone.add(path)
        tail.update(added)
        return LiveFiles(base, frozenset(gone) if base is not None else frozenset(), tail, origin=self.origin)

    def contains(self, paths: Iterable[str]) -> dict[str, bool]:
        """Return for each path whether it is live."""
        wanted = list(dict.fromkeys(paths))
        if self._base is None:
            return {path: path in self._tail for path in wanted}
        sought = to_array(wanted, pa.string())
        live: set[str] = set()
        for table in self.tables(columns=["path"]):
            live.update(pc.filter(table["path"], pc.is_in(table["path"], value_set=sought)).to_pylist())
        return {path: path in live for path in wanted}

    def __reduce__(self) -> tuple[object, ...]:
        return _of_table, (self.table,)

    def _parts(self, keep: Keep | None, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        if self._base is not None:
            gone = to_array(self._gone, pa.string())
            for table in self._base.tables(keep, None if columns is None else list({"path", *columns})):
                yield rows_left(table, gone, columns)
        if self._tail or self._base is None:
            yield from TableSource(files_table(self._tail.values())).tables(keep, columns)


def exact_sum(numbers: pa.ChunkedArray[Any]) -> int:
    """Sum 64-bit integers exactly; Arrow's own sum wraps around. Null counts as 0."""
    high, low = pc.shift_right(numbers, to_scalar(32)), pc.bit_wise_and(numbers, to_scalar((1 << 32) - 1))
    return (int(pc.sum(high, min_count=0).as_py()) << 32) + int(pc.sum(low, min_count=0).as_py())


def rows_left(table: pa.Table, gone: pa.Array[Any], columns: Sequence[str] | None) -> pa.Table:
    """Return the rows, or some columns of them, without the removed paths."""
    chosen = table if columns is None else table.select(list(columns))
    if not len(gone):
        return chosen
    is_gone = pc.is_in(table["path"], value_set=gone)
    return chosen.filter(pc.invert(is_gone)) if pc.any(is_gone, min_count=0).as_py() else chosen


def _of_table(table: pa.Table) -> LiveFiles:
    return LiveFiles(TableSource(table))
