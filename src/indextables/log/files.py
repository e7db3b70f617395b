"""The live files of a table, columnar: one Arrow table, and what later versions changed of it.

`LiveFiles` is immutable. Folding a version costs what the version holds, not what the table holds; the Arrow table is
made when somebody asks for it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indextables.protocol.actions import Add

_MAP = pa.map_(pa.string(), pa.string())
_STRINGS = pa.list_(pa.string())

FILES_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("partition_values", _MAP, nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modification_time", pa.int64(), nullable=False),
        pa.field("data_change", pa.bool_(), nullable=False),
        pa.field("stats", pa.string()),
        pa.field("tags", _MAP),
        pa.field("min_values", _MAP),
        pa.field("max_values", _MAP),
        pa.field("num_records", pa.int64()),
        pa.field("footer_start_offset", pa.int64()),
        pa.field("footer_end_offset", pa.int64()),
        pa.field("hotcache_start_offset", pa.int64()),
        pa.field("hotcache_length", pa.int64()),
        pa.field("has_footer_offsets", pa.bool_(), nullable=False),
        pa.field("time_range_start", pa.string()),
        pa.field("time_range_end", pa.string()),
        pa.field("split_tags", _STRINGS),
        pa.field("delete_opstamp", pa.int64()),
        pa.field("num_merge_ops", pa.int32()),
        pa.field("doc_mapping_ref", pa.string()),
        pa.field("doc_mapping_json", pa.string()),
        pa.field("uncompressed_size_bytes", pa.int64()),
        pa.field("added_at_version", pa.int64(), nullable=False),
        pa.field("added_at_timestamp", pa.int64(), nullable=False),
    ]
)
_MAP_COLUMNS = frozenset(field.name for field in FILES_SCHEMA if field.type == _MAP)


class AddedFile(NamedTuple):
    """An add, and the version that brought it."""

    add: Add
    version: int
    timestamp_ms: int


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


def files_table(entries: Iterable[AddedFile]) -> pa.Table:
    """Added files as an Arrow table of `FILES_SCHEMA`."""
    rows = list(entries)
    columns = [_column(rows, field) for field in FILES_SCHEMA]
    return pa.Table.from_arrays(columns, schema=FILES_SCHEMA)


def adds_of(table: pa.Table) -> list[Add]:
    """The rows of a file table as actions. For the few files that are to be worked on, not for whole tables."""
    names = [name for name in Add.__struct_fields__ if name in table.column_names]
    return [Add(**_values(row)) for row in table.select(names).to_pylist()]


def _values(row: dict[str, Any]) -> dict[str, Any]:
    for name in _MAP_COLUMNS & row.keys():
        if row[name] is not None:
            row[name] = dict(row[name])
    if row.get("split_tags") is not None:
        row["split_tags"] = tuple(row["split_tags"])
    return row


def _column(rows: list[AddedFile], field: Any) -> pa.Array[Any]:
    name = field.name
    if name == "added_at_version":
        return pa.array([row.version for row in rows], field.type)
    if name == "added_at_timestamp":
        return pa.array([row.timestamp_ms for row in rows], field.type)
    values: list[Any] = [getattr(row.add, name) for row in rows]
    if name in _MAP_COLUMNS:
        values = [None if value is None else list(value.items()) for value in values]
    return pa.array(values, field.type)


def _without(table: pa.Table, paths: frozenset[str]) -> pa.Table:
    if not paths:
        return table
    return table.filter(pc.invert(_is_in(table["path"], list(paths))))


def _is_in(column: Any, values: list[str]) -> Any:
    return pc.is_in(column, value_set=pa.array(values, pa.string()))
