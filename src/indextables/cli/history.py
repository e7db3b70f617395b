"""`indextables history`: who changed a table, when and how. Needs the version files alone, never the live files."""

from __future__ import annotations

import click

from indextables.cli.output import Column, count_text, json_option, map_text, print_json, print_line, print_table
from indextables.commands import COMMANDS

_COLUMNS = (
    Column("version", lambda row: str(row["version"]), right=True),
    Column("time", lambda row: row["timestamp"]),
    Column("operation", lambda row: row["operation"] or ""),
    Column("parameters", lambda row: map_text(row["parameters"]), fold=True),
    Column("read version", lambda row: "" if row["read_version"] is None else str(row["read_version"]), right=True),
    Column("added", lambda row: count_text(row["files_added"]), right=True),
    Column("removed", lambda row: count_text(row["files_removed"]), right=True),
    Column("records", lambda row: count_text(row["records_added"]), right=True),
    Column("engine", lambda row: row["engine"] or "", fold=True),
)

_EXAMPLES = """\b
Examples:
  indextables history /data/logs --limit 10
  indextables history s3://bucket/logs --json
"""


@click.command(epilog=_EXAMPLES, short_help="Show who changed a table, when and how.")
@click.argument("url", metavar="TABLE")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N versions.")
@json_option
@click.pass_obj
def history(options: dict[str, str], url: str, limit: int | None, as_json: bool) -> None:
    """Show the versions of TABLE, a path or a URL, the newest first."""
    versions = COMMANDS["history"].run(url, {"limit": limit}, options)
    if as_json:
        print_json(versions)
    elif versions.num_rows:
        print_table(versions, _COLUMNS)
    else:
        print_line("no versions: the newest one stands in a state, without a version file")
