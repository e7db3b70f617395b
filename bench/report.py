"""What a run says: a table for people, and JSON."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sqlite3
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rich.box
import rich.console
import rich.table

import indextables as it
from bench.harness import Figure, Unit, calls_text, timed_ms

_NUM_SYNCS = 50


def environment(directory: Path, *, with_spark: bool) -> dict[str, Any]:
    """What the figures depend on; nothing that names this machine."""
    spark = {"pyspark": importlib.metadata.version("pyspark")} if with_spark else {}
    infino = {"infino": importlib.metadata.version("infino")} if importlib.util.find_spec("infino") else {}
    return {
        "python": platform.python_version(),
        "indextables": it.__version__,
        "deltalake": importlib.metadata.version("deltalake"),
        "pyiceberg": importlib.metadata.version("pyiceberg"),
        "pylance": importlib.metadata.version("pylance"),
        "duckdb": importlib.metadata.version("duckdb"),
        **infino,
        "sqlite": sqlite3.sqlite_version,
        **spark,
        "num_cores": os.cpu_count(),
        "fsync_median_ms": _fsync_median_ms(directory),
    }


def as_json(facts: dict[str, Any], figures: Sequence[Figure]) -> dict[str, Any]:
    return {"environment": facts, "figures": [figure.as_json() for figure in figures]}


def show(console: rich.console.Console, facts: dict[str, Any], figures: Sequence[Figure]) -> None:
    table = rich.table.Table(box=rich.box.SIMPLE_HEAD)
    for heading in ("figure", "indextables", "beside", "its figure", "ratio", "samples", "store calls", "goal", "met"):
        table.add_column(heading, justify="right" if heading in _NUMBERS else "left")
    for figure in figures:
        theirs, ratio = figure.theirs_median, figure.ratio
        table.add_row(
            figure.name,
            _amount(figure.ours_median, figure.unit),
            "" if theirs is None else figure.yardstick,
            "" if theirs is None else _amount(theirs, figure.unit),
            "" if ratio is None else f"{ratio:.3f}",
            f"{len(figure.ours)}/{len(figure.theirs)}",
            "" if figure.store_calls is None else calls_text(figure.store_calls),
            str(figure.goal),
            _verdict(figure.met),
        )
    console.print(table)
    spark = f", PySpark {facts['pyspark']}" if "pyspark" in facts else ""
    infino = f", infino {facts['infino']}" if "infino" in facts else ""
    console.print(
        f"medians; Python {facts['python']}, indextables {facts['indextables']}, deltalake {facts['deltalake']}, "
        f"pyiceberg {facts['pyiceberg']}, pylance {facts['pylance']}, duckdb {facts['duckdb']}, "
        f"SQLite {facts['sqlite']}{infino}{spark}, {facts['num_cores']} cores, "
        f"one fsync {facts['fsync_median_ms']:.2f} ms",
        highlight=False,
    )


_NUMBERS = frozenset({"indextables", "its figure", "ratio", "samples"})


def _amount(value: float, unit: Unit) -> str:
    if unit is Unit.MS and value >= 1000:
        return f"{value / 1000:.2f} s"
    return f"{value:.2f} {unit.value}"


def _verdict(met: bool | None) -> str:
    if met is None:
        return "-"
    return "met" if met else "not met"


def _fsync_median_ms(directory: Path) -> float:
    """What syncing a small write costs here: our commits pay it, those of delta-rs do not."""
    times = []
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(_NUM_SYNCS):
            file.write(b"x" * 300)
            file.flush()
            times.append(timed_ms(lambda: os.fsync(file.fileno())))
    return statistics.median(times)
