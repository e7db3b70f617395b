"""What Spark has cached of tables: as with its own files, every change through a session makes it be computed anew.

A frame of a table in the catalog is cached at the newest version, and given up at whichever it is cached at. A frame by
path that is cached moves to the newest version with a change, unless it was loaded at a version or a moment.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from pyspark import StorageLevel, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from indextables.errors import IndexTablesError
from indextables.spark import jvm
from indextables.spark.options import NAME
from indextables.spark.scans import ScanPlan
from indextables.spark.worker_errors import error_text
from indextables.store.url import parse_location

_cache = ClassicDataFrame.cache
_persist = ClassicDataFrame.persist
_unpersist = ClassicDataFrame.unpersist


def install() -> None:
    """From now on, for the frames of sessions that are enabled."""
    ClassicDataFrame.cache = _cache_enabled  # type: ignore[method-assign]
    ClassicDataFrame.persist = _persist_enabled  # type: ignore[method-assign]
    ClassicDataFrame.unpersist = _unpersist_enabled  # type: ignore[method-assign]


def table_changed(spark: Any, url: str) -> None:
    """Make cached queries of the table at a place be computed anew, in all sessions of a JVM that has our classes."""
    if not (jvm.is_classic(spark) and jvm.has_bridge(spark)):
        return
    bridge, place = jvm.bridge(spark), parse_location(url)
    cached = json.loads(bridge.cachedPlaces(spark._jsparkSession, NAME))
    old = [name for name in cached if parse_location(name) == place]
    if old:
        bridge.recache(spark._jsparkSession, old, NAME, _Move())


class _Move:
    """Moves data sources of loads to the newest version for Java."""

    def apply(self, pickled: bytes) -> bytes | str:
        """The pickle of the data source at the newest version. What is wrong is given as text."""
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
    jvm.bridge(self.sparkSession).renewed(self._jdf).cache()
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
    jvm.bridge(self.sparkSession).renewed(self._jdf).persist(level)
    return self


@functools.wraps(_unpersist)
def _unpersist_enabled(self: ClassicDataFrame, blocking: bool = False) -> DataFrame:
    _unpersist(self, blocking)
    if _is_enabled(self.sparkSession):
        jvm.bridge(self.sparkSession).uncache(self.sparkSession._jsparkSession, self._jdf, blocking)
    return self


def _is_enabled(spark: SparkSession) -> bool:
    return spark in jvm.enabled_sessions and jvm.is_known(spark)
