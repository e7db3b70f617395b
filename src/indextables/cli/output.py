"""The one way to print an Arrow table, for people or for programs.

Programs get JSON lines: one object a row, UTF-8 whatever the locale, and nothing else on standard output. People get
text that is never cut: in a terminal a table that folds long values, elsewhere aligned columns with a line for each
row and no colours. Control characters of a table's content are shown escaped, so that no table can drive a terminal.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click
import msgspec
import pyarrow as pa
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from indextables.cli.values import Row, rows
from indextables.clock import format_timestamp_ms
from indextables.ops.reporting import reporting_to

_NOTHING = "-"
_GAP = "  "
_FOLDED_WIDTH = 12


class _Unit(NamedTuple):
    name: str
    num_bytes: int


_UNITS = [_Unit(f"{letter}iB", 1024**power) for power, letter in enumerate("KMGTPE", 1)]

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON lines, for programs.")


class Column(NamedTuple):
    """A column for people: its title, the text of its cell in a row, and whether it gives way in a narrow terminal."""

    title: str
    text: Callable[[Row], str]
    right: bool = False
    fold: bool = False


def print_json(table: pa.Table, *, nulls: bool = True) -> None:
    """Print a JSON object a row. Maps are objects, moments ISO-8601 text; `nulls=False` leaves out what is null."""
    encoder = msgspec.json.Encoder()
    stream = sys.stdout.buffer
    for row in rows(table):
        kept = row if nulls else {name: value for name, value in row.items() if value is not None}
        stream.write(encoder.encode(kept) + b"\n")
    stream.flush()


def print_table(table: pa.Table, columns: Sequence[Column]) -> None:
    """Print a line of titles and a line a row."""
    lines = [[printable(column.text(row)) or _NOTHING for column in columns] for row in rows(table)]
    columns = [column._replace(title=printable(column.title)) for column in columns]
    widths = [max(map(cell_len, cells)) for cells in zip([column.title for column in columns], *lines, strict=True)]
    if sys.stdout.isatty():
        _print_rich(lines, columns, widths)
    else:
        _print_plain(lines, columns, widths)


def print_fields(table: pa.Table, columns: Sequence[Column]) -> None:
    """Print a line a column: its title, and its cell in the only row."""
    (row,) = rows(table)
    width = max(cell_len(column.title) for column in columns)
    for column in columns:
        print_line(f"{_pad(column.title, width, right=False)}{_GAP}{column.text(row) or _NOTHING}")


def print_answer(table: pa.Table, columns: Sequence[Column], *, as_json: bool) -> None:
    """Print the only row of an answer."""
    if as_json:
        print_json(table)
    else:
        print_fields(table, columns)


def print_line(text: str) -> None:
    """Print a line for people."""
    click.echo(printable(text))


def print_error(message: str, hint: str | None = None) -> None:
    """Say on standard error what went wrong, and what to do about it where that is known."""
    for label, text in (("error", message), ("hint", hint)):
        if text is not None:
            lines = "\n".join(printable(line) for line in text.split("\n"))
            click.echo(f"{click.style(f'{label}:', fg='red')} {lines}", err=True)


def print_warning(message: str) -> None:
    """Say on standard error what people should know of."""
    print_note(f"warning: {message}")


def print_note(text: str) -> None:
    """Print a line for people beside the output."""
    click.echo("\n".join(printable(line) for line in text.split("\n")), err=True)


@contextlib.contextmanager
def progress(text: str) -> Iterator[None]:
    """Show on standard error that something long is under way, to people who look at a terminal: a bar, where the work
    tells how far it has come."""
    if not sys.stderr.isatty():
        yield
        return
    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(printable(text), total=None)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=printable(what), completed=done, total=total)

        with reporting_to(show):
            yield


def printable(text: str) -> str:
    """The text with everything escaped that a terminal would not show as a character."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def size_text(num_bytes: int | None) -> str:
    """`532 B`, `1.5 MiB`."""
    if num_bytes is None:
        return ""
    if num_bytes < 1024:
        return f"{num_bytes} B"
    unit = next((unit for unit in _UNITS[:-1] if round(num_bytes / unit.num_bytes, 1) < 1024), _UNITS[-1])
    return f"{num_bytes / unit.num_bytes:.1f} {unit.name}"


def count_text(count: int | None) -> str:
    """`12,345`."""
    return "" if count is None else f"{count:,}"


def plural_text(count: int, one: str, many: str | None = None) -> str:
    """`1 file`, `12,345 files`."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def map_text(values: Mapping[str, Any] | None) -> str:
    """`date=2026-01-31, region=eu`."""
    return ", ".join(f"{key}={value}" for key, value in (values or {}).items())


def time_text(milliseconds: int | None) -> str | None:
    """ISO-8601 in UTC."""
    return None if milliseconds is None else format_timestamp_ms(milliseconds)


def _print_rich(lines: Iterable[Sequence[str]], columns: Sequence[Column], widths: Sequence[int]) -> None:
    console = Console(force_terminal=True, markup=False, emoji=False, highlight=False)
    needed = [
        min(width, _FOLDED_WIDTH) if column.fold else width for column, width in zip(columns, widths, strict=True)
    ]
    # Rich cuts what may not wrap and does not fit, so that in a narrow terminal everything has to fold.
    fits = sum(needed) + len(_GAP) * len(columns) <= console.width
    shown = RichTable(box=None, padding=(0, len(_GAP), 0, 0), pad_edge=False)
    for column in columns:
        shown.add_column(
            Text(column.title),
            justify="right" if column.right else "left",
            no_wrap=fits and not column.fold,
            overflow="fold",
        )
    for line in lines:
        shown.add_row(*map(Text, line))
    console.print(shown)


def _print_plain(lines: Iterable[Sequence[str]], columns: Sequence[Column], widths: Sequence[int]) -> None:
    """Aligned columns, laid out here: rich needs half a minute for the rows of a large table."""
    titles = [column.title for column in columns]
    sys.stdout.writelines(f"{_plain_line(line, columns, widths)}\n" for line in (titles, *lines))
    sys.stdout.flush()


def _plain_line(line: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = (_pad(cell, width, right=column.right) for cell, column, width in zip(line, columns, widths, strict=True))
    return _GAP.join(padded).rstrip()


def _pad(cell: str, width: int, *, right: bool) -> str:
    space = " " * (width - cell_len(cell))
    return space + cell if right else cell + space
