"""`enable`: makes a classic session serve tables as well as it can.

Plain loads become Spark's own Parquet scans; loads with a search become private scans, which know the filters and the
columns that a query needs. Saves take `partitionBy`, and the modes that refuse or ignore a table that is there. Loads
and saves take the session's settings along.
"""

from __future__ import annotations

import threading
import warnings
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from indextables.spark import jvm, loading, saving
from indextables.spark.driver_search import DriverSearch
from indextables.spark.native import NativeTable
from indextables.spark.options import SourceOptions
from indextables.spark.source import NAME, IndexTablesSource
from indextables.table import Table

_lock = threading.Lock()


def enable(spark: SparkSession) -> SparkSession:
    """Enable everything that a session allows, and give it back. Where Spark is one that is not known, or is reached by
    Spark Connect, loads and saves go on to work as they do without this, and a warning says so."""
    if not jvm.is_classic(spark):
        warnings.warn(
            "a Spark Connect session cannot be enabled: loads are served by Python, `partitionBy` is an option, and "
            "`indextables.read` searches",
            stacklevel=2,
        )
        return spark
    if not jvm.is_known(spark):
        warnings.warn(
            f"Spark {spark.version} is not one that native scans are known to work with "
            f"({', '.join(f'{version}*' for version in jvm.KNOWN_SPARK)}): loads are served by Python",
            stacklevel=2,
        )
    else:
        jvm.bridge(spark).enable(spark._jsparkSession, NAME, Opening(spark))
    with _lock:
        loading.install(spark)
        saving.install(spark)
    return spark


class Opening:
    """Opens a load for Java: as a native scan where that gives what is asked for, else as a private one."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def apply(self, pickled: bytes) -> Any:
        """`pickled` is the data source that Spark made of the load."""
        source: IndexTablesSource = cloudpickle.loads(pickled)
        asked = source.asked
        table = Table.open(asked.url, version=asked.version, timestamp=asked.timestamp, options=asked.settings)
        asked = asked._replace(version=table.version, timestamp=None)
        scan = NativeTable.open(table, self._spark) if asked.is_plain else "it asks for more than rows"
        opened = self._private(asked, table)
        return opened if isinstance(scan, str) else scan.java(self._spark, opened)

    def _private(self, asked: SourceOptions, table: Table) -> Any:
        gateway = jvm.gateway(self._spark)
        pinned = gateway.jvm.java.util.HashMap()
        pinned.put("versionasof", str(asked.version))
        pinned.put("timestampasof", None)
        return jvm.bridge(self._spark).opened(NAME, _title(asked), pinned, DriverSearch(asked, gateway))

    class Java:
        implements = ("java.util.function.Function",)


def _title(asked: SourceOptions) -> str:
    searched = "" if asked.search is None else f", search: {asked.search}"
    filtered = "" if asked.where is None else f", where: {asked.where}"
    return f"{asked.url} version {asked.version}{searched}{filtered}"
