"""Printing of Arrow tables, for people and for programs.

Programs get JSON lines: one object a row, in UTF-8 whatever the locale, and nothing else on standard output. People get
text that is never truncated: in a terminal a table that folds long values, elsewhere aligned columns with a line for
each row and no colours. Control characters in a table's content are escaped, so that no table can control a terminal.

JSON holds each value exactly. Timestamps and dates are ISO-8601 text, in UTC if they have a zone; decimals are text,
binary is base64, maps are objects, and the numbers that JSON lacks are `"NaN"`, `"Infinity"` and `"-Infinity"`.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click
import msgspec
import pyarrow as pa

from indextables.clock import format_timestamp_ms
from indextables.runtime.progress import reporting_to

Row = dict[str, Any]

_ROWS_AT_ONCE = 1024
_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
_FIRST_DAY = datetime.date.fromisoformat("1970-01-01")
_PER_MILLISECOND = 1000

_Convert = Callable[[Any], Any]


def rows(table: pa.Table) -> Iterator[Row]:
    """Yield the rows of an Arrow table as plain values, converted in small slices."""
    converts: dict[str, _Convert] = {}
    for at, field in enumerate(table.schema):
        counted = _counted(field.type)
        if counted != field.type:
            table = table.set_column(at, field.name, table.column(at).cast(_in_units(field.type)).cast(counted))
        convert = _converter(field.type)
        if convert is not None:
            converts[field.name] = convert
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for row in batch.to_pylist():
            for name, convert in converts.items():
                if row[name] is not None:
                    row[name] = convert(row[name])
            yield row


def value_text(value: Any) -> str:
    """Return a plain value for people: text unchanged, everything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _retyped(kind: Any, leaf: Callable[[Any], Any]) -> Any:
    """Replace timestamps and dates in a type, also inside lists, maps and structs."""
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_retyped(kind.value_type, leaf)))
    if pa.types.is_map(kind):
        item = kind.item_field.with_type(_retyped(kind.item_type, leaf))
        return pa.map_(kind.key_field.with_type(_retyped(kind.key_type, leaf)), item)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_retyped(field.type, leaf)) for field in kind])
    return leaf(kind)


def _in_units(kind: Any) -> Any:
    """Return timestamps in microseconds, or in milliseconds as in the log."""
    return _retyped(kind, lambda leaf: pa.timestamp(_unit(leaf), tz=leaf.tz) if pa.types.is_timestamp(leaf) else leaf)


def _counted(kind: Any) -> Any:
    """Return timestamps and dates as integers: Python has no value for remote ones."""

    def number(leaf: Any) -> Any:
        if pa.types.is_timestamp(leaf):
            return pa.int64()
        return pa.int32() if pa.types.is_date32(leaf) else leaf

    return _retyped(kind, number)


def _unit(kind: Any) -> str:
    return "ms" if kind.unit in {"s", "ms"} else "us"


def _converter(kind: Any) -> _Convert | None:
    """Return a function that makes values plain; None if they are plain already."""
    for matches, make in _CONVERTERS:
        if matches(kind):
            return make(kind)
    return None


def _moment(kind: Any) -> _Convert:
    if _unit(kind) == "ms":
        return (
            format_timestamp_ms if kind.tz is not None else lambda number: format_timestamp_ms(number).removesuffix("Z")
        )
    zone = "Z" if kind.tz is not None else ""
    return lambda number: _moment_text(number, zone)


def _moment_text(microseconds: int, zone: str) -> str:
    try:
        moment = _EPOCH + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        return f"{microseconds} us since 1970"
    spec = "microseconds" if microseconds % _PER_MILLISECOND else "milliseconds"
    return moment.replace(tzinfo=None).isoformat(timespec=spec) + zone


def _date_text(days: int) -> str:
    try:
        return (_FIRST_DAY + datetime.timedelta(days=days)).isoformat()
    except OverflowError:
        return f"{days} days since 1970"


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _nullable(convert: _Convert) -> _Convert:
    return lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value


def _list(kind: Any) -> _Convert | None:
    item = _converter(kind.value_type)
    if item is None:
        return None
    convert = _nullable(item)
    return lambda values: [convert(value) for value in values]


def _map(kind: Any) -> _Convert:
    key, item = _converter(kind.key_type) or _same, _nullable(_converter(kind.item_type) or _same)
    return lambda pairs: {value_text(key(name)): item(value) for name, value in pairs}


def _struct(kind: Any) -> _Convert:
    converts = {field.name: _nullable(_converter(field.type) or _same) for field in kind}
    return lambda value: {name: convert(value[name]) for name, convert in converts.items()}


