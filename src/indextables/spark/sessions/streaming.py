"""Streams in enabled sessions, with the session's settings and `partitionBy`.

Spark silently drops the `partitionBy` of a stream; here it becomes an option. So does the checkpoint location of the
session's settings, because the writer identifies the query by it. Errors at the start of a stream are raised as the
library's own; errors of a running stream are raised by its query.
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
from indextables.spark.hadoop.paths import absolute
from indextables.spark.jvm import gateway
from indextables.spark.jvm.worker_errors import own_errors
from indextables.spark.options.session_settings import with_session
from indextables.spark.options.source_options import NAME
from indextables.spark.scan.loading import activate, scala_map
from indextables.spark.sessions.saving import java_strings, set_partition_by

_load = DataStreamReader.load
_start = DataStreamWriter.start
_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"


def install() -> None:
    """Replace `load` and `start` of streams; they act in enabled sessions only."""
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
    """Return the options of a stream, including the other arguments of the writer."""
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
    """Return options whose path, if any, is the same in every working directory."""
    return {key: absolute(value) if key.lower() == "path" else value for key, value in options.items()}


def _is_ours(spark: Any, java: Any) -> bool:
    return spark in gateway.enabled_sessions and str(_field(java, "source")).lower() == NAME


def _field(java: Any, name: str) -> Any:
    """Return a private field of a Java object."""
    field = java.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(java)
