"""File tables: added files as one Arrow table with all fields of an add, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

from indextables.arrow_values import to_array
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
    """Add with the version that added it."""

    add: Add
    version: int
    timestamp_ms: int


def files_table(entries: Iterable[AddedFile]) -> pa.Table:
    """Return added files as an Arrow table of `FILES_SCHEMA`."""
    rows = list(entries)
    columns = [_column(rows, field) for field in FILES_SCHEMA]
    return pa.Table.from_arrays(columns, schema=FILES_SCHEMA)


def adds_of(table: pa.Table) -> list[Add]:
    """Return the rows of a file table as actions.

    For a few files, not for whole tables.
    """
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
        return to_array([row.version for row in rows], field.type)
    if name == "added_at_timestamp":
        return to_array([row.timestamp_ms for row in rows], field.type)
    values: list[Any] = [getattr(row.add, name) for row in rows]
    if name in _MAP_COLUMNS:
        values = [None if value is None else list(value.items()) for value in values]
    return to_array(values, field.type)


def without_null_items(column: Any) -> Any:
    """Return a list or map without null items; a null value drops its key in a map."""
    if pa.types.is_map(column.type):
        rows = [row and [(key, value) for key, value in row if value is not None] for row in column.to_pylist()]
    else:
        rows = [row and [value for value in row if value is not None] for row in column.to_pylist()]
    return to_array(rows, column.type)
