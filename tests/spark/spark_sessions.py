"""Spark sessions for tests: quick to start, on this machine alone, and gone without a trace."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import pytest
from tests.spark.jobs import quick_settings
from tests.spark_runs import NO_SPARK, can_run_spark

CONNECT = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
}
"""A Connect server inside the session's own Java process, at a port that is free."""


@contextlib.contextmanager
def spark_session(place: str, *, cores: int = 1, settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A classic session, whose Java process ends with the block. One that runs already is lent as it is."""
    if not can_run_spark():
        pytest.skip(NO_SPARK)
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        with lent_session() as session:
            yield session
        return
    session = _start(place, cores, settings or {})
    try:
        yield session
    finally:
        gateway = session.sparkContext._gateway
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=60)
        SparkContext._gateway = SparkContext._jvm = None


@contextlib.contextmanager
def lent_session() -> Iterator[Any]:
    """The session that runs already; whoever started it ends it."""
    from pyspark.sql import SparkSession

    yield SparkSession.builder.getOrCreate()


@contextlib.contextmanager
def connect_session(spark: Any) -> Iterator[Any]:
    """A Connect session with the server inside a classic session that was started with `CONNECT`."""
    missing = [name for name in ("grpc", "grpc_status", "google.protobuf") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"Spark Connect needs {', '.join(missing)}, which is not installed")
    service = getattr(spark._jvm.org.apache.spark.sql.connect.service, "SparkConnectService$")
    port = getattr(service, "MODULE$").localPort()
    with _any_pandas():
        from pyspark.sql.connect.session import SparkSession

        session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
    try:
        yield session
    finally:
        session.stop()


def _start(place: str, cores: int, settings: Mapping[str, str]) -> Any:
    from pyspark.sql import SparkSession

    from indextables.spark.jvm.java_runtime import java_home_for_spark

    quick = quick_settings(place) | {
        "spark.sql.warehouse.dir": os.path.join(place, "warehouse"),
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "OFF",
    }
    environment = {
        "JAVA_HOME": java_home_for_spark(),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with mock.patch.dict(os.environ, environment), _any_pandas():
        builder = SparkSession.builder.master(f"local[{cores}]").appName("tests")
        return builder.config(map={**quick, **settings}).getOrCreate()


@contextlib.contextmanager
def _any_pandas() -> Iterator[None]:
    """Spark warns of a pandas that is newer than itself, which no test here uses."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield
