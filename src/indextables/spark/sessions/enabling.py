"""`enable`: give a classic session all features of the library.

Plain loads become Spark's own Parquet scans. Loads with a search become private scans, which receive the filters and
the columns of a query. Saves accept `partitionBy` and the modes that refuse or ignore an existing table. Loads, saves
and streams use the session's settings. Tables of the session catalog are read and written like any other. While the
session runs, its workers run the distributed work of this process.
"""

from __future__ import annotations

import shlex
import threading
import warnings

from pyspark.sql import SparkSession

from indextables.maintain.workers import offer_workers
from indextables.spark.catalog import cached_tables, tables
from indextables.spark.compat.versions import KNOWN_SPARK
from indextables.spark.jvm import gateway
from indextables.spark.options.source_options import NAME
from indextables.spark.scan import loading
from indextables.spark.scan.column_info import DescribeStream
from indextables.spark.scan.opening import Opening
from indextables.spark.scan.search_functions import BuildFunction, DescribeFunction, pattern
from indextables.spark.sessions import saving, streaming
from indextables.spark.source.source import IndexTablesSource
from indextables.spark.statements import run
from indextables.spark.workers import enabled_workers

_lock = threading.Lock()
_REDACTED = "spark.sql.redaction.options.regex"
# Spark itself redacts keys that contain secret, token, password or access key.
_SECRETS = "(?i)(?:access|account|private)[._]?key|[._]sas[._]"


def enable(spark: SparkSession) -> SparkSession:
    """Enable push-down, SQL commands and search operators in a session, and return it.

    With an unknown version of Spark or over Spark Connect, loads and saves work as in a session that is not enabled,
    and a warning says so.

    Args:
        spark: the session.

    Example:
        >>> spark = it.enable(spark)
        >>> spark.read.format("indextables").load("logs").count()
        4
    """
    if not gateway.is_classic(spark):
        warnings.warn(
            "a Spark Connect session cannot be enabled: loads are served by Python, `partitionBy` is an option, and "
            "`indextables.read` searches",
            stacklevel=2,
        )
        return spark
    if not gateway.is_known(spark):
        warnings.warn(
            f"Spark {spark.version} is not one that native scans are known to work with "
            f"({', '.join(f'{version}*' for version in KNOWN_SPARK)}): loads are served by Python",
            stacklevel=2,
        )
    else:
        gateway.bridge(spark).enable(
            spark._jsparkSession,
            NAME,
            Opening(spark),
            pattern(spark),
            BuildFunction(),
            DescribeFunction(),
            DescribeStream(),
        )
        tables.join(spark)
    python = spark.sparkContext.pythonExec
    if shlex.quote(python) != python:  # Spark passes it to the shell without quotes, and then finds no data source
        spark.dataSource.register(IndexTablesSource)
    _hide_secrets(spark)
    with _lock:
        gateway.enabled_sessions.add(spark)
        cached_tables.install()
        loading.install()
        saving.install()
        run.install()
        tables.install()
        streaming.install()
    enabled_workers.add(spark)
    offer_workers(enabled_workers.workers)
    return spark


def _hide_secrets(spark: SparkSession) -> None:
    """Redact keys of cloud stores in statements and plans of the session."""
    hidden = spark.conf.get(_REDACTED) or ""
    if _SECRETS not in hidden:
        spark.conf.set(_REDACTED, f"{hidden}|{_SECRETS}" if hidden else _SECRETS)
