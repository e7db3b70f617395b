"""`indextables count`: how many rows a query finds."""

from __future__ import annotations

import click
import pyarrow as pa

from indextables.cli.options import asked, open_table, question_options, time_travel
from indextables.cli.output import json_option, print_json, print_line, progress

_EXAMPLES = """\b
Examples:
  indextables count /data/logs
  indextables count /data/logs 'level:ERROR AND timeout'
  indextables count s3://bucket/logs timeout --where "day >= '2026-01-01'" --json | jq .count
"""


@click.command(epilog=_EXAMPLES, short_help="Count the rows that a query finds.")
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
    """Count the rows of TABLE, a path or a URL, that QUERY finds; all rows without one."""
    table = open_table(url, options, version, timestamp)
    with asked(), progress("counting"):
        found = table.count(query, where=where, bad_splits="skip" if skip_bad_splits else "fail")
    if as_json:
        print_json(pa.table({"table": [table.url], "version": [table.version], "count": [found]}))
    else:
        print_line(str(found))
