"""`indextables purge`."""

from __future__ import annotations

import click

from indextables.cli.output import Column, count_text, json_option, print_answer, progress
from indextables.commands import COMMANDS

_COLUMNS = (
    Column("table", lambda row: row["table_path"]),
    Column("status", lambda row: row["status"]),
    Column("splits found", lambda row: count_text(row["orphaned_files_found"])),
    Column("splits deleted", lambda row: count_text(row["orphaned_files_deleted"])),
    Column("size", lambda row: f"{row['size_mb_deleted']:.2f} MB"),
    Column("retention", lambda row: f"{row['retention_hours']} hours"),
    Column("versions", lambda row: count_text(row["tx_log_files_deleted"])),
    Column("states found", lambda row: count_text(row["expired_states_found"])),
    Column("states deleted", lambda row: count_text(row["expired_states_deleted"])),
    Column("manifests", lambda row: count_text(row["manifests_deleted"])),
    Column("time", lambda row: f"{row['duration_ms']} ms"),
    Column("message", lambda row: row["message"]),
)

_EXAMPLES = """\b
Examples:
  indextables purge /data/logs --dry-run
  indextables purge /data/logs --older-than '14 days' --log-retention '30 days'
  indextables purge s3://bucket/logs --json | jq .orphaned_files_deleted
"""


@click.command(epilog=_EXAMPLES, short_help="Delete files that no retained version needs.")
@click.argument("url", metavar="TABLE")
@click.option("--older-than", metavar="AGE", help="How long splits stay after they were removed, as in `7 days`.")
@click.option("--log-retention", metavar="AGE", help="How long versions of the log stay, as in `30 days`.")
@click.option("--dry-run", is_flag=True, help="Change nothing, and tell what would go.")
@json_option
@click.pass_context
def purge(
    ctx: click.Context, url: str, older_than: str | None, log_retention: str | None, dry_run: bool, as_json: bool
) -> None:
    """Delete splits of TABLE, a path or a URL, that no retained version needs, and old parts of its log.

    Versions from before the retention can then no longer be read. Where some files could not be deleted, the exit code
    is 1, and the next purge tries again.
    """
    arguments = {"older_than": older_than, "log_retention": log_retention, "dry_run": dry_run}
    with progress("purging"):
        purged = COMMANDS["purge"].run(url, arguments, ctx.obj)
    print_answer(purged, _COLUMNS, as_json=as_json)
    if purged["status"][0].as_py() == "PARTIAL":
        ctx.exit(1)
