"""Local sessions: `session()` finds Java, sets defaults, enables IndexTables.

The caller's settings come first, then `PYSPARK_SUBMIT_ARGS`, then `spark-defaults.conf`, then the defaults here. The
defaults depend on the cores and the memory of this process, which a container may limit. The process's environment is
restored after a session has started.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import importlib
import itertools
import os
import re
import shlex
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

from indextables.runtime.scratch import directory_until_exit
from indextables.spark.jvm.java_runtime import java_home_for_spark
from indextables.spark.sessions.progress import NotebookProgress, notebook_shell

# The memory limit of a container: control groups version 2, then version 1.
_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def num_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """Return the memory of the machine or, if smaller, of this process's container."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([installed, *(limit for path in _MEMORY_LIMITS if (limit := _limit(path)) is not None)])


def _limit(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            text = file.read().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


_LINE = re.compile(r"\s*(spark\.[^\s=:]+)(?:\s*[=:]\s*|\s+)(.*?)\s*$")
_NAMED_OPTIONS = {
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--driver-memory": "spark.driver.memory",
    "--remote": "spark.remote",
}
_CONF_OPTIONS = ("--conf", "-c")


def settings_from_elsewhere() -> dict[str, str]:
    """Return the settings that Spark gets from outside of the program."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()
        return dict(SparkConf().getAll())
    return {**_defaults_file(), **_submit_arguments()}


def conf_directory() -> Path:
    """Return the directory of `spark-defaults.conf` and the settings of Spark's log."""
    return Path(os.environ.get("SPARK_CONF_DIR") or os.path.join(_find_spark_home(), "conf"))


def _defaults_file() -> dict[str, str]:
    path = conf_directory() / "spark-defaults.conf"
    if not path.is_file():
        return {}
    matches = map(_LINE.match, path.read_text(encoding="utf-8").splitlines())
    return {match[1]: match[2] for match in matches if match is not None}


def _submit_arguments() -> dict[str, str]:
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    settings: dict[str, str] = {}
    for option, value in _options(words):
        if option in _NAMED_OPTIONS:
            settings[_NAMED_OPTIONS[option]] = value
        elif option in _CONF_OPTIONS and "=" in value:
            key, _, text = value.partition("=")
            settings[key] = text
    return settings


def _options(words: list[str]) -> list[tuple[str, str]]:
    """Return each option with its value.

    The value is the next word, or the text after the first `=`.
    """
    apart = itertools.pairwise(words)
    together = (tuple(word.split("=", 1)) for word in words if word.startswith("--") and "=" in word)
    return [(option, value) for option, value in [*apart, *together] if option.startswith("-")]


APP_NAME = "indextables"
_PROGRESS = "spark.ui.showConsoleProgress"
_WAREHOUSE = "spark.sql.warehouse.dir"
_REDACTED = "spark.redaction.regex"
# Spark's own pattern, and the names of keys for Azure and Google.
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

_ENABLING = "indextables.spark.sessions.enabling"

_starting = threading.RLock()


def session(
    *,
    master: str | None = None,
    app_name: str = APP_NAME,
    config: Mapping[str, object] | None = None,
    enable: bool = True,
    progress: bool | None = None,
) -> SparkSession:
    """Return the running session of this process, or start a local one.

    On a running session, `config` is applied as far as possible, and a warning names the rest. A Spark Connect session,
    running or named by `SPARK_REMOTE`, is used unchanged: its server holds the defaults, and nothing can be enabled.
    `progress` shows a bar while a query runs: by default in a notebook, and on the standard error stream if it is a
    terminal.
    """
    asked = _asked(master, app_name, config, progress)
    with _starting:
        spark = _running()
        if spark is None:
            with _imported_meanwhile(_ENABLING if enable else None):
                spark = _start(asked)
            if progress is not False:
                _show_progress_in_notebook(spark)
        else:
            _apply(spark, asked)
        if enable and isinstance(spark, SparkSession):
            from indextables.spark.sessions.enabling import enable as enable_on

            enable_on(spark)
    return spark


def _asked(
    master: str | None, app_name: str, config: Mapping[str, object] | None, progress: bool | None
) -> dict[str, str]:
    """Return the caller's arguments as settings of Spark, without defaults and None."""
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
    """Return the session to share; a thread without one shares the process's session."""
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
    if key.startswith("spark.hadoop."):  # a running session accepts it, and never reads it
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
    """Return the defaults that `known` does not set.

    For every session: times in UTC, Arrow, secrets redacted. For a local session also: ports closed to other machines,
    no files in the working directory.
    """
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
    # Tables of a Hive catalog outlive the process, so Hive's own settings choose their location.
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
    """Return a quarter of the machine's memory, up to the largest sensible heap.

    Python's workers and the page cache need the rest.
    """
    return min(max(memory_bytes() // 4, _GIB), 16 * _GIB)


@functools.cache
def _warehouse() -> str:
    """Return a directory for managed tables, deleted at the end of the process.

    Spark's catalog forgets these tables at the end of the process, too.
    """
    return directory_until_exit()


@contextlib.contextmanager
def _environment(known: Mapping[str, str]) -> Iterator[None]:
    """Set the environment variables that Spark reads while it starts.

    Java keeps a copy and passes it to Python's workers.
    """
    python = known.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
    wanted = {
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": known.get("spark.pyspark.driver.python", sys.executable),
        # Without it, the launcher asks the driver's Python for it, and fails if that path contains a space.
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
    """Return whether this start launches a Java process.

    It launches none if one runs already or the server is remote.
    """
    remote = known.get("spark.remote", os.environ.get("SPARK_REMOTE", "local"))
    return SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ and _is_local(remote)


@contextlib.contextmanager
def _imported_meanwhile(module: str | None) -> Iterator[None]:
    """Import a module while this thread waits for Java to start.

    If the import fails, the next import of the module raises the error.
    """
    if module is None:
        yield
        return
    importing = concurrent.futures.ThreadPoolExecutor(max_workers=1)
    try:
        importing.submit(importlib.import_module, module)
        yield
    finally:
        importing.shutdown()


@contextlib.contextmanager
def _without_word_of_pandas() -> Iterator[None]:
    """Suppress PySpark's warning about a new pandas at the start.

    PySpark repeats the warning when pandas is used.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield
