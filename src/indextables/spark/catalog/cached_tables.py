"""Invalidation of Spark's cache: each change through a session recomputes tables.

A frame of a catalog table is cached at the newest version, and `unpersist` finds it at any version. A change moves a
cached frame of a path to the newest version, unless it was loaded at a version or timestamp.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from pyspark import StorageLevel, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from indextables.errors import IndexTablesError
from indextables.location import parse_location
from indextables.spark.jvm import gateway
from indextables.spark.jvm.worker_errors import error_text
from indextables.spark.options.source_options import NAME
from indextables.spark.scan.planned_scan import ScanPlan

_cache = ClassicDataFrame.cache
_persist = ClassicDataFrame.persist
_unpersist = ClassicDataFrame.unpersist


def install() -> None:
    """Replace the cache methods of DataFrames; they act in enabled sessions only."""
    ClassicDataFrame.cache = _cache_enabled  # type: ignore[method-assign]
    ClassicDataFrame.persist = _persist_enabled  # type: ignore[method-assign]
    ClassicDataFrame.unpersist = _unpersist_enabled  # type: ignore[method-assign]


def table_changed(spark: Any, url: str) -> None:
    """Recompute cached queries of a table, in all sessions of a JVM with our classes."""
    if not (gateway.is_classic(spark) and gateway.has_bridge(spark)):
        return
    bridge, place = gateway.bridge(spark), parse_location(url)
    cached = json.loads(bridge.cachedPlaces(spark._jsparkSession, NAME))
    old = [name for name in cached if parse_location(name) == place]
    if old:
        bridge.recache(spark._jsparkSession, old, NAME, _Move())


class _Move:
    """Callback for Java that moves the data source of a load to the newest version."""

    def apply(self, pickled: bytes) -> bytes | str:
        """Return the pickled data source at the newest version, or the text of an error."""
        source = cloudpickle.loads(pickled)
        try:
            source.asked = ScanPlan.open(source.given).asked
        except IndexTablesError as error:
            return error_text(error)
        moved: bytes = cloudpickle.dumps(source)  # type: ignore[no-untyped-call]
        return moved

    class Java:
        implements = ("java.util.function.Function",)


@functools.wraps(_cache)
def _cache_enabled(self: ClassicDataFrame) -> DataFrame:
    if not _is_enabled(self.sparkSession):
        return _cache(self)
    self.is_cached = True
    gateway.bridge(self.sparkSession).renewed(self._jdf).cache()
    return self


@functools.wraps(_persist)
def _persist_enabled(
    self: ClassicDataFrame,
    storageLevel: StorageLevel = StorageLevel.MEMORY_AND_DISK_DESER,  # noqa: N803 - as Spark calls it
) -> DataFrame:
    if not _is_enabled(self.sparkSession):
        return _persist(self, storageLevel)
    self.is_cached = True
    level = self._sc._getJavaStorageLevel(storageLevel)
    gateway.bridge(self.sparkSession).renewed(self._jdf).persist(level)
    return self


@functools.wraps(_unpersist)
def _unpersist_enabled(self: ClassicDataFrame, blocking: bool = False) -> DataFrame:
    _unpersist(self, blocking)
    if _is_enabled(self.sparkSession):
        gateway.bridge(self.sparkSession).uncache(self.sparkSession._jsparkSession, self._jdf, blocking)
    return self


def _is_enabled(spark: SparkSession) -> bool:
    return spark in gateway.enabled_sessions and gateway.is_known(spark)
