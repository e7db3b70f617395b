"""`enable`: makes a classic session serve tables as well as it can.

Plain loads become Spark's own Parquet scans; loads with a search become private scans, which know the filters and the
columns that a query needs. Saves take `partitionBy`, and the modes that refuse or ignore a table that is there. Loads,
saves and streams take the session's settings along. Tables of the session catalog are read and written like any other.
While the session runs, its workers do what is spread by the operations of this process.
"""

from __future__ import annotations

import shlex
import threading
import warnings

from pyspark.sql import SparkSession

from indextables.ops.workers import offer_workers
from indextables.spark import caching, catalog, jvm, loading, saving, statements, streaming
from indextables.spark.column_info import DescribeStream
from indextables.spark.opening import Opening
from indextables.spark.options import NAME
from indextables.spark.search_functions import BuildFunction, DescribeFunction, pattern
from indextables.spark.source import IndexTablesSource
from indextables.spark.workers import enabled_workers

_lock = threading.Lock()
_REDACTED = "spark.sql.redaction.options.regex"
# By itself Spark hides what is called a secret, a token, a password or an access key.
_SECRETS = "(?i)(?:access|account|private)[._]?key|[._]sas[._]"


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
        jvm.bridge(spark).enable(
            spark._jsparkSession,
            NAME,
            Opening(spark),
            pattern(spark),
            BuildFunction(),
            DescribeFunction(),
            DescribeStream(),
        )
        catalog.join(spark)
    python = spark.sparkContext.pythonExec
    if shlex.quote(python) != python:  # Spark asks the shell for it without quotes, and then finds no data source
        spark.dataSource.register(IndexTablesSource)
    _hide_secrets(spark)
    with _lock:
        jvm.enabled_sessions.add(spark)
        caching.install()
        loading.install()
        saving.install()
        statements.install()
        catalog.install()
        streaming.install()
    enabled_workers.add(spark)
    offer_workers(enabled_workers.workers)
    return spark


def _hide_secrets(spark: SparkSession) -> None:
    """Statements and plans of the session show no key of a cloud, whatever it is called."""
    hidden = spark.conf.get(_REDACTED) or ""
    if _SECRETS not in hidden:
        spark.conf.set(_REDACTED, f"{hidden}|{_SECRETS}" if hidden else _SECRETS)
