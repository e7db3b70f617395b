"""Loads as scans of our Java classes: native if possible, else private."""

from __future__ import annotations

from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from indextables.errors import IndexTablesError
from indextables.spark.jvm import gateway
from indextables.spark.jvm.worker_errors import error_text
from indextables.spark.options.source_options import SourceOptions
from indextables.spark.scan.driver_search import opened_load
from indextables.spark.scan.native import NativeTable, ScanNatively
from indextables.spark.scan.planned_scan import ScanPlan, asked_snapshot, open_log, settled
from indextables.table import Table


class Opening:
    """Callback for Java that opens loads."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def apply(self, pickled: bytes) -> Any:
        """Open a load from its pickled data source; return an error as text."""
        try:
            return self._open(pickled)
        except IndexTablesError as error:
            return error_text(error)

    def _open(self, pickled: bytes) -> Any:
        return open_scan(self._spark, cloudpickle.loads(pickled).asked)

    class Java:
        implements = ("java.util.function.Function",)


def open_scan(spark: SparkSession, asked: SourceOptions, *, table_id: str | None = None) -> Any:
    """Open a load at one version, for Java; refuse a table with another id."""
    asked.check_batch()
    table = _table(asked)
    if table_id is not None and table.snapshot.metadata.id != table_id:
        raise IndexTablesError(
            f"cannot read the table at `{asked.url}` because another table is there now",
            hint="make the DataFrame again, with `spark.table` or `spark.sql`",
        )
    asked = settled(asked, table.snapshot)
    return opened_load(asked, spark, ScanNatively(table if asked.is_plain else None, spark))


def open_frame(spark: SparkSession, asked: SourceOptions) -> DataFrame:
    """Open a load in an enabled session, without Spark's Python planning processes."""
    asked.check_batch()
    if asked._replace(where=None, columns=None).is_plain:
        table = _table(asked)
        scan = NativeTable.open(table, spark, where=asked.where)
        if not isinstance(scan, str):
            plain = settled(asked._replace(where=None, columns=None), table.snapshot)
            return scan.frame(spark, plain, where=asked.where, columns=asked.columns)
        asked = settled(asked, table.snapshot)
    plan = ScanPlan.open(asked)
    opened = opened_load(plan.asked, spark, ScanNatively(None, spark))
    schema = plan.spark_schema().json()
    return DataFrame(gateway.bridge(spark).privateFrame(spark._jsparkSession, schema, opened), spark)


def _table(asked: SourceOptions) -> Table:
    log = open_log(asked.url, tuple(sorted(asked.settings.items())))
    return Table(log, asked_snapshot(log, asked))
