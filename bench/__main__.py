"""`python -m bench [names...]`: measure beside other libraries, and print the ratios."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import click
import rich.console

from bench.harness import QUICK, Figure, Say, Setting, Sizes

_SPARK_NAMES = (
    "spark-write",
    "spark-scan",
    "spark-search",
    "spark-sql",
    "spark-plain",
    "spark-load",
    "spark-stream",
    "spark-start",
)
NAMES = (
    "commits",
    "open",
    "refresh",
    "cold",
    "second",
    "start",
    "partition",
    "state",
    "versions",
    "formats",
    "parallel",
    "growth",
    "manifests",
    "index",
    "ingest",
    "search",
    "rows",
    "many-splits",
    "repeated",
    "predicates",
    "aggregate",
    "cold-split",
    "rare-term",
    "far-splits",
    "filters",
    "cold-parts",
    "merge",
    "purge",
    *_SPARK_NAMES,
)
_SHARED = "shared"


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@click.option("--quick", is_flag=True, help="Small numbers, to see that everything runs; the figures mean nothing.")
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds of every benchmark.")
@click.option("--rows", type=click.IntRange(min=1_000), help="Log rows that are indexed, ingested and searched.")
@click.option("--spark-rows", type=click.IntRange(min=1_000), help="Rows that Spark writes, scans and searches.")
@click.option("--cold-rows", type=click.IntRange(min=1_000), help="Rows of the table that is searched in parts.")
@click.option("--splits", type=click.IntRange(min=4), help="Splits of tables with many of them.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Also write the figures to this file.")
@click.option("--plot", "plot_path", type=click.Path(path_type=Path), help="Draw the curves of `growth` as SVG.")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Work in this directory and keep it.")
def main(
    names: tuple[str, ...],
    quick: bool,
    rounds: int | None,
    rows: int | None,
    spark_rows: int | None,
    cold_rows: int | None,
    splits: int | None,
    json_path: Path | None,
    plot_path: Path | None,
    keep: Path | None,
) -> None:
    """Measure indextables beside others: its log beside delta-rs and pyiceberg, its search beside Lance, SQLite and
    DuckDB, its tables on Spark beside plain Parquet. All benchmarks, or those named."""
    names = tuple(dict.fromkeys(names or NAMES))
    _check_installed("deltalake", "pyiceberg", "lance", "duckdb", *(["matplotlib"] if plot_path else []))
    if _uses_spark(names):
        _check_installed("pyspark", extra="spark")
    if plot_path is not None and "growth" not in names:
        raise click.UsageError("`--plot` draws what `growth` measures: name it too")
    sizes = QUICK if quick else Sizes()
    if rounds is not None:
        sizes = dataclasses.replace(sizes, num_rounds=rounds, num_slow_rounds=rounds)
    if rows is not None:
        sizes = dataclasses.replace(sizes, num_rows=rows)
    if spark_rows is not None:
        sizes = dataclasses.replace(sizes, num_spark_rows=spark_rows)
    if cold_rows is not None:
        sizes = dataclasses.replace(sizes, num_cold_rows=cold_rows)
    if splits is not None:
        sizes = dataclasses.replace(sizes, num_splits=splits)
    progress = rich.console.Console(stderr=True)
    directory = keep or Path(tempfile.mkdtemp(prefix="indextables-bench-"))
    try:
        with progress.status("starting") as status:
            facts, figures = _run(names, directory, sizes, status.update)
    finally:
        if keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    _report(facts, figures, json_path, plot_path)


def _uses_spark(names: tuple[str, ...]) -> bool:
    return not set(_SPARK_NAMES).isdisjoint(names)


def _check_installed(*modules: str, extra: str = "bench") -> None:
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise click.ClickException(f"{module} is not installed: run `pip install 'indextables[{extra}]'`")


def _run(names: tuple[str, ...], directory: Path, sizes: Sizes, say: Say) -> tuple[dict[str, object], list[Figure]]:
    from bench import report

    runs = {
        **({} if set(names) <= set(_SPARK_NAMES) else _runs()),
        **(_spark_runs() if _uses_spark(names) else {}),
    }
    shared = directory / _SHARED
    shared.mkdir(parents=True, exist_ok=True)
    facts = report.environment(directory, with_spark=_uses_spark(names))
    figures: list[Figure] = []
    with contextlib.ExitStack() as at_end:
        for name in names:
            place = directory / name
            place.mkdir()
            figures.extend(runs[name](Setting(place, shared, sizes, _named(name, say), at_end)))
    return facts, figures


def _runs() -> Mapping[str, Callable[[Setting], list[Figure]]]:
    from bench import (
        aggregating,
        cold_parts,
        cold_split,
        commits,
        far_splits,
        filters,
        formats,
        found_rows,
        growth,
        indexing,
        ingesting,
        listing,
        manifests,
        many_splits,
        merging,
        opening,
        parallel,
        partition,
        predicates,
        purging,
        rare_term,
        refresh,
        repeated,
        searching,
        starting,
        states,
        versions,
    )

    return {
        "commits": commits.run,
        "open": opening.run,
        "refresh": refresh.run,
        "cold": listing.run_cold,
        "second": listing.run_second,
        "start": starting.run,
        "partition": partition.run,
        "state": states.run,
        "versions": versions.run,
        "formats": formats.run,
        "parallel": parallel.run,
        "growth": growth.run,
        "manifests": manifests.run,
        "index": indexing.run,
        "ingest": ingesting.run,
        "search": searching.run,
        "rows": found_rows.run,
        "many-splits": many_splits.run,
        "repeated": repeated.run,
        "predicates": predicates.run,
        "aggregate": aggregating.run,
        "cold-split": cold_split.run,
        "rare-term": rare_term.run,
        "far-splits": far_splits.run,
        "filters": filters.run,
        "cold-parts": cold_parts.run,
        "merge": merging.run,
        "purge": purging.run,
    }


def _spark_runs() -> Mapping[str, Callable[[Setting], list[Figure]]]:
    """Apart from the others, since these import PySpark."""
    from bench import (
        spark_load,
        spark_plain,
        spark_scan,
        spark_search,
        spark_sql,
        spark_start,
        spark_stream,
        spark_write,
    )

    return {
        "spark-write": spark_write.run,
        "spark-scan": spark_scan.run,
        "spark-search": spark_search.run,
        "spark-sql": spark_sql.run,
        "spark-plain": spark_plain.run,
        "spark-load": spark_load.run,
        "spark-stream": spark_stream.run,
        "spark-start": spark_start.run,
    }


def _named(name: str, say: Say) -> Say:
    return lambda what: say(f"{name}: {what}")


def _report(facts: dict[str, object], figures: list[Figure], json_path: Path | None, plot_path: Path | None) -> None:
    from bench import report

    width = None if sys.stdout.isatty() else 240
    report.show(rich.console.Console(width=width), facts, figures)
    if json_path is not None:
        json_path.write_text(json.dumps(report.as_json(facts, figures), indent=2) + "\n")
    if plot_path is not None:
        from bench import growth, plot

        plot.draw(growth.series_of(figures), plot_path)


if __name__ == "__main__":
    main()
