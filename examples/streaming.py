"""Streams with Spark: from log files into a table, and from there alarms into another.

    python examples/streaming.py

Both queries are stopped and restarted, as after a deployment; no row is lost or duplicated. It works in a temporary
directory, which is removed at the end. It needs `pip install 'indextables[spark]'`, which also installs a Java for
machines without one.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

import indextables as it

RAW = "time timestamp, service string, message string"
LINES_PER_FILE = 50


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="streaming-") as directory:
        place = Path(directory)
        spark = it.spark.session(config={"spark.indextables.cache.disk.path": str(place / "cache")})
        try:
            run(spark, place)
        finally:
            spark.stop()
    return 0


def run(spark: SparkSession, place: Path) -> None:
    landing, logs, alarms = place / "landing", str(place / "logs"), str(place / "alarms")
    landing.mkdir()

    title("Two files land, and flow into a searchable table")
    for number in range(2):
        land(landing, number)
    ingest(spark, landing, logs, place / "ingest").awaitTermination()
    check(it.Table.open(logs).num_records, 2 * LINES_PER_FILE)
    it.read(spark, logs, search="timeout", columns=["time", "message"]).orderBy("time").show(3, truncate=False)

    title("A second stream reads that table, and keeps the hits of a search in every batch")
    watch(spark, logs, alarms, place / "watch").awaitTermination()
    check(it.Table.open(alarms).num_records, 10)

    title("More files land while nothing runs; both streams continue at their positions")
    for number in range(2, 5):
        land(landing, number)
    ingest(spark, landing, logs, place / "ingest").awaitTermination()
    watch(spark, logs, alarms, place / "watch").awaitTermination()
    found = it.Table.open(alarms)
    check((it.Table.open(logs).num_records, found.num_records), (5 * LINES_PER_FILE, 25))
    for entry in found.history().to_pylist():
        print(f"alarms, version {entry['version']}: {entry['operation']}, +{entry['records_added'] or 0} rows")

    title("How many alarms has each service? Every batch replaces the answer")
    tally(spark, alarms, str(place / "tally"), place / "counting").awaitTermination()
    answer = it.read(spark, str(place / "tally")).orderBy("service")
    answer.show()
    check({row["service"]: row["alarms"] for row in answer.collect()}, {"gateway": 10, "payments": 15})


def ingest(spark: SparkSession, landing: Path, logs: str, checkpoint: Path) -> StreamingQuery:
    """Start a stream that reads every landed file once."""
    lines = spark.readStream.schema(RAW).json(str(landing)).withColumn("day", f.to_date("time"))
    return start(lines, logs, checkpoint, partition_by="day")


def watch(spark: SparkSession, logs: str, alarms: str, checkpoint: Path) -> StreamingQuery:
    """Start a stream of all present and future rows that match a search."""
    stream = spark.readStream.format("indextables").option("search", 'message:"gave up" OR message:timeout')
    return start(stream.option("maxFilesPerTrigger", 2).load(logs), alarms, checkpoint)


def tally(spark: SparkSession, alarms: str, answer: str, checkpoint: Path) -> StreamingQuery:
    """Start a stream that counts the alarms of each service."""
    counted = spark.readStream.format("indextables").load(alarms).groupBy("service").agg(f.count("*").alias("alarms"))
    writer = counted.writeStream.format("indextables").outputMode("complete").trigger(availableNow=True)
    return writer.start(answer, checkpointLocation=str(checkpoint))


def start(rows: DataFrame, table: str, checkpoint: Path, partition_by: str | None = None) -> StreamingQuery:
    writer = rows.writeStream.format("indextables").option("indexing.message", "text").trigger(availableNow=True)
    if partition_by is not None:
        writer = writer.partitionBy(partition_by)
    return writer.start(table, checkpointLocation=str(checkpoint))


def land(landing: Path, number: int) -> None:
    """Write one more file of lines; one line in ten is an alarm."""
    lines = []
    for line in range(LINES_PER_FILE):
        message = f"request {line} served"
        if line % 10 == 3:
            message = f"request {line} gave up" if line % 20 == 3 else f"timeout of request {line}"
        service = "payments" if line % 20 == 3 else "gateway"
        lines.append({"time": f"2026-03-0{1 + number % 2}T10:{line:02d}:00Z", "service": service, "message": message})
    unfinished = landing / f".{number}"
    unfinished.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    unfinished.rename(landing / f"{number}.json")


def check(found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"expected {expected}, but found {found}")


def title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


if __name__ == "__main__":
    sys.exit(main())
