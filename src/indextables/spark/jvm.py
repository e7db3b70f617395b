"""The Java side: a few classes that ship as source and are compiled by the compiler that Spark brings along.

They lean on Spark's internals, so they are only used with a version of Spark that they are known to work with.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from indextables.errors import ConfigError
from indextables.spark.java_sources import make_bridge

KNOWN_SPARK = ("4.3.",)
enabled_sessions: weakref.WeakSet[SparkSession] = weakref.WeakSet()
_bridges: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def is_classic(spark: Any) -> bool:
    """Whether a session drives a JVM of its own, and is not one of Spark Connect."""
    return isinstance(spark, SparkSession) and hasattr(spark, "_jsparkSession")


def is_known(spark: Any) -> bool:
    """Whether the Java side works with this version of Spark."""
    return str(spark.version).startswith(KNOWN_SPARK)


def bridge(spark: SparkSession) -> Any:
    """The object through which Python speaks to our Java classes; they are compiled once a JVM."""
    if not is_classic(spark):
        raise ConfigError(
            "cannot use Spark's own Parquet scan over Spark Connect",
            hint="`indextables.read(spark, url, ...)` works there",
        )
    known = gateway(spark)
    with _lock:
        if known not in _bridges:
            _bridges[known] = make_bridge(known.jvm)
            ensure_callback_server_started(known)  # type: ignore[no-untyped-call]
        return _bridges[known]


def has_bridge(spark: SparkSession) -> bool:
    """Whether our Java classes are in the JVM of a classic session."""
    return gateway(spark) in _bridges


def gateway(spark: SparkSession) -> Any:
    """The way to the JVM of a classic session."""
    return spark.sparkContext._gateway
