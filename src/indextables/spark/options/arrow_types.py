"""Conversion between Arrow and Spark types, for schemas and batches of scans.

Spark only accepts a batch with the schema that Spark derives itself, including nested names and nullability. Types that
differ in these alone have the same layout, so no value changes, and few are copied.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from indextables.errors import SchemaError
from indextables.protocol.schema import schema_to_json
from indextables.spark.compat.arrow_schemas import to_arrow_schema


def to_spark_schema(schema: pa.Schema) -> StructType:
    """Return Spark's schema of an Arrow schema, with its nullability."""
    return StructType.fromJson(json.loads(schema_to_json(schema))) if len(schema) else StructType([])


def to_checked_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark requires of batches."""
    return to_arrow_schema(schema)


def find_columns(asked: StructType, known: pa.Schema) -> list[int]:
    """Return the positions of requested columns in the table's schema, ignoring case.

    `SchemaError` if a column is missing or has another type. A column may be declared nullable although it is not, but
    not the other way round: Spark would leave out checks for null.
    """
    places = {name.lower(): place for place, name in enumerate(known.names)}
    found = []
    for field in to_checked_schema(asked):
        place = places.get(field.name.lower())
        if place is None:
            raise SchemaError(
                f"cannot read the column `{field.name}` of the given schema because the table has no such column",
                hint=f"it has {', '.join(f'`{name}`' for name in known.names)}",
            )
        there = known.field(place)
        if not _is_readable_as(field, there):
            raise SchemaError(
                f"cannot read the column `{field.name}` as `{_shown(field)}` because it is `{_shown(there)}`",
                hint="leave the schema out, and cast what is read",
            )
        found.append(place)
    return found


def conform_batch(batch: pa.RecordBatch, schema: pa.Schema, places: Sequence[int]) -> pa.RecordBatch:
    """Select columns of a batch and give them the types of a schema."""
    columns = [_viewed(batch.column(place), field.type) for place, field in zip(places, schema, strict=True)]
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.nulls(batch.num_rows, pa.struct([])))


def ipc_stream(table: pa.Table) -> bytes:
    """Return a table in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _is_readable_as(asked: pa.Field[Any], known: pa.Field[Any]) -> bool:
    if known.nullable and not asked.nullable:
        return False
    if not asked.type.num_fields:
        return bool(asked.type == known.type)
    if asked.type.id != known.type.id or asked.type.num_fields != known.type.num_fields:
        return False
    pairs = [(asked.type.field(place), known.type.field(place)) for place in range(asked.type.num_fields)]
    if pa.types.is_struct(asked.type) and any(one.name != other.name for one, other in pairs):
        return False
    return all(_is_readable_as(one, other) for one, other in pairs)


def _shown(field: pa.Field[Any]) -> str:
    return f"{field.type}{'' if field.nullable else ' not null'}"


def _viewed(column: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    if column.type == kind:
        return column
    try:
        return column.view(kind)
    except pa.ArrowInvalid:  # a null struct with a non-null field: Arrow trusts the field's declaration
        return pa.array(column.to_pylist(), kind)
