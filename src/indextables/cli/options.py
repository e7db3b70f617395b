"""Options that several commands share."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click

from indextables.cli.output import print_warning
from indextables.errors import CorruptSplitError, ObjectNotFoundError
from indextables.ops.type_names import NamedColumn, parse_column
from indextables.split.fields import map_fields
from indextables.table import Table

_Command = Callable[..., Any]


def read_pairs(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """KEY=VALUE texts as a mapping. The text of a wrong one stays out of the message: it may be a secret."""
    pairs: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"expected KEY=VALUE, as in `{_EXAMPLES[str(param.name)]}`.")
        if pairs.get(key, value) != value:
            raise click.BadParameter(f"`{key}` is given twice, with different values.")
        pairs[key] = value
    return pairs


_EXAMPLES = {
    "options": "-o aws.region=eu-central-1",
    "indexing": "--index message=text",
    "properties": "--property owner=me",
}

columns_option = click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME:TYPE",
    callback=lambda ctx, param, given: [parse_column(text) for text in given],
    help="A column and its type: string, text, json, ip, int, long, double, boolean, date, timestamp, timestamp_ntz, "
    "binary, decimal(p,s), array<...>, map<...>, struct<...>. Can be given several times.",
)
partition_option = click.option(
    "--partition-by",
    "partition_by",
    multiple=True,
    metavar="COLUMN",
    help="A column whose values lie in directories of their own. Can be given several times.",
)
index_option = click.option(
    "--index",
    "indexing",
    multiple=True,
    metavar="COLUMN=KIND",
    callback=read_pairs,
    help="How a column of strings is indexed: text (words), string (whole values), json or ip. Can be given several "
    "times.",
)
property_option = click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="KEY=VALUE",
    callback=read_pairs,
    help="A property of the table. Can be given several times.",
)


def time_travel(command: _Command) -> _Command:
    """`--version` and `--timestamp`."""
    command = click.option(
        "--timestamp", metavar="TS", help="The table as it stood at a moment, in ISO-8601; UTC without a zone."
    )(command)
    return click.option(
        "--version", type=click.IntRange(min=0), metavar="N", help="The table as it stood at version N."
    )(command)


def open_table(url: str, options: Mapping[str, str], version: int | None, timestamp: str | None) -> Table:
    """A table at its newest version, or at the one that was asked for."""
    if version is not None and timestamp is not None:
        raise click.UsageError("--version and --timestamp cannot be given together.")
    return Table.open(url, version=version, timestamp=timestamp, options=options)


def column_indexing(columns: Sequence[NamedColumn], indexing: Mapping[str, str]) -> dict[str, str]:
    """What columns say of their own indexing, and what `--index` says, which wins."""
    return {**{column.field.name: column.indexing for column in columns if column.indexing}, **indexing}


def text_columns(table: Table) -> list[str]:
    """The columns whose words are searched without naming them."""
    config = table.log.config.with_properties(table.metadata.configuration)
    fields = map_fields(table.schema, config, table.partition_columns)
    return [field.column for field in fields.text_fields()]


@contextlib.contextmanager
def asked() -> Iterator[None]:
    """Show warnings of the library as lines on standard error, each once, and what to do about a bad split."""
    shown: set[str] = set()

    def show(message: Warning | str, *_rest: Any, **_named: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            print_warning(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        try:
            yield
        except (CorruptSplitError, ObjectNotFoundError) as error:
            raise type(error)(
                error.message, hint=error.hint or "leave such splits out with `--skip-bad-splits`"
            ) from error


def question_options(command: _Command) -> _Command:
    """`--where` and `--skip-bad-splits`."""
    command = click.option(
        "--skip-bad-splits",
        is_flag=True,
        help="Leave damaged and missing splits out, with a warning, instead of failing.",
    )(command)
    return click.option(
        "--where",
        metavar="PREDICATE",
        help="A condition that rows must meet, as in SQL: \"level = 'ERROR' AND id > 5\".",
    )(command)
