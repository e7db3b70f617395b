"""`spark-sql`: a rare word, found by an operator or a table function of SQL, beside the same search by `it.read`.

Every statement is given anew, and finds the newest version; so does `it.read`. A view stands at the version at which it
was made. All columns of all hits are collected.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import indextables as it
from bench.harness import OURS, Figure, Goal, Setting, alternate, timed_ms
from bench.spark_tables import TEXT_COLUMN, shared_session, shared_table
from indextables.demo.sample_logs import SCHEMA, Needle, needles

_GOAL = Goal(max_ratio=1.2)
_READ = "indextables.read"
_NAME = "bench_logs"
_VIEW = "bench_logs_view"

Ask = Callable[[], DataFrame]


def run(setting: Setting) -> list[Figure]:
    spark, table = shared_session(setting), shared_table(setting)
    needle = needles(setting.sizes.num_spark_rows)["everywhere"]
    statements = _statements(spark, table, needle)
    asks: dict[str, Ask] = {OURS: lambda: it.read(spark, table, search=needle.query)}
    asks |= {name: functools.partial(spark.sql, text) for name, text in statements.items()}
    setting.say("warming up")
    for name, ask in asks.items():
        found = ask().select(*SCHEMA.names).collect()
        if len(found) != needle.num_rows:
            raise AssertionError(f"{name} finds {len(found)} rows, not {needle.num_rows}")
    num_rounds = setting.sizes.num_rounds * setting.sizes.num_searches
    times = alternate({name: _timed(ask) for name, ask in asks.items()}, num_rounds, setting.say)
    title = f"spark-sql: {needle.num_rows} of {setting.sizes.num_spark_rows} rows"
    return [Figure(f"{title}, {name}", times[name], times[OURS], _GOAL, yardstick=_READ) for name in statements]


def _timed(ask: Ask) -> Callable[[int], list[float]]:
    return lambda _: [timed_ms(lambda: ask().collect())]


def _statements(spark: SparkSession, table: Path, needle: Needle) -> dict[str, str]:
    spark.sql(f"CREATE TABLE IF NOT EXISTS {_NAME} USING indextables LOCATION '{table}'")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {_VIEW} USING indextables OPTIONS (path '{table}')")
    condition = f"{TEXT_COLUMN} TEXTSEARCH '{needle.query}'"
    return {
        "TEXTSEARCH on a table of the catalog": f"SELECT * FROM {_NAME} WHERE {condition}",
        "TEXTSEARCH on a view": f"SELECT * FROM {_VIEW} WHERE {condition}",
        "indextables_table": f"SELECT * FROM indextables_table('{table}', search => '{needle.query}')",
    }
