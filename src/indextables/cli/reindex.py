"""`indextables reindex`."""

from __future__ import annotations

import click

from indextables.cli.output import Column, count_text, json_option, print_answer, progress, size_text
from indextables.commands import COMMANDS

_COLUMNS = (
    Column("table", lambda row: row["table_path"]),
    Column("status", lambda row: row["status"]),
    Column("splits reindexed", lambda row: count_text(row["reindexed_files"])),
    Column("size before", lambda row: size_text(row["original_size_bytes"])),
    Column("size after", lambda row: "" if row["status"] == "DRY_RUN" else size_text(row["reindexed_size_bytes"])),
    Column("skipped", lambda row: count_text(row["skipped_files"])),
    Column("message", lambda row: row["message"]),
)

_EXAMPLES = """\b
Examples:
  indextables reindex /data/logs --dry-run
  indextables reindex /data/logs --where "day = '2026-01-31'" --column message
  indextables reindex /data/logs --split splits/split-0b9e....split
"""


@click.command("reindex", epilog=_EXAMPLES, short_help="Index splits as the table says.")
@click.argument("url", metavar="TABLE")
@click.option(
    "--where", metavar="PREDICATE", help="Only splits that may hold rows of which this is true, as in \"day = 'x'\"."
)
@click.option(
    "--column", "columns", multiple=True, metavar="NAME", help="Only splits that index this column otherwise."
)
@click.option("--split", "splits", multiple=True, metavar="PATH", help="This split, however it is indexed.")
@click.option("--dry-run", is_flag=True, help="Only say what would be reindexed.")
@json_option
@click.pass_context
def reindex(
    ctx: click.Context,
    url: str,
    where: str | None,
    columns: tuple[str, ...],
    splits: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Index those splits of TABLE, a path or a URL, again that are not indexed as the table says. Its rows stay the
    same.

    The exit code is 1 where a part of the splits could not be reindexed.
    """
    arguments = {"where": where, "columns": columns or None, "splits": splits or None, "dry_run": dry_run}
    with progress("reindexing splits"):
        answer = COMMANDS["reindex"].run(url, arguments, ctx.obj)
    print_answer(answer, _COLUMNS, as_json=as_json)
    if answer["status"][0].as_py() == "PARTIAL":
        ctx.exit(1)
