"""`indextables create`: create an empty table with given or inferred columns."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import click
import pyarrow as pa

from indextables.arrow_values import to_array
from indextables.cli.options import (
    column_indexing,
    columns_option,
    index_option,
    input_format_options,
    make_input_options,
    partition_option,
    property_option,
)
from indextables.cli.output import Column, json_option, print_json, print_line, print_table
from indextables.errors import TableExistsError
from indextables.ingest.column_types import NamedColumn, type_text
from indextables.ingest.input_files import InputFiles
from indextables.split.index.fields import map_fields
from indextables.table import Table

_COLUMNS = (
    Column("column", lambda row: row["name"], fold=True),
    Column("type", lambda row: row["type"], fold=True),
    Column("indexed as", lambda row: row["index"]),
    Column("partition", lambda row: "yes" if row["partition"] else ""),
)
_MADE = pa.struct([("name", pa.string()), ("type", pa.string()), ("index", pa.string()), ("partition", pa.bool_())])

_EXAMPLES = """\b
Examples:
  indextables create /data/logs --column ts:timestamp --column level:string --column message:text
  indextables create /data/events --column day:date --column id:long --column note:text --partition-by day
  indextables create s3://bucket/sales --like sales.csv --index note=text
"""


@click.command(epilog=_EXAMPLES, short_help="Create an empty table.")
@click.argument("url", metavar="TABLE")
@columns_option
@click.option("--like", metavar="FILE", help="Take the columns from a CSV, JSON lines, Parquet or log file.")
@input_format_options
@partition_option
@index_option
@property_option
@click.option("--name", metavar="TEXT", help="A name for the table.")
@click.option("--description", metavar="TEXT", help="A description of the table.")
@json_option
@click.pass_obj
def create(
    options: dict[str, str],
    url: str,
    columns: list[NamedColumn],
    like: str | None,
    format_: str,
    delimiter: str | None,
    partition_by: tuple[str, ...],
    indexing: dict[str, str],
    properties: dict[str, str],
    name: str | None,
    description: str | None,
    as_json: bool,
) -> None:
    """Create an empty table at TABLE, a path or a URL.

    Columns come from --column, or from a file with --like; --column then adds to them, or changes a type.
    """
    guessed = pa.schema([])
    if like is not None:
        with contextlib.closing(InputFiles([like], make_input_options(format_, delimiter))) as files:
            guessed, indexing = files.guess_schema(), {**files.guess_indexing(), **indexing}
    elif not columns:
        raise click.UsageError("name the columns with --column NAME:TYPE, or a file with --like FILE.")
    try:
        table = Table.create(
            url,
            with_columns(guessed, columns),
            partition_by=partition_by,
            indexing=column_indexing(columns, indexing),
            properties=properties,
            name=name,
            description=description,
            options=options,
        )
    except TableExistsError as error:
        raise TableExistsError(error.message, hint="add rows to it with `indextables ingest`") from error
    if as_json:
        print_json(_described(table))
        return
    print_line(f"created {table.url}, version {table.version}")
    print_table(pa.Table.from_struct_array(to_array(_columns(table), _MADE)), _COLUMNS)


def with_columns(schema: pa.Schema, columns: Sequence[NamedColumn]) -> pa.Schema:
    """Replace columns of a schema by columns of the same name, and append the others."""
    for column in columns:
        at = schema.get_field_index(column.field.name)
        schema = schema.append(column.field) if at < 0 else schema.set(at, column.field)
    return schema


def _described(table: Table) -> pa.Table:
    return pa.table(
        {
            "table": to_array([table.url]),
            "version": to_array([table.version]),
            "partition_columns": to_array([list(table.partition_columns)], pa.list_(pa.string())),
            "columns": to_array([_columns(table)], pa.list_(_MADE)),
        }
    )


def _columns(table: Table) -> list[dict[str, object]]:
    config = table.log.config.with_properties(table.metadata.configuration)
    fields = map_fields(table.schema, config, table.partition_columns)
    return [
        {
            "name": field.column,
            "type": type_text(table.schema.field(field.column).type),
            "index": str(field.kind),
            "partition": field.column in table.partition_columns,
        }
        for field in fields.fields
    ]
