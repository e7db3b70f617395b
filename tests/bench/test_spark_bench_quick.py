"""The benchmarks on Spark run, find what they should, and end their session."""

from __future__ import annotations

import importlib.util
import json
import os

import click
import pytest
from bench.__main__ import NAMES, _check_installed
from tests.bench.bench_runs import check_figures, left_behind, run_bench

from indextables.errors import ConfigError
from indextables.spark.jvm.java_runtime import find_java

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
# Not imported here: Lance warns of every fork from then on, and this process runs other tests, too.
_MISSING = [name for name in ("deltalake", "pyiceberg", "lance", "duckdb") if importlib.util.find_spec(name) is None]
if _MISSING:
    pytest.skip(f"the benchmarks need {_MISSING[0]}: install `indextables[bench]`", allow_module_level=True)


pytestmark = pytest.mark.slow

_PLAIN = "Spark, plain Parquet"
_WHOLE = "ours, with the index"
_LIKE = "Spark, LIKE over all rows as Parquet"
_ALL_PARTITIONS = "spark-search: 10 of 3000 rows in all partitions"
_ONE_PARTITION = "spark-search: 10 of 3000 rows in one named partition"
_LOADS = (
    "Table.to_spark",
    "Table.to_spark, no local cache",
    'format("indextables")',
    'format("indextables"), no local cache',
)
_WITH_CALLS = (
    *("equality on a unique id", "count(*) with a search", "GROUP BY a keyword", "GROUP BY a keyword with a search"),
    "a search with LIMIT 10",
)
_WITHOUT_CALLS = ("equality on a service", "count(*)", "LIMIT 10", "a filter that half of the rows match")
_FIGURES = [
    ("spark-write: 3000 rows by day", _PLAIN),
    ("spark-write: 3000 rows by day, messages as one term", _PLAIN),
    ("spark-write: 3000 rows by day, without an index", _PLAIN),
    ("spark-write: 3000 rows by day, without an index", _WHOLE),
    ("spark-write: 3000 rows by day, size", _PLAIN),
    ("spark-write: 3000 rows by day, size without an index", _WHOLE),
    ("spark-scan: 3000 rows, loaded and grouped by service", _PLAIN),
    (_ALL_PARTITIONS, _LIKE),
    (f"{_ALL_PARTITIONS}, empty cache", _LIKE),
    (f"{_ALL_PARTITIONS}, session not enabled", _LIKE),
    (_ONE_PARTITION, _LIKE),
    (_ONE_PARTITION, "Spark, LIKE over that day as Parquet"),
    *(
        (f"spark-sql: 10 of 3000 rows, {name}", "indextables.read")
        for name in ("TEXTSEARCH on a table of the catalog", "TEXTSEARCH on a view", "indextables_table")
    ),
    *((f"spark-plain: 3000 rows, {name}", "Spark, the same over Parquet") for name in (*_WITH_CALLS, *_WITHOUT_CALLS)),
    *((f"spark-plain: 3000 rows, {name}", "ours, direct call") for name in _WITH_CALLS),
    *((f"spark-load: 300 splits, {load}{what}", None) for load in _LOADS for what in ("", ", one partition planned")),
    ("spark-stream: 6000 rows a minute, work for as many rows", None),
    ("spark-stream: 6000 rows a minute, a batch every 1000 ms", None),
    ("spark-stream: 6000 rows a minute, the slowest batch", None),
    *(
        (f"spark-start: session and first {what}", "plain PySpark, one Python function")
        for what in ("load", "search", "load, classes compiled")
    ),
]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return tmp_path_factory.mktemp("out"), tmp_path_factory.mktemp("temporary")


@pytest.fixture(scope="module")
def quick_run(places):
    try:
        find_java()
    except ConfigError as error:
        pytest.skip(f"Spark needs Java: {error.message}")
    out, temporary = places
    names = [name for name in NAMES if name.startswith("spark-")]
    done = run_bench(*names, "--quick", "--json", str(out / "figures.json"), temporary=temporary)
    assert done.returncode == 0, done.stderr
    return done, json.loads((out / "figures.json").read_text())


def test_every_figure_has_its_sides_and_a_ratio(quick_run):
    _, report = quick_run
    check_figures(report, _FIGURES)


def test_an_index_takes_room(quick_run):
    _, report = quick_run
    whole, without_index = (figure["ratio"] for figure in report["figures"] if figure["unit"] == "MB")
    assert without_index < 1 < whole


def test_the_environment_names_spark(quick_run):
    done, report = quick_run
    assert report["environment"]["pyspark"] == pyspark.__version__
    assert f"PySpark {pyspark.__version__}" in done.stdout


def test_nothing_is_left_behind(quick_run, places):
    assert left_behind(places[1]) == []


def test_pyspark_is_imported_for_benchmarks_on_spark_alone(tmp_path):
    broken = tmp_path / "modules" / "pyspark"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text('raise RuntimeError("PySpark is imported")')
    path = os.pathsep.join([str(broken.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    without, with_spark = (
        run_bench(name, "--quick", temporary=tmp_path, environment={"PYTHONPATH": path})
        for name in ("formats", "spark-load")
    )
    assert without.returncode == 0, without.stderr
    assert "RuntimeError: PySpark is imported" in with_spark.stderr


def test_a_missing_pyspark_is_named_with_what_installs_it():
    with pytest.raises(click.ClickException, match=r"nothing_of_the_sort.*indextables\[spark\]"):
        _check_installed("nothing_of_the_sort", extra="spark")
