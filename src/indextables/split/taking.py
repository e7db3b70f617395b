"""Arrow columns, taken and cast also where Arrow itself knows no way."""

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


def cast_values(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """The column in the type that it was written with; Parquet knows fewer."""
    if column.type == kind:
        return column
    if pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(kind):
        return cast_values(column.cast(column.type.value_type), kind)
    if not pa.types.is_dictionary(kind) or pa.types.is_dictionary(column.type):
        return column.cast(kind)
    encoded = cast_values(column, kind.value_type).combine_chunks().dictionary_encode()
    indices = encoded.indices.cast(kind.index_type)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(indices, encoded.dictionary, ordered=kind.ordered)])
