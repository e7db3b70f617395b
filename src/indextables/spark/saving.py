"""Saves in sessions that are enabled: `partitionBy`, all four modes, settings of the session, and an optional shuffle.

Spark itself knows two modes and no partitions for a data source in Python. The others become options of the save, which
the commit keeps to: a table that somebody else makes meanwhile is noticed. Tables that look after themselves are looked
after by this process, which can do so in the background and on the session's workers.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameWriter

from indextables.config import Config, settings
from indextables.errors import ConfigError, TableExistsError, TableNotFoundError
from indextables.log.snapshot import Head
from indextables.ops import on_write
from indextables.spark import jvm
from indextables.spark.caching import table_changed
from indextables.spark.loading import activate, scala_map
from indextables.spark.options import (
    CREATE_ONLY,
    IGNORE,
    LOOKED_AFTER,
    NAME,
    SourceOptions,
    names_as_option,
    names_of_option,
)
from indextables.spark.places import absolute
from indextables.spark.session_settings import with_session
from indextables.spark.worker_errors import own_errors
from indextables.transaction_log import TransactionLog

_save = DataFrameWriter.save
_PARTITION_BY = "partitionBy"
_DYNAMIC = "spark.sql.sources.partitionOverwriteMode"


def install() -> None:
    """From now on, for the saves of sessions that are enabled."""
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
    if self._spark not in jvm.enabled_sessions or self._jwrite.source().lower() != NAME:
        _save(self, path)
        return
    with own_errors():
        _Save.read(self, path).run()


class _Save(NamedTuple):
    """One save: what to write, how, and where."""

    spark: SparkSession
    frame: DataFrame
    mode: str
    options: dict[str, str]

    @classmethod
    def read(cls, writer: DataFrameWriter, path: Any) -> _Save:
        """What was said to a writer."""
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
        """The rows, those of a partition together, in shares of about one split: where that is asked for."""
        config = _config(log, head)
        if not config[settings.WRITE_OPTIMIZE_WRITE_ENABLED]:
            return self.frame
        columns = (asked.partition_by or ()) if head is None else head.partition_columns
        if not jvm.is_known(self.spark):
            return self.frame.hint("rebalance", *columns)
        size = config[settings.WRITE_OPTIMIZE_WRITE_TARGET_SPLIT_SIZE]
        bridge = jvm.bridge(self.spark)
        return DataFrame(bridge.rebalanced(self.frame._jdf, list(columns), size), self.spark)


def _config(log: TransactionLog, head: Head | None) -> Config:
    """The settings in force for a table, or for one that is yet to be made."""
    return log.config if head is None else log.config.with_properties(head.metadata.configuration)


def set_partition_by(options: dict[str, str], names: list[str]) -> None:
    """Partition columns as an option, which must not say something else already."""
    given = next((key for key in options if key.lower() == _PARTITION_BY.lower()), _PARTITION_BY)
    if given in options and list(names_of_option(given, options[given])) != names:
        raise ConfigError(f"cannot tell how to partition because `{_PARTITION_BY}` and the option `{given}` differ")
    options[given] = names_as_option(names)


def java_strings(spark: SparkSession, names: Any) -> list[str]:
    """A sequence of Scala's as a list."""
    return list(jvm.gateway(spark).jvm.scala.jdk.javaapi.CollectionConverters.asJava(names))


def _head(log: TransactionLog) -> Head | None:
    try:
        return log.reader.head()[1]
    except TableNotFoundError:
        return None
