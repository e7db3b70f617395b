"""Large tables of delta-rs: built by a few commits of many files, checkpointed, and listed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import deltalake
import pyarrow as pa
from deltalake.transaction import AddAction

from bench.files import MODIFIED_MS, PARTITION_COLUMN, SCHEMA, Value, commits, data_file, moment_text

_FILES_PER_COMMIT = 25_000


def build(path: Path, count: int) -> None:
    table = deltalake.DeltaTable.create(str(path), schema=SCHEMA, partition_by=[PARTITION_COLUMN])
    for numbers in commits(count, _FILES_PER_COMMIT):
        commit(table, numbers)
    table.create_checkpoint()


def shared_table(directory: Path, count: int) -> Path:
    """A table of so many files that several benchmarks read, built where it is not there yet."""
    path = directory / f"delta-{count}"
    if not path.exists():
        build(path, count)
    return path


def copy_table(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def open_table(path: Path) -> deltalake.DeltaTable:
    return deltalake.DeltaTable(str(path))


def commit(table: deltalake.DeltaTable, numbers: range) -> None:
    table.create_write_transaction(
        actions=[_add(number) for number in numbers], mode="append", schema=SCHEMA, partition_by=[PARTITION_COLUMN]
    )


def list_all(path: Path) -> int:
    return int(pa.table(open_table(path).get_add_actions()).num_rows)


def _add(number: int) -> AddAction:
    file = data_file(number)
    stats = {
        "numRecords": file.num_records,
        "minValues": {name: _plain(value) for name, value in file.minima.items()},
        "maxValues": {name: _plain(value) for name, value in file.maxima.items()},
        "nullCount": dict(file.null_counts),
    }
    return AddAction(
        path=f"{PARTITION_COLUMN}={file.date}/{file.stem}.parquet",
        size=file.size_bytes,
        partition_values={PARTITION_COLUMN: str(file.date)},
        modification_time=MODIFIED_MS,
        data_change=True,
        stats=json.dumps(stats, separators=(",", ":")),
    )


def _plain(value: Value) -> int | float | str:
    return value if isinstance(value, int | float | str) else moment_text(value)
