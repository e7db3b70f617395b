"""`indextables log`, `files`, `history` and `state`.

`log` shows the actions of the transaction log: the active ones, or all of them as written. It also works on a table
whose files cannot be listed: one with a damaged state or a newer protocol. With `--all` or `--version` it only reads
version files.

`files` lists the live splits at the newest or an earlier version. `history` shows who changed a table, when and how; it
only needs the version files. `state` shows the newest state or checkpoint, and whether it should be compacted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import click
import pyarrow as pa

from indextables.cli.options import open_table, time_travel
from indextables.cli.output import (
    Column,
    Row,
    count_text,
    json_option,
    map_text,
    plural_text,
    print_fields,
    print_json,
    print_line,
    print_table,
    progress,
    size_text,
    time_text,
)
from indextables.commands import COMMANDS
from indextables.log.files import exact_sum
from indextables.transaction_log import TransactionLog

_FILES_COLUMNS = (
    Column("path", lambda row: row["path"], fold=True),
    Column("partition", lambda row: map_text(row["partition_values"]), fold=True),
    Column("size", lambda row: size_text(row["size"]), right=True),
    Column("records", lambda row: count_text(row["num_records"]), right=True),
    Column("added at", lambda row: str(row["added_at_version"]), right=True),
)
_FILES_FIELDS = ["path", "partition_values", "size", "num_records", "added_at_version"]

_FILES_EXAMPLES = """\b
Examples:
  indextables files /data/logs
  indextables files s3://bucket/logs --timestamp 2026-01-31T12:00:00Z
  indextables files /data/logs --version 7 --json | jq .path
"""


@click.command(epilog=_FILES_EXAMPLES, short_help="List the live files of a table.")
@click.argument("url", metavar="TABLE")
@time_travel
@json_option
@click.pass_obj
def files(options: dict[str, str], url: str, version: int | None, timestamp: str | None, as_json: bool) -> None:
    """List the live files of TABLE, a path or a URL.

    With --json, print all columns of the table's record of a file.
    """
    table = open_table(url, options, version, timestamp)
    live = table.files()
    if as_json:
        print_json(live)
        return
    if live.num_rows:
        print_table(live.select(_FILES_FIELDS), _FILES_COLUMNS)
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


_HISTORY_COLUMNS = (
    Column("version", lambda row: str(row["version"]), right=True),
    Column("time", lambda row: row["timestamp"]),
    Column("operation", lambda row: row["operation"] or ""),
    Column("parameters", lambda row: map_text(row["parameters"]), fold=True),
    Column("read version", lambda row: "" if row["read_version"] is None else str(row["read_version"]), right=True),
    Column("added", lambda row: count_text(row["files_added"]), right=True),
    Column("removed", lambda row: count_text(row["files_removed"]), right=True),
    Column("records", lambda row: count_text(row["records_added"]), right=True),
    Column("engine", lambda row: row["engine"] or "", fold=True),
)

_HISTORY_EXAMPLES = """\b
Examples:
  indextables history /data/logs --limit 10
  indextables history s3://bucket/logs --json
"""


@click.command(epilog=_HISTORY_EXAMPLES, short_help="Show who changed a table, when and how.")
@click.argument("url", metavar="TABLE")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N versions.")
@json_option
@click.pass_obj
def history(options: dict[str, str], url: str, limit: int | None, as_json: bool) -> None:
    """Show the versions of TABLE, a path or a URL, the newest first."""
    versions = COMMANDS["history"].run(url, {"limit": limit}, options)
    if as_json:
        print_json(versions)
    elif versions.num_rows:
        print_table(versions, _HISTORY_COLUMNS)
    else:
        print_line("no versions: the newest one is in a state, without a version file")


_COMMIT = "commit_info"

_LOG_EXAMPLES = """\b
Examples:
  indextables log /data/logs
  indextables log /data/logs --all
  indextables log /data/logs --version 0
  indextables log s3://bucket/logs --all --json | jq 'select(.action_type == "remove")'
