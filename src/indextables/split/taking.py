"""Rows taken out of Arrow columns by their numbers, also out of those of which Arrow itself can take none."""

from __future__ import annotations

import pyarrow as pa


def take_rows(table: pa.Table, picks: pa.Array) -> pa.Table:
    """The rows of a table."""
    try:
        return table.take(picks)
    except pa.ArrowNotImplementedError:
        return pa.Table.from_arrays([take_values(column, picks) for column in table.columns], schema=table.schema)


def take_values(column: pa.ChunkedArray, picks: pa.Array) -> pa.ChunkedArray:
    """The rows of a column, also of a type such as string views."""
    try:
        return column.take(picks)
    except pa.ArrowNotImplementedError:
        chunks = [chunk for row in picks.to_pylist() for chunk in column.slice(row, 1).chunks]
        return pa.chunked_array([pa.concat_arrays(chunks)] if chunks else [], column.type)
