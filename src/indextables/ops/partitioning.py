"""Rows by partition: each group with the partition's values as the log writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import SchemaError

PartitionValues = Mapping[str, str | None]


def by_partition(
    batch: pa.RecordBatch, partition_columns: Sequence[str]
) -> Iterator[tuple[PartitionValues, pa.RecordBatch]]:
    """The rows of each partition, in the order in which they come."""
    if not partition_columns:
        yield {}, batch
        return
    texts = {name: _texts(batch, name).dictionary_encode() for name in partition_columns}
    codes = _codes(list(texts.values()))
    order = pc.sort_indices(codes)
    ordered = batch.take(order)
    runs = pc.run_end_encode(codes.take(order))
    start = 0
    for end in runs.run_ends.to_pylist():
        row = order[start].as_py()
        yield {name: column[row].as_py() for name, column in texts.items()}, ordered.slice(start, end - start)
        start = end


def _texts(batch: pa.RecordBatch, name: str) -> pa.Array[Any]:
    column = batch.column(name)
    try:
        return pc.cast(column, pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"cannot partition by the column `{name}` because its values of type `{column.type}` have no text"
        ) from error


def _codes(columns: Sequence[pa.Array[Any]]) -> pa.Array[Any]:
    """One number for each combination of values."""
    codes = pa.array([0] * len(columns[0]), pa.int64())
    for column in columns:
        size = len(column.dictionary) + 1
        places = pc.fill_null(pc.cast(column.indices, pa.int64()), size - 1)
        codes = pc.add(pc.multiply(codes, size), places)
        codes = codes.dictionary_encode().indices.cast(pa.int64())
    return codes
