"""A tour of search: scores, snippets, counts, aggregations, and a search in the past.

    python examples/search_tour.py

It creates a table in a temporary directory, which is removed at the end. It needs no server and no Spark.
"""

from __future__ import annotations

import datetime as dt
import functools
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

import indextables as it

NUM_ROWS = 20_000
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("level", pa.string()),
        ("message", pa.string()),
        ("ms", pa.int64()),
        ("day", pa.date32()),
    ]
)
MESSAGES = (
    ("INFO", "request served from cache"),
    ("INFO", "user login accepted"),
    ("WARN", "slow answer of the upstream gateway"),
    ("ERROR", "connection timeout, upstream gateway did not answer"),
    ("ERROR", "disk full, cannot write the journal"),
)
WEIGHTS = (50, 30, 15, 4, 1)

_Answer = TypeVar("_Answer")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="search-tour-") as directory:
        Tour(Path(directory) / "logs").run()
    return 0


class Tour:
    """The steps, in order."""

    def __init__(self, directory: Path) -> None:
        self.console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
        self.directory = directory
        self.options = {"cache.disk.path": str(directory.parent / "cache")}
        self.table = it.Table.create(
            directory,
            SCHEMA,
            partition_by=("day",),
            indexing={"message": "text"},
            properties={"spark.indextables.indexing.fastfields": "level,ms,ts,day"},
            options=self.options,
        )

    def run(self) -> None:
        self.write()
        self.search()
        self.count()
        self.aggregate()
        self.travel()
        self.read_as_parquet()

    def write(self) -> None:
        self.station(f"Append {NUM_ROWS:,} log lines, partitioned by day")
        self.timed("appended", lambda: self.table.append(log_lines()))
        self.show(self.table.files().select(["path", "num_records", "size"]))

    def search(self) -> None:
        self.station("The best hits, with the found words")
        snippet = it.Snippet("message", before="[", after="]")
        query = '"upstream gateway" AND (timeout OR slow^0.5)'
        found = self.timed(
            query,
            lambda: self.table.search(query, columns=["ts", "level"], limit=3, score=True, snippet=snippet),
        )
        self.show(found)
        self.station("A query finds rows by their words, a predicate decides on their values")
        found = self.timed(
            "timeout, where ms >= 1990, the slowest first",
            lambda: self.table.search(
                "timeout", where="ms >= 1990", columns=["ts", "ms", "message"], order_by="ms", descending=True, limit=3
            ),
        )
        self.show(found)

    def count(self) -> None:
        self.station("Counts come from the index; no row is read")
        for query in ("timeout", "timeout AND NOT upstream", "gate*", "tiemout~", "ms:[0 TO 9]"):
            self.timed(f"{query}: ", functools.partial(self.table.count, query), shown=True)

    def aggregate(self) -> None:
        self.station("Aggregations")
        self.show(self.timed("levels", lambda: self.table.aggregate("level")))
        self.show(
            self.timed("errors a day", lambda: self.table.date_histogram("ts", interval="1d", query="level:ERROR"))
        )
        self.show(self.timed("milliseconds of timeouts", lambda: self.table.stats("ms", query="timeout")))

    def travel(self) -> None:
        self.station("Overwrite everything, and search the past")
        calm = pa.Table.from_pylist([{"ts": START, "level": "INFO", "message": "all is calm", "day": START.date()}])
        version = self.timed("overwrote", lambda: self.table.overwrite(calm))
        before = it.Table.open(self.directory, version=version - 1, options=self.options)
        self.say(f"version {version}: {self.table.count('timeout'):,} timeouts of {self.table.count():,} rows")
        self.say(f"version {before.version}: {before.count('timeout'):,} timeouts of {before.count():,} rows")

    def read_as_parquet(self) -> None:
        self.station("A split is a Parquet file")
        (path,) = self.table.files()["path"].to_pylist()
        self.say(f"pyarrow reads {path}:")
        self.show(pq.read_table(self.directory / path, partitioning=None).select(["ts", "message"]))

    def station(self, title: str) -> None:
        self.console.print()
        self.console.rule(Text(title, style="bold"), align="left")

    def say(self, text: str, style: str = "") -> None:
        self.console.print(Text(text, style=style))

    def show(self, table: pa.Table) -> None:
        shown = RichTable(*table.column_names)
        for row in table.to_pylist():
            shown.add_row(*(Text(f"{cell:.3f}" if isinstance(cell, float) else str(cell)) for cell in row.values()))
        self.console.print(shown)

    def timed(self, done: str, work: Callable[[], _Answer], *, shown: bool = False) -> _Answer:
        started = time.perf_counter()
        answer = work()
        took = f"({(time.perf_counter() - started) * 1000:.1f} ms)"
        self.say(f"{done}{answer:,} {took}" if shown else f"{done} {took}", style="cyan")
        return answer


def log_lines() -> pa.Table:
    """Return lines over three days, the same at every run."""
    chance = random.Random(1)  # noqa: S311 - the same lines at every run, no secret
    rows = []
    for number in range(NUM_ROWS):
        level, message = chance.choices(MESSAGES, WEIGHTS)[0]
        moment = START + number * dt.timedelta(days=3) / NUM_ROWS
        text = f"{message} (request {number})"
        rows.append(
            {"ts": moment, "level": level, "message": text, "ms": chance.randrange(2_000), "day": moment.date()}
        )
    return pa.Table.from_pylist(rows, schema=SCHEMA)


if __name__ == "__main__":
    sys.exit(main())
