"""Count the distinct values of a column, from the index if exact, else from rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar, to_table
from indextables.errors import SchemaError
from indextables.scan.split_scan import Split, TableScan, check_column, check_limit
from indextables.split.search.aggregations import terms_of

COUNT = "count"
_VALUE = "value"


def aggregate(scan: TableScan, column: str, *, limit: int | None = None) -> pa.Table:
    """Return one row per value except null, most frequent first, ties by value."""
    check_limit(limit)
    field = column_to_aggregate(scan.schema, column)

    def count_in(split: Split) -> pa.Table:
        tree, where = scan.asked(split)
        if where is None:
            found = terms_of(scan.searcher(split), tree, scan.text, field)
            if found is not None:
                return found
        return _count_values(scan.rows(split, [column])[column])

    parts = scan.ask_together(lambda index: terms_of(index, scan.tree, scan.text, field), count_in)
    empty = to_table([], pa.schema([(_VALUE, field.type), (COUNT, pa.int64())]))
    grouped = _summed(pa.concat_tables([empty, *parts]))
    order = pc.sort_indices(grouped, sort_keys=[(COUNT, "descending"), (_VALUE, "ascending")])
    best = grouped.take(order.slice(0, limit))
    scan.warn()
    return pa.Table.from_arrays([best[_VALUE], best[COUNT]], schema=pa.schema([field, (COUNT, pa.int64())]))


def _summed(counted: pa.Table) -> pa.Table:
    """Return each value once, with the sum of its counts."""
    if not counted.num_rows:
        return counted
    coded = pc.dictionary_encode(counted[_VALUE].combine_chunks(), null_encoding="encode")
    order = pc.sort_indices(coded.indices)
    runs = pc.run_end_encode(coded.indices.take(order))
    sums = pc.cumulative_sum(pc.cast(counted[COUNT].combine_chunks().take(order), pa.int64()))
    ends = sums.take(pc.subtract(runs.run_ends, to_scalar(1, runs.run_ends.type)))
    before = pa.concat_arrays([to_array([0], pa.int64()), ends.slice(0, len(ends) - 1)])
    return pa.table({_VALUE: coded.dictionary.take(runs.values), COUNT: pc.subtract(ends, before)})


def column_to_aggregate(schema: pa.Schema, name: str) -> pa.Field[Any]:
    """Return the field of a column to aggregate, or raise a `SchemaError`."""
    field = schema.field(check_column(schema, name))
    if pa.types.is_nested(field.type):
        raise SchemaError(f"cannot aggregate the column `{name}` because its type is `{field.type}`")
    return pa.field(name, field.type)


def _count_values(values: pa.ChunkedArray[Any]) -> pa.Table:
    counted = pc.value_counts(_normal(values.drop_null()))
    return pa.table({_VALUE: counted.field("values"), COUNT: counted.field("counts")})


def _normal(values: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Normalize NaN and zero; Arrow distinguishes them by their bits.

    All other comparisons treat every NaN as equal, and both zeros.
    """
    if not pa.types.is_floating(values.type):
        return values
    nan = to_scalar(float("nan"), values.type)
    return pc.if_else(pc.is_nan(values), nan, pc.add(values, to_scalar(0.0, values.type)))
