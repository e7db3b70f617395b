"""`spark-stream`: rows that come at a steady pace, written into a table by a stream; whether it keeps up with them.

Spark's own source makes the rows by the clock, so a stream that falls behind gets ever larger batches, and batches that
take longer than the time between two of them. The first batch, which starts Python's workers, is left out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import indextables as it
from bench.harness import Figure, Goal, Setting, checked_count
from bench.spark_tables import shared_session

_MINUTE_MS = 60_000
_LEVELS = ("INFO", "WARN", "ERROR")
_WORDS = (
    "request",
    "timeout",
    "payment",
    "served",
    "retry",
    "gateway",
    "refused",
    "order",
    "cache",
    "slow",
    "user",
    "key",
)
_WORDS_PER_ROW = 10
_PATIENCE = 30


def run(setting: Setting) -> list[Figure]:
    sizes = setting.sizes
    spark = shared_session(setting)
    progress = _streamed(setting, spark)
    num_rows = sum(batch["numInputRows"] for batch in progress)
    busy_ms = [float(batch["durationMs"]["triggerExecution"]) for batch in progress]
    name = f"spark-stream: {sizes.stream_rows_per_minute} rows a minute"
    per_minute = sum(busy_ms) / num_rows * sizes.stream_rows_per_minute
    interval_ms = sizes.stream_interval_seconds * 1000
    return [
        Figure(f"{name}, work for as many rows", [per_minute], [], Goal(below_ms=_MINUTE_MS)),
        Figure(f"{name}, a batch every {interval_ms} ms", busy_ms, [], Goal(below_ms=interval_ms)),
        Figure(f"{name}, the slowest batch", [max(busy_ms)], [], Goal(below_ms=interval_ms)),
    ]


def _streamed(setting: Setting, spark: SparkSession) -> Sequence[dict[str, Any]]:
    """The progress of every batch but the first that brought rows."""
    sizes, table = setting.sizes, str(setting.directory / "table")
    writer = _rows(spark, sizes.stream_rows_per_minute).writeStream.format("indextables").partitionBy("day")
    writer = writer.option("indexing.message", "text").option("checkpointLocation", str(setting.directory / "query"))
    query = writer.trigger(processingTime=f"{sizes.stream_interval_seconds} seconds").start(table)
    try:
        for second in range(sizes.stream_seconds):
            setting.say(f"second {second + 1} of {sizes.stream_seconds}")
            time.sleep(1)
        _wait_until_idle(query, sizes.stream_interval_seconds)
    finally:
        query.stop()
    brought = [batch for batch in query.recentProgress if batch["numInputRows"]]
    checked_count(it.Table.open(table).num_records, sum(batch["numInputRows"] for batch in brought))
    return brought[1:-1] or brought


def _wait_until_idle(query: StreamingQuery, interval_seconds: int) -> None:
    """Wait for the end of a batch, since the table has to hold just what batches tell of. More is always to come."""
    ends_at = time.monotonic() + _PATIENCE * interval_seconds
    while query.status["isTriggerActive"]:
        if time.monotonic() > ends_at:
            raise AssertionError(f"a batch takes longer than {_PATIENCE} times the {interval_seconds} s between two")
        time.sleep(0.02)


def _rows(spark: SparkSession, rows_per_minute: int) -> DataFrame:
    """Log lines, made by the clock."""
    rate = spark.readStream.format("rate").option("rowsPerSecond", -(-rows_per_minute // 60)).load()
    words = f.array(*map(f.lit, _WORDS))
    chosen = [f.element_at(words, f.abs(f.hash("value", f.lit(at))) % len(_WORDS) + 1) for at in range(_WORDS_PER_ROW)]
    return rate.select(
        f.to_date("timestamp").alias("day"),
        f.col("timestamp").alias("time"),
        f.element_at(f.array(*map(f.lit, _LEVELS)), (f.col("value") % len(_LEVELS) + 1).cast("int")).alias("level"),
        f.concat(f.lit("host-"), f.col("value") % 40).alias("host"),
        f.concat_ws(" ", *chosen, f.col("value").cast("string")).alias("message"),
        ((f.col("value") * 37 % 10_000) / 10).alias("took_ms"),
    )
