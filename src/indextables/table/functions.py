"""`open` and `write`: short functions on tables by their address."""

from __future__ import annotations

import datetime
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from indextables.errors import ConfigError, SchemaError, TableExistsError, TableNotFoundError
from indextables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

_MODES = ("append", "overwrite", "error", "ignore")


def open(  # noqa: A001 - the name that people expect
    url: str | os.PathLike[str],
    *,
    version: int | None = None,
    timestamp: str | datetime.datetime | int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Table:
    """Open a table at its newest version, or at an earlier version or time.

    Args:
        url: a path, or an address such as `s3://bucket/logs`.
        version: the version to open.
        timestamp: a time as ISO text, a datetime, or milliseconds since 1970.
        options: settings of this handle, such as credentials of the store.

    Example:
        >>> it.open("logs").search("timeout")["id"].to_pylist()
        [3, 4]
    """
    return Table(url, version=version, timestamp=timestamp, options=options)


def write(
    url: str | os.PathLike[str],
    data: Any,
    *,
    text: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    mode: str = "append",
    options: Mapping[str, Any] | None = None,
) -> Table:
    """Write rows into a table, create it if it does not exist, and return it.

    A new table has the columns of the data. Concurrent writers that create one table all succeed, if their columns fit.

    Args:
        url: a path, or an address such as `s3://bucket/logs`.
        data: the rows, in any form that `Table.append` takes.
        text: columns to search for words. An existing table must index them as text already.
        partition_by: columns to partition a new table by. An existing table must be partitioned by them already.
        mode: for an existing table: `append` adds the rows, `overwrite` replaces all rows, `error` raises
            `TableExistsError`, and `ignore` writes nothing.
        options: settings of this handle, such as credentials of the store.

    Example:
        >>> t = it.write("notes", [{"id": 1, "note": "buy bread"}, {"id": 2, "note": "bake bread"}], text=["note"])
        >>> t.search("bake")["id"].to_pylist()
        [2]
        >>> it.write("notes", {"id": [3], "note": ["eat"]}).num_records
        3
    """
    from indextables.ingest.batches import open_incoming

    _check_arguments(text, partition_by, mode)
    table = _find(url, options)
    if table is None:
        incoming = open_incoming(data)
        schema = _schema_of(incoming.schema, url)
        data = _checked_first(incoming.batches, schema)
        created = _create(url, schema, text, partition_by, options)
        if created is not None:
            created.append(data)
            return created
        table = open(url, options=options)
    return _write_into(table, data, text, partition_by, mode)


def _write_into(table: Table, data: Any, text: Sequence[str], partition_by: Sequence[str], mode: str) -> Table:
    """Write into an existing table."""
    if mode == "ignore":
        return table
    if mode == "error":
        raise TableExistsError(
            f"cannot write a new table to `{table.url}` because there is one already",
            path=table.url,
            hint='use `mode="append"` or `mode="overwrite"`',
        )
    _check_indexing(table, text)
    _check_partitions(table, partition_by)
    if mode == "overwrite":
        table.overwrite(data)
    else:
        table.append(data)
    return table


def _create(
    url: str | os.PathLike[str],
    schema: pa.Schema,
    text: Sequence[str],
    partition_by: Sequence[str],
    options: Mapping[str, Any] | None,
) -> Table | None:
    """Create the table; return None if another writer created it concurrently."""
    try:
        return Table.create(
            url, schema, partition_by=partition_by, indexing=dict.fromkeys(text, "text"), options=options
        )
    except TableExistsError:
        return None
    except SchemaError:
        if _find(url, options) is not None:  # with other columns, which the rows may still fit
            return None
        raise


def _find(url: str | os.PathLike[str], options: Mapping[str, Any] | None) -> Table | None:
    """Return the table, or None if there is none."""
    try:
        return open(url, options=options)
    except TableNotFoundError:
        return None


def _schema_of(schema: pa.Schema | None, url: str | os.PathLike[str]) -> pa.Schema:
    """Return the schema of a new table; refuse columns with only NULLs, of no type."""
    import pyarrow as pa

    if schema is None:
        raise SchemaError(
            f"cannot create a table at `{os.fspath(url)}` because there are no rows to tell its columns by",
            hint="create it with `Table.create` and a schema",
        )
    untyped = next((field.name for field in schema if pa.types.is_null(field.type)), None)
    if untyped is not None:
        raise SchemaError(
            f"cannot tell the type of the column `{untyped}` because all its values are null",
            hint="leave the column out, or create the table with `Table.create` and a schema",
        )
    return schema


def _checked_first(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Check that the first batch fits, and return all batches.

    Data that does not fit must not leave an empty table.
    """
    from indextables.ingest.batches import conform
    from indextables.protocol.schema import schema_from_json, schema_to_json

    first = next(batches, None)
    if first is None:
        return iter(())
    conform(first, schema_from_json(schema_to_json(schema)))
    return itertools.chain([first], batches)


def _check_arguments(text: Sequence[str], partition_by: Sequence[str], mode: str) -> None:
    for name, given in (("text", text), ("partition_by", partition_by)):
        if isinstance(given, str):
            raise ConfigError(f'cannot use `{name}={given!r}`: give a list of names, as in `["{given}"]`')
    if mode not in _MODES:
        raise ConfigError(f"cannot write with the mode `{mode}`: expected `append`, `overwrite`, `error` or `ignore`")


def _check_indexing(table: Table, text: Sequence[str]) -> None:
    indexing = table.indexing if text else {}
    for column in text:
        kind = indexing.get(column)
        if kind is None:
            raise SchemaError(
                f"cannot index `{column}` as text because the table `{table.url}` has no such column",
                hint=f"its columns are {', '.join(f'`{name}`' for name in table.columns)}",
            )
        if kind != "text":
            raise SchemaError(
                f"cannot index `{column}` as text because the table `{table.url}` indexes it as `{kind}`",
                hint=f"leave it out of `text`, or set the property `indexing.typemap.{column}` to `text`",
            )


def _check_partitions(table: Table, partition_by: Sequence[str]) -> None:
    if partition_by and tuple(partition_by) != table.partition_columns:
        there = ", ".join(f"`{name}`" for name in table.partition_columns) or "no column"
        asked = ", ".join(f"`{name}`" for name in partition_by)
        raise SchemaError(
            f"cannot write to `{table.url}` by {asked} because it is partitioned by {there}",
            hint="leave `partition_by` out",
        )
