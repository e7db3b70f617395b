"""File tables from checkpoint columns of any writer: checked, completed, and cast.

Fields are resolved by name. A missing field becomes null or its default; unknown fields are dropped. Every refusal is a
`ValueError` with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar
from indextables.location import Location, redact
from indextables.protocol.actions import Add
from indextables.protocol.file_table import FILES_SCHEMA, without_null_items
from indextables.protocol.paths import WRITTEN_PATH_TAG, as_written, normalize_path, remembered
from indextables.protocol.statistics_tags import FOOTER_TAG

WIRE_NAMES: dict[str, str] = {
    **dict(zip(Add.__struct_fields__, Add.__struct_encode_fields__, strict=True)),
    "added_at_version": "addedAtVersion",
    "added_at_timestamp": "addedAtTimestamp",
}

_NEVER_NEGATIVE = (
    "size",
    "num_records",
    "footer_start_offset",
    "footer_end_offset",
    "hotcache_start_offset",
    "hotcache_length",
    "num_merge_ops",
    "uncompressed_size_bytes",
    "added_at_version",
)
_FOOTER_COLUMNS = {"tags", "size", "footer_start_offset", "footer_end_offset", "has_footer_offsets"}
# A path that may be absolute or outside the table.
_DOUBTFUL_PATH = r"^/|:|(^|/)\.{0,2}(/|$)|^_transaction_log(/|$)|[\x00-\x1f\x7f]"
_LONGEST_QUOTE = 200


def conform_files(
    found: pa.Table, defaults: dict[str, Any] | None = None, columns: Sequence[str] | None = None
) -> pa.Table:
    """Convert a table of wire names to `FILES_SCHEMA`, or to some of its columns.

    `defaults` replace required fields that are missing.
    """
    meanings = {"has_footer_offsets": False, "partition_values": [], **(defaults or {})}
    schema = FILES_SCHEMA if columns is None else pa.schema([FILES_SCHEMA.field(name) for name in columns])
    files = pa.Table.from_arrays([_column(found, field, meanings.get(field.name)) for field in schema], schema=schema)
    for name in set(_NEVER_NEGATIVE).intersection(schema.names):
        least = pc.min(files[name]).as_py()
        if least is not None and least < 0:
            raise ValueError(f"its field `{WIRE_NAMES[name]}` is {least}, which is below zero")
    return files


def from_wire(files: pa.Table, table: Location) -> pa.Table:
    """Convert files from the form of the log to the form in memory.

    Paths become relative to the table; tags of this library's splits become footer offsets.
    """
    return _with_footers(_relative_paths(files, table))


def _with_footers(files: pa.Table) -> pa.Table:
    if not {"tags", "size", "footer_start_offset", "footer_end_offset", "has_footer_offsets"} <= set(
        files.column_names
    ):
        return files
    starts = _footer_starts(files)
    if starts is None:
        return files
    is_ours = pc.fill_null(pc.less_equal(starts, files["size"]), fill_value=to_scalar(value=False))
    columns = {
        "footer_start_offset": pc.if_else(is_ours, starts, files["footer_start_offset"]),
        "footer_end_offset": pc.if_else(is_ours, files["size"], files["footer_end_offset"]),
        "has_footer_offsets": pc.or_(is_ours, files["has_footer_offsets"]),
    }
    return _with_columns(files, columns)


def _footer_starts(files: pa.Table) -> Any:
    """Return the footer offsets of this library's splits, null for others.

    None if none.
    """
    texts = pc.map_lookup(files["tags"], to_scalar(FOOTER_TAG), "last")
    if texts.null_count == len(texts):
        return None
    digits = pc.match_substring_regex(texts, "^[0-9]{1,18}$")
    return pc.cast(pc.if_else(digits, texts, to_scalar(None, pa.string())), pa.int64())


def _with_columns(files: pa.Table, columns: Mapping[str, Any]) -> pa.Table:
    for name, column in columns.items():
        at = files.schema.get_field_index(name)
        files = files.set_column(at, files.schema.field(at), column)
    return files


def _relative_paths(files: pa.Table, table: Location) -> pa.Table:
    """Return the files with relative paths.

    Tags keep the written form of changed ones.
    """
    doubtful = pc.match_substring_regex(files["path"], _DOUBTFUL_PATH)
    if not pc.any(doubtful, min_count=0).as_py():
        return files
    written = files["path"].to_pylist()
    paths = [
        relative_path(path, table) if doubt else path for path, doubt in zip(written, doubtful.to_pylist(), strict=True)
    ]
    if paths == written or "tags" not in files.column_names:
        return _with_paths(files, paths, None)
    tags = [
        remembered(dict(known or ()), text) if path != text else known
        for path, text, known in zip(paths, written, files["tags"].to_pylist(), strict=True)
    ]
    return _with_paths(files, paths, tags)


def to_wire(files: pa.Table) -> pa.Table:
    """Convert files from the form in memory to the log's; the inverse of `from_wire`."""
    return _written_paths(_without_footers(files))


