"""Access to our Java classes in the JVM of a session.

They ship as source, and the compiler that Spark ships compiles them, once on a machine. They depend on Spark's
internals, so they only run with tested versions of Spark.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from indextables.errors import ConfigError
from indextables.spark.compat.versions import KNOWN_SPARK
from indextables.spark.jvm.java_classes import make_bridge

enabled_sessions: weakref.WeakSet[SparkSession] = weakref.WeakSet()
_bridges: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def is_classic(spark: Any) -> bool:
    """Return whether a session drives its own JVM instead of using Spark Connect."""
    return isinstance(spark, SparkSession) and hasattr(spark, "_jsparkSession")


def is_known(spark: Any) -> bool:
    """Return whether the Java side works with this version of Spark."""
    return str(spark.version).startswith(KNOWN_SPARK)


def bridge(spark: SparkSession) -> Any:
    """Return the object through which Python calls our Java classes.

    They are compiled once in a JVM.
    """
    if not is_classic(spark):
        raise ConfigError(
            "cannot use Spark's own Parquet scan over Spark Connect",
            hint="`indextables.read(spark, url, ...)` works there",
        )
    known = gateway(spark)
    with _lock:
        if known not in _bridges:
            _bridges[known] = make_bridge(spark)
            ensure_callback_server_started(known)  # type: ignore[no-untyped-call]
        return _bridges[known]


def has_bridge(spark: SparkSession) -> bool:
    """Return whether our Java classes are loaded in the JVM of a classic session."""
    return gateway(spark) in _bridges


def gateway(spark: SparkSession) -> Any:
    """Return the Py4J gateway of a classic session."""
    return spark.sparkContext._gateway
