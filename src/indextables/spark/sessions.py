"""Ready Spark sessions: `session()` finds Java, sets what a local session needs, and enables IndexTables on it.

What the caller gives wins; then `PYSPARK_SUBMIT_ARGS` and `spark-defaults.conf`; then the defaults here.
The process's environment is as before once a session has started.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.errors import AnalysisException
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from indextables.scratch import directory_until_exit
from indextables.spark.java_runtime import java_home_for_spark
from indextables.spark.machine import memory_bytes, num_cores
from indextables.spark.progress import NotebookProgress, notebook_shell
from indextables.spark.spark_settings import conf_directory, settings_from_elsewhere

APP_NAME = "indextables"
_PROGRESS = "spark.ui.showConsoleProgress"
_WAREHOUSE = "spark.sql.warehouse.dir"
_REDACTED = "spark.redaction.regex"
# Spark's own pattern, with the names that keys of Azure and Google have.
_SECRETS = "(?i)secret|password|token|(?:access|account|private)[._]?key|[._]sas[._]"
_ADDRESSES = ("spark.driver.host", "spark.driver.bindAddress")
_FIXED_AT_START_OF_JAVA = (
    "spark.driver.memory",
    "spark.driver.extraJavaOptions",
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
)
_LOG_SETTINGS = Path(__file__).resolve().with_name("log4j2.properties")
_GIB = 1 << 30

_starting = threading.RLock()


def session(
    *,
    master: str | None = None,
    app_name: str = APP_NAME,
    config: Mapping[str, object] | None = None,
    enable: bool = True,
    progress: bool | None = None,
) -> SparkSession:
    """The session that runs in this process, or a new local one.

    On a running session, what `config` asks for is set where it still can be, and a warning names the rest. A Spark
    Connect session, running or named by `SPARK_REMOTE`, is taken as it is: its server has the defaults, and there is
    nothing to enable. `progress` shows a bar while a query runs: by default in a notebook, and on the standard error
    stream where that is a terminal.
    """
    asked = _asked(master, app_name, config, progress)
    with _starting:
        spark = _running()
        if spark is None:
            spark = _start(asked)
            if progress is not False:
                _show_progress_in_notebook(spark)
        else:
            _apply(spark, asked)
        if enable and isinstance(spark, SparkSession):
            from indextables.spark.enabling import enable as enable_on

            enable_on(spark)
    return spark


def _asked(
    master: str | None, app_name: str, config: Mapping[str, object] | None, progress: bool | None
) -> dict[str, str]:
    """What the caller gave, as settings of Spark. A default and a value of None ask for nothing."""
    asked = {key: _text(value) for key, value in (config or {}).items() if value is not None}
    if master is not None:
        asked.setdefault("spark.master", master)
    if app_name != APP_NAME:
        asked.setdefault("spark.app.name", app_name)
    if progress is not None:
        asked.setdefault(_PROGRESS, _text(progress))
    return asked


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _running() -> SparkSession | None:
    """The session to share. A thread that has none of its own shares the process's."""
    active = SparkSession.getActiveSession()
    if active is None and not is_remote() and SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    return active


def _show_progress_in_notebook(spark: SparkSession) -> None:
    shell = notebook_shell()
    if shell is not None and isinstance(spark, SparkSession):
        NotebookProgress(shell, spark.sparkContext).install()


def _apply(spark: SparkSession, asked: Mapping[str, str]) -> None:
    refused = [
        key for key, value in asked.items() if spark.conf.get(key, None) != value and not _set(spark, key, value)
    ]
    if refused:
        warnings.warn(
            f"a Spark session is running already, so these settings are not applied: {', '.join(sorted(refused))}."
            " Stop it with `spark.stop()` first to apply them.",
            stacklevel=3,
        )


def _set(spark: SparkSession, key: str, value: str) -> bool:
    if key.startswith("spark.hadoop."):  # accepted by a running session, and then never looked at
        return False
    try:
        spark.conf.set(key, value)
    except AnalysisException:
        return False
    return True


