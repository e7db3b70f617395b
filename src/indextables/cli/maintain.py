"""Maintenance commands.

`indextables merge`, `reindex`, `prewarm`, `purge`, `truncate`, `drop-partitions` and `restore`, and `checkpoint` with
its other name `compact`.
"""

from __future__ import annotations

from typing import Any

import click

from indextables.cli.output import Column, count_text, json_option, print_answer, progress, size_text
from indextables.commands import COMMANDS

_CHECKPOINT_COLUMNS = (
    Column("table", lambda row: row["table_path"]),
    Column("status", lambda row: row["status"]),
    Column("version", lambda row: str(row["checkpoint_version"])),
    Column("files", lambda row: count_text(row["num_files"])),
    Column("actions", lambda row: count_text(row["num_actions"])),
    Column("protocol", lambda row: str(row["protocol_version"])),
    Column("in parts", lambda row: "yes" if row["is_multi_part"] else "no"),
)

_CHECKPOINT_EXAMPLES = """\b
Examples:
  indextables {name} /data/logs
  indextables {name} s3://bucket/logs --json | jq .checkpoint_version
"""


def _command(name: str, short_help: str) -> click.Command:
    @click.command(name, epilog=_CHECKPOINT_EXAMPLES.format(name=name), short_help=short_help)
    @click.argument("url", metavar="TABLE")
    @json_option
    @click.pass_obj
    def command(options: dict[str, str], url: str, as_json: bool) -> None:
        """Write a checkpoint of the newest version of TABLE, so that it opens fast.

        TABLE is a path or a URL.

        `checkpoint` and `compact` are the same command.
        """
        with progress("writing a checkpoint"):
            made = COMMANDS[name].run(url, {}, options)
        print_answer(made, _CHECKPOINT_COLUMNS, as_json=as_json)

    return command


checkpoint = _command("checkpoint", "Write a compacted checkpoint of a table.")
compact = _command("compact", "The same as checkpoint.")


_MERGE_COLUMNS = (
    Column("table", lambda row: row["table_path"]),
    Column("status", lambda row: row["status"]),
    Column("splits merged", lambda row: count_text(row["merged_files"])),
    Column("into", lambda row: count_text(row["merge_groups"])),
    Column("size before", lambda row: size_text(row["original_size_bytes"])),
    Column("size after", lambda row: "" if row["status"] == "DRY_RUN" else size_text(row["merged_size_bytes"])),
    Column("skipped", lambda row: count_text(row["skipped_files"])),
    Column("message", lambda row: row["message"]),
)

_MERGE_EXAMPLES = """\b
Examples:
  indextables merge /data/logs --dry-run
  indextables merge /data/logs --where "day = '2026-01-31'" --target-size 1G
  indextables merge s3://bucket/logs --max-dest-splits 10 --json | jq .merged_files
"""


@click.command("merge", epilog=_MERGE_EXAMPLES, short_help="Merge many small splits into few large ones.")
@click.argument("url", metavar="TABLE")
@click.option("--where", metavar="PREDICATE", help="Only partitions that match, as in \"day = '2026-01-31'\".")
@click.option("--target-size", metavar="SIZE", help="The size of new splits, such as 100M or 5G.")
@click.option("--max-dest-splits", type=click.IntRange(min=1), metavar="N", help="Write at most N new splits.")
@click.option(
    "--max-source-splits-per-merge",
    type=click.IntRange(min=2),
    metavar="N",
    help="Merge at most N old splits into each new one.",
)
@click.option("--dry-run", is_flag=True, help="Change nothing; only show the merges.")
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
    """Merge the small splits of TABLE, a path or a URL, into few large ones.

    The rows stay the same. A split that cannot be read is kept, and the other splits are merged without it. The exit
    code is 1 if a part of the splits could not be merged.
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
    print_answer(merged, _MERGE_COLUMNS, as_json=as_json)
    if merged["status"][0].as_py() == "PARTIAL":
        ctx.exit(1)


_REINDEX_COLUMNS = (
    Column("table", lambda row: row["table_path"]),
    Column("status", lambda row: row["status"]),
    Column("splits reindexed", lambda row: count_text(row["reindexed_files"])),
    Column("size before", lambda row: size_text(row["original_size_bytes"])),
    Column("size after", lambda row: "" if row["status"] == "DRY_RUN" else size_text(row["reindexed_size_bytes"])),
    Column("skipped", lambda row: count_text(row["skipped_files"])),
    Column("message", lambda row: row["message"]),
)

_REINDEX_EXAMPLES = """\b
Examples:
  indextables reindex /data/logs --dry-run
  indextables reindex /data/logs --where "day = '2026-01-31'" --column message
  indextables reindex /data/logs --split splits/split-0b9e....split
