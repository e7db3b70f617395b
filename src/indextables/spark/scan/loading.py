"""Loads in enabled sessions, with the session's settings and our errors."""

from __future__ import annotations

import functools
import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameReader

from indextables.spark.hadoop.paths import absolute
from indextables.spark.jvm import gateway
from indextables.spark.jvm.worker_errors import own_errors
from indextables.spark.options.session_settings import with_session
from indextables.spark.options.source_options import NAME

_load = DataFrameReader.load


def install() -> None:
    """Replace `DataFrameReader.load`; it acts in enabled sessions only."""
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
    if self._spark not in gateway.enabled_sessions or self._jreader.source().lower() != NAME:
        return _load(self, path, None, schema, **options)
    self.options(**options)
    given = scala_map(self._spark, self._jreader.extraOptions())
    place = given.get("path") if path is None else path
    self.options(**with_session(self._spark, place if isinstance(place, str) else None, given))
    activate(self._spark)
    with own_errors():
        return _load(self, absolute(place) if isinstance(place, str) else place, None, schema)


def activate(spark: SparkSession) -> None:
    """Make a session the active one of this thread; Spark looks up data sources in it.

    A new thread has no active session.
    """
    gateway.gateway(spark).jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


def scala_map(spark: SparkSession, options: Any) -> dict[str, str]:
    """Return a Scala map as a dictionary."""
    if gateway.is_known(spark):
        known: dict[str, str] = json.loads(gateway.bridge(spark).mapJson(options))
        return known
    return dict(gateway.gateway(spark).jvm.scala.jdk.javaapi.CollectionConverters.asJava(options))
