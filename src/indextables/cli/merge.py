"""`indextables merge`."""

from __future__ import annotations

import click

from indextables.cli.output import Column, count_text, json_option, print_answer, progress, size_text
from indextables.commands import COMMANDS

_COLUMNS = (
    Column("table", lambda row: row["table_path"]),
    Column("status", lambda row: row["status"]),
    Column("splits merged", lambda row: count_text(row["merged_files"])),
    Column("into", lambda row: count_text(row["merge_groups"])),
    Column("size before", lambda row: size_text(row["original_size_bytes"])),
    Column("size after", lambda row: "" if row["status"] == "DRY_RUN" else size_text(row["merged_size_bytes"])),
    Column("skipped", lambda row: count_text(row["skipped_files"])),
    Column("message", lambda row: row["message"]),
)

_EXAMPLES = """\b
Examples:
  indextables merge /data/logs --dry-run
  indextables merge /data/logs --where "day = '2026-01-31'" --target-size 1G
  indextables merge s3://bucket/logs --max-dest-splits 10 --json | jq .merged_files
"""


@click.command("merge", epilog=_EXAMPLES, short_help="Make few large splits of many small ones.")
@click.argument("url", metavar="TABLE")
@click.option(
    "--where", metavar="PREDICATE", help="Only partitions of which this is true, as in \"day = '2026-01-31'\"."
)
@click.option("--target-size", metavar="SIZE", help="How large new splits become, such as 100M or 5G.")
@click.option("--max-dest-splits", type=click.IntRange(min=1), metavar="N", help="Make at most N new splits.")
@click.option(
    "--max-source-splits-per-merge",
    type=click.IntRange(min=2),
    metavar="N",
    help="Make each new split of at most N old ones.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be merged.")
@json_option
@click.pass_context
def merge(
    ctx: click.Context,
    url: str,
    where: str | None,
    target_size: str | None,
    max_dest_splits: int | None,
    max_source_splits_per_merge: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Merge the small splits of TABLE, a path or a URL, into few large ones. Its rows stay the same.

    A split that cannot be read is left as it is, and the others are merged without it: the exit code is 1 then, as
    where anything else kept a part of the splits from being merged.
    """
    arguments = {
        "where": where,
        "target_size": target_size,
        "max_dest_splits": max_dest_splits,
        "max_source_splits_per_merge": max_source_splits_per_merge,
        "dry_run": dry_run,
    }
    with progress("merging splits"):
        merged = COMMANDS["merge_splits"].run(url, arguments, ctx.obj)
    print_answer(merged, _COLUMNS, as_json=as_json)
    if merged["status"][0].as_py() == "PARTIAL":
        ctx.exit(1)
