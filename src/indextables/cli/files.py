"""`indextables files`: the live splits of a table, at its newest version or as it stood before."""

from __future__ import annotations

import click
import pyarrow as pa

from indextables.cli.options import open_table, time_travel
from indextables.cli.output import (
    Column,
    count_text,
    json_option,
    map_text,
    plural_text,
    print_json,
    print_line,
    print_table,
    size_text,
)
from indextables.log.files import exact_sum

_COLUMNS = (
    Column("path", lambda row: row["path"], fold=True),
    Column("partition", lambda row: map_text(row["partition_values"]), fold=True),
    Column("size", lambda row: size_text(row["size"]), right=True),
    Column("records", lambda row: count_text(row["num_records"]), right=True),
    Column("added at", lambda row: str(row["added_at_version"]), right=True),
)
_FIELDS = ["path", "partition_values", "size", "num_records", "added_at_version"]

_EXAMPLES = """\b
Examples:
  indextables files /data/logs
  indextables files s3://bucket/logs --timestamp 2026-01-31T12:00:00Z
  indextables files /data/logs --version 7 --json | jq .path
"""


@click.command(epilog=_EXAMPLES, short_help="List the live files of a table.")
@click.argument("url", metavar="TABLE")
@time_travel
@json_option
@click.pass_obj
def files(options: dict[str, str], url: str, version: int | None, timestamp: str | None, as_json: bool) -> None:
    """List the live files of TABLE, a path or a URL. With --json, every column that the table knows of a file."""
    table = open_table(url, options, version, timestamp)
    live = table.files()
    if as_json:
        print_json(live)
        return
    if live.num_rows:
        print_table(live.select(_FIELDS), _COLUMNS)
    print_line(_summary(live, table.version))


def _summary(live: pa.Table, version: int) -> str:
    if not live.num_rows:
        return f"no files, version {version}"
    num_records = exact_sum(live["num_records"])
    num_unknown = live["num_records"].null_count
    unknown = f" (not counting {plural_text(num_unknown, 'file')} of unknown length)" if num_unknown else ""
    return ", ".join(
        [
            plural_text(live.num_rows, "file"),
            plural_text(num_records, "record") + unknown,
            size_text(exact_sum(live["size"])),
            f"version {version}",
        ]
    )
