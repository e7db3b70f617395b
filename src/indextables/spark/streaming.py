"""Streams in sessions that are enabled: they take settings of the session along, and `partitionBy` works.

Spark hands `partitionBy` of a stream to nobody and says nothing; here it becomes an option. So does the place of the
checkpoint where the session sets it, by which the writer knows the query. What goes wrong when a stream is made is
raised as the library's own error; what goes wrong while it runs is told by the query.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from indextables.clock import SYSTEM_CLOCK
from indextables.errors import ConfigError
from indextables.spark import jvm
from indextables.spark.loading import activate, scala_map
from indextables.spark.options import NAME
from indextables.spark.places import absolute
from indextables.spark.saving import java_strings, set_partition_by
from indextables.spark.session_settings import with_session
from indextables.spark.worker_errors import own_errors

_load = DataStreamReader.load
_start = DataStreamWriter.start
_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"


def install() -> None:
    """From now on, for the streams of sessions that are enabled."""
    DataStreamReader.load = _load_enabled  # type: ignore[method-assign]
    DataStreamWriter.start = _start_enabled  # type: ignore[method-assign]


@functools.wraps(_load)
def _load_enabled(
    self: DataStreamReader,
    path: Any = None,
    format: Any = None,  # noqa: A002 - as Spark calls it
    schema: Any = None,
    **options: Any,
) -> DataFrame:
    if format is not None:
        self.format(format)
    if not _is_ours(self._spark, self._jreader):
        return _load(self, path, None, schema, **options)
    self.options(**options)
    given = scala_map(self._spark, _field(self._jreader, "extraOptions"))
    self.options(**_placed(with_session(self._spark, _place(path, given), given)))
    activate(self._spark)
    with own_errors():
        return _load(self, absolute(path) if isinstance(path, str) else path, None, schema)


@functools.wraps(_start)
def _start_enabled(
    self: DataStreamWriter,
    path: Any = None,
    format: Any = None,  # noqa: A002
    outputMode: Any = None,  # noqa: N803
    partitionBy: Any = None,  # noqa: N803
    queryName: Any = None,  # noqa: N803
    **options: Any,
) -> StreamingQuery:
    if format is not None:
        self.format(format)
    if not _is_ours(self._spark, self._jwrite):
        return _start(self, path, None, outputMode, partitionBy, queryName, **options)
    self.options(**options)
    if partitionBy is not None:
        self.partitionBy(partitionBy)
    if queryName is not None:
        self.queryName(queryName)
    options = _options_of(self)
    self.options(**_placed(with_session(self._spark, _place(path, options), options)))
    activate(self._spark)
    with own_errors():
        return _start(self, absolute(path) if isinstance(path, str) else path, None, outputMode)


def _options_of(writer: DataStreamWriter) -> dict[str, str]:
    """The options of a stream, with what else was said to the writer."""
    spark, java = writer._spark, writer._jwrite
    if _field(java, "clusteringColumns").isDefined():
        raise ConfigError("cannot write clusters: a table is partitioned by columns", hint="use `partitionBy`")
    options = scala_map(spark, _field(java, "extraOptions"))
    partitioning = _field(java, "partitioningColumns")
    if partitioning.isDefined():
        set_partition_by(options, java_strings(spark, partitioning.get()))
    checkpoints = spark.conf.get(_CHECKPOINTS, None)
    by_lower = {key.lower(): value for key, value in options.items()}
    if checkpoints is not None and "checkpointlocation" not in by_lower:
        name = by_lower.get("queryname") or SYSTEM_CLOCK.uuid()
        options["checkpointLocation"] = f"{checkpoints.rstrip('/')}/{name}"
    return options


def _place(path: Any, options: Mapping[str, str]) -> str | None:
    given = (value for key, value in options.items() if key.lower() == "path")
    return path if isinstance(path, str) else next(given, None)


def _placed(options: dict[str, str]) -> dict[str, str]:
    """Options with a path, if there is one, that means the same in every working directory."""
    return {key: absolute(value) if key.lower() == "path" else value for key, value in options.items()}


def _is_ours(spark: Any, java: Any) -> bool:
    return spark in jvm.enabled_sessions and str(_field(java, "source")).lower() == NAME


def _field(java: Any, name: str) -> Any:
    """What Spark keeps to itself."""
    field = java.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(java)
