"""Hits for people: found words stand out in a terminal, and elsewhere a hit is a line of plain text.

In a terminal hits are a table where it fits. Where it does not, as with long messages, a hit is a line of small values
and its long text beneath.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import pyarrow as pa
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from indextables.cli.output import Column, print_table, printable
from indextables.cli.values import Row, rows, value_text

FOUND, FOUND_END = "\ue000", "\ue001"
"""What stands around a found word: private characters, which no text holds by chance."""

SCORE = "_score"
SNIPPET = "_snippet"
_STYLE = "bold red"
_GAP = 2
_LAID_OUT_TOGETHER = 500
_NOTHING = "-"


def print_hits(found: pa.Table, *, snippet_of: str | None, text_column: str | None) -> None:
    """Print rows that were found. The snippet of a column stands in its place; of `text_column` it only says which
    words were found."""
    if not found.num_rows:
        return
    names = [name for name in found.column_names if name != SNIPPET]
    if snippet_of is not None and snippet_of not in names:
        names.append(snippet_of)
    if sys.stdout.isatty():
        _print_in_terminal(found, names, snippet_of, text_column)
    else:
        print_table(found, [_plain_column(name, found.schema, snippet_of) for name in names])


def _plain_column(name: str, schema: pa.Schema, snippet_of: str | None) -> Column:
    if name == snippet_of:
        return Column(name, lambda row: _unmarked(row[SNIPPET] or ""))
    return Column(name, lambda row: _value(name, row), right=_is_number(schema, name))


def _print_in_terminal(found: pa.Table, names: Sequence[str], snippet_of: str | None, text_column: str | None) -> None:
    """Hits are laid out some hundred at a time, so that the first are seen before the last are ready."""
    console = Console(markup=False, emoji=False, highlight=False)
    for start in range(0, found.num_rows, _LAID_OUT_TOGETHER):
        part = found.slice(start, _LAID_OUT_TOGETHER)
        hits = [_cells(row, names, snippet_of, text_column) for row in rows(part)]
        _print_laid_out(console, hits, names, found.schema)


def _print_laid_out(console: Console, hits: Sequence[Sequence[Text]], names: Sequence[str], schema: pa.Schema) -> None:
    widths = [
        max(cell_len(name), *(cell_len(cell.plain) for cell in cells))
        for name, cells in zip(names, zip(*hits, strict=True), strict=True)
    ]
    one_line = all("\n" not in cell.plain for cells in hits for cell in cells)
    if one_line and sum(widths) + _GAP * (len(names) - 1) <= console.width:
        console.print(_as_table(hits, names, schema))
    else:
        for cells in hits:
            _print_record(console, names, cells)


def _cells(row: Row, names: Iterable[str], snippet_of: str | None, text_column: str | None) -> list[Text]:
    cells = []
    for name in names:
        if name == snippet_of:
            cells.append(_marked(row[SNIPPET] or ""))
        elif name == text_column:
            cells.append(_with_found_words(value_text(row[name]), row[SNIPPET] or ""))
        else:
            cells.append(Text(_shown(_value(name, row))))
    return cells


def _as_table(hits: Iterable[Sequence[Text]], names: Sequence[str], schema: pa.Schema) -> RichTable:
    shown = RichTable(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
    for name in names:
        shown.add_column(Text(printable(name)), justify="right" if _is_number(schema, name) else "left", no_wrap=True)
    for cells in hits:
        shown.add_row(*(cell if cell.plain else Text(_NOTHING) for cell in cells))
    return shown


def _print_record(console: Console, names: Sequence[str], cells: Sequence[Text]) -> None:
    """Short values in a line with their names, and long ones beneath."""
    longest = max(range(len(cells)), key=lambda at: len(cells[at].plain))
    line = Text()
    for at, (name, cell) in enumerate(zip(names, cells, strict=True)):
        if at != longest and cell.plain:
            line.append("  " if line else "").append(f"{printable(name)}=", style="dim").append_text(cell)
    if line:
        console.print(line, overflow="fold")
    console.print(Padding(cells[longest], (0, 0, 0, _GAP if line else 0)), overflow="fold")


def _value(name: str, row: Row) -> str:
    return f"{row[name]:.4f}" if name == SCORE else value_text(row[name])


def _with_found_words(text: str, snippet: str) -> Text:
    """The whole text, with the words of its snippet that are marked there."""
    fragment = _unmarked(snippet)
    at = text.find(fragment) if fragment else -1
    if at < 0:
        return Text(_shown(text))
    whole = Text(_shown(text[:at]))
    return whole.append_text(_marked(snippet)).append(_shown(text[at + len(fragment) :]))


def _marked(snippet: str) -> Text:
    """A snippet with its marks as a style."""
    shown = Text()
    for at, part in enumerate(snippet.split(FOUND)):
        word, end, rest = part.partition(FOUND_END)
        if at == 0 or not end:
            shown.append(_shown(_unmarked(part)))
        else:
            shown.append(_shown(word), style=_STYLE).append(_shown(rest))
    return shown


def _unmarked(snippet: str) -> str:
    return snippet.replace(FOUND, "").replace(FOUND_END, "")


def _shown(text: str) -> str:
    """Printable text that keeps its lines."""
    return "\n".join(printable(line) for line in text.replace("\t", "    ").split("\n"))


def _is_number(schema: pa.Schema, name: str) -> bool:
    kind = schema.field(name).type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
