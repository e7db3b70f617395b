"""What columns say of themselves in Spark: which table they come from, and how it indexes them.

It stands in the metadata of the columns of every load. Spark keeps that through views, joins, subqueries and new names,
and drops it where a column is computed: so it tells which table a name means, and what a search on a column is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from pyspark.sql.types import StructField, StructType

from indextables.config import Config
from indextables.errors import SchemaError
from indextables.log.snapshot import Snapshot
from indextables.ops.indexed_fields import table_fields
from indextables.split.fields import FieldMap, IndexField

KEY = "indextables"
_TABLE = "table"
_FIELD = "field"
_PART = "part"


def with_info(schema: StructType, url: str, snapshot: Snapshot, config: Config, *, is_part: bool = False) -> StructType:
    """Columns of a table at a place, which say so; and whether they are of a part of its rows only."""
    try:
        fields = table_fields(snapshot, config)
    except SchemaError:  # settings that do not fit the table: whoever writes to it is told
        fields = FieldMap(())
    return StructType([_described(field, url, fields, is_part) for field in schema.fields])


def tables_of(schema: StructType) -> list[str]:
    """The places of the tables that columns come from."""
    found = (field.metadata.get(KEY, {}).get(_TABLE) for field in schema.fields)
    return list(dict.fromkeys(url for url in found if url is not None))


def indexed_field(metadata: Mapping[str, Any]) -> IndexField | None:
    """How a column with some metadata is indexed; None where it is not one of a table, or is computed."""
    text = metadata.get(KEY, {}).get(_FIELD)
    return None if text is None else FieldMap.from_json(f"[{text}]").fields[0]


def is_whole(schema: StructType) -> bool:
    """Whether columns come from loads of all rows, and have the names that the table gives them."""
    return all(_is_whole(field, field.metadata.get(KEY)) for field in schema.fields)


def _is_whole(field: StructField, info: dict[str, Any] | None) -> bool:
    if info is None or info.get(_PART):
        return False
    return _FIELD not in info or bool(json.loads(info[_FIELD])["name"].lower() == field.name.lower())


def _described(field: StructField, url: str, fields: FieldMap, is_part: bool) -> StructField:
    info: dict[str, Any] = {_TABLE: url, **({_PART: True} if is_part else {})}
    indexed = fields.find(field.name)
    if indexed is not None:
        info[_FIELD] = json.dumps(msgspec.to_builtins(indexed))
    return StructField(field.name, field.dataType, field.nullable, {**field.metadata, KEY: info})
