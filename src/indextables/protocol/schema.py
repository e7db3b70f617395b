"""Table schemas: Spark's JSON on the wire, Arrow in memory.

Every supported type survives a round trip: Arrow's variants of one type (large, view and dictionary strings, unsigned
and half-precision numbers) become the Spark type that can hold all their values. Timestamps count microseconds, as in
Spark.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from indextables.errors import SchemaError

_PRIMITIVES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
    "null": pa.null(),
}
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*\)")
_MAX_PRECISION = 38
_STRINGS = re.compile(r"(?:var)?char\([0-9]+\)|string collate \w+")
_LENGTH = re.compile(r"((?:var)?char)\(\s*([0-9]{1,10})\s*\)")
# Key under which Spark keeps the type of a column of limited texts; all other parts of Spark see `string`.
_LENGTH_KEY = "__CHAR_VARCHAR_TYPE_STRING"
_SIMPLE_NAMES: list[tuple[Any, str]] = [
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "byte"),
    (lambda kind: pa.types.is_int16(kind) or pa.types.is_uint8(kind), "short"),
    (lambda kind: pa.types.is_int32(kind) or pa.types.is_uint16(kind), "integer"),
    (lambda kind: pa.types.is_int64(kind) or pa.types.is_uint32(kind), "long"),
    (pa.types.is_uint64, "decimal(20,0)"),
    (lambda kind: pa.types.is_float16(kind) or pa.types.is_float32(kind), "float"),
    (pa.types.is_float64, "double"),
    (
        lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind),
        "string",
    ),
    (
        lambda kind: (
            pa.types.is_binary(kind)
            or pa.types.is_large_binary(kind)
            or pa.types.is_fixed_size_binary(kind)
            or pa.types.is_binary_view(kind)
        ),
        "binary",
    ),
    (pa.types.is_date, "date"),
    (pa.types.is_null, "void"),
]
_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


def schema_to_json(schema: pa.Schema | str) -> str:
    """Return Spark's JSON of an Arrow schema.

    Check a string, which is Spark's JSON already.
    """
    if isinstance(schema, str):
        _check_not_empty(schema_from_json(schema))
        return schema
    if not isinstance(schema, pa.Schema):
        raise SchemaError(
            f"cannot use a `{type(schema).__name__}` as a schema; give an Arrow schema or Spark's schema JSON"
        )
    _check_not_empty(schema)
    try:
        return msgspec.json.encode({"type": "struct", "fields": _fields_to_spark(schema, "the schema")}).decode()
    except RecursionError as error:
        raise SchemaError("cannot use the schema because it is nested too deeply") from error


@functools.lru_cache(maxsize=64)
def schema_from_json(text: str) -> pa.Schema:
    """Return the Arrow schema of Spark's JSON."""
    try:
        value = msgspec.json.decode(text)
        if not isinstance(value, dict) or value.get("type") != "struct":
            raise SchemaError("cannot read the schema because it is not a `struct` in Spark's JSON form")
        return pa.schema(_fields_from_spark(value, "the schema"))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise SchemaError(f"cannot read the schema because it is not JSON: {error}") from error
    except RecursionError as error:
        raise SchemaError("cannot read the schema because it is nested too deeply") from error


def check_partition_columns(schema: pa.Schema, partition_columns: Sequence[str]) -> None:
    """Refuse partition columns that are unknown, repeated, all, or have no text form."""
    if isinstance(partition_columns, str):
        raise SchemaError(f'cannot partition by `{partition_columns!r}`: give a sequence of names, as in `("date",)`')
    missing = [str(column) for column in partition_columns if column not in schema.names]
    if missing:
        raise SchemaError(
            f"cannot partition by `{'`, `'.join(missing)}` because the schema has no such column",
            hint=f"its columns are {', '.join(f'`{name}`' for name in schema.names)}",
        )
    if len(set(partition_columns)) != len(partition_columns):
        raise SchemaError(f"cannot partition by the same column twice: {', '.join(partition_columns)}")
    for column in partition_columns:
        kind = schema.field(column).type
        if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_null(kind):
            raise SchemaError(f"cannot partition by `{column}` because its type `{kind}` has no text form for a path")
    if partition_columns and len(partition_columns) == len(schema.names):
        raise SchemaError("cannot partition by every column, because no column would be left for the rows")


def text_length(field: pa.Field[Any]) -> tuple[str, int] | None:
    """Return `char` or `varchar` and the maximum length; None for unlimited columns."""
    declared = (field.metadata or {}).get(_LENGTH_KEY.encode())
    found = None if declared is None else _LENGTH.fullmatch(declared.decode())
    return None if found is None else (found[1], int(found[2]))


def same_columns(left: pa.Schema, right: pa.Schema) -> bool:
    """Return True if two schemas have the same names and types in the same order.

    Nullability and metadata may differ.
    """
    return [(field.name, str(field.type)) for field in left] == [(field.name, str(field.type)) for field in right]


def _check_not_empty(schema: pa.Schema) -> None:
    if not schema.names:
        raise SchemaError("cannot make a table of no columns")


