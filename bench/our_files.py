"""Large tables of ours: built by commits of many files, compacted, and listed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import indextables as it
from bench.files import MODIFIED_MS, PARTITION_COLUMN, SCHEMA, DataFile, Value, commits, data_file, date_of, moment_text

_FILES_PER_COMMIT = 50_000
PARTITION_LISTED = 42
NEVER = str(10**9)
WITHOUT_CACHE: Mapping[str, str] = {"cache.disk.enabled": "false"}


def with_cache(directory: Path) -> Mapping[str, str]:
    """Options by which decoded manifests are kept in a directory."""
    return {"cache.disk.path": str(directory)}


def add(number: int) -> it.actions.Add:
    file = data_file(number)
    return it.actions.Add(
        path=f"{PARTITION_COLUMN}={file.date}/{file.stem}.split",
        partition_values={PARTITION_COLUMN: str(file.date)},
        size=file.size_bytes,
        modification_time=MODIFIED_MS,
        data_change=True,
        num_records=file.num_records,
        min_values=_texts(file.minima),
        max_values=_texts(file.maxima),
        stats=_null_counts(file),
    )


def build(path: Path, count: int) -> None:
    """A table of so many files, in a compacted state."""
    log = it.TransactionLog(path, options={**WITHOUT_CACHE, "checkpoint.interval": NEVER})
    log.initialize(SCHEMA, partition_columns=[PARTITION_COLUMN])
    for numbers in commits(count, _FILES_PER_COMMIT):
        log.add_files(map(add, numbers))
    log.checkpoint()


def compact(path: Path, options: Mapping[str, str]) -> None:
    """Compact the state of a table with other settings."""
    log = it.TransactionLog(path, options={**WITHOUT_CACHE, **options})
    log.add_files([])
    log.checkpoint()


def shared_table(directory: Path, count: int) -> Path:
    """A table of so many files that several benchmarks read, built where it is not there yet."""
    path = directory / f"ours-{count}"
    if not path.exists():
        unfinished = directory / f"unfinished-{count}"
        build(unfinished, count)
        unfinished.rename(path)
    return path


def copy_table(source: Path, target: Path) -> Path:
    """A copy that may be written to: no file of a table is ever changed in place, so that links will do."""
    shutil.copytree(source, target, copy_function=os.link)
    return target


def list_all(path: Path, options: Mapping[str, str]) -> int:
    return int(it.TransactionLog(path, options=options).list_files().num_rows)


def list_partition(path: Path, options: Mapping[str, str]) -> int:
    date = date_of(PARTITION_LISTED)
    return int(it.TransactionLog(path, options=options).list_files(where=f"{PARTITION_COLUMN} = '{date}'").num_rows)


def list_by_manifest(path: Path, options: Mapping[str, str]) -> int:
    """Every file, of which those of one manifest are held at once."""
    return sum(table.num_rows for table in it.TransactionLog(path, options=options).scan_files())


def _texts(values: Mapping[str, Value]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else _text(value) for name, value in values.items()}


def _text(value: Value) -> str:
    return str(value) if isinstance(value, int | float | str) else moment_text(value)


def _null_counts(file: DataFile) -> str:
    return json.dumps({"nullCount": dict(file.null_counts)}, separators=(",", ":"))
