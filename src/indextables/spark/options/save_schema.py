"""Checks of a DataFrame's schema against the table's, before any row is read.

Names are compared as Spark compares them, ignoring case, and written in the table's spelling. Types follow the rules of
every other write. A nullable column of a DataFrame fits a column without nulls, as long as it holds no null.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from indextables.errors import SchemaError
from indextables.ingest.batches import conform
from indextables.protocol.schema import schema_from_json

_SIMPLE = (
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)
_BINARY_COLLATION = "UTF8_BINARY"


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a DataFrame, all nullable.

    `SchemaError` names the first column whose type no table can hold. Spark derives non-null columns from expressions
    (`lit`, `concat`, a row number); a table created with them would refuse the nulls of the next DataFrame.
    """
    for field in schema.fields:
        _check_type(field.dataType, field.name)
    return schema_from_json(schema.toNullable().json())


def spelled_columns(given: pa.Schema, table: pa.Schema) -> tuple[str, ...]:
    """Return column names in the table's spelling; unknown names stay unchanged."""
    by_lower = {name.lower(): name for name in table.names}
    return tuple(name if name in table.names else by_lower.get(name.lower(), name) for name in given.names)


def check_fits(given: pa.Schema, columns: Sequence[str], table: pa.Schema) -> None:
    """Refuse a DataFrame whose schema cannot be written, whatever its rows hold."""
    fields = [pa.field(name, field.type) for field, name in zip(given, columns, strict=True)]
    empty = [pa.nulls(0, field.type) for field in fields]
    conform(pa.RecordBatch.from_arrays(empty, schema=pa.schema(fields)), table)
    missing = next((field.name for field in table if not field.nullable and field.name not in columns), None)
    if missing is not None:
        raise SchemaError(
            f"cannot write the column `{missing}` because it is missing, and the table allows no null there"
        )


def _check_type(kind: DataType, column: str) -> None:
    if isinstance(kind, ArrayType):
        _check_type(kind.elementType, column)
    elif isinstance(kind, MapType):
        _check_type(kind.keyType, column)
        _check_type(kind.valueType, column)
    elif isinstance(kind, StructType):
        for field in kind.fields:
            _check_type(field.dataType, column)
    elif not isinstance(kind, _SIMPLE):
        raise SchemaError(
            f"cannot write the column `{column}` because a table cannot hold its type `{kind.simpleString()}`",
            hint="cast it to a string, a number or a timestamp first",
        )
    elif isinstance(kind, StringType) and kind.collation != _BINARY_COLLATION:
        raise SchemaError(
            f"cannot write the column `{column}` because a table cannot hold its collation `{kind.collation}`",
            hint=f"cast it to a plain string first, as in `CAST({column} AS STRING COLLATE {_BINARY_COLLATION})`",
        )
