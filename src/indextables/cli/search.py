"""`indextables search` and `indextables count`.

A terminal highlights found words; elsewhere a hit is a line of plain text. A terminal shows hits as a table if it fits.
Otherwise, as with long messages, a hit is a line of short values with its long text below.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from indextables.arrow_values import to_table
from indextables.cli.options import asked, open_table, question_options, text_columns, time_travel
from indextables.cli.output import (
    Column,
    Row,
    json_option,
    plural_text,
    print_json,
    print_line,
    print_note,
    print_table,
    printable,
    progress,
    rows,
    size_text,
    value_text,
)
from indextables.clock import SYSTEM_CLOCK
from indextables.table import Table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    from indextables.split.search.snippets import Snippet

FOUND, FOUND_END = "\ue000", "\ue001"
"""Marks around a found word: private-use characters, which ordinary text does not contain."""

SCORE = "_score"
SNIPPET = "_snippet"
_STYLE = "bold red"
_GAP = 2
_LAID_OUT_TOGETHER = 500
_NOTHING = "-"


def print_hits(found: pa.Table, *, snippet_of: str | None, text_column: str | None) -> None:
    """Print hits; the snippet of a column replaces its value.

    For `text_column`, the snippet only selects the words to highlight.
    """
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
    """Print hits in chunks of some hundred, so that the first appear early."""
    from rich.console import Console

    console = Console(markup=False, emoji=False, highlight=False)
    for start in range(0, found.num_rows, _LAID_OUT_TOGETHER):
        part = found.slice(start, _LAID_OUT_TOGETHER)
        hits = [_cells(row, names, snippet_of, text_column) for row in rows(part)]
        _print_laid_out(console, hits, names, found.schema)


def _print_laid_out(console: Console, hits: Sequence[Sequence[Text]], names: Sequence[str], schema: pa.Schema) -> None:
    from rich.cells import cell_len

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
    from rich.text import Text

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
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
    for name in names:
        shown.add_column(Text(printable(name)), justify="right" if _is_number(schema, name) else "left", no_wrap=True)
    for cells in hits:
        shown.add_row(*(cell if cell.plain else Text(_NOTHING) for cell in cells))
    return shown


def _print_record(console: Console, names: Sequence[str], cells: Sequence[Text]) -> None:
    """Print short values in one line with their names, and long ones below."""
    from rich.padding import Padding
    from rich.text import Text

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
    """Return the whole text, with the marked words of its snippet highlighted."""
    from rich.text import Text

    fragment = _unmarked(snippet)
    at = text.find(fragment) if fragment else -1
    if at < 0:
        return Text(_shown(text))
    whole = Text(_shown(text[:at]))
    return whole.append_text(_marked(snippet)).append(_shown(text[at + len(fragment) :]))


def _marked(snippet: str) -> Text:
    """Return a snippet with its marks as a style."""
    from rich.text import Text

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
    """Return printable text that keeps its line breaks."""
    return "\n".join(printable(line) for line in text.replace("\t", "    ").split("\n"))


def _is_number(schema: pa.Schema, name: str) -> bool:
    kind = schema.field(name).type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


_DEFAULT_LIMIT = 10
_WHOLE_TEXT = 100_000
_MOST_HIGHLIGHTED = 10_000  # finding the words again in the text of more rows takes too long

_SEARCH_EXAMPLES = """\b
Examples:
  indextables search /data/logs 'timeout AND NOT debug'
  indextables search /data/logs 'level:ERROR "connection refused"' --columns timestamp,message --limit 50
  indextables search /data/logs timeout --score --snippet message
  indextables search /data/logs --where "level = 'ERROR'" --order-by timestamp --desc
  indextables search s3://bucket/logs error --all --json | jq .message
  indextables search s3://bucket/logs error --explain
