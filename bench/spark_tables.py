"""The sample of log rows as Spark sees it: staged once as plain Parquet, then written as Parquet and as a table.

Both sides read the same staged files, and both are partitioned by day. What is written is kept in the shared directory
for the benchmarks that only read it.
"""

from __future__ import annotations

import functools
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import indextables as it
from bench.harness import Setting, checked_count
from indextables.demo.sample_logs import SCHEMA, num_batches, sample_batch
from indextables.spark.options.arrow_types import to_spark_schema

PARTITION_COLUMN = "day"
TEXT_COLUMN = "message"
PLAIN = "Spark, plain Parquet"

_ROOT = Path(__file__).resolve().parents[1]
_NUM_STAGED_FILES = 10
_STAGED, _PLAIN, _TABLE = "spark-staged", "spark-plain", "spark-table"

Write = Callable[[DataFrame, Path], None]


def shared_session(setting: Setting) -> SparkSession:
    """The one session of a run. Its scratch files and its index cache lie in the shared directory; it is stopped when
    the run ends."""
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    setting.say("starting Spark")
    config = {
        "spark.local.dir": str(setting.shared / "spark-scratch"),
        "spark.executorEnv.PYTHONPATH": str(_ROOT),  # tasks import this package
        "spark.indextables.cache.disk.path": str(setting.shared / "spark-index-cache"),
    }
    spark = it.spark.session(config=config, progress=False)
    setting.at_end.callback(spark.stop)
    return spark


def staged_rows(setting: Setting) -> DataFrame:
    """The sample, read from plain Parquet files."""
    spark = shared_session(setting)
    return spark.read.parquet(str(_shared(setting, _STAGED, functools.partial(_stage, setting, spark))))


def first_of_staged_rows(setting: Setting) -> DataFrame:
    """The rows of one staged file, to warm up with."""
    staged_rows(setting)
    first = min(_shared_path(setting, _STAGED).glob("*.parquet"))
    return shared_session(setting).read.parquet(str(first))


def shared_plain(setting: Setting) -> Path:
    """The sample as plain Parquet files by day."""
    return _shared(setting, _PLAIN, lambda path: write_plain(staged_rows(setting), path))


def shared_table(setting: Setting) -> Path:
    """The sample as a table by day, whose messages are indexed as text."""
    return _shared(setting, _TABLE, lambda path: write_table(staged_rows(setting), path))


def share_plain(setting: Setting, path: Path) -> None:
    """Give plain Parquet files that were written to the benchmarks that only read."""
    _shared(setting, _PLAIN, path.rename)


def share_table(setting: Setting, path: Path) -> None:
    """Give a table that was written to the benchmarks that only read."""
    _shared(setting, _TABLE, path.rename)


def write_plain(rows: DataFrame, path: Path) -> None:
    rows.write.partitionBy(PARTITION_COLUMN).parquet(str(path))


def write_table(rows: DataFrame, path: Path, *, indexed_as: str = "text") -> None:
    writer = rows.write.format("indextables").partitionBy(PARTITION_COLUMN).mode("error")
    writer.option(f"indexing.{TEXT_COLUMN}", indexed_as).save(str(path))


def _shared(setting: Setting, name: str, build: Callable[[Path], object]) -> Path:
    """What stands under a name in the shared directory, built where it is not there yet, and never half."""
    path = _shared_path(setting, name)
    if not path.exists():
        setting.say(f"building {path.name}")
        unfinished = setting.shared / f"unfinished-{path.name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        build(unfinished)
        unfinished.rename(path)
    return path


def _shared_path(setting: Setting, name: str) -> Path:
    return setting.shared / f"{name}-{setting.sizes.num_spark_rows}"


def _stage(setting: Setting, spark: SparkSession, path: Path) -> None:
    num_rows = setting.sizes.num_spark_rows
    count = num_batches(num_rows)
    numbers = spark.range(count, numPartitions=min(_NUM_STAGED_FILES, count))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        rows = numbers.mapInArrow(functools.partial(_sample, num_rows), to_spark_schema(SCHEMA))
        rows.write.parquet(str(path))
    checked_count(spark.read.parquet(str(path)).count(), num_rows)


def _sample(num_rows: int, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield sample_batch(number, num_rows)
