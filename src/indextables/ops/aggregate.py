"""The values of a column and how often each is there: from the index where that is exact, else from that column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import SchemaError
from indextables.ops.questions import Question, Split, check_column, check_limit
from indextables.split.aggregations import terms_of

COUNT = "count"
_VALUE = "value"


def aggregate(question: Question, column: str, *, limit: int | None = None) -> pa.Table:
    """A row per value, the most frequent first, by value where they are as frequent. NULL is no value."""
    check_limit(limit)
    field = column_to_aggregate(question.schema, column)

    def count_in(split: Split) -> pa.Table:
        if question.where is None:
            found = terms_of(question.searcher(split), question.tree, question.text, field)
            if found is not None:
                return found
        return _count_values(question.rows(split, [column])[column])

    parts = [table for _, table in question.ask(count_in)]
    empty = pa.schema([(_VALUE, field.type), (COUNT, pa.int64())]).empty_table()
    grouped = pa.concat_tables([empty, *parts]).group_by(_VALUE).aggregate([(COUNT, "sum")])
    order = pc.sort_indices(grouped, sort_keys=[(f"{COUNT}_sum", "descending"), (_VALUE, "ascending")])
    best = grouped.take(order.slice(0, limit))
    question.warn()
    return pa.Table.from_arrays([best[_VALUE], best[f"{COUNT}_sum"]], schema=pa.schema([field, (COUNT, pa.int64())]))


def column_to_aggregate(schema: pa.Schema, name: str) -> pa.Field[Any]:
    """The column as answers have it, or a `SchemaError`."""
    field = schema.field(check_column(schema, name))
    if pa.types.is_nested(field.type):
        raise SchemaError(f"cannot aggregate the column `{name}` because its type is `{field.type}`")
    return pa.field(name, field.type)


def _count_values(values: pa.ChunkedArray[Any]) -> pa.Table:
    counted = pc.value_counts(_normal(values.drop_null()))
    return pa.table({_VALUE: counted.field("values"), COUNT: counted.field("counts")})


def _normal(values: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """One NaN and one zero, as they are compared everywhere else; Arrow tells them apart by their bits."""
    if not pa.types.is_floating(values.type):
        return values
    nan = pa.scalar(float("nan"), values.type)
    return pc.if_else(pc.is_nan(values), nan, pc.add(values, pa.scalar(0.0, values.type)))
