"""How the command line says what files hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from indextables.ops.bad_lines import OnBadLine
from indextables.ops.input_files import InputFormat, InputOptions

_AUTO = "auto"


def input_format_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--format` and `--delimiter`."""
    command = click.option(
        "--delimiter",
        metavar="CHAR",
        callback=_read_delimiter,
        help="What separates values in CSV: a comma, or a tab in .tsv files. `tab` means one.",
    )(command)
    return click.option(
        "--format",
        "format_",
        type=click.Choice([_AUTO, *map(str, InputFormat)]),
        default=_AUTO,
        show_default=True,
        help="What files hold. `auto` goes by their names.",
    )(command)


def make_input_options(
    format_: str,
    delimiter: str | None,
    *,
    on_bad_line: str = OnBadLine.FAIL,
    ignore_unknown: bool = False,
    join_lines: bool = False,
) -> InputOptions:
    """The options of a command as those of the reader."""
    return InputOptions(
        format=None if format_ == _AUTO else InputFormat(format_),
        delimiter=delimiter,
        on_bad_line=OnBadLine(on_bad_line),
        ignore_unknown=ignore_unknown,
        join_lines=join_lines,
    )


def _read_delimiter(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    if given is None:
        return None
    delimiter = "\t" if given.lower() in {"tab", r"\t"} else given
    if len(delimiter.encode()) != 1 or delimiter in '"\r\n':
        raise click.BadParameter("expected one ASCII character, or `tab`.")
    return delimiter