"""


@click.command(epilog=_SEARCH_EXAMPLES, short_help="Show the rows that a query finds.")
@click.argument("url", metavar="TABLE")
@click.argument("query", metavar="[QUERY]", required=False)
@question_options
@click.option("--columns", metavar="A,B", help="Only these columns, in this order.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=_DEFAULT_LIMIT,
    show_default=True,
    metavar="N",
    help="The most rows to show.",
)
@click.option("--all", "show_all", is_flag=True, help="Show all rows.")
@click.option("--score", is_flag=True, help="Show the best hits first, with their score.")
@click.option("--order-by", metavar="COLUMN", help="Sort rows by a column.")
@click.option("--desc", "descending", is_flag=True, help="Sort in descending order, with --order-by.")
@click.option("--snippet", metavar="COLUMN", help="Show only the best fragment of a text column.")
@click.option("--explain", is_flag=True, help="Show what each stage of the search reads and costs, not the rows.")
@click.option("--count", "count_all", is_flag=True, help="Count all hits, even if rows must be read for it.")
@time_travel
@json_option
@click.pass_obj
def search(
    options: dict[str, str],
    url: str,
    query: str | None,
    where: str | None,
    skip_bad_splits: bool,
    columns: str | None,
    limit: int,
    show_all: bool,
    score: bool,
    order_by: str | None,
    descending: bool,
    snippet: str | None,
    explain: bool,
    count_all: bool,
    version: int | None,
    timestamp: str | None,
    as_json: bool,
) -> None:
    """Show the rows of TABLE, a path or a URL, that match QUERY; any rows without one.

    QUERY is words and phrases with AND, OR, NOT and column:word. A terminal highlights the found words. With --json a
    row is an object, with `_score` and `_snippet` on request.
    """
    if descending and order_by is None:
        raise click.UsageError("--desc needs --order-by.")
    table = open_table(url, options, version, timestamp)
    wanted = None if columns is None else _column_names(columns, table.schema.names)
    if explain:
        with asked(), progress("searching"):
            stages = table.explain(
                query,
                where,
                run=True,
                columns=wanted,
                limit=None if show_all else limit,
                score=score,
                order_by=order_by,
                descending=descending,
            )
        _print_stages(stages, as_json=as_json)
        return
    shown_text = _highlighted(table, wanted) if snippet is None and query is not None and not as_json else None
    bad_splits = "skip" if skip_bad_splits else "fail"
    started = SYSTEM_CLOCK.monotonic()
    with asked(), progress("searching"):
        if shown_text is not None:
            most = table.count(query, bad_splits=bad_splits) if show_all else limit
            shown_text = shown_text if most <= _MOST_HIGHLIGHTED else None
        found = table.search(
            query,
            where=where,
            columns=wanted,
            limit=None if show_all else limit,
            score=score,
            snippet=_snippet(snippet, shown_text, as_json=as_json),
            order_by=order_by,
            descending=descending,
            bad_splits=bad_splits,
        )
        total = None
        if show_all or found.num_rows < limit:
            total = found.num_rows
        elif count_all or (where is None and not as_json):
            total = table.count(query, where=where, bad_splits=bad_splits)
    milliseconds = (SYSTEM_CLOCK.monotonic() - started) * 1000
    if as_json:
        print_json(found)
    else:
        print_hits(found, snippet_of=snippet, text_column=shown_text)
    if count_all or not as_json:
        print_note(_summary(found.num_rows, total, milliseconds, "row" if query is None else "hit"))


def _print_stages(stages: pa.Table, *, as_json: bool) -> None:
    if as_json:
        print_json(stages)
        return
    numbers = [name for name in stages.column_names if name not in ("stage", "bytes", "milliseconds")]
    columns = [
        Column("stage", lambda row: row["stage"]),
        *(Column(name.replace("_", " "), _number_in(name), right=True) for name in numbers[:-1]),
        Column("bytes", lambda row: size_text(row["bytes"]), right=True),
        Column("rows", _number_in("rows"), right=True),
        Column("ms", lambda row: "-" if row["milliseconds"] is None else f"{row['milliseconds']:.1f}", right=True),
    ]
    print_table(stages, columns)


def _number_in(name: str) -> Callable[[Row], str]:
    return lambda row: "-" if row[name] is None else f"{row[name]:,}"


def _column_names(text: str, known: Sequence[str]) -> list[str]:
    """Split a list of names at commas; a known name may contain commas."""
    names = [text] if text in known else [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise click.UsageError("--columns needs at least one column.")
    return names


def _highlighted(table: Table, columns: Sequence[str] | None) -> str | None:
    """Return the text column whose found words a terminal highlights: the first shown."""
    if not sys.stdout.isatty():
        return None
    return next((name for name in text_columns(table) if columns is None or name in columns), None)


def _snippet(asked: str | None, shown_text: str | None, *, as_json: bool) -> Snippet | str | None:
    from indextables.split.search.snippets import Snippet

    if as_json:
        return asked
    if asked is not None:
        return Snippet(asked, before=FOUND, after=FOUND_END)
    if shown_text is None:
        return None
    return Snippet(shown_text, max_chars=_WHOLE_TEXT, before=FOUND, after=FOUND_END)


def _summary(shown: int, total: int | None, milliseconds: float, what: str) -> str:
    took = f"in {milliseconds:,.0f} ms" if milliseconds < 10_000 else f"in {milliseconds / 1000:,.1f} s"
    if total is None:
        return f"the first {plural_text(shown, what)} {took}; --count counts all, --all shows them"
    if total > shown:
        return f"{shown:,} of {plural_text(total, what)} {took}"
    return f"{plural_text(total, what)} {took}"


_COUNT_EXAMPLES = """\b
Examples:
  indextables count /data/logs
  indextables count /data/logs 'level:ERROR AND timeout'
  indextables count s3://bucket/logs timeout --where "day >= '2026-01-01'" --json | jq .count
"""


@click.command(epilog=_COUNT_EXAMPLES, short_help="Count the rows that a query finds.")
@click.argument("url", metavar="TABLE")
@click.argument("query", metavar="[QUERY]", required=False)
@question_options
@time_travel
@json_option
@click.pass_obj
def count(
    options: dict[str, str],
    url: str,
    query: str | None,
    where: str | None,
    skip_bad_splits: bool,
    version: int | None,
    timestamp: str | None,
    as_json: bool,
) -> None:
    """Count the rows of TABLE that match QUERY; all rows without one.

    TABLE is a path or a URL.
    """
    table = open_table(url, options, version, timestamp)
    with asked(), progress("counting"):
        found = table.count(query, where=where, bad_splits="skip" if skip_bad_splits else "fail")
    if as_json:
        print_json(to_table([{"table": table.url, "version": table.version, "count": found}]))
    else:
        print_line(str(found))
