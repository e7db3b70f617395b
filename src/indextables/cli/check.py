"""`indextables fsck` and `indextables repair`."""

from __future__ import annotations

import click
import pyarrow as pa

from indextables.cli.output import (
    Column,
    count_text,
    json_option,
    plural_text,
    print_answer,
    print_json,
    print_line,
    print_table,
    progress,
)
from indextables.commands import COMMANDS
from indextables.maintain.fsck.fsck import Examination, examine
from indextables.transaction_log import TransactionLog

_FSCK_COLUMNS = (
    Column("severity", lambda row: row["severity"]),
    Column("check", lambda row: row["check"]),
    Column("version", lambda row: "" if row["version"] is None else str(row["version"]), right=True),
    Column("path", lambda row: row["path"] or "", fold=True),
    Column("problem", lambda row: row["problem"], fold=True),
)

_FSCK_EXAMPLES = """\b
Examples:
  indextables fsck /data/logs
  indextables fsck s3://bucket/logs --quick
  indextables fsck /data/logs --json | jq -r .path
"""


@click.command(epilog=_FSCK_EXAMPLES, short_help="Check that a table is complete and undamaged.")
@click.argument("url", metavar="TABLE")
@click.option("--quick", is_flag=True, help="Read only the footers of splits, not their rows and indexes.")
@json_option
@click.pass_context
def fsck(ctx: click.Context, url: str, quick: bool, as_json: bool) -> None:
    """Check that TABLE, a path or a URL, is complete and undamaged.

    Checks its log, its checkpoints against the versions, its splits byte by byte, and the log's statistics of them.
    Nothing is changed.

    Exits with 0 without errors (there may be warnings), else with 1. With --json, prints an object a problem.
    """
    with progress("checking the log"):
        examined = examine(TransactionLog(url, options=ctx.obj), deep=not quick)
    if as_json:
        print_json(examined.table())
    else:
        _print(examined)
    if examined.num_errors:
        ctx.exit(1)


def _print(examined: Examination) -> None:
    if examined.problems:
        print_table(examined.table(), _FSCK_COLUMNS)
    num_warnings = len(examined.problems) - examined.num_errors
    found = [
        plural_text(number, name)
        for number, name in ((examined.num_errors, "error"), (num_warnings, "warning"))
        if number
    ]
    looked_at = ", ".join(
        [
            plural_text(examined.num_splits, "split"),
            plural_text(examined.num_checkpoints, "checkpoint"),
            plural_text(examined.num_versions, "version"),
        ]
    )
    print_line(f"{', '.join(found) or 'clean'}: {looked_at} checked")


_REPAIR_COLUMNS = (
    Column("source", lambda row: row["source_path"]),
    Column("written to", lambda row: row["target_path"]),
    Column("status", lambda row: row["status"]),
    Column("version", lambda row: "" if row["source_version"] < 0 else str(row["source_version"])),
    Column("splits", lambda row: count_text(row["total_splits"])),
    Column("valid", lambda row: count_text(row["valid_splits"])),
    Column("missing", lambda row: count_text(row["missing_splits"])),
)

_REPAIR_EXAMPLES = """\b
Examples:
  indextables repair /data/logs
  indextables repair /data/logs --at /data/mended-log
  indextables repair s3://bucket/logs/_transaction_log --json | jq -r .status
"""


@click.command(epilog=_REPAIR_EXAMPLES, short_help="Check a log against its splits, and write a clean one.")
@click.argument("url", metavar="SOURCE")
@click.option(
    "--at",
    "target_url",
    metavar="LOCATION",
    help="An empty location for a clean log, which can then replace the table's `_transaction_log`.",
)
@json_option
@click.pass_context
def repair(ctx: click.Context, url: str, target_url: str | None, as_json: bool) -> None:
    """Check the log of SOURCE, a table or its log directory, against its splits.

    An existing log is never changed.

    With --at, a clean log is written there: the newest readable version without missing and damaged splits. Without any
    readable log, it is rebuilt from the splits; splits that were merged or overwritten and not yet purged reappear
    then.

    Exits with 1 if damage was found and nothing was written.
    """
    arguments = {} if target_url is None else {"target_url": target_url}
    with progress("checking the log"):
        answer = COMMANDS["repair"].run(url, arguments, ctx.obj)
    print_answer(answer, _REPAIR_COLUMNS, as_json=as_json)
    if _found_damage(answer):
        ctx.exit(1)


def _found_damage(answer: pa.Table) -> bool:
    return bool(answer["status"][0].as_py() == "DAMAGED")
