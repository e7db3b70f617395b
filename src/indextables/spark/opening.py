"""Loads as scans of our Java classes: native where that gives what is asked for, private where it does not."""

from __future__ import annotations

from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from indextables.errors import IndexTablesError
from indextables.spark import jvm
from indextables.spark.driver_search import opened_load
from indextables.spark.native import NativeTable, ScanNatively
from indextables.spark.options import SourceOptions
from indextables.spark.scans import ScanPlan, open_log
from indextables.spark.worker_errors import error_text
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
            return error_text(error)

    def _open(self, pickled: bytes) -> Any:
        return open_scan(self._spark, cloudpickle.loads(pickled).asked)

    class Java:
        implements = ("java.util.function.Function",)


def open_scan(spark: SparkSession, asked: SourceOptions) -> Any:
    """A load for Java, opened at one version."""
    asked.check_batch()
    table = _table(asked)
    asked = asked._replace(version=table.version, timestamp=None)
    return opened_load(asked, spark, ScanNatively(table if asked.is_plain else None, spark))


def open_frame(spark: SparkSession, asked: SourceOptions) -> DataFrame:
    """A load without the processes of Python in which Spark would plan it, for sessions that are enabled."""
    asked.check_batch()
    if asked._replace(where=None, columns=None).is_plain:
        table = _table(asked)
        scan = NativeTable.open(table, spark, where=asked.where)
        if not isinstance(scan, str):
            plain = asked._replace(where=None, columns=None, version=table.version, timestamp=None)
            return scan.frame(spark, plain, where=asked.where, columns=asked.columns)
    plan = ScanPlan.open(asked)
    opened = opened_load(plan.asked, spark, ScanNatively(None, spark))
    schema = plan.spark_schema().json()
    return DataFrame(jvm.bridge(spark).privateFrame(spark._jsparkSession, schema, opened), spark)


def _table(asked: SourceOptions) -> Table:
    log = open_log(asked.url, tuple(sorted(asked.settings.items())))
    return Table(log, log.snapshot(version=asked.version, timestamp=asked.timestamp))
