"""`spark-write`: the same rows written by Spark as a table and as plain Parquet, both by day, and the index's share.

What the rows cost without an index is measured by tasks that get the same rows in the same way and write them into the
Parquet files that splits are, with statistics, but without an index, term filters and a commit. The rest of a whole
write is the index's. A string column is indexed as one term per row, so leaving words out does not leave an index out.
"""

from __future__ import annotations

import functools
import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

import indextables as it
from bench.harness import OURS, Figure, Goal, Setting, Unit, alternate, checked_count, timed_ms
from bench.our_files import WITHOUT_CACHE
from bench.spark_tables import (
    PARTITION_COLUMN,
    PLAIN,
    TEXT_COLUMN,
    Write,
    first_of_staged_rows,
    share_plain,
    share_table,
    staged_rows,
    write_plain,
    write_table,
)
from indextables.clock import SYSTEM_CLOCK
from indextables.config import Config
from indextables.demo.sample_logs import SCHEMA
from indextables.ingest.batches import incoming_batches
from indextables.split.split_file import SplitFileWriter
from indextables.split.statistics import StatisticsCollector
from indextables.split.writer import ENGINE, ENGINE_VERSION
from indextables.writer.partitioned_rows import by_partition

_GOAL = Goal(max_ratio=6)
_AS_STRING = "ours, messages as one term"
_WITHOUT_INDEX = "ours, without an index"
_WHOLE = "ours, with the index"
_WRITTEN = pa.schema([("num_rows", pa.int64())])


def run(setting: Setting) -> list[Figure]:
    rows, few = staged_rows(setting), first_of_staged_rows(setting)
    writes: dict[str, Write] = {
        PLAIN: write_plain,
        OURS: write_table,
        _AS_STRING: functools.partial(write_table, indexed_as="string"),
        _WITHOUT_INDEX: write_without_index,
    }
    for name, write in writes.items():
        setting.say(f"warming up: {name}")
        _timed(few, _place(setting, "warm"), write)
    sizes: dict[str, list[float]] = {}
    times = alternate(
        {name: functools.partial(_round, setting, rows, name, write, sizes) for name, write in writes.items()},
        setting.sizes.num_slow_rounds,
        setting.say,
    )
    _keep(setting)
    subject = f"spark-write: {setting.sizes.num_spark_rows} rows by day"
    return [
        Figure(subject, times[OURS], times[PLAIN], _GOAL, yardstick=PLAIN),
        Figure(f"{subject}, messages as one term", times[_AS_STRING], times[PLAIN], Goal(), yardstick=PLAIN),
        Figure(f"{subject}, without an index", times[_WITHOUT_INDEX], times[PLAIN], Goal(), yardstick=PLAIN),
        Figure(f"{subject}, without an index", times[_WITHOUT_INDEX], times[OURS], Goal(), yardstick=_WHOLE),
        Figure(f"{subject}, size", sizes[OURS], sizes[PLAIN], Goal(), yardstick=PLAIN, unit=Unit.MB),
        Figure(
            f"{subject}, size without an index",
            sizes[_WITHOUT_INDEX],
            sizes[OURS],
            Goal(),
            yardstick=_WHOLE,
            unit=Unit.MB,
        ),
    ]


def write_without_index(rows: DataFrame, path: Path) -> None:
    """The Parquet part of splits alone, in files that belong to no table."""
    path.mkdir()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        rows.mapInArrow(functools.partial(_write_rows, str(path)), "num_rows long").collect()


def _write_rows(directory: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a task does: the rows of each day into a file, as splits hold them."""
    files: dict[str | None, _Rows] = {}
    for batch in incoming_batches(batches, SCHEMA):
        for values, rows in by_partition(batch, [PARTITION_COLUMN]):
            day = values[PARTITION_COLUMN]
            if day not in files:
                files[day] = _Rows(directory)
            files[day].write(rows)
    yield pa.record_batch({"num_rows": [file.finish() for file in files.values()]}, _WRITTEN)


class _Rows:
    """A split that has neither an index nor term filters."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._path = os.path.join(directory, f"{SYSTEM_CLOCK.uuid()}.split")
        self._file = SplitFileWriter(self._path, SCHEMA, long_texts=[TEXT_COLUMN])
        self._statistics = StatisticsCollector(SCHEMA, Config.resolve(), [PARTITION_COLUMN])

    def write(self, rows: pa.RecordBatch) -> None:
        self._file.write(rows)
        self._statistics.add(rows)

    def finish(self) -> int:
        with self._file as file:
            file.finish(
                self._directory,
                (),
                engine=ENGINE,
                engine_version=ENGINE_VERSION,
                doc_mapping="[]",
                tokenizers={},
                segments=(),
                term_filter=None,
            )
        self._statistics.finish()
        with open(self._path, "rb") as written:
            os.fsync(written.fileno())
        return file.num_rows


def _round(
    setting: Setting, rows: DataFrame, name: str, write: Write, sizes: dict[str, list[float]], _: int
) -> list[float]:
    path = _place(setting, name)
    elapsed_ms = _timed(rows, path, write)
    checked_count(_num_rows(rows, path, name), setting.sizes.num_spark_rows)
    pattern = "*.parquet" if name == PLAIN else "*.split"
    sizes.setdefault(name, []).append(sum(file.stat().st_size for file in path.rglob(pattern)) / 1e6)
    return [elapsed_ms]


def _timed(rows: DataFrame, path: Path, write: Write) -> float:
    shutil.rmtree(path, ignore_errors=True)
    os.sync()  # so that no side pays for what another has left unwritten
    return timed_ms(lambda: write(rows, path))


def _num_rows(rows: DataFrame, path: Path, name: str) -> int:
    if name in (OURS, _AS_STRING):
        return it.Table.open(path, options=WITHOUT_CACHE).num_records
    return rows.sparkSession.read.parquet(str(path)).count()


def _place(setting: Setting, name: str) -> Path:
    return setting.directory / name.replace(" ", "-")


def _keep(setting: Setting) -> None:
    """Leave what others read to them, and take the rest away, which is large."""
    share_plain(setting, _place(setting, PLAIN))
    share_table(setting, _place(setting, OURS))
    for path in setting.directory.iterdir():
        shutil.rmtree(path)