"""


@click.command(epilog=_LOG_EXAMPLES, short_help="Show the actions of a table's log.")
@click.argument("url", metavar="TABLE")
@click.option("--version", type=click.IntRange(min=0), metavar="N", help="Only the actions of version N.")
@click.option("--all", "include_all", is_flag=True, help="All existing version files, and no checkpoint.")
@json_option
@click.pass_obj
def log(options: dict[str, str], url: str, version: int | None, include_all: bool, as_json: bool) -> None:
    """Show the actions of the log of TABLE, a path or a URL, oldest first.

    These are the content of the newest checkpoint, and the versions after it. With --json, every field with a value.

    Works on a table whose files cannot be listed.
    """
    if version is not None and include_all:
        raise click.UsageError("--version and --all cannot be given together.")
    if version is None:
        actions = COMMANDS["describe_log"].run(url, {"include_all": include_all}, options)
    else:
        actions = TransactionLog(url, options=options).describe(version=version)
    if as_json:
        print_json(_without_empty_columns(actions), nulls=False)
    else:
        _print_text(actions, version)


def _print_text(actions: pa.Table, version: int | None) -> None:
    if actions.num_rows:
        print_table(actions.select(_LOG_FIELDS), _LOG_COLUMNS)
        if actions["is_checkpoint"][0].as_py():
            at, key = actions["version"][0].as_py(), actions["log_file_path"][0].as_py()
            print_line(f"version {at} is in the checkpoint {key}; --all shows every version file instead")
    elif version is None:
        print_line("no actions: the newest version is in a state, without a version file")
    else:
        print_line(f"no actions in version {version}")


def _without_empty_columns(actions: pa.Table) -> pa.Table:
    """Drop empty columns: most belong to one kind of action, and they cost time."""
    return actions.select([name for name in actions.column_names if actions[name].null_count < actions.num_rows])


def _protocol_detail(row: Row) -> Iterable[str]:
    yield f"reader {row['min_reader_version']}, writer {row['min_writer_version']}"
    features = dict.fromkeys([*(row["reader_features"] or ()), *(row["writer_features"] or ())])
    if features:
        yield f"features {', '.join(features)}"


def _metadata_detail(row: Row) -> Iterable[str]:
    if row["name"]:
        yield f"name {row['name']}"
    if row["partition_columns"]:
        yield f"partitioned by {', '.join(row['partition_columns'])}"
    if row["configuration"]:
        yield plural_text(len(row["configuration"]), "property", "properties")


def _file_detail(row: Row) -> Iterable[str]:
    if row["num_records"] is not None:
        yield plural_text(row["num_records"], "record")
    if row["data_change"] is False:
        yield "same rows"


def _skip_detail(row: Row) -> Iterable[str]:
    yield f"{row['operation']}: {row['reason']}"
    if row["skip_count"] > 1:
        yield f"{row['skip_count']} times"
    if row["retry_after"] is not None:
        yield f"until {time_text(row['retry_after'])}"


def _commit_detail(row: Row) -> Iterable[str]:
    parameters = json.loads(row["parameters"] or "{}")
    if parameters:
        yield map_text({key: _parameter(value) for key, value in parameters.items()})
    if row["batch_id"] is not None:
        yield f"batch {row['batch_id']} of {row['application_id']}"
    if row["read_version"] is not None:
        yield f"on version {row['read_version']}"
    if row["engine"]:
        yield f"by {row['engine']}"


def _parameter(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_DETAILS: dict[str, Callable[[Row], Iterable[str]]] = {
    "protocol": _protocol_detail,
    "metadata": _metadata_detail,
    "add": _file_detail,
    "remove": _file_detail,
    "skip": _skip_detail,
    _COMMIT: _commit_detail,
}


def _of_commit(row: Row, text: str | None) -> str:
    return (text or "") if row["action_type"] == _COMMIT else ""


_LOG_COLUMNS = (
    Column("version", lambda row: str(row["version"]), right=True),
    Column("time", lambda row: _of_commit(row, time_text(row["timestamp"]))),
    Column("operation", lambda row: _of_commit(row, row["operation"])),
    Column("action", lambda row: row["action_type"]),
    Column("path", lambda row: row["path"] or "", fold=True),
    Column("size", lambda row: size_text(row["size"]), right=True),
    Column("partition", lambda row: map_text(row["partition_values"]), fold=True),
    Column("detail", lambda row: "; ".join(_DETAILS[row["action_type"]](row)), fold=True),
)
_LOG_FIELDS = [
    *("version", "timestamp", "operation", "action_type", "path", "size", "partition_values"),
    *("min_reader_version", "min_writer_version", "reader_features", "writer_features"),
    *("name", "partition_columns", "configuration"),
    *("num_records", "data_change"),
    *("reason", "skip_count", "retry_after"),
    *("parameters", "application_id", "batch_id", "read_version", "engine"),
]


def _tombstones(row: Row) -> str:
    share = f" ({row['tombstone_ratio']:.1%} of the entries)" if row["num_tombstones"] else ""
    return count_text(row["num_tombstones"]) + share


_STATE_COLUMNS = (
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

_STATE_EXAMPLES = """\b
Examples:
  indextables state /data/logs
  indextables state s3://bucket/logs --json | jq .needs_compaction
"""


@click.command(epilog=_STATE_EXAMPLES, short_help="Show the newest state of a table.")
@click.argument("url", metavar="TABLE")
@json_option
@click.pass_obj
def state(options: dict[str, str], url: str, as_json: bool) -> None:
    """Show the newest state or checkpoint of TABLE, a path or a URL.

    Also shows the files that operations skip. A damaged state is skipped, and the status says so.
    """
    with progress("reading the state"):
        described = COMMANDS["state"].run(url, {}, options)
    if as_json:
        print_json(described)
        return
    print_fields(described, _STATE_COLUMNS)
    skips = pa.Table.from_struct_array(described["skipped_files"].combine_chunks().flatten())
    if skips.num_rows:
        print_line("")
        print_table(skips, _SKIP_COLUMNS)
