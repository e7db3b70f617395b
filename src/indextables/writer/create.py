"""Create a table, after checking that its columns can be indexed as asked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from indextables.config import settings
from indextables.config.resolve import PREFIX
from indextables.errors import SchemaError, TableExistsError
from indextables.protocol.features import PARQUET_SPLITS
from indextables.protocol.schema import schema_from_json
from indextables.split.index.fields import map_fields
from indextables.transaction_log import TransactionLog


def create(
    url: str | os.PathLike[str],
    schema: pa.Schema | str,
    *,
    partition_by: Sequence[str],
    indexing: Mapping[str, str],
    properties: Mapping[str, str],
    name: str | None,
    description: str | None,
    options: Mapping[str, Any] | None,
) -> TransactionLog:
    """Create a table and return its log.

    `schema` is an Arrow schema or Spark's schema JSON.
    """
    log = TransactionLog(url, options=options)
    columns = _columns(schema)
    configuration = {**properties, **_indexing_properties(columns, indexing)}
    map_fields(columns, log.config.with_properties(configuration), partition_by)
    created = log.initialize(
        schema,
        partition_columns=partition_by,
        configuration=configuration,
        name=name,
        description=description,
        features=[PARQUET_SPLITS],
    )
    if not created:
        raise TableExistsError(
            f"cannot create a table at `{log.url}` because there is one already",
            path=log.url,
            hint="open it with `Table.open`",
        )
    return log


def _columns(schema: pa.Schema | str) -> pa.Schema:
    if isinstance(schema, pa.Schema):
        return schema
    if isinstance(schema, str):
        return schema_from_json(schema)
    hint = 'write `pyarrow.schema([("id", pyarrow.int64()), ...])`'
    if hasattr(schema, "__arrow_c_stream__"):
        hint = "give the schema of the rows, as `pyarrow.table(rows).schema`, and then `append` the rows"
    elif callable(getattr(schema, "json", None)):
        hint = "give Spark's schema as `schema.json()`"
    raise SchemaError(
        f"cannot create a table with a `{type(schema).__name__}` as its schema: expected an Arrow schema, or Spark's "
        "schema as JSON",
        hint=hint,
    )


def _indexing_properties(schema: pa.Schema, indexing: Mapping[str, str]) -> dict[str, str]:
    unknown = next((column for column in indexing if column not in schema.names), None)
    if unknown is not None:
        raise SchemaError(
            f"cannot index `{unknown}` because the schema has no such column",
            hint=f"its columns are {', '.join(f'`{column}`' for column in schema.names[:20])}",
        )
    return {f"{PREFIX}{settings.INDEXING_TYPEMAP.key}.{column}": kind for column, kind in indexing.items()}
