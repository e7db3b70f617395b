"""The steps of the demo: write logs with Spark, search, aggregate, travel in time.

The demo checks its results: a count that differs from the planted rows, or from Spark's own scan of the rows, is an
error. The table stays, and the demo ends with further commands to try. It never removes files that it did not create.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import logging
import os
import re
import shlex
import shutil
import signal
import statistics
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from indextables.config.resolve import PREFIX
from indextables.demo.report import Report, duration, timed
from indextables.demo.sample_logs import FIRST_DAY, NUM_DAYS, SCHEMA, Needle, SampleLogs, needles
from indextables.demo.sample_logs import NAME as SAMPLE
from indextables.errors import ConfigError, IndexTablesError
from indextables.location import parse_location
from indextables.protocol.names import LOG_DIRECTORY
from indextables.spark.options.source_options import NAME as FORMAT
from indextables.spark.scan.reading import read
from indextables.spark.sessions.local import session
from indextables.table import Table
from indextables.transaction_log import TransactionLog

NAME = "indextables demo"
"""The name of the table, by which a later demo recognises a table that it may replace."""


def make_room(place: str) -> str:
    """Return an empty directory for the table, removing an earlier demo.

    `ConfigError` if it holds anything else.
    """
    location = parse_location(place)
    if location.family != "file":
        raise ConfigError(
            f"cannot put the demo at `{location.url}` because its table must be on this machine",
            hint="name a directory, as in `indextables demo /tmp/logs`",
        )
    path = location.path
    if not os.path.lexists(path) or _holds_no_file(path):
        return path
    if not _is_of_demo(path):
        raise ConfigError(
            f"cannot put the demo at `{path}` because it holds files that no demo has created",
            hint="name another directory, as in `indextables demo /tmp/logs`",
        )
    # The log last: until it is deleted, the rest is recognised as a demo's.
    for name in sorted(os.listdir(path), key=lambda name: name == LOG_DIRECTORY):
        shutil.rmtree(os.path.join(path, name))
    return path


def _holds_no_file(path: str) -> bool:
    """Return whether a directory holds only directories.

    Such a directory may have been created for the demo.
    """
    return os.path.isdir(path) and not any(files for _, _, files in os.walk(path))


def _is_of_demo(path: str) -> bool:
    if os.path.islink(path) or not os.path.isdir(path):
        return False
    with os.scandir(path) as entries:
        if not all(entry.is_dir(follow_symlinks=False) and _is_name_of_demo(entry.name) for entry in entries):
            return False
    try:
        return TransactionLog(path).metadata().name == NAME
    except IndexTablesError:
        return False


def _is_name_of_demo(name: str) -> bool:
    return name == LOG_DIRECTORY or name.startswith("day=")


_FAST = "spark.indextables.indexing.fastfields"
_PRUNED = re.compile(r"\d+ of \d+ splits of version \d+")
_RUNS = 3
_MIB = 1 << 20


def run(place: str, *, num_rows: int, options: Mapping[str, str] | None = None) -> None:
    """Run the demo with about `num_rows` rows.

    The table of an earlier demo at the same place is replaced.
    """
    report = Report()
    path = make_room(place)
    _, seconds = timed(lambda: _show(report, path, -(-num_rows // NUM_DAYS) * NUM_DAYS, options or {}))
    report.say(f"\nThe demo took {duration(seconds)}.")


def _show(report: Report, path: str, num_rows: int, options: Mapping[str, str]) -> None:
    report.title(f"IndexTables: {num_rows:,} log rows of {NUM_DAYS} days, with Spark")
    with _spark(report, options) as spark:
        demo = _Demo(report, spark, path, num_rows, options)
        demo.write()
        demo.search()
        demo.compare()
        demo.scan()
        demo.search_in_sql()
        demo.aggregate()
        demo.travel()
        demo.look_inside()
    demo.farewell()


@contextlib.contextmanager
def _spark(report: Report, options: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield a session; stop it at the end if the demo has started it."""
    is_own = SparkSession.getActiveSession() is None
    settings = {key if key.startswith(PREFIX) else PREFIX + key: value for key, value in options.items()}
    with report.busy("starting Spark"):
        spark, seconds = timed(lambda: session(config=settings, progress=False))
    report.say(f"Spark {spark.version} started on this machine ({duration(seconds)})", style="cyan")
    if not is_own:
        yield spark
        return
    with _quiet_interrupts():
        try:
            yield spark
        except KeyboardInterrupt:
            spark.sparkContext.setLogLevel("OFF")  # running jobs fail when Spark stops; their errors say nothing
            raise
        finally:
            spark.stop()