def _start(asked: Mapping[str, str]) -> SparkSession:
    elsewhere = settings_from_elsewhere()
    known = {**elsewhere, **asked}
    defaults: dict[str, str] = {}
    if not _is_connect(known):
        _warn_of_late_settings(asked)
        settled = {*elsewhere, *(() if _launches_java(known) else _FIXED_AT_START_OF_JAVA)}
        defaults = {key: value for key, value in _defaults(known).items() if key not in settled}
    builder = SparkSession.builder
    for key, value in {**defaults, **asked}.items():
        builder = builder.config(key, value)
    with _environment(known), _without_word_of_pandas():
        return builder.getOrCreate()


def _is_connect(known: Mapping[str, str]) -> bool:
    mode = known.get("spark.api.mode", os.environ.get("SPARK_API_MODE", ""))
    return "SPARK_REMOTE" in os.environ or "spark.remote" in known or mode.lower() == "connect"


def _warn_of_late_settings(asked: Mapping[str, str]) -> None:
    if SparkContext._gateway is None:
        return
    in_force = SparkConf()
    late = [key for key in _FIXED_AT_START_OF_JAVA if key in asked and in_force.get(key) != asked[key]]
    if late:
        warnings.warn(
            f"Spark's Java process is running already, so these settings are not applied: {', '.join(late)}."
            " Start a new Python process to apply them.",
            stacklevel=4,
        )


def _defaults(known: Mapping[str, str]) -> dict[str, str]:
    """Everywhere: times in UTC, Arrow, and no secret is shown. On this machine alone: no port is open to others, no
    file in the way."""
    everywhere = {
        "spark.app.name": APP_NAME,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        _REDACTED: _SECRETS,
    }
    master = known.get("spark.master", "local[*]")
    if not _is_local(master):
        return everywhere
    local = {
        **everywhere,
        "spark.master": master,
        **dict.fromkeys(_ADDRESSES, "127.0.0.1"),
        "spark.ui.enabled": "false",
        _PROGRESS: _text(sys.stderr is not None and sys.stderr.isatty()),
        "spark.sql.shuffle.partitions": str(_parallelism(master)),
        "spark.driver.memory": f"{_driver_memory_bytes() >> 20}m",
    }
    if not any(conf_directory().glob("log4j2*")):
        local["spark.driver.defaultJavaOptions"] = f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}"
    # With Hive, tables outlive the process: where they go is for its own settings to say.
    if _WAREHOUSE not in known and known.get("spark.sql.catalogImplementation") != "hive":
        local[_WAREHOUSE] = _warehouse()
    return local


def _is_local(master: str) -> bool:
    return master.startswith("local")


def _parallelism(master: str) -> int:
    threads = re.match(r"local\[\s*(\d+)\s*[,\]]", master)
    if threads is not None:
        return int(threads[1])
    return 1 if master == "local" else num_cores()


def _driver_memory_bytes() -> int:
    """A quarter of the machine, since Python's workers and the page cache live beside it, up to a sane heap."""
    return min(max(memory_bytes() // 4, _GIB), 16 * _GIB)


@functools.cache
def _warehouse() -> str:
    """A directory for managed tables, which Spark forgets at the end of the process, and so do we."""
    return directory_until_exit()


@contextlib.contextmanager
def _environment(known: Mapping[str, str]) -> Iterator[None]:
    """What Spark reads from the environment while it starts. Java keeps a copy, and gives it to Python's workers."""
    python = known.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
    wanted = {
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": known.get("spark.pyspark.driver.python", sys.executable),
        # Without it the launcher runs the driver's Python to ask for it, and cannot where its path has a space.
        "SPARK_HOME": _find_spark_home(),
    }
    if _is_local(known.get("spark.master", "local")) and not any(key in known for key in _ADDRESSES):
        wanted["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
    if _launches_java(known):
        wanted["JAVA_HOME"] = java_home_for_spark()
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _launches_java(known: Mapping[str, str]) -> bool:
    """Whether this start brings up a Java process: not where one runs, nor for a server elsewhere."""
    remote = known.get("spark.remote", os.environ.get("SPARK_REMOTE", "local"))
    return SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ and _is_local(remote)


@contextlib.contextmanager
def _without_word_of_pandas() -> Iterator[None]:
    """PySpark warns of a new pandas while it starts, used or not. It says so again where pandas is used."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield
