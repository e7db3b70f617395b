"""Options that several commands share."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from indextables.errors import CorruptSplitError, ObjectNotFoundError

if TYPE_CHECKING:
    from indextables.ingest.column_types import NamedColumn
    from indextables.ingest.input_files import InputOptions
    from indextables.table import Table

_Command = Callable[..., Any]


def read_pairs(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Parse KEY=VALUE texts to a mapping.

    The message for an invalid text does not quote it, because it may be a secret.
    """
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


def _read_columns(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> list[NamedColumn]:
    from indextables.ingest.column_types import parse_column

    return [parse_column(text) for text in given]


columns_option = click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME:TYPE",
    callback=_read_columns,
    help="A column and its type: string, text, json, ip, int, long, double, boolean, date, timestamp, timestamp_ntz, "
    "binary, decimal(p,s), array<...>, map<...>, struct<...>. Can be given several times.",
)
partition_option = click.option(
    "--partition-by",
    "partition_by",
    multiple=True,
    metavar="COLUMN",
    help="A column whose values have their own directories. Can be given several times.",
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
    """Add `--version` and `--timestamp` to a command."""
    command = click.option(
        "--timestamp", metavar="TS", help="The table at an earlier time, in ISO-8601; UTC without a zone."
    )(command)
    return click.option("--version", type=click.IntRange(min=0), metavar="N", help="The table at version N.")(command)


def open_table(url: str, options: Mapping[str, str], version: int | None, timestamp: str | None) -> Table:
    """Open a table at its newest version, or at the requested one."""
    from indextables.table import Table

    if version is not None and timestamp is not None:
        raise click.UsageError("--version and --timestamp cannot be given together.")
    return Table.open(url, version=version, timestamp=timestamp, options=options)


def column_indexing(columns: Sequence[NamedColumn], indexing: Mapping[str, str]) -> dict[str, str]:
    """Return the indexing of columns from their types and `--index`, which wins."""
    return {**{column.field.name: column.indexing for column in columns if column.indexing}, **indexing}


def text_columns(table: Table) -> list[str]:
    """Return the columns that a query searches if it names no column."""
    from indextables.split.index.fields import map_fields

    config = table.log.config.with_properties(table.metadata.configuration)
    fields = map_fields(table.schema, config, table.partition_columns)
    return [field.column for field in fields.text_fields()]


@contextlib.contextmanager
def asked() -> Iterator[None]:
    """Print the library's warnings once, and add a hint to errors about bad splits."""
    from indextables.cli.output import print_warning

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
    """Add `--where` and `--skip-bad-splits` to a command."""
    command = click.option(
        "--skip-bad-splits",
        is_flag=True,
        help="Skip damaged and missing splits with a warning, instead of failing.",
    )(command)
    return click.option(
        "--where",
        metavar="PREDICATE",
        help="A condition on rows, as in SQL: \"level = 'ERROR' AND id > 5\".",
    )(command)


_AUTO = "auto"


def input_format_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--format` and `--delimiter` to a command."""
    from indextables.ingest.input_files import InputFormat

    command = click.option(
        "--delimiter",
        metavar="CHAR",
        callback=_read_delimiter,
        help="The separator of values in CSV: a comma, or a tab in .tsv files. `tab` means a tab.",
    )(command)
    return click.option(
        "--format",
        "format_",
        type=click.Choice([_AUTO, *map(str, InputFormat)]),
        default=_AUTO,
        show_default=True,
        help="The format of files. `auto` detects it by their names.",
    )(command)


def make_input_options(
    format_: str,
    delimiter: str | None,
    *,
    on_bad_line: str = "fail",
    ignore_unknown: bool = False,
    join_lines: bool = False,
    workers: int | None = None,
) -> InputOptions:
    """Convert the options of a command to options of the reader."""
    from indextables.ingest.bad_lines import OnBadLine
    from indextables.ingest.input_files import InputFormat, InputOptions

    return InputOptions(
        format=None if format_ == _AUTO else InputFormat(format_),
        delimiter=delimiter,
        on_bad_line=OnBadLine(on_bad_line),
        ignore_unknown=ignore_unknown,
        join_lines=join_lines,
        workers=workers,
    )


def _read_delimiter(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    if given is None:
        return None
    delimiter = "\t" if given.lower() in {"tab", r"\t"} else given
    if len(delimiter.encode()) != 1 or delimiter in '"\r\n':
        raise click.BadParameter("expected one ASCII character, or `tab`.")
    return delimiter
