"""Saves in enabled sessions: `partitionBy`, all modes, settings, a shuffle.

Spark supports two modes and no partitions for a Python data source. The others become options of the save, and the
commit enforces them, so it notices a table that another writer creates meanwhile. This process runs the automatic
maintenance of tables, because it can do so in the background and on the session's workers.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameWriter

from indextables.config import Config, settings
from indextables.errors import ConfigError, TableExistsError, TableNotFoundError
from indextables.log.snapshot import Head
from indextables.maintain import on_write
from indextables.spark.catalog.cached_tables import table_changed
from indextables.spark.hadoop.paths import absolute
from indextables.spark.jvm import gateway
from indextables.spark.jvm.worker_errors import own_errors
from indextables.spark.options.session_settings import with_session
from indextables.spark.options.source_options import (
    CREATE_ONLY,
    IGNORE,
    LOOKED_AFTER,
    NAME,
    SourceOptions,
    names_as_option,
    names_of_option,
)
from indextables.spark.scan.loading import activate, scala_map
from indextables.transaction_log import TransactionLog

_save = DataFrameWriter.save
_PARTITION_BY = "partitionBy"
_DYNAMIC = "spark.sql.sources.partitionOverwriteMode"


def install() -> None:
    """Replace `DataFrameWriter.save`; it acts in enabled sessions only."""
    DataFrameWriter.save = _save_enabled  # type: ignore[method-assign]


@functools.wraps(_save)
def _save_enabled(
    self: DataFrameWriter,
    path: Any = None,
    format: Any = None,  # noqa: A002
    mode: Any = None,
    partitionBy: Any = None,  # noqa: N803
    **options: Any,
) -> None:
    self.mode(mode).options(**options)
    if partitionBy is not None:
        self.partitionBy(partitionBy)
    if format is not None:
        self.format(format)
    if self._spark not in gateway.enabled_sessions or self._jwrite.source().lower() != NAME:
        _save(self, path)
        return
    with own_errors():
        _Save.read(self, path).run()


class _Save(NamedTuple):
    """One save: the rows, the mode, the options and the location."""

    spark: SparkSession
    frame: DataFrame
    mode: str
    options: dict[str, str]

    @classmethod
    def read(cls, writer: DataFrameWriter, path: Any) -> _Save:
        """Read the arguments of a DataFrameWriter."""
        spark, java = writer._spark, writer._jwrite
        if java.isBucketed() or java.clusteringColumns().isDefined():
            raise ConfigError(
                "cannot write buckets or clusters: a table is partitioned by columns", hint="use `partitionBy`"
            )
        options = scala_map(spark, java.extraOptions())
        place = options.pop("path", None) if path is None else path
        if place is not None:
            options["path"] = absolute(place)
        if java.partitioningColumns().isDefined():
            set_partition_by(options, java_strings(spark, java.partitioningColumns().get()))
        if not {"partitionoverwritemode", "replacewhere"} & {key.lower() for key in options}:
            options["partitionOverwriteMode"] = spark.conf.get(_DYNAMIC) or "static"
        return cls(spark, writer._df, java.curmode().name(), with_session(spark, options.get("path"), options))

    def run(self) -> None:
        asked = SourceOptions.parse(self.options)
        log = TransactionLog(asked.url, options=asked.settings)
        head = _head(log)
        options = dict(self.options)
        if self.mode not in ("Append", "Overwrite"):
            if head is not None and self.mode == IGNORE:
                return
            if head is not None:
                raise TableExistsError(
                    f"cannot write a new table at `{log.url}` because there is one already",
                    hint='choose what becomes of it, as in `.mode("append")` or `.mode("overwrite")`',
                )
            options[CREATE_ONLY] = self.mode
        is_looked_after = on_write.is_looked_after(_config(log, head))
        if is_looked_after:
            options[LOOKED_AFTER] = "true"
        mode = "overwrite" if self.mode == "Overwrite" else "append"
        activate(self.spark)
        writer = self._shuffled(asked, log, head)._jdf.write().format(NAME).mode(mode)
        for key, value in options.items():
            writer = writer.option(key, value)
        writer.save()
        table_changed(self.spark, log.url)
        if is_looked_after:
            on_write.after_write(log)

    def _shuffled(self, asked: SourceOptions, log: TransactionLog, head: Head | None) -> DataFrame:
        """Return the rows; if requested, shuffle them by partition.

        A share is about one split.
        """
        config = _config(log, head)
        if not config[settings.WRITE_OPTIMIZE_WRITE_ENABLED]:
            return self.frame
        columns = (asked.partition_by or ()) if head is None else head.partition_columns
        if not gateway.is_known(self.spark):
            return self.frame.hint("rebalance", *columns)
        size = config[settings.WRITE_OPTIMIZE_WRITE_TARGET_SPLIT_SIZE]
        bridge = gateway.bridge(self.spark)
        return DataFrame(bridge.rebalanced(self.frame._jdf, list(columns), size), self.spark)


def _config(log: TransactionLog, head: Head | None) -> Config:
    """Return the effective settings of an existing or a new table."""
    return log.config if head is None else log.config.with_properties(head.metadata.configuration)


def set_partition_by(options: dict[str, str], names: list[str]) -> None:
    """Set the partition columns as an option; refuse other columns in that option."""
    given = next((key for key in options if key.lower() == _PARTITION_BY.lower()), _PARTITION_BY)
    if given in options and list(names_of_option(given, options[given])) != names:
        raise ConfigError(f"cannot tell how to partition because `{_PARTITION_BY}` and the option `{given}` differ")
    options[given] = names_as_option(names)


def java_strings(spark: SparkSession, names: Any) -> list[str]:
    """Return a Scala sequence as a list."""
    return list(gateway.gateway(spark).jvm.scala.jdk.javaapi.CollectionConverters.asJava(names))


def _head(log: TransactionLog) -> Head | None:
    try:
        return log.reader.head()[1]
    except TableNotFoundError:
        return None