"""


@click.command("reindex", epilog=_REINDEX_EXAMPLES, short_help="Index splits again by the table's settings.")
@click.argument("url", metavar="TABLE")
@click.option("--where", metavar="PREDICATE", help="Only splits that may hold matching rows, as in \"day = 'x'\".")
@click.option(
    "--column", "columns", multiple=True, metavar="NAME", help="Only splits that index this column differently."
)
@click.option("--split", "splits", multiple=True, metavar="PATH", help="This split, whatever its indexing.")
@click.option("--dry-run", is_flag=True, help="Change nothing; only show the splits to reindex.")
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
    """Index splits of TABLE, a path or a URL, again by the table's settings.

    Only splits whose indexes differ from the settings are indexed again. The rows stay the same. The exit code is 1 if
    a part of the splits could not be reindexed.
    """
    arguments = {"where": where, "columns": columns or None, "splits": splits or None, "dry_run": dry_run}
    with progress("reindexing splits"):
        answer = COMMANDS["reindex"].run(url, arguments, ctx.obj)
    print_answer(answer, _REINDEX_COLUMNS, as_json=as_json)
    if answer["status"][0].as_py() == "PARTIAL":
        ctx.exit(1)


_PREWARM_COLUMNS = (
    Column("table", lambda row: row["table_path"]),
    Column("status", lambda row: row["status"]),
    Column("splits", lambda row: count_text(row["splits"])),
    Column("splits fetched", lambda row: count_text(row["fetched_splits"])),
    Column("size", lambda row: size_text(row["fetched_bytes"])),
)


@click.command(
    "prewarm",
    epilog="\b\nExample:\n  indextables prewarm s3://bucket/logs --where \"day = '2026-01-31'\"",
    short_help="Fetch indexes into the local cache.",
)
@click.argument("url", metavar="TABLE")
@click.option("--where", metavar="PREDICATE", help="Only splits that may hold matching rows, as in \"day = 'x'\".")
@json_option
@click.pass_context
def prewarm(ctx: click.Context, url: str, where: str | None, as_json: bool) -> None:
    """Fetch the indexes of TABLE, a path or a URL, into the local cache.

    Searches of these splits then wait for no index, and plain filters of Spark SQL use it.
    """
    with progress("fetching indexes"):
        answer = COMMANDS["prewarm"].run(url, {"where": where}, ctx.obj)
    print_answer(answer, _PREWARM_COLUMNS, as_json=as_json)


_PURGE_COLUMNS = (
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

_PURGE_EXAMPLES = """\b
Examples:
  indextables purge /data/logs --dry-run
  indextables purge /data/logs --older-than '14 days' --log-retention '30 days'
  indextables purge s3://bucket/logs --json | jq .orphaned_files_deleted
"""


@click.command(epilog=_PURGE_EXAMPLES, short_help="Delete files that no retained version needs.")
@click.argument("url", metavar="TABLE")
@click.option("--older-than", metavar="AGE", help="How long removed splits are kept, as in `7 days`.")
@click.option("--log-retention", metavar="AGE", help="How long versions of the log are kept, as in `30 days`.")
@click.option("--dry-run", is_flag=True, help="Change nothing; only show the files to delete.")
@json_option
@click.pass_context
def purge(
    ctx: click.Context, url: str, older_than: str | None, log_retention: str | None, dry_run: bool, as_json: bool
) -> None:
    """Delete files of TABLE, a path or a URL, that no retained version needs.

    These are splits and old parts of the log. Versions before the retention are not readable afterwards. If some files
    could not be deleted, the exit code is 1, and the next purge tries again.
    """
    arguments = {"older_than": older_than, "log_retention": log_retention, "dry_run": dry_run}
    with progress("purging"):
        purged = COMMANDS["purge"].run(url, arguments, ctx.obj)
    print_answer(purged, _PURGE_COLUMNS, as_json=as_json)
    if purged["status"][0].as_py() == "PARTIAL":
        ctx.exit(1)


_TRUNCATE_COLUMNS = (
    Column("table", lambda row: row["table_path"]),
    Column("status", lambda row: row["status"]),
    Column("checkpoint", lambda row: str(row["checkpoint_version"])),
    Column("versions", lambda row: count_text(row["versions_deleted"])),
    Column("checkpoints", lambda row: count_text(row["checkpoints_deleted"])),
    Column("files kept", lambda row: count_text(row["files_preserved"])),
    Column("message", lambda row: row["message"]),
)

_TRUNCATE_EXAMPLES = """\b
Examples:
  indextables truncate /data/logs --dry-run
  indextables truncate s3://bucket/logs --json | jq .versions_deleted