def _check_names(names: Sequence[str], where: str) -> None:
    if any(not name for name in names):
        raise SchemaError(f"cannot use a schema in which a column has no name, as in {where}")
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise SchemaError(
                f"cannot use the columns `{seen[name.lower()]}` and `{name}` together in {where}: names ignore case"
            )
        seen[name.lower()] = name


def _fields_to_spark(fields: Iterable[pa.Field[Any]], where: str) -> list[dict[str, Any]]:
    fields = list(fields)
    _check_names([field.name for field in fields], where)
    return [_field_to_spark(field) for field in fields]


def _field_to_spark(field: pa.Field[Any]) -> dict[str, Any]:
    return {
        "name": field.name,
        "type": _type_to_spark(field.type, field.name),
        "nullable": field.nullable,
        "metadata": _metadata_to_spark(field),
    }


def _metadata_to_spark(field: pa.Field[Any]) -> dict[str, str]:
    declared = (field.metadata or {}).get(_LENGTH_KEY.encode())
    return {} if declared is None else {_LENGTH_KEY: declared.decode()}


def _type_to_spark(kind: Any, column: str) -> Any:
    for matches, name in _SIMPLE_NAMES:
        if matches(kind):
            return name
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is not None else "timestamp_ntz"
    if pa.types.is_decimal(kind) and kind.precision <= _MAX_PRECISION and 0 <= kind.scale <= kind.precision:
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _type_to_spark(kind.value_type, column)
    return _nested_to_spark(kind, column)


def _nested_to_spark(kind: Any, column: str) -> Any:
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return {"type": "struct", "fields": _fields_to_spark(fields, f"column `{column}`")}
    if pa.types.is_map(kind):
        return {
            "type": "map",
            "keyType": _type_to_spark(kind.key_type, column),
            "valueType": _type_to_spark(kind.item_type, column),
            "valueContainsNull": kind.item_field.nullable,
        }
    if any(is_list(kind) for is_list in _LISTS):
        element = _type_to_spark(kind.value_type, column)
        return {"type": "array", "elementType": element, "containsNull": kind.value_field.nullable}
    raise SchemaError(
        f"cannot store column `{column}` because its type `{kind}` has no equal in Spark",
        hint="cast it to a string, a number or a timestamp first",
    )


def _fields_from_spark(value: dict[str, Any], where: str) -> list[pa.Field[Any]]:
    fields = value.get("fields")
    if not isinstance(fields, list):
        raise SchemaError(f"cannot read the schema because {where} has no list `fields`")
    read = [_field_from_spark(field, where) for field in fields]
    _check_names([field.name for field in read], where)
    return read


def _field_from_spark(field: Any, where: str) -> pa.Field[Any]:
    if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
        raise SchemaError(f"cannot read the schema because a field of {where} has no `name` or no `type`")
    read = _arrow_field(field["name"], _type_from_spark(field["type"], field["name"]), field.get("nullable"))
    declared = _declared_length(field)
    return read if declared is None else read.with_metadata({_LENGTH_KEY: declared})


def _declared_length(field: dict[str, Any]) -> str | None:
    """Return the declared type of limited texts, from the field or its metadata."""
    if isinstance(field["type"], str) and _LENGTH.fullmatch(field["type"]):
        return field["type"]
    metadata = field.get("metadata")
    declared = metadata.get(_LENGTH_KEY) if isinstance(metadata, dict) else None
    return declared if isinstance(declared, str) else None


def _arrow_field(name: str, kind: pa.DataType, nullable: Any) -> pa.Field[Any]:
    """Return a field.

    It is nullable unless Spark's JSON denies it, or it has only nulls.
    """
    return pa.field(name, kind, nullable=nullable is not False or pa.types.is_null(kind))


def _type_from_spark(kind: Any, column: str) -> pa.DataType:
    if isinstance(kind, str):
        return _primitive_from_spark(kind, column)
    name = kind.get("type") if isinstance(kind, dict) else None
    if name == "struct":
        return pa.struct(_fields_from_spark(kind, f"column `{column}`"))
    if name == "array" and "elementType" in kind:
        element = _type_from_spark(kind["elementType"], column)
        return pa.list_(_arrow_field("element", element, kind.get("containsNull")))
    if name == "map" and "keyType" in kind and "valueType" in kind:
        value = _arrow_field("value", _type_from_spark(kind["valueType"], column), kind.get("valueContainsNull"))
        key = _type_from_spark(kind["keyType"], column)
        if not pa.types.is_null(key):
            return pa.map_(key, value)
    raise SchemaError(f"cannot read the schema because the type of column `{column}` is unknown: {kind!r:.100}")


def _primitive_from_spark(kind: str, column: str) -> pa.DataType:
    if kind in _PRIMITIVES:
        return _PRIMITIVES[kind]
    if kind == "decimal":
        return pa.decimal128(10, 0)
    if match := _DECIMAL.fullmatch(kind):
        precision, scale = int(match.group(1)), int(match.group(2))
        if 1 <= precision <= _MAX_PRECISION and 0 <= scale <= precision:
            return pa.decimal128(precision, scale)
    if _STRINGS.fullmatch(kind):
        return pa.string()
    raise SchemaError(f"cannot read the schema because the type of column `{column}` is unknown: `{kind:.100}`")
