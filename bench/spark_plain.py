"""`spark-plain`: statements of plain SQL on a table, beside the same over Parquet, and beside our own calls.

Every statement is given anew on a view. All answers are compared with those over Parquet before anything is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

import indextables as it
from bench.harness import OURS, Figure, Goal, Setting, alternate, timed_ms
from bench.spark_tables import shared_plain, shared_session, shared_table

_PARQUET = "Spark, the same over Parquet"
_DIRECT = "ours, direct call"
_TABLE, _PLAIN = "bench_plain_ours", "bench_plain_parquet"
_NONE = Goal()
_IS_TIMEOUT = "lower(message) RLIKE '\\\\btimeout\\\\b'"


class _Case(NamedTuple):
    """A statement, our own call for the same, and goals beside Parquet and beside the call.

    `like` is the condition for Parquet, if it has no search.
    """

    name: str
    text: str
    direct: Callable[[], object] | None = None
    beside_parquet: Goal = _NONE
    beside_direct: Goal = _NONE
    like: str | None = None
    is_ordered: bool = True


def run(setting: Setting) -> list[Figure]:
    spark, plain, path = shared_session(setting), shared_plain(setting), shared_table(setting)
    spark.read.format("indextables").load(str(path)).createOrReplaceTempView(_TABLE)
    spark.read.parquet(str(plain)).select(*spark.table(_TABLE).columns).createOrReplaceTempView(_PLAIN)
    title = f"spark-plain: {setting.sizes.num_spark_rows} rows"
    figures: list[Figure] = []
    for case in _cases(spark, path):
        setting.say(case.name)
        figures += _measure(setting, spark, case, title)
    return figures


def _measure(setting: Setting, spark: SparkSession, case: _Case, title: str) -> list[Figure]:
    sides: dict[str, Callable[[], object]] = {
        OURS: lambda: spark.sql(case.text.format(t=_TABLE)).collect(),
        _PARQUET: lambda: spark.sql((case.like or case.text).format(t=_PLAIN)).collect(),
    }
    answers = [sides[name]() for name in (OURS, _PARQUET)]
    if len(answers[0]) != len(answers[1]) or (case.is_ordered and answers[0] != answers[1]):  # type: ignore[arg-type]
        raise AssertionError(f"{case.name}: {answers[0]!s:.200} is not {answers[1]!s:.200}")
    if case.direct is not None:
        sides[_DIRECT] = case.direct
        case.direct()
    timed = {name: _timed(side) for name, side in sides.items()}
    times = alternate(timed, setting.sizes.num_rounds, setting.say)
    found = [Figure(f"{title}, {case.name}", times[OURS], times[_PARQUET], case.beside_parquet, yardstick=_PARQUET)]
    if case.direct is not None:
        found.append(
            Figure(f"{title}, {case.name}", times[OURS], times[_DIRECT], case.beside_direct, yardstick=_DIRECT)
        )
    return found


def _timed(side: Callable[[], object]) -> Callable[[int], list[float]]:
    return lambda _: [timed_ms(side)]


def _cases(spark: SparkSession, path: Path) -> list[_Case]:
    table = it.Table.open(path, options={"search.answers.maxSize": "0"})  # every call is answered anew
    first = table.search(limit=1, columns=["trace_id", "service"]).to_pylist()[0]
    id_, service = first["trace_id"], first["service"]
    median = spark.sql(f"SELECT percentile_approx(latency_ms, 0.5) FROM {_TABLE}").first()
    half = 0 if median is None else median[0]
    return [
        _Case(
            "equality on a unique id",
            f"SELECT * FROM {{t}} WHERE trace_id = '{id_}'",
            lambda: it.read(spark, path, search=f'trace_id:"{id_}"').collect(),
            Goal(max_ratio=0.1),
            Goal(max_ratio=1.5),
        ),
        _Case("equality on a service", f"SELECT count(message) FROM {{t}} WHERE service = '{service}'"),
        _Case(
            "count(*) with a search",
            "SELECT count(*) FROM {t} WHERE message TEXTSEARCH 'timeout'",
            lambda: spark.sql(f"SELECT * FROM indextables_count('{path}', search => 'timeout')").collect(),
            beside_direct=Goal(max_ratio=1.5),
            like=f"SELECT count(*) FROM {{t}} WHERE {_IS_TIMEOUT}",
        ),
        _Case(
            "GROUP BY a keyword",
            "SELECT service, count(*) FROM {t} GROUP BY service ORDER BY service",
            lambda: table.aggregate("service"),
        ),
        _Case(
            "GROUP BY a keyword with a search",
            "SELECT level, count(*) FROM {t} WHERE message TEXTSEARCH 'timeout' GROUP BY level ORDER BY level",
            lambda: table.aggregate("level", query="timeout"),
            like=f"SELECT level, count(*) FROM {{t}} WHERE {_IS_TIMEOUT} GROUP BY level ORDER BY level",
        ),
        _Case(
            "a search with LIMIT 10",
            "SELECT * FROM {t} WHERE message TEXTSEARCH 'timeout' LIMIT 10",
            lambda: it.read(spark, path, search="timeout", limit=10).collect(),
            beside_direct=Goal(max_ratio=1.2),
            like=f"SELECT * FROM {{t}} WHERE {_IS_TIMEOUT} LIMIT 10",
            is_ordered=False,
        ),
        _Case("count(*)", "SELECT count(*) FROM {t}"),
        _Case("LIMIT 10", "SELECT * FROM {t} LIMIT 10", is_ordered=False),
        _Case(
            "a filter that half of the rows match",
            f"SELECT count(message), max(host) FROM {{t}} WHERE latency_ms > {half}",
            beside_parquet=Goal(max_ratio=1.05),
        ),
    ]
