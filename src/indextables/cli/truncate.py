"""`indextables truncate`."""

from __future__ import annotations

import click

from indextables.cli.output import Column, count_text, json_option, print_answer, progress
from indextables.commands import COMMANDS

_COLUMNS = (
    Column("table", lambda row: row["table_path"]),
    Column("status", lambda row: row["status"]),
    Column("checkpoint", lambda row: str(row["checkpoint_version"])),
    Column("versions", lambda row: count_text(row["versions_deleted"])),
    Column("checkpoints", lambda row: count_text(row["checkpoints_deleted"])),
    Column("files kept", lambda row: count_text(row["files_preserved"])),
    Column("message", lambda row: row["message"]),
)

_EXAMPLES = """\b
Examples:
  indextables truncate /data/logs --dry-run
  indextables truncate s3://bucket/logs --json | jq .versions_deleted
"""


@click.command(epilog=_EXAMPLES, short_help="Give up all versions of a table but the newest.")
@click.argument("url", metavar="TABLE")
@click.option("--dry-run", is_flag=True, help="Change nothing, and tell what would go.")
@json_option
@click.pass_context
def truncate(ctx: click.Context, url: str, dry_run: bool, as_json: bool) -> None:
    """Give up time travel on TABLE, a path or a URL: all versions but the newest, after a checkpoint of it.

    Splits stay; those that only old versions needed are for `purge` to delete. Where some files could not be deleted,
    the exit code is 1.
    """
    with progress("truncating"):
        truncated = COMMANDS["truncate_time_travel"].run(url, {"dry_run": dry_run}, ctx.obj)
    print_answer(truncated, _COLUMNS, as_json=as_json)
    if truncated["status"][0].as_py() == "PARTIAL":
        ctx.exit(1)
