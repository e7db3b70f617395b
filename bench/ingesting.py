"""`ingest`: files of log rows into a table, parsed by other processes and by one alone; and what a small append takes.

CPU is the user and system time of this process and of those it started. On a machine that others use, it tells more
than the time that passed.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.csv

import indextables as it
from bench.harness import OURS, Figure, Goal, Setting, alternate, checked_count, timed_cpu_ms, timed_ms
from bench.log_places import shared_rows
from bench.log_rows import SCHEMA, TEXT_COLUMN
from indextables.ingest.input_files import InputFiles, InputOptions

_ALONE = "ours, one process"
_SMALL_ROWS = 10
_NUM_APPENDS = 20
_SMALL = Goal(below_ms=30)
_WORKERS: Mapping[str, int] = {OURS: max(1, (os.cpu_count() or 2) - 1), _ALONE: 0}


def run(setting: Setting) -> list[Figure]:
    setting.say("writing files")
    rows = shared_rows(setting.sizes.num_rows)
    figures = []
    for path, schema in _files(setting.directory, rows).items():
        cpus: dict[str, list[float]] = {}
        times = alternate(
            {name: functools.partial(_ingest, setting, path, schema, name, cpus) for name in _WORKERS},
            setting.sizes.num_rounds,
            setting.say,
        )
        name = f"ingest: {rows.num_rows} rows, {path.suffix[1:]}"
        figures += [
            Figure(name, times[OURS], times[_ALONE], Goal(), yardstick=_ALONE),
            Figure(f"{name}, CPU", cpus[OURS], cpus[_ALONE], Goal(), yardstick=_ALONE),
        ]
    setting.say("small appends")
    return [*figures, Figure(f"ingest: append of {_SMALL_ROWS} rows, CPU", _appends(setting, rows), [], _SMALL)]


def _files(directory: Path, rows: pa.Table) -> dict[Path, pa.Schema]:
    """The same rows as CSV, as JSON lines and as a log, each with the schema of its table."""
    plain = rows.set_column(0, "ts", rows["ts"].cast(pa.string()))
    pyarrow.csv.write_csv(plain, directory / "rows.csv")
    with (directory / "rows.jsonl").open("wb") as lines, (directory / "rows.log").open("w") as log:
        for batch in plain.to_batches(max_chunksize=10_000):
            for row in batch.to_pylist():
                lines.write(msgspec.json.encode(row) + b"\n")
                log.write(f"{row['ts']} {row['level']} [{row['service']}] {row['message']}\n")
    log_schema = InputFiles([str(directory / "rows.log")]).guess_schema()
    return {
        directory / "rows.csv": SCHEMA,
        directory / "rows.jsonl": SCHEMA,
        directory / "rows.log": log_schema,
    }


def _ingest(
    setting: Setting, path: Path, schema: pa.Schema, name: str, cpus: dict[str, list[float]], _: int
) -> list[float]:
    place = setting.directory / "table"
    table = it.Table.create(place, schema, indexing={TEXT_COLUMN: "text"})
    files = InputFiles([str(path)], InputOptions(workers=_WORKERS[name]))
    elapsed: list[float] = []
    cpu_ms = timed_cpu_ms(lambda: elapsed.append(timed_ms(lambda: table.append(files.batches(schema)))))
    cpus.setdefault(name, []).append(cpu_ms)
    checked_count(table.num_records, setting.sizes.num_rows)
    shutil.rmtree(place)
    return elapsed


def _appends(setting: Setting, rows: pa.Table) -> list[float]:
    few = rows.slice(0, _SMALL_ROWS)
    table = it.Table.create(setting.directory / "small", SCHEMA, indexing={TEXT_COLUMN: "text"})
    table.append(few)  # loads what is loaded once
    return [timed_cpu_ms(lambda: table.append(few)) for _ in range(_NUM_APPENDS)]
