"""`indextables fsck`: whether everything that a table needs is there and right."""

from __future__ import annotations

import click

from indextables.cli.output import (
    Column,
    json_option,
    plural_text,
    print_json,
    print_line,
    print_table,
    progress,
)
from indextables.ops.fsck import Examination, examine
from indextables.transaction_log import TransactionLog

_COLUMNS = (
    Column("severity", lambda row: row["severity"]),
    Column("check", lambda row: row["check"]),
    Column("version", lambda row: "" if row["version"] is None else str(row["version"]), right=True),
    Column("path", lambda row: row["path"] or "", fold=True),
    Column("problem", lambda row: row["problem"], fold=True),
)

_EXAMPLES = """\b
Examples:
  indextables fsck /data/logs
  indextables fsck s3://bucket/logs --quick
  indextables fsck /data/logs --json | jq -r .path
"""


@click.command(epilog=_EXAMPLES, short_help="Check that a table is whole.")
@click.argument("url", metavar="TABLE")
@click.option("--quick", is_flag=True, help="Read only the footers of splits, not their rows and indexes.")
@json_option
@click.pass_context
def fsck(ctx: click.Context, url: str, quick: bool, as_json: bool) -> None:
    """Check that everything TABLE, a path or a URL, needs is there and right: its log, its checkpoints against the
    versions, its splits byte by byte, and what the log says of them. Nothing is changed.

    Exits with 0 where there is no error (there may be warnings), else with 1. With --json, an object a problem.
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
        print_table(examined.table(), _COLUMNS)
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