"""


@click.command(epilog=_TRUNCATE_EXAMPLES, short_help="Delete all versions of a table but the newest.")
@click.argument("url", metavar="TABLE")
@click.option("--dry-run", is_flag=True, help="Change nothing; only show the files to delete.")
@json_option
@click.pass_context
def truncate(ctx: click.Context, url: str, dry_run: bool, as_json: bool) -> None:
    """Delete all versions of TABLE, a path or a URL, but the newest.

    A checkpoint of the newest version is written first. Splits stay; `purge` deletes splits that only old versions
    needed. If some files could not be deleted, the exit code is 1.
    """
    with progress("truncating"):
        truncated = COMMANDS["truncate_time_travel"].run(url, {"dry_run": dry_run}, ctx.obj)
    print_answer(truncated, _TRUNCATE_COLUMNS, as_json=as_json)
    if truncated["status"][0].as_py() == "PARTIAL":
        ctx.exit(1)


_DROP_PARTITIONS_COLUMNS = (
    Column("table", lambda row: row["table_path"]),
    Column("status", lambda row: row["status"]),
    Column("partitions", lambda row: count_text(row["partitions_dropped"])),
    Column("splits", lambda row: count_text(row["splits_removed"])),
    Column("size", lambda row: size_text(row["total_size_bytes"])),
    Column("message", lambda row: row["message"]),
)

_DROP_PARTITIONS_EXAMPLES = """\b
Examples:
  indextables drop-partitions /data/logs --where "day < '2026-01-01'"
  indextables drop-partitions s3://bucket/logs --where "day IS NULL" --json
"""


@click.command("drop-partitions", epilog=_DROP_PARTITIONS_EXAMPLES, short_help="Remove partitions of a table.")
@click.argument("url", metavar="TABLE")
@click.option("--where", required=True, metavar="PREDICATE", help="The partitions, by partition columns only.")
@json_option
@click.pass_obj
def drop_partitions(options: dict[str, str], url: str, where: str, as_json: bool) -> None:
    """Remove the partitions of TABLE, a path or a URL, that match a predicate.

    This makes a new version: `indextables restore` brings the rows back, until a purge has deleted their files.
    """
    with progress("dropping partitions"):
        dropped = COMMANDS["drop_partitions"].run(url, {"where": where}, options)
    print_answer(dropped, _DROP_PARTITIONS_COLUMNS, as_json=as_json)


_RESTORE_COLUMNS = (
    Column("table", lambda row: row["table_path"]),
    Column("status", lambda row: row["status"]),
    Column("restored version", lambda row: str(row["restored_version"])),
    Column("new version", lambda row: str(row["new_version"])),
    Column("files added", lambda row: count_text(row["files_added"])),
    Column("files removed", lambda row: count_text(row["files_removed"])),
)

_RESTORE_EXAMPLES = """\b
Examples:
  indextables restore /data/logs --version 3
  indextables restore s3://bucket/logs --timestamp 2026-01-31T12:00:00Z --json
"""


@click.command(epilog=_RESTORE_EXAMPLES, short_help="Make an earlier version the newest.")
@click.argument("url", metavar="TABLE")
@click.option("--version", type=click.IntRange(0), help="The version to restore.")
@click.option("--timestamp", metavar="MOMENT", help="The time to restore, in UTC if it has no zone.")
@json_option
@click.pass_obj
def restore(options: dict[str, str], url: str, version: int | None, timestamp: str | None, as_json: bool) -> None:
    """Restore TABLE, a path or a URL, to an earlier version or time.

    This makes a new version, so it can be undone in the same way. It is refused if files of the old version are
    missing.
    """
    if (version is None) == (timestamp is None):
        raise click.UsageError("give one of --version and --timestamp")
    wanted: dict[str, Any] = {"version": version} if timestamp is None else {"timestamp": timestamp}
    with progress("restoring"):
        restored = COMMANDS["restore"].run(url, wanted, options)
    print_answer(restored, _RESTORE_COLUMNS, as_json=as_json)
