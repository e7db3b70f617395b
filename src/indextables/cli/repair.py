"""`indextables repair`."""

from __future__ import annotations

import click
import pyarrow as pa

from indextables.cli.output import Column, count_text, json_option, print_answer, progress
from indextables.commands import COMMANDS

_COLUMNS = (
    Column("source", lambda row: row["source_path"]),
    Column("written to", lambda row: row["target_path"]),
    Column("status", lambda row: row["status"]),
    Column("version", lambda row: "" if row["source_version"] < 0 else str(row["source_version"])),
    Column("splits", lambda row: count_text(row["total_splits"])),
    Column("valid", lambda row: count_text(row["valid_splits"])),
    Column("missing", lambda row: count_text(row["missing_splits"])),
)

_EXAMPLES = """\b
Examples:
  indextables repair /data/logs
  indextables repair /data/logs --at /data/mended-log
  indextables repair s3://bucket/logs/_transaction_log --json | jq -r .status
"""


@click.command(epilog=_EXAMPLES, short_help="Check a log against its splits, and write a clean one.")
@click.argument("url", metavar="SOURCE")
@click.option(
    "--at",
    "target_url",
    metavar="LOCATION",
    help="An empty place for a clean log, which then goes where the table's `_transaction_log` is.",
)
@json_option
@click.pass_context
def repair(ctx: click.Context, url: str, target_url: str | None, as_json: bool) -> None:
    """Check the log of SOURCE, a table or its log directory, against its splits. A log that is there is never changed.

    With --at, a clean log is written there: of the newest version that can be read, less splits that are missing or
    damaged. Where no log is left, it is rebuilt from the splits; splits that were merged or overwritten before, and not
    purged, come back then.

    Exits with 1 where damage was found and nothing was written.
    """
    arguments = {} if target_url is None else {"target_url": target_url}
    with progress("checking the log"):
        answer = COMMANDS["repair"].run(url, arguments, ctx.obj)
    print_answer(answer, _COLUMNS, as_json=as_json)
    if _found_damage(answer):
        ctx.exit(1)


def _found_damage(answer: pa.Table) -> bool:
    return bool(answer["status"][0].as_py() == "DAMAGED")
