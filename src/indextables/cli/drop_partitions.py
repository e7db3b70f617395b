"""`indextables drop-partitions`: remove the partitions that a predicate is true of."""

from __future__ import annotations

import click

from indextables.cli.output import Column, count_text, json_option, print_answer, progress, size_text
from indextables.commands import COMMANDS

_COLUMNS = (
    Column("table", lambda row: row["table_path"]),
    Column("status", lambda row: row["status"]),
    Column("partitions", lambda row: count_text(row["partitions_dropped"])),
    Column("splits", lambda row: count_text(row["splits_removed"])),
    Column("size", lambda row: size_text(row["total_size_bytes"])),
    Column("message", lambda row: row["message"]),
)

_EXAMPLES = """\b
Examples:
  indextables drop-partitions /data/logs --where "day < '2026-01-01'"
  indextables drop-partitions s3://bucket/logs --where "day IS NULL" --json
"""


@click.command("drop-partitions", epilog=_EXAMPLES, short_help="Remove partitions of a table.")
@click.argument("url", metavar="TABLE")
@click.option("--where", required=True, metavar="PREDICATE", help="Which partitions; partition columns only.")
@json_option
@click.pass_obj
def drop_partitions(options: dict[str, str], url: str, where: str, as_json: bool) -> None:
    """Remove the partitions of TABLE, a path or a URL, that a predicate is true of.

    That is a new version: `indextables restore` brings them back, until a purge has deleted their files.
    """
    with progress("dropping partitions"):
        dropped = COMMANDS["drop_partitions"].run(url, {"where": where}, options)
    print_answer(dropped, _COLUMNS, as_json=as_json)
