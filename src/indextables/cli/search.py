"""`indextables search`: rows that a query finds, with the words that were found."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

import indextables
from indextables.cli.hits import FOUND, FOUND_END, print_hits
from indextables.cli.options import asked, open_table, question_options, text_columns, time_travel
from indextables.cli.output import json_option, plural_text, print_json, print_note, progress
from indextables.clock import SYSTEM_CLOCK
from indextables.table import Table

_DEFAULT_LIMIT = 10
_WHOLE_TEXT = 100_000
_MOST_HIGHLIGHTED = 10_000  # of more, nobody would wait for the words to be found again in every text

_EXAMPLES = """\b
Examples:
  indextables search /data/logs 'timeout AND NOT debug'
  indextables search /data/logs 'level:ERROR "connection refused"' --columns timestamp,message --limit 50
  indextables search /data/logs timeout --score --snippet message
  indextables search /data/logs --where "level = 'ERROR'" --order-by timestamp --desc
  indextables search s3://bucket/logs error --all --json | jq .message
"""


@click.command(epilog=_EXAMPLES, short_help="Show the rows that a query finds.")
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
    help="At most so many rows.",
)
@click.option("--all", "show_all", is_flag=True, help="All rows, however many they are.")
@click.option("--score", is_flag=True, help="The best hits first, with their score.")
@click.option("--order-by", metavar="COLUMN", help="Rows in the order of a column.")
@click.option("--desc", "descending", is_flag=True, help="The greatest first, with --order-by.")
@click.option("--snippet", metavar="COLUMN", help="Only the best fragment of a column of text.")
@click.option("--count", "count_all", is_flag=True, help="Count all hits also where that means reading rows.")
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
    count_all: bool,
    version: int | None,
    timestamp: str | None,
    as_json: bool,
) -> None:
    """Show the rows of TABLE, a path or a URL, that QUERY finds; any rows without one.

    QUERY is words and phrases with AND, OR, NOT and column:word. In a terminal the words that were found stand out.
    With --json a row is an object, with `_score` and `_snippet` where they are asked for.
    """
    if descending and order_by is None:
        raise click.UsageError("--desc needs --order-by.")
    table = open_table(url, options, version, timestamp)
    wanted = None if columns is None else _column_names(columns, table.schema.names)
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


def _column_names(text: str, known: Sequence[str]) -> list[str]:
    """Names with commas between them; a name may hold commas itself."""
    names = [text] if text in known else [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise click.UsageError("--columns needs at least one column.")
    return names


def _highlighted(table: Table, columns: Sequence[str] | None) -> str | None:
    """The column of text whose found words are to stand out: the first that is shown, in a terminal."""
    if not sys.stdout.isatty():
        return None
    return next((name for name in text_columns(table) if columns is None or name in columns), None)


def _snippet(asked: str | None, shown_text: str | None, *, as_json: bool) -> indextables.Snippet | str | None:
    if as_json:
        return asked
    if asked is not None:
        return indextables.Snippet(asked, before=FOUND, after=FOUND_END)
    if shown_text is None:
        return None
    return indextables.Snippet(shown_text, max_chars=_WHOLE_TEXT, before=FOUND, after=FOUND_END)


def _summary(shown: int, total: int | None, milliseconds: float, what: str) -> str:
    took = f"in {milliseconds:,.0f} ms" if milliseconds < 10_000 else f"in {milliseconds / 1000:,.1f} s"
    if total is None:
        return f"the first {plural_text(shown, what)} {took}; --count counts all, --all shows them"
    if total > shown:
        return f"{shown:,} of {plural_text(total, what)} {took}"
    return f"{plural_text(total, what)} {took}"
