"""File tables: added files as one Arrow table, a column for every field of an add, and back again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

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
