"""The tables that are measured: the same schema and the same adds on both sides.

Logs of many versions are written as files, in the form in which each library writes its own commits: a line that says
who committed, and one add. Version 0 is made by each library itself.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import deltalake
import pyarrow as pa
from deltalake.transaction import AddAction

import indextables as it
from indextables.protocol.names import version_key
from indextables.protocol.version_file import commit_info, encode_version

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string())])

_SIZE_BYTES = 1_000_000
_MODIFIED_MS = 1_790_000_000_000
_STATS = json.dumps(
    {"numRecords": 10, "minValues": {"id": 1, "message": "aa"}, "maxValues": {"id": 5, "message": "zz"}},
    separators=(",", ":"),
)


def our_add(number: int) -> it.actions.Add:
    return it.actions.Add(
        path=f"part-{number:010d}.split",
        partition_values={},
        size=_SIZE_BYTES,
        modification_time=_MODIFIED_MS,
        data_change=True,
        num_records=10,
        min_values={"id": "1", "message": "aa"},
        max_values={"id": "5", "message": "zz"},
    )


def their_add(number: int) -> AddAction:
    return AddAction(
        path=f"part-{number:010d}.parquet",
        size=_SIZE_BYTES,
        partition_values={},
        modification_time=_MODIFIED_MS,
        data_change=True,
        stats=_STATS,
    )


def create_ours(path: Path) -> it.TransactionLog:
    log = it.TransactionLog(path)
    log.initialize(SCHEMA)
    return log


def create_theirs(path: Path, *, checkpoint_interval: int | None = None) -> deltalake.DeltaTable:
    interval = {} if checkpoint_interval is None else {"delta.checkpointInterval": str(checkpoint_interval)}
    return deltalake.DeltaTable.create(str(path), schema=SCHEMA, configuration=dict(interval))


def commit_theirs(table: deltalake.DeltaTable, number: int) -> None:
    table.create_write_transaction(actions=[their_add(number)], mode="append", schema=SCHEMA, partition_by=[])


def build_ours(path: Path, num_versions: int) -> None:
    """A table with `num_versions` commits of one add after version 0."""
    log = create_ours(path)
    log.add_files([our_add(1)])
    actions = log.read_version(1)
    parent = commit_info(actions)
    assert parent is not None
    for version in range(2, num_versions + 1):
        info = it.actions.CommitInfo(
            txn_id=f"00000000-0000-4000-8000-{version:012d}",
            operation=parent.operation,
            timestamp=parent.timestamp + 1,
            engine=parent.engine,
            read_version=version - 1,
            parent_txn_id=parent.txn_id,
            num_actions=parent.num_actions,
            parameters=parent.parameters,
            metrics=parent.metrics,
        )
        (path / version_key(version)).write_bytes(encode_version((info, our_add(version)), compress=True))
        parent = info


def build_theirs(path: Path, num_versions: int) -> None:
    """A table with `num_versions` commits of one add after version 0."""
    create_theirs(path)
    for version in range(1, num_versions + 1):
        write_their_version(path, version)


def write_their_version(path: Path, version: int) -> None:
    """A commit as delta-rs writes it, put under its name whole."""
    engine = f"delta-rs:py-{deltalake.__version__}"
    info = {
        "timestamp": _MODIFIED_MS + version,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "engineInfo": engine,
        "clientVersion": engine.replace(":", "."),
    }
    add = {
        "path": f"part-{version:010d}.parquet",
        "partitionValues": {},
        "size": _SIZE_BYTES,
        "modificationTime": _MODIFIED_MS,
        "dataChange": True,
        "stats": _STATS,
        "tags": None,
        "baseRowId": None,
        "defaultRowCommitVersion": None,
        "clusteringProvider": None,
    }
    target = path / "_delta_log" / f"{version:020d}.json"
    temporary = path / f"{version}.tmp"
    lines = [json.dumps({"commitInfo": info}), json.dumps({"add": add})]
    temporary.write_text("\n".join(lines))
    os.replace(temporary, target)


def num_files_ours(path: Path) -> int:
    return int(it.TransactionLog(path).list_files().num_rows)


def num_files_theirs(path: Path) -> int:
    return int(pa.table(deltalake.DeltaTable(str(path)).get_add_actions()).num_rows)