@contextlib.contextmanager
def _quiet_interrupts() -> Iterator[None]:
    """Let Ctrl-C end the demo without tracebacks.

    PySpark's own handler calls Java during another call to Java and fails, and py4j logs both to the root logger.
    """
    root, nothing = logging.getLogger(), logging.NullHandler()
    root.addHandler(nothing)
    try:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    finally:
        root.removeHandler(nothing)


class _Comparison(NamedTuple):
    """A search, the equivalent scan, and the number of rows if it is known."""

    search: str
    like: str
    num_rows: int | None


class _Demo:
    """The steps, in order."""

    def __init__(
        self, report: Report, spark: SparkSession, path: str, num_rows: int, options: Mapping[str, str]
    ) -> None:
        self.report = report
        self.spark = spark
        self.path = path
        self.num_rows = num_rows
        self.needles = needles(num_rows, NUM_DAYS)
        self.rare, self.one_day, self.phrase = (self.needles[name] for name in ("everywhere", "one_day", "phrase"))
        self.table = Table.create(
            path,
            SCHEMA,
            partition_by=("day",),
            indexing={"message": "text"},
            properties={_FAST: "ts,level,service,status,latency_ms"},
            name=NAME,
            options=options,
        )

    def write(self) -> None:
        """Append the rows of each day."""
        self.report.title("Write: partitioned by day, one append a day, the message as searchable text")
        self.report.code(
            'df.write.format("indextables").mode("append").partitionBy("day")',
            '  .option("indexing.message", "text").save(path)',
        )
        self.spark.dataSource.register(SampleLogs)
        rows = []
        with self.report.progress(NUM_DAYS) as begin:
            for number in range(NUM_DAYS):
                day = FIRST_DAY + datetime.timedelta(days=number)
                begin(f"appending {day}")
                rows.append(self._written(number, day))
        titles = (("version", True), ("day", False), ("rows", True), ("splits", True), ("size", True), ("took", True))
        self.report.table(titles, rows)
        self.report.say("The first append waits for Spark's Python workers to start. A split is a Parquet file.")
        self._check("the rows of the table", self.table.num_records, self.num_rows)

    def _written(self, number: int, day: datetime.date) -> list[str]:
        _, seconds = timed(lambda: self._append(number))
        files = self.table.refresh().files(where=f"day = '{day}'")
        return [
            str(self.table.version),
            str(day),
            f"{sum(files['num_records'].to_pylist()):,}",
            str(files.num_rows),
            f"{sum(files['size'].to_pylist()) / _MIB:.1f} MiB",
            duration(seconds),
        ]

    def _append(self, day: int) -> None:
        frame = self.spark.read.format(SAMPLE).option("rows", self.num_rows).option("day", day).load()
        writer = frame.write.format(FORMAT).mode("append").partitionBy("day")
        writer.option("indexing.message", "text").save(self.path)

    def search(self) -> None:
        """Show the best hits, with highlighted words."""
        self.report.title("Search: words, phrases, columns; the best hits first, found words marked")
        self.report.code(f'it.read(spark, path, search="{self.rare.query}", score=True, snippet="message")')
        found = self._found(self.rare.query, columns=["ts"], score=True, snippet="message")
        self._check(f"hits of {self.rare.query}", found.num_rows, self.rare.num_rows)
        best = found.sort_by([("_score", "descending"), ("ts", "ascending")]).slice(0, 3)
        self.report.rows(best.select(["_score", "ts", "_snippet"]))
        query = f"({self.rare.query} OR {self.one_day.query}) AND level:ERROR AND NOT blocked"
        where = f"day = '{self.one_day.day}'"
        self.report.code(f'it.read(spark, path, where="{where}",', f'  search="{query}")')
        found = self._found(query, where=where, columns=["ts", "service", "message"])
        self._check(f"hits of {query}", found.num_rows, self.one_day.num_rows)
        self.report.rows(found.sort_by("ts").slice(0, 2))
        self.report.say(
            f"{found.num_rows} rows. The index finds words and values, and only the matching rows are read."
        )

    def compare(self) -> None:
        """Time each search against a scan of every message, from the load to the rows."""
        self.report.title("Beside LIKE: the same rows, found by reading every message")
        comparisons = [
            *(_Comparison(needle.query, f"message LIKE '{needle.like}'", needle.num_rows) for needle in self._needles),
            _Comparison(
                '"failed password" AND user:ada.li', "message LIKE '%failed password%' AND user = 'ada.li'", None
            ),
        ]
        with self.report.busy("comparing"):
            rows = [self._compared(comparison) for comparison in comparisons]
        titles = [("search", False), *((name, True) for name in ("rows", "search", "LIKE", "ratio", "without Spark"))]
        self.report.table(titles, rows)
        self.report.say(
            f"Medians of {_RUNS} runs, the rows fetched. A scan takes longer with every row, a search with every hit:"
            " the ratio grows with the table."
        )

    @property
    def _needles(self) -> tuple[Needle, ...]:
        return self.rare, self.one_day, self.phrase

    def _compared(self, comparison: _Comparison) -> list[str]:
        columns = ["ts", "host", "message"]
        found, search_seconds = _median(lambda: self._found(comparison.search, columns=columns))
        liked, like_seconds = _median(lambda: self._load().where(comparison.like).select(*columns).toArrow())
        alone, alone_seconds = _median(lambda: self.table.search(comparison.search, columns=columns))
        self._check(f"rows that a scan finds for {comparison.search}", liked.num_rows, found.num_rows)
        self._check(f"rows that Python finds for {comparison.search}", alone.num_rows, found.num_rows)
        if comparison.num_rows is not None:
            self._check(f"hits of {comparison.search}", found.num_rows, comparison.num_rows)
        return [
            comparison.search,
            f"{found.num_rows:,}",
            duration(search_seconds),
            duration(like_seconds),
            f"{like_seconds / search_seconds:.1f} x",
            duration(alone_seconds),
        ]

    def scan(self) -> None:
        """Show that plain queries are Spark's own Parquet scan."""
        self.report.title("Spark SQL: without a search, Spark scans the splits as Parquet")
        logs = self._load()
        logs.createOrReplaceTempView("logs")
        query = (
            "SELECT service, count(*) AS errors, avg(latency_ms) AS mean_ms",
            "FROM logs WHERE level = 'ERROR'",
            "GROUP BY service ORDER BY errors DESC, service LIMIT 5",
        )
        self.report.code(*query)
        self.report.rows(self.report.timed("answered", lambda: self.spark.sql("\n".join(query)).toArrow()))
        pruned = _PRUNED.search(_plan(logs.where(f"day = '{self.one_day.day}'")))
        if pruned is None:
            raise IndexTablesError("cannot finish the demo because EXPLAIN does not show how many splits are read")
        self.report.say(f"EXPLAIN of WHERE day = '{self.one_day.day}' shows the remaining splits: {pruned[0]}.")

    def search_in_sql(self) -> None:
        """Search by an operator of SQL, next to joins, groups and other conditions."""
        self.report.title("Search in SQL: an operator that the index decides, next to everything else in SQL")
        query = (
            "SELECT service, count(*) AS hits, round(max(score), 2) AS best",
            "FROM (SELECT service, score() AS score FROM logs",
            f"      WHERE message TEXTSEARCH '{self.rare.query}')",
            "GROUP BY service ORDER BY hits DESC, service",
        )
        self.report.code(*query)
        found = self.report.timed("answered", lambda: self.spark.sql("\n".join(query)).toArrow())
        self._check(f"hits of {self.rare.query}", sum(found["hits"].to_pylist()), self.rare.num_rows)
        self.report.rows(found)
        versions = "DESCRIBE INDEXTABLES HISTORY logs LIMIT 2"
        self.report.code(versions)
        self.report.rows(self.spark.sql(versions).select("version", "operation", "records_added").toArrow())

    def aggregate(self) -> None:
        """Count by the index, without Spark."""
        self.report.title("Aggregations by the index alone, without Spark")
        levels = self.report.timed('table.aggregate("level")', lambda: self.table.aggregate("level"))
        counts = dict(zip(levels["level"].to_pylist(), levels["count"].to_pylist(), strict=True))
        scanned = {row["level"]: row["count"] for row in self._load().groupBy("level").count().collect()}
        self._check("rows of each level", counts, scanned)
        self._bars("level", list(counts.items()))
        day = self.one_day.day
        query = f"level:ERROR AND day:{day}"
        errors = self.report.timed(
            f'table.date_histogram("ts", interval="2h", query="{query}")',
            lambda: self.table.date_histogram("ts", interval="2h", query=query),
        )
        num_errors = self._load().where(f"level = 'ERROR' AND day = '{day}'").count()
        self._check(f"errors of {day}", sum(errors["count"].to_pylist()), num_errors)
        self._bars("from", [(f"{row['ts']:%H:%M}", row["count"]) for row in errors.to_pylist()])

    def _bars(self, title: str, counts: list[tuple[str, int]]) -> None:
        greatest = max(count for _, count in counts)
        rows = [[name, f"{count:,}", self.report.bar(count, greatest)] for name, count in counts]
        self.report.table(((title, False), ("rows", True), ("", False)), rows)

    def travel(self) -> None:
        """Read earlier versions."""
        self.report.title("Time travel: every version is still there")
        self.report.code('spark.read.format("indextables").option("versionAsOf", 2).load(path)')
        rows = []
        for version in (1, 2, self.table.version):
            num_rows = self.spark.read.format(FORMAT).option("versionAsOf", version).load(self.path).count()
            hits = read(self.spark, self.path, search=self.one_day.query, version=version).count()
            self._check(f"rows of version {version}", num_rows, version * self.num_rows // NUM_DAYS)
            self._check(f"hits in version {version}", hits, self.one_day.num_rows if version > NUM_DAYS // 2 else 0)
            rows.append([str(version), f"{num_rows:,}", f"{hits:,}"])
        self.report.table((("version", True), ("rows", True), (f"hits of {self.one_day.query}", True)), rows)

    def look_inside(self) -> None:
        """Show a checkpoint, the history and the splits."""
        self.report.title("Inside: a checkpoint, the history, the splits")
        made = self.report.timed("table.checkpoint()", self.table.checkpoint)
        self.report.rows(made.select(["status", "checkpoint_version", "num_files", "num_actions"]))
        history = self.table.history()
        self._check("versions in the history", history.num_rows, NUM_DAYS + 1)
        columns = ["version", "timestamp", "operation", "files_added", "records_added"]
        self.report.rows(history.select(columns).slice(0, 3))
        self.report.rows(
            self.table.files().select(["path", "num_records"]).rename_columns(["path", "rows"]).slice(0, 2)
        )

    def farewell(self) -> None:
        """Print where the table is, and what to try next."""
        self.report.title("Your turn")
        self.report.say(f"The table stays in {self.path}. In a shell:")
        program, place = shlex.quote(_program()), shlex.quote(self.path)
        for command in (
            f"search {place} {shlex.quote(self.phrase.query)} --score --snippet message --limit 3",
            f"""count {place} 'time* AND level:ERROR' --where "day = '{self.one_day.day}'\"""",
            f"files {place}",
            f"history {place} --limit 3",
        ):
            self.report.code(f"  {program} {command}")
        self.report.say(f"In Python ({sys.executable}):")
        for line in (
            "import indextables as it",
            "spark = it.spark.session()",
            f"hits = it.read(spark, {self.path!r}, search={self.one_day.query!r}, score=True)",
            'hits.select("_score", "ts", "message").show(3, truncate=False)',
            f'spark.read.format("indextables").load({self.path!r}).createOrReplaceTempView("logs")',
            'spark.sql("SELECT day, level, count(*) FROM logs GROUP BY ALL ORDER BY ALL").show(30)',
        ):
            self.report.code(f"  {line}")

    def _load(self) -> DataFrame:
        return self.spark.read.format(FORMAT).load(self.path)

    def _found(self, query: str, **asked: object) -> pa.Table:
        return read(self.spark, self.path, search=query, **asked).toArrow()  # type: ignore[arg-type]

    def _check(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            raise IndexTablesError(f"cannot finish the demo because {what} are `{found}`, expected `{expected}`")


def _median(work: Callable[[], pa.Table]) -> tuple[pa.Table, float]:
    """Return the answer and its median time, after a first run that fills caches."""
    answer = work()
    return answer, statistics.median(timed(work)[1] for _ in range(_RUNS))


def _plan(frame: DataFrame) -> str:
    """Return the output of EXPLAIN."""
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        frame.explain()
    return shown.getvalue()


def _program() -> str:
    """Return the command's name if the shell finds it, else its path."""
    if shutil.which("indextables"):
        return "indextables"
    program = os.path.join(os.path.dirname(sys.executable), "indextables")
    inside = os.path.relpath(program)
    return program if inside.startswith(os.pardir) else inside
