"""`indextables state`: the newest state or checkpoint of a table, and whether it should be compacted."""

from __future__ import annotations

import click
import pyarrow as pa

from indextables.cli.output import (
    Column,
    count_text,
    json_option,
    print_fields,
    print_json,
    print_line,
    print_table,
    progress,
    size_text,
)
from indextables.cli.values import Row
from indextables.commands import COMMANDS


def _tombstones(row: Row) -> str:
    share = f" ({row['tombstone_ratio']:.1%} of the entries)" if row["num_tombstones"] else ""
    return count_text(row["num_tombstones"]) + share


_COLUMNS = (
    Column("table", lambda row: row["table_path"]),
    Column("format", lambda row: row["format"]),
    Column("version", lambda row: str(row["version"])),
    Column("files", lambda row: count_text(row["num_files"])),
    Column("size", lambda row: size_text(row["total_bytes"])),
    Column("manifests", lambda row: count_text(row["num_manifests"])),
    Column("tombstones", _tombstones),
    Column("compaction", lambda row: "needed" if row["needs_compaction"] else "not needed"),
    Column("skipped files", lambda row: count_text(row["num_skipped"])),
    Column("status", lambda row: row["status"]),
)
_SKIP_COLUMNS = (
    Column("skipped", lambda row: row["path"], fold=True),
    Column("times", lambda row: count_text(row["skip_count"]), right=True),
    Column("until", lambda row: row["retry_after"] or ""),
    Column("reason", lambda row: row["reason"], fold=True),
)

_EXAMPLES = """\b
Examples:
  indextables state /data/logs
  indextables state s3://bucket/logs --json | jq .needs_compaction
"""


@click.command(epilog=_EXAMPLES, short_help="Show the newest state of a table.")
@click.argument("url", metavar="TABLE")
@json_option
@click.pass_obj
def state(options: dict[str, str], url: str, as_json: bool) -> None:
    """Show the newest state or checkpoint of TABLE, a path or a URL, and the files that operations skip.

    A damaged state is passed over, and the status says so.
    """
    with progress("reading the state"):
        described = COMMANDS["state"].run(url, {}, options)
    if as_json:
        print_json(described)
        return
    print_fields(described, _COLUMNS)
    skips = pa.Table.from_struct_array(described["skipped_files"].combine_chunks().flatten())
    if skips.num_rows:
        print_line("")
        print_table(skips, _SKIP_COLUMNS)
