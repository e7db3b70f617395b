"""`spark-scan`: every row of a table, loaded and grouped by Spark, beside the same of plain Parquet files.

The session is enabled, so that a load of a table is Spark's own Parquet scan over its splits. Loading is counted on
both sides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, Row
from pyspark.sql.functions import expr

from bench.harness import OURS, Figure, Goal, Setting, alternate, checked_count, timed_ms
from bench.spark_tables import PLAIN, shared_plain, shared_session, shared_table

_GOAL = Goal(max_ratio=1.1)
_AGGREGATES = (
    "count(*) AS num_rows",
    "sum(length(message)) AS num_characters",
    "max(ts) AS last",
    "avg(latency_ms) AS mean_latency_ms",
)

Load = Callable[[], DataFrame]


def run(setting: Setting) -> list[Figure]:
    spark, plain, table = shared_session(setting), str(shared_plain(setting)), str(shared_table(setting))
    loads: dict[str, Load] = {
        OURS: lambda: spark.read.format("indextables").load(table),
        PLAIN: lambda: spark.read.parquet(plain),
    }
    setting.say("warming up")
    _check_answers([_groups(load) for load in loads.values()], setting.sizes.num_spark_rows)
    times = alternate({name: _timed(load) for name, load in loads.items()}, setting.sizes.num_rounds, setting.say)
    name = f"spark-scan: {setting.sizes.num_spark_rows} rows, loaded and grouped by service"
    return [Figure(name, times[OURS], times[PLAIN], _GOAL, yardstick=PLAIN)]


def _timed(load: Load) -> Callable[[int], list[float]]:
    return lambda _: [timed_ms(lambda: _groups(load))]


def _groups(load: Load) -> list[Row]:
    """Groups by one column, of three others, of which `message` is the largest by far."""
    return sorted(load().groupBy("service").agg(*map(expr, _AGGREGATES)).collect())


def _check_answers(answers: Sequence[Sequence[Row]], num_rows: int) -> None:
    """Refuse to measure where the sides differ; a mean differs in its last digits by the order of rows."""
    ours, theirs = answers
    for groups in answers:
        checked_count(sum(group.num_rows for group in groups), num_rows)
    exact_ours, exact_theirs = ([tuple(group)[:-1] for group in groups] for groups in answers)
    if exact_ours != exact_theirs or not all(
        math.isclose(one.mean_latency_ms, other.mean_latency_ms) for one, other in zip(ours, theirs, strict=True)
    ):
        raise AssertionError(f"groups differ: {ours} and {theirs}")