def _without_footers(files: pa.Table) -> pa.Table:
    starts = _footer_starts(files)
    if starts is None:
        return files
    is_ours, nothing = starts.is_valid(), to_scalar(None, pa.int64())
    columns = {
        "footer_start_offset": pc.if_else(is_ours, nothing, files["footer_start_offset"]),
        "footer_end_offset": pc.if_else(is_ours, nothing, files["footer_end_offset"]),
        "has_footer_offsets": pc.and_(pc.invert(is_ours), files["has_footer_offsets"]),
    }
    return _with_columns(files, columns)


def _written_paths(files: pa.Table) -> pa.Table:
    """Return the files with every path as its first writer wrote it."""
    keys = [chunk.keys for chunk in files["tags"].chunks if len(chunk)]
    if not any(pc.any(pc.equal(each, to_scalar(WRITTEN_PATH_TAG)), min_count=0).as_py() for each in keys):
        return files
    tags = [None if tags is None else dict(tags) for tags in files["tags"].to_pylist()]
    spelled = [as_written(path, known) for path, known in zip(files["path"].to_pylist(), tags, strict=True)]
    return _with_paths(files, [path for path, _ in spelled], [rest for _, rest in spelled])


def _with_paths(files: pa.Table, paths: Sequence[str], tags: Sequence[Any] | None) -> pa.Table:
    at = files.schema.get_field_index("path")
    files = files.set_column(at, files.schema.field(at), to_array(paths, pa.string()))
    if tags is None:
        return files
    at = files.schema.get_field_index("tags")
    pairs = [list(each.items()) if isinstance(each, dict) else each for each in tags]
    return files.set_column(at, files.schema.field(at), to_array(pairs, files.schema.field(at).type))


def relative_path(path: str, table: Location) -> str:
    """Return the path relative to the table."""
    try:
        return normalize_path(path, table)
    except ValueError as error:
        shown = redact(repr(path[:_LONGEST_QUOTE])[1:-1])
        raise ValueError(f"its path `{shown}` is refused because {error}") from error


def newest_of_each_path(files: pa.Table) -> pa.Table:
    """Return the files without those that a later row of the same path replaces."""
    if pc.count_distinct(files["path"]).as_py() == files.num_rows:
        return files
    last = {path: number for number, path in enumerate(files["path"].to_pylist())}
    return files.take(to_array(sorted(last.values()), pa.int64()))


def _column(found: pa.Table, field: Any, meaning: Any) -> Any:
    wire_name = WIRE_NAMES[field.name]
    if wire_name not in found.column_names:
        if not field.nullable and meaning is None:
            raise ValueError(f"its entries lack the field `{wire_name}`")
        return to_array([meaning] * found.num_rows, field.type)
    column = found[wire_name]
    try:
        column = _combined(column, field.type)
    except pa.ArrowException as error:
        raise ValueError(f"its field `{wire_name}` is not of type {field.type}") from error
    if column.null_count and not field.nullable:
        if meaning is None:
            raise ValueError(f"its field `{wire_name}` has a null")
        rows = [meaning if value is None else value for value in column.to_pylist()]
        column = to_array(rows, field.type)
    return column


def _combined(column: Any, kind: Any) -> Any:
    """Return one array of this type; drop keys without a value."""
    whole = column.combine_chunks().cast(kind) if column.num_chunks else to_array([], kind)
    if pa.types.is_map(kind) and whole.items.null_count:
        return without_null_items(whole)
    if pa.types.is_list(kind) and whole.values.null_count:
        return without_null_items(whole)
    return whole
