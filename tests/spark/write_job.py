"""A Spark job in a process of its own, for tests that kill it or let its tasks fail.

`python -m tests.spark.write_job PLACE MASTER JOB URL`: PLACE is a directory for what Spark leaves behind.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from tests.spark.jobs import quick_settings

import indextables as it
from indextables.spark.jvm.java_runtime import java_home_for_spark

NUM_BATCHES = 3
ROWS_PER_BATCH = 40


def main(place: str, master: str, job: str, url: str) -> None:
    os.environ["JAVA_HOME"] = java_home_for_spark()
    spark = SparkSession.builder.master(master).config(map=quick_settings(place)).getOrCreate()
    try:
        {"retried": retried, "batches": batches, "stuck": stuck}[job](spark, url)
    finally:
        spark.stop()


def retried(spark: SparkSession, url: str) -> None:
    """Every task fails in its first attempt, after it has written some splits."""

    def fail_at_first(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(rows):
            if TaskContext.get().attemptNumber() == 0 and number == 2:
                raise ValueError("the first attempt")
            yield batch

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    frame = spark.range(0, 200, 1, 4)
    save(frame.mapInArrow(fail_at_first, frame.schema), url)


def batches(spark: SparkSession, url: str) -> None:
    """Append the batches that the table does not hold yet."""
    for number in range(NUM_BATCHES):
        if not holds(url, number):
            save(rows_of(spark, number), url)


def stuck(spark: SparkSession, url: str) -> None:
    """Append the first batch, and in the next one never get to the end of the second task."""

    def wait(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from rows
        if TaskContext.get().partitionId() == 1:
            time.sleep(600)

    save(rows_of(spark, 0), url)
    frame = rows_of(spark, 1)
    save(frame.mapInArrow(wait, frame.schema), url)


def rows_of(spark: SparkSession, number: int):
    return spark.range(number * ROWS_PER_BATCH, (number + 1) * ROWS_PER_BATCH, 1, 2)


def holds(url: str, number: int) -> bool:
    if not Path(url, "_transaction_log").exists():
        return False
    return it.Table.open(url).count(where=f"id = {number * ROWS_PER_BATCH}") > 0


def save(frame, url: str) -> None:
    frame.write.format("indextables").mode("append").option("write.targetSplitSize", "1").save(url)


if __name__ == "__main__":
    main(*sys.argv[1:])
