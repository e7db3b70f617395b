"""`spark-search`: a rare word in a table, found by a search, beside `LIKE` over the same rows in plain Parquet.

Loading is counted on both sides, and every column of every hit is collected. Unless a figure says otherwise the session
is enabled and parts of indexes that were fetched once are in the local cache.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

import indextables as it
from bench.harness import OURS, Figure, Goal, Setting, alternate, timed_ms
from bench.our_files import with_cache
from bench.spark_tables import PARTITION_COLUMN, TEXT_COLUMN, shared_plain, shared_session, shared_table
from indextables.demo.sample_logs import SCHEMA, Needle, needles

_OF_ALL = Goal(max_ratio=0.1)
_OF_PARTITION = Goal(max_ratio=0.05)
_LIKE = "Spark, LIKE over all rows as Parquet"
_LIKE_IN_PARTITION = "Spark, LIKE over that day as Parquet"
_NOT_ENABLED = "ours, session not enabled"
_NOT_CACHED = "ours, empty cache"

Ask = Callable[[], DataFrame]


def run(setting: Setting) -> list[Figure]:
    spark, plain, table = shared_session(setting), shared_plain(setting), shared_table(setting)
    return [*_rare_term(setting, spark, plain, table), *_one_partition(setting, spark, plain, table)]


def _rare_term(setting: Setting, spark: SparkSession, plain: Path, table: Path) -> list[Figure]:
    needle = needles(setting.sizes.num_spark_rows)["everywhere"]
    search = functools.partial(it.read, url=table, search=needle.query)
    caches = (with_cache(setting.directory / f"cache-{number}") for number in itertools.count())
    other = spark.newSession()
    times = _compare(
        setting,
        needle,
        {
            OURS: lambda: search(spark),
            _NOT_CACHED: lambda: search(spark, options=next(caches)),
            _NOT_ENABLED: lambda: search(other),
            _LIKE: lambda: _like(spark, plain, needle),
        },
    )
    name = f"spark-search: {needle.num_rows} of {setting.sizes.num_spark_rows} rows in all partitions"
    return [
        Figure(name, times[OURS], times[_LIKE], _OF_ALL, yardstick=_LIKE),
        Figure(f"{name}, empty cache", times[_NOT_CACHED], times[_LIKE], Goal(), yardstick=_LIKE),
        Figure(f"{name}, session not enabled", times[_NOT_ENABLED], times[_LIKE], Goal(), yardstick=_LIKE),
    ]


def _one_partition(setting: Setting, spark: SparkSession, plain: Path, table: Path) -> list[Figure]:
    needle = needles(setting.sizes.num_spark_rows)["one_day"]
    where = f"{PARTITION_COLUMN} = '{needle.day}'"
    times = _compare(
        setting,
        needle,
        {
            OURS: lambda: it.read(spark, table, search=needle.query, where=where),
            _LIKE: lambda: _like(spark, plain, needle),
            _LIKE_IN_PARTITION: lambda: _like(spark, plain, needle).filter(col(PARTITION_COLUMN) == lit(needle.day)),
        },
    )
    name = f"spark-search: {needle.num_rows} of {setting.sizes.num_spark_rows} rows in one named partition"
    return [
        Figure(name, times[OURS], times[_LIKE], _OF_PARTITION, yardstick=_LIKE),
        Figure(name, times[OURS], times[_LIKE_IN_PARTITION], Goal(), yardstick=_LIKE_IN_PARTITION),
    ]


def _like(spark: SparkSession, plain: Path, needle: Needle) -> DataFrame:
    rows = spark.read.parquet(str(plain)).select(*SCHEMA.names)
    return rows.filter(col(TEXT_COLUMN).like(needle.like))


def _compare(setting: Setting, needle: Needle, asks: dict[str, Ask]) -> dict[str, list[float]]:
    setting.say("warming up")
    _check_hits({name: _collect(ask) for name, ask in asks.items()}, needle)
    num_rounds = setting.sizes.num_rounds * setting.sizes.num_searches
    return alternate({name: _timed(ask) for name, ask in asks.items()}, num_rounds, setting.say)


def _timed(ask: Ask) -> Callable[[int], list[float]]:
    return lambda _: [timed_ms(lambda: ask().collect())]


def _collect(ask: Ask) -> list[Any]:
    return sorted(tuple(row) for row in ask().select(*SCHEMA.names).collect())


def _check_hits(hits: dict[str, list[Any]], needle: Needle) -> None:
    """Refuse to measure where a side does not find the very rows that were planted."""
    expected = hits[_LIKE]
    for name, found in hits.items():
        if found != expected or len(found) != needle.num_rows:
            raise AssertionError(f"{name} finds {len(found)} rows, not the {needle.num_rows} of {needle}: {found}")
