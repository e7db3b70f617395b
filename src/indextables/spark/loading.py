"""Loads in sessions that are enabled: they take settings of the session along, and fail with errors of the library."""

from __future__ import annotations

import functools
import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameReader

from indextables.spark import jvm
from indextables.spark.options import NAME
from indextables.spark.places import absolute
from indextables.spark.session_settings import with_session
from indextables.spark.worker_errors import own_errors

_load = DataFrameReader.load


def install() -> None:
    """From now on, for the loads of sessions that are enabled."""
    DataFrameReader.load = _load_enabled  # type: ignore[method-assign]


@functools.wraps(_load)
def _load_enabled(
    self: DataFrameReader,
    path: Any = None,
    format: Any = None,  # noqa: A002 - as Spark calls it
    schema: Any = None,
    **options: Any,
) -> DataFrame:
    if format is not None:
        self.format(format)
    if self._spark not in jvm.enabled_sessions or self._jreader.source().lower() != NAME:
        return _load(self, path, None, schema, **options)
    self.options(**options)
    given = scala_map(self._spark, self._jreader.extraOptions())
    place = given.get("path") if path is None else path
    self.options(**with_session(self._spark, place if isinstance(place, str) else None, given))
    activate(self._spark)
    with own_errors():
        return _load(self, absolute(place) if isinstance(place, str) else place, None, schema)


def activate(spark: SparkSession) -> None:
    """Make a session that of this thread: Spark looks data sources up in it, and a new thread has none."""
    jvm.gateway(spark).jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


def scala_map(spark: SparkSession, options: Any) -> dict[str, str]:
    """A map of Scala's as a dictionary."""
    if jvm.is_known(spark):
        known: dict[str, str] = json.loads(jvm.bridge(spark).mapJson(options))
        return known
    return dict(jvm.gateway(spark).jvm.scala.jdk.javaapi.CollectionConverters.asJava(options))
