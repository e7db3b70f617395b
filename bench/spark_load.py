"""`spark-load`: a table of many splits as a DataFrame, and the plan of a query of one partition of it; no job runs.

Its splits stand in the log alone: none is looked at before a job runs. Everything has been loaded once before, so that
decoded manifests are in the local cache unless there is none.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import indextables as it
from bench.files import PARTITION_COLUMN, date_of, num_in_partition
from bench.harness import Figure, Goal, Setting, alternate, timed_ms
from bench.our_files import PARTITION_LISTED, WITHOUT_CACHE, shared_table, with_cache
from bench.spark_tables import shared_session

_GOAL = Goal(below_ms=500)
_WITHOUT_CACHE = "no local cache"

Load = Callable[[], DataFrame]


def run(setting: Setting) -> list[Figure]:
    num_splits = setting.sizes.num_splits_loaded
    spark = shared_session(setting)
    setting.say("building a log")
    loads = _loads(spark, shared_table(setting.shared, num_splits), with_cache(setting.directory / "cache"))
    for load in loads.values():
        _check_plan(load, num_splits)
    sides = {}
    for name, load in loads.items():
        sides[name] = _timed(load)
        sides[f"{name}, one partition planned"] = _timed(functools.partial(_plan, load))
    times = alternate(sides, setting.sizes.num_rounds * setting.sizes.num_searches, setting.say)
    return [Figure(f"spark-load: {num_splits} splits, {name}", samples, [], _GOAL) for name, samples in times.items()]


def _loads(spark: SparkSession, path: Path, cached: Mapping[str, str]) -> dict[str, Load]:
    def to_spark(options: Mapping[str, str]) -> DataFrame:
        return it.Table.open(path, options=options).to_spark(spark)

    def load(options: Mapping[str, str]) -> DataFrame:
        return spark.read.format("indextables").options(**options).load(str(path))

    return {
        "Table.to_spark": lambda: to_spark(cached),
        f"Table.to_spark, {_WITHOUT_CACHE}": lambda: to_spark(WITHOUT_CACHE),
        'format("indextables")': lambda: load(cached),
        f'format("indextables"), {_WITHOUT_CACHE}': lambda: load(WITHOUT_CACHE),
    }


def _timed(work: Callable[[], object]) -> Callable[[int], list[float]]:
    return lambda _: [timed_ms(work)]


def _plan(load: Load) -> str:
    """The physical plan of a query of one partition, with which its job would start, as text."""
    frame = load().filter(f"{PARTITION_COLUMN} = DATE '{date_of(PARTITION_LISTED)}'")
    return str(frame._jdf.queryExecution().executedPlan().toString())


def _check_plan(load: Load, num_splits: int) -> None:
    """Refuse to measure a load that is not native, or that reads other splits than those of the partition."""
    plan = _plan(load)
    expected = (str(num_in_partition(num_splits, PARTITION_LISTED)), str(num_splits))
    if re.findall(r"(\d+) of (\d+) splits", plan) != [expected]:
        raise AssertionError(f"the plan does not read {' of '.join(expected)} splits: {plan}")
