"""`indextables restore`: make an earlier version the newest."""

from __future__ import annotations

from typing import Any

import click

from indextables.cli.output import Column, count_text, json_option, print_answer, progress
from indextables.commands import COMMANDS

_COLUMNS = (
    Column("table", lambda row: row["table_path"]),
    Column("status", lambda row: row["status"]),
    Column("restored version", lambda row: str(row["restored_version"])),
    Column("new version", lambda row: str(row["new_version"])),
    Column("files added", lambda row: count_text(row["files_added"])),
    Column("files removed", lambda row: count_text(row["files_removed"])),
)

_EXAMPLES = """\b
Examples:
  indextables restore /data/logs --version 3
  indextables restore s3://bucket/logs --timestamp 2026-01-31T12:00:00Z --json
"""


@click.command(epilog=_EXAMPLES, short_help="Make an earlier version the newest.")
@click.argument("url", metavar="TABLE")
@click.option("--version", type=click.IntRange(0), help="The version to go back to.")
@click.option("--timestamp", metavar="MOMENT", help="The moment to go back to, in UTC where it has no zone.")
@json_option
@click.pass_obj
def restore(options: dict[str, str], url: str, version: int | None, timestamp: str | None, as_json: bool) -> None:
    """Make TABLE, a path or a URL, again what it was at a version or a moment.

    That is a new version: what it undoes can be restored too. It is refused where files of the old version are gone.
    """
    if (version is None) == (timestamp is None):
        raise click.UsageError("give one of --version and --timestamp")
    wanted: dict[str, Any] = {"version": version} if timestamp is None else {"timestamp": timestamp}
    with progress("restoring"):
        restored = COMMANDS["restore"].run(url, wanted, options)
    print_answer(restored, _COLUMNS, as_json=as_json)
