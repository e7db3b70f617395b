"""A log pipeline with Spark: clean raw JSON lines, append them by day, correct, search.

    python examples/log_pipeline.py

It works in a temporary directory, which is removed at the end. It needs `pip install 'indextables[spark]'`, which also
installs a Java for machines without one.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import indextables as it

RAW = "time string, level string, service string, message string, took_ms double"
SERVICES = ("gateway", "payments", "search")
LINES_PER_DAY = 600


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="log-pipeline-") as directory:
        place = Path(directory)
        spark = it.spark.session(config={"spark.indextables.cache.disk.path": str(place / "cache")})
        try:
            run(spark, place / "drops", str(place / "logs"))
        finally:
            spark.stop()
    return 0


def run(spark: SparkSession, drops: Path, table: str) -> None:
    title("Two drops land, and are appended day by day")
    for name, days in (("first", ("2026-03-01", "2026-03-02")), ("second", ("2026-03-03",))):
        drop(drops / name, [line for day in days for line in lines_of(day)])
        append(clean(spark, drops / name), table)
    logs = it.read(spark, table)
    logs.groupBy("day", "level").count().orderBy("day", "level").show()
    check(logs.count(), 3 * LINES_PER_DAY)  # without the half line, the duplicate, and the one without a time

    title("Which payments timed out? The index finds the words")
    query = 'payments AND "gave up" AND NOT level:INFO'
    hits = it.read(spark, table, search=query, columns=["day", "time", "message"], score=True)
    hits.orderBy(f.desc("_score"), "time").show(3, truncate=False)
    check(timeouts(spark, table), {"2026-03-01": 6, "2026-03-02": 60, "2026-03-03": 6})

    title("A late drop corrects the second of March: it replaces only that day")
    before = it.Table.open(table).version
    drop(drops / "late", lines_of("2026-03-02", payments_work=True))
    replace_day(clean(spark, drops / "late"), table, "2026-03-02")
    check(timeouts(spark, table), {"2026-03-01": 6, "2026-03-02": 6, "2026-03-03": 6})

    title("The daily report: Spark's own scan of all lines, joined with the hits of the search")
    report(spark, table).show()

    title("The report before the correction")
    was = report(spark, table, version=before)
    was.show()
    check([row["timeouts"] for row in was.collect()], [6, 60, 6])

    title("A checkpoint, so that the log stays quick to read; and the history")
    logs_table = it.Table.open(table)
    print(f"checkpoint of version {logs_table.checkpoint()['checkpoint_version'][0]}")
    for entry in logs_table.history().to_pylist():
        print(
            f"version {entry['version']}: {entry['operation']:12} {dict(entry['parameters'] or ())}"
            f" +{entry['files_added']} -{entry['files_removed']} splits"
        )
    check((logs_table.version, logs_table.num_records), (before + 1, 3 * LINES_PER_DAY))


def clean(spark: SparkSession, drop: Path) -> DataFrame:
    """Return the usable lines, with a proper time, a day, and one spelling of each level."""
    raw = spark.read.schema(RAW).option("mode", "DROPMALFORMED").json(str(drop))
    time = f.try_to_timestamp("time")
    cleaned = raw.withColumn("time", time).withColumn("level", f.upper("level")).where("time IS NOT NULL")
    return cleaned.withColumn("day", f.to_date("time")).dropDuplicates()


def append(lines: DataFrame, table: str) -> None:
    writer = lines.write.format("indextables").mode("append").partitionBy("day")
    writer.option("indexing.message", "text").save(table)


def replace_day(lines: DataFrame, table: str, day: str) -> None:
    lines.write.format("indextables").mode("overwrite").option("replaceWhere", f"day = '{day}'").save(table)


def timeouts(spark: SparkSession, table: str) -> dict[str, int]:
    """Count how often payments gave up, by day."""
    found = it.read(spark, table, search='payments AND "gave up"', columns=["day"])
    return {str(row["day"]): row["count"] for row in found.groupBy("day").count().collect()}


def report(spark: SparkSession, table: str, version: int | None = None) -> DataFrame:
    lines = it.Table.open(table, version=version).to_spark(spark).groupBy("day")
    all_lines = lines.agg(f.count("*").alias("lines"), f.round(f.avg("took_ms"), 1).alias("mean_ms"))
    found = it.read(spark, table, search='payments AND "gave up"', columns=["day"], version=version)
    hits = found.groupBy("day").agg(f.count("*").alias("timeouts"))
    return all_lines.join(hits, "day", "left").na.fill(0, ["timeouts"]).orderBy("day")


def lines_of(day: str, *, payments_work: bool = False) -> list[str]:
    """Return the raw lines of a day; at first, payments seem to fail often on March 2."""
    gives_up_every = 10 if day == "2026-03-02" and not payments_work else 100
    lines = []
    for number in range(LINES_PER_DAY):
        gave_up = number % gives_up_every == 1
        line = {
            "time": f"{day}T{number // 60:02d}:{number % 60:02d}:00Z",
            "level": "error" if gave_up else ("info", "Info", "WARN")[number % 3],
            "service": SERVICES[number % 3],
            "message": f"payments gave up on order {number}" if gave_up else f"order {number} went through",
            "took_ms": 30_000.0 if gave_up else 20.0 + number % 50,
        }
        lines.append(json.dumps(line))
    return [*lines, lines[0], '{"time": "2026-03', '{"time": "yesterday", "message": "what time is it?"}']


def drop(place: Path, lines: Iterable[str]) -> None:
    place.mkdir(parents=True)
    (place / "app.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def check(found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"expected {expected}, but found {found}")


def title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


if __name__ == "__main__":
    sys.exit(main())
