"""`indextables log`: the actions of the transaction log: those in force, or all of them as they were written.

Looks also into a table whose files cannot be listed: one whose state is damaged, or whose protocol is too new. With
`--all` or `--version` it reads version files and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import click
import pyarrow as pa

from indextables.cli.output import (
    Column,
    json_option,
    map_text,
    plural_text,
    print_json,
    print_line,
    print_table,
    size_text,
    time_text,
)
from indextables.cli.values import Row
from indextables.commands import COMMANDS
from indextables.transaction_log import TransactionLog

_COMMIT = "commit_info"

_EXAMPLES = """\b
Examples:
  indextables log /data/logs
  indextables log /data/logs --all
  indextables log /data/logs --version 0
  indextables log s3://bucket/logs --all --json | jq 'select(.action_type == "remove")'
"""


@click.command(epilog=_EXAMPLES, short_help="Show the actions of a table's log.")
@click.argument("url", metavar="TABLE")
@click.option("--version", type=click.IntRange(min=0), metavar="N", help="Only the actions of version N.")
@click.option("--all", "include_all", is_flag=True, help="Every version file that is there, and no checkpoint.")
@json_option
@click.pass_obj
def log(options: dict[str, str], url: str, version: int | None, include_all: bool, as_json: bool) -> None:
    """Show the actions of the log of TABLE, a path or a URL, oldest first: what the newest checkpoint holds, and the
    versions after it. With --json, every field that has a value.

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
        print_table(actions.select(_FIELDS), _COLUMNS)
        if actions["is_checkpoint"][0].as_py():
            at, key = actions["version"][0].as_py(), actions["log_file_path"][0].as_py()
            print_line(f"version {at} stands in the checkpoint {key}; --all shows every version file instead")
    elif version is None:
        print_line("no actions: the newest version stands in a state, without a version file")
    else:
        print_line(f"no actions in version {version}")


def _without_empty_columns(actions: pa.Table) -> pa.Table:
    """Most columns belong to one kind of action; those that nothing fills cost time and print nothing."""
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


_COLUMNS = (
    Column("version", lambda row: str(row["version"]), right=True),
    Column("time", lambda row: _of_commit(row, time_text(row["timestamp"]))),
    Column("operation", lambda row: _of_commit(row, row["operation"])),
    Column("action", lambda row: row["action_type"]),
    Column("path", lambda row: row["path"] or "", fold=True),
    Column("size", lambda row: size_text(row["size"]), right=True),
    Column("partition", lambda row: map_text(row["partition_values"]), fold=True),
    Column("detail", lambda row: "; ".join(_DETAILS[row["action_type"]](row)), fold=True),
)
_FIELDS = [
    *("version", "timestamp", "operation", "action_type", "path", "size", "partition_values"),
    *("min_reader_version", "min_writer_version", "reader_features", "writer_features"),
    *("name", "partition_columns", "configuration"),
    *("num_records", "data_change"),
    *("reason", "skip_count", "retry_after"),
    *("parameters", "application_id", "batch_id", "read_version", "engine"),
]
