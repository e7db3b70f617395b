"""A Spark job that appends numbered batches to a table on an object store, in a process of its own: tests kill it, its
executors, or the store.

`python -m tests.spark.numbered_job PLACE URL OPTIONS NUM_BATCHES`: PLACE is a directory for what Spark leaves
behind, OPTIONS are JSON. It runs executors in processes of their own, and begins after the last
batch that the table holds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from tests.spark.jobs import QUICK_JAVA, quick_settings

import indextables as it
from indextables.errors import TableNotFoundError
from indextables.spark.jvm.java_runtime import java_home_for_spark

ROWS_PER_BATCH = 40
_TASKS = 4


def main(place: str, url: str, options: str, num_batches: str) -> None:
    settings = quick_settings(place) | {
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": QUICK_JAVA,
        "spark.task.maxFailures": "8",
    }
    for key, value in json.loads(options).items():
        settings[f"spark.indextables.{key}"] = str(value).lower() if isinstance(value, bool) else str(value)
    os.environ["JAVA_HOME"] = java_home_for_spark()
    spark = it.enable(SparkSession.builder.master("local-cluster[2,1,512]").config(map=settings).getOrCreate())
    try:
        for number in range(_first(url, json.loads(options)), int(num_batches)):
            _save(spark, number, url)
    finally:
        spark.stop()


def _first(url: str, options: Mapping[str, Any]) -> int:
    try:
        return it.Table.open(url, options=options).num_records // ROWS_PER_BATCH
    except TableNotFoundError:
        return 0


def _save(spark: SparkSession, number: int, url: str) -> None:
    def take_time(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            yield batch
            time.sleep(0.3)

    frame = spark.range(number * ROWS_PER_BATCH, (number + 1) * ROWS_PER_BATCH, 1, _TASKS)
    slow = frame.mapInArrow(take_time, frame.schema)
    slow.write.format("indextables").mode("append").option("write.targetSplitSize", "1").save(url)


if __name__ == "__main__":
    main(*sys.argv[1:])