_CONVERTERS: tuple[tuple[Callable[[Any], bool], Callable[[Any], _Convert | None]], ...] = (
    (pa.types.is_timestamp, _moment),
    (pa.types.is_date32, lambda kind: _date_text),
    (pa.types.is_floating, lambda kind: _float),
    (pa.types.is_decimal, lambda kind: str),
    (pa.types.is_binary, lambda kind: lambda value: base64.b64encode(value).decode("ascii")),
    (pa.types.is_list, _list),
    (pa.types.is_map, _map),
    (pa.types.is_struct, _struct),
)


_NOTHING = "-"
_GAP = "  "
_FOLDED_WIDTH = 12


class _Unit(NamedTuple):
    name: str
    num_bytes: int


_UNITS = [_Unit(f"{letter}iB", 1024**power) for power, letter in enumerate("KMGTPE", 1)]

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON lines, for programs.")


class Column(NamedTuple):
    """A column for people: title, text of a cell, and whether it may shrink."""

    title: str
    text: Callable[[Row], str]
    right: bool = False
    fold: bool = False


def print_json(table: pa.Table, *, nulls: bool = True) -> None:
    """Print a JSON object a row; `nulls=False` leaves out null values."""
    encoder = msgspec.json.Encoder()
    stream = sys.stdout.buffer
    for row in rows(table):
        kept = row if nulls else {name: value for name, value in row.items() if value is not None}
        stream.write(encoder.encode(kept) + b"\n")
    stream.flush()


def print_table(table: pa.Table, columns: Sequence[Column]) -> None:
    """Print a line of titles and a line for each row."""
    from rich.cells import cell_len

    lines = [[printable(column.text(row)) or _NOTHING for column in columns] for row in rows(table)]
    columns = [column._replace(title=printable(column.title)) for column in columns]
    widths = [max(map(cell_len, cells)) for cells in zip([column.title for column in columns], *lines, strict=True)]
    if sys.stdout.isatty():
        _print_rich(lines, columns, widths)
    else:
        _print_plain(lines, columns, widths)


def print_fields(table: pa.Table, columns: Sequence[Column]) -> None:
    """Print a line for each column: its title, and its cell in the only row."""
    from rich.cells import cell_len

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
    """Print an error to standard error, with a hint if there is one."""
    for label, text in (("error", message), ("hint", hint)):
        if text is not None:
            lines = "\n".join(printable(line) for line in text.split("\n"))
            click.echo(f"{click.style(f'{label}:', fg='red')} {lines}", err=True)


def print_warning(message: str) -> None:
    """Print a warning to standard error."""
    print_note(f"warning: {message}")


def print_note(text: str) -> None:
    """Print a line for people to standard error."""
    click.echo("\n".join(printable(line) for line in text.split("\n")), err=True)


@contextlib.contextmanager
def progress(text: str) -> Iterator[None]:
    """Show progress on standard error if it is a terminal.

    The progress is a bar if the work reports its steps.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(printable(text), total=None)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=printable(what), completed=done, total=total)

        with reporting_to(show):
            yield


def printable(text: str) -> str:
    """Escape all characters that a terminal would not show as a character."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def size_text(num_bytes: int | None) -> str:
    """Return a size such as `532 B` or `1.5 MiB`."""
    if num_bytes is None:
        return ""
    if num_bytes < 1024:
        return f"{num_bytes} B"
    unit = next((unit for unit in _UNITS[:-1] if round(num_bytes / unit.num_bytes, 1) < 1024), _UNITS[-1])
    return f"{num_bytes / unit.num_bytes:.1f} {unit.name}"


def count_text(count: int | None) -> str:
    """Return a number such as `12,345`."""
    return "" if count is None else f"{count:,}"


def plural_text(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun, such as `1 file` or `12,345 files`."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def map_text(values: Mapping[str, Any] | None) -> str:
    """Return pairs such as `date=2026-01-31, region=eu`."""
    return ", ".join(f"{key}={value}" for key, value in (values or {}).items())


def time_text(milliseconds: int | None) -> str | None:
    """Return a time as ISO-8601 in UTC."""
    return None if milliseconds is None else format_timestamp_ms(milliseconds)


def _print_rich(lines: Iterable[Sequence[str]], columns: Sequence[Column], widths: Sequence[int]) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(force_terminal=True, markup=False, emoji=False, highlight=False)
    needed = [
        min(width, _FOLDED_WIDTH) if column.fold else width for column, width in zip(columns, widths, strict=True)
    ]
    # Rich truncates cells that must not wrap and do not fit, so in a narrow terminal all columns fold.
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
    """Print aligned columns without rich, which takes half a minute for a large table."""
    titles = [column.title for column in columns]
    sys.stdout.writelines(f"{_plain_line(line, columns, widths)}\n" for line in (titles, *lines))
    sys.stdout.flush()


def _plain_line(line: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = (_pad(cell, width, right=column.right) for cell, column, width in zip(line, columns, widths, strict=True))
    return _GAP.join(padded).rstrip()


def _pad(cell: str, width: int, *, right: bool) -> str:
    from rich.cells import cell_len

    space = " " * (width - cell_len(cell))
    return space + cell if right else cell + space
