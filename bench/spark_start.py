"""`spark-start`: a new process, its session and its first query, beside a plain session with one Python function.

Each sample is a process of its own, from its start to the answer of its query. A first run of each side fills the
caches of byte code and of compiled Java classes; one of our sides runs without a cache, and so compiles the classes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import indextables as it
from bench.harness import Figure, Goal, Setting, Side, alternate

_PLAIN = "plain PySpark, one Python function"
_LOAD, _SEARCH = "session and first load", "session and first search"
_COMPILED = f"{_LOAD}, classes compiled"
_ANSWERED = "answered"
_SESSION = "import indextables as it; spark = it.spark.session(config={settings!r}); "


def run(setting: Setting) -> list[Figure]:
    table = setting.directory / "table"
    it.write(table, [{"id": 1, "message": "disk full"}], text=["message"])
    sides = {name: _side(program, setting.directory) for name, program in _programs(table).items()}
    setting.say("a first run of each")
    for side in sides.values():
        side(0)
    times = alternate(sides, setting.sizes.num_rounds, setting.say)
    goals = {_LOAD: Goal(max_ratio=1.2), _SEARCH: Goal(max_ratio=1.2), _COMPILED: Goal()}
    return [
        Figure(f"spark-start: {name}", times[name], times[_PLAIN], goal, yardstick=_PLAIN)
        for name, goal in goals.items()
    ]


def _programs(table: Path) -> dict[str, str]:
    load = f"rows = spark.read.format('indextables').load({str(table)!r}).collect(); assert rows[0].id == 1"
    search = f"rows = it.read(spark, {str(table)!r}, search='disk').collect(); assert rows[0].id == 1"
    compiled: Mapping[str, str] = {"spark.indextables.cache.disk.enabled": "false"}
    return {
        _PLAIN: (
            "import sys, os; os.environ['PYSPARK_PYTHON'] = sys.executable; "
            "from pyspark.sql import SparkSession, functions; "
            "spark = SparkSession.builder.master('local[*]').config('spark.ui.enabled', 'false').getOrCreate(); "
            "plus = functions.udf(lambda number: number + 1, 'long'); "
            "rows = spark.range(1).select(plus('id').alias('id')).collect(); assert rows[0].id == 1"
        ),
        _LOAD: _SESSION.format(settings={}) + load,
        _SEARCH: _SESSION.format(settings={}) + search,
        _COMPILED: _SESSION.format(settings=compiled) + load,
    }


def _side(program: str, directory: Path) -> Side:
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "PYTHONPYCACHEPREFIX": str(directory / "byte-code"),
        "XDG_CACHE_HOME": str(directory / "cache"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [sys.executable, "-c", f"{program}; print({_ANSWERED!r}, flush=True); spark.stop()"]

    def measure(_: int) -> list[float]:
        """The end of a process is waited for, and not counted."""
        with open(directory / "errors.txt", "wb") as errors:
            started = time.perf_counter()
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, env=environment, cwd=directory, text=True
            ) as process:
                said = process.stdout.readline() if process.stdout is not None else ""
                elapsed_ms = (time.perf_counter() - started) * 1000
        if said.strip() != _ANSWERED or process.returncode != 0:
            raise RuntimeError((directory / "errors.txt").read_text(errors="replace"))
        return [elapsed_ms]

    return measure
