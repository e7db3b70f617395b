"""Loads as scans of our Java classes: native where that gives what is asked for, private where it does not."""

from __future__ import annotations

from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from indextables.errors import IndexTablesError
from indextables.spark import jvm
from indextables.spark.driver_search import DriverSearch
from indextables.spark.native import NativeTable
from indextables.spark.options import NAME, SourceOptions
from indextables.spark.scans import ScanPlan, open_log
from indextables.table import Table


class Opening:
    """Opens loads for Java."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def apply(self, pickled: bytes) -> Any:
        """`pickled` is the data source that Spark made of a load. What is wrong with it is given as text."""
        try:
            return self._open(pickled)
        except IndexTablesError as error:
            return str(error)

    def _open(self, pickled: bytes) -> Any:
        asked: SourceOptions = cloudpickle.loads(pickled).asked
        table = _table(asked)
        asked = asked._replace(version=table.version, timestamp=None)
        scan = NativeTable.open(table, self._spark) if asked.is_plain else "it asks for more than rows"
        opened = _private(asked, self._spark)
        return opened if isinstance(scan, str) else scan.java(self._spark, opened)

    class Java:
        implements = ("java.util.function.Function",)


def open_frame(spark: SparkSession, asked: SourceOptions) -> DataFrame:
    """A load without the processes of Python in which Spark would plan it, for sessions that are enabled."""
    if asked._replace(where=None, columns=None).is_plain:
        table = _table(asked)
        scan = NativeTable.open(table, spark, where=asked.where)
        if not isinstance(scan, str):
            return scan.frame(spark, where=asked.where, columns=asked.columns)
    plan = ScanPlan.open(asked)
    opened = _private(plan.asked, spark)
    options = jvm.gateway(spark).jvm.java.util.HashMap()
    for key, value in plan.asked.to_options().items():
        options.put(key, value)
    schema = plan.spark_schema().json()
    return DataFrame(jvm.bridge(spark).privateFrame(spark._jsparkSession, schema, opened, options), spark)


def _table(asked: SourceOptions) -> Table:
    log = open_log(asked.url, tuple(sorted(asked.settings.items())))
    return Table(log, log.snapshot(version=asked.version, timestamp=asked.timestamp))


def _private(asked: SourceOptions, spark: SparkSession) -> Any:
    gateway = jvm.gateway(spark)
    pinned = gateway.jvm.java.util.HashMap()
    pinned.put("versionasof", str(asked.version))
    pinned.put("timestampasof", None)
    return jvm.bridge(spark).opened(NAME, _title(asked), pinned, DriverSearch(asked, gateway))


def _title(asked: SourceOptions) -> str:
    searched = "" if asked.search is None else f", search: {asked.search}"
    filtered = "" if asked.where is None else f", where: {asked.where}"
    return f"{asked.url} version {asked.version}{searched}{filtered}"
