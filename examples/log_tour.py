"""A tour of the transaction log: concurrent writers, a conflict, a merge, time travel.

    python examples/log_tour.py [DIRECTORY]

It creates a table in DIRECTORY, `.demo/log-tour` by default, and keeps it for inspection. It removes the table of an
earlier tour first; it does not start if DIRECTORY holds anything else.
"""

from __future__ import annotations

import multiprocessing
import os
import shlex
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

import indextables as it

NAME = "log-tour"
NUM_WRITERS = 4
COMMITS_PER_WRITER = 5
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")
RECORDS_PER_FILE = 1_000
PAUSE_SECONDS = 0.02
START_TIMEOUT_SECONDS = 120
SCHEMA = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("message", pa.string()), ("date", pa.string())])

_Answer = TypeVar("_Answer")


class Commit(NamedTuple):
    """Result of one commit of a writer."""

    version: int
    duration_ms: float


class Work(NamedTuple):
    """Work of one writer."""

    process_id: int
    commits: list[Commit]


def main(arguments: Sequence[str]) -> int:
    if len(arguments) > 1:
        print("usage: log_tour.py [DIRECTORY]", file=sys.stderr)
        return 2
    directory = Path(arguments[0] if arguments else os.path.join(".demo", NAME))
    refusal = make_room(directory)
    if refusal is not None:
        print(f"error: {refusal}", file=sys.stderr)
        return 1
    Tour(directory).run()
    return 0


def make_room(directory: Path) -> str | None:
    """Remove the table of an earlier tour, or return the reason why that is not possible."""
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return None
    try:
        name = it.TransactionLog(directory).metadata().name
    except it.errors.IndexTablesError:
        name = None
    if name != NAME:
        return f"`{directory}` exists, and is not the table of an earlier tour; name another directory"
    shutil.rmtree(directory)
    return None


class Tour:
    """The steps, in order."""

    def __init__(self, directory: Path) -> None:
        self.url = str(directory)
        self.console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)

    def run(self) -> None:
        self.say(
            "The files named in this tour do not exist. It only shows the log, and commits entries for them;"
            " the search tour writes real ones.",
            style="yellow",
        )
        self.create()
        self.write_concurrently()
        self.conflict()
        self.replace()
        self.skip()
        self.travel()
        self.history()
        self.farewell()

    def create(self) -> None:
        self.station("Create a table, partitioned by date")
        table = self.timed("created", lambda: it.Table.create(self.url, SCHEMA, partition_by=("date",), name=NAME))
        self.say(f"It is at version {table.version}: a protocol and a schema, no files yet.")

    def write_concurrently(self) -> None:
        self.station(f"Append from {NUM_WRITERS} processes at once, {COMMITS_PER_WRITER} commits each")
        works = commit_from_processes(self.url)
        rows = [
            (
                writer,
                work.process_id,
                ", ".join(str(commit.version) for commit in work.commits),
                f"{statistics.median(commit.duration_ms for commit in work.commits):.1f} ms",
                f"{max(commit.duration_ms for commit in work.commits):.1f} ms",
            )
            for writer, work in enumerate(works)
        ]
        self.show(("writer", "process", "versions", "median", "slowest"), rows)
        table = it.Table.open(self.url)
        versions = sorted(commit.version for work in works for commit in work.commits)
        if versions != list(range(1, table.version + 1)):
            raise AssertionError(f"expected every version to have one writer, but the writers won {versions}")
        self.say(
            f"Every version has exactly one writer and nothing is lost: {table.num_files} files,"
            f" {table.num_records:,} records at version {table.version}."
        )

    def conflict(self) -> None:
        self.station("Overwrite, but only if no other writer was faster")
        log = it.TransactionLog(self.url)
        seen = log.snapshot().version
        self.timed(f"read version {seen}; meanwhile another writer appends", lambda: append(self.url, "late"))
        fresh = [new_file(day, f"rewritten-{part}") for day in DAYS for part in range(2)]
        try:
            log.overwrite_files(fresh, if_version=seen)
        except it.errors.CommitConflictError as error:
            self.say(f"refused: {error}", style="red")
        else:
            raise AssertionError("the overwrite should have met the other writer's version")
        newest = log.snapshot().version
        self.timed(f"overwrote with if_version={newest}", lambda: log.overwrite_files(fresh, if_version=newest))

    def replace(self) -> None:
        self.station("Replace two files by one with the same rows, as a merge does")
        log = it.TransactionLog(self.url)
        sources = [new_file(DAYS[0], f"rewritten-{part}") for part in range(2)]
        merged = new_file(DAYS[0], "merged", num_records=sum(source.num_records or 0 for source in sources))
        before = log.snapshot()
        self.timed("replaced", lambda: log.replace_files([source.path for source in sources], [merged]))
        after = log.snapshot()
        self.show(
            ("", "version", "files", "records"),
            [
                ("before", before.version, before.num_files, f"{before.num_records:,}"),
                ("after", after.version, after.num_files, f"{after.num_records:,}"),
            ],
        )

    def skip(self) -> None:
        self.station("Note a file that a merge could not read")
        log = it.TransactionLog(self.url)
        path = new_file(DAYS[1], "rewritten-0").path
        self.timed("noted", lambda: log.record_skipped_file(path, reason="footer cannot be read", cooldown_hours=24))
        self.say(f"{path} stays part of the table; merges skip it: {log.is_in_cooldown(path)}.")

    def travel(self) -> None:
        self.station("Travel in time")
        newest = it.Table.open(self.url).version
        rows = []
        for version in (0, 1, NUM_WRITERS * COMMITS_PER_WRITER, newest - 2, newest):
            started = time.perf_counter()
            table = it.Table.open(self.url, version=version)
            duration_ms = (time.perf_counter() - started) * 1000
            rows.append((version, table.num_files, f"{table.num_records:,}", f"{duration_ms:.1f} ms"))
        self.show(("version", "files", "records", "opened in"), rows)

    def history(self) -> None:
        self.station("The newest entries of the history")
        history = it.Table.open(self.url).history(limit=6)
        rows = [
            (row["version"], row["operation"], f"+{row['files_added']} -{row['files_removed']}", row["engine"])
            for row in history.to_pylist()
        ]
        self.show(("version", "operation", "files", "engine"), rows)

    def farewell(self) -> None:
        self.station("Your turn")
        self.say(f"The table is in {self.url}. Inspect it with:")
        program, place = shlex.quote(program_path()), shlex.quote(self.url)
        for command in (
            f"files {place}",
            f"files {place} --version 3 --json",
            f"history {place} --limit 5",
            f"log {place} --version {it.Table.open(self.url).version - 1}",
        ):
            self.console.print(Text(f"  {program} {command}", style="green"), soft_wrap=True)

    def station(self, title: str) -> None:
        self.console.print()
        self.console.rule(Text(title, style="bold"), align="left")

    def say(self, text: str, style: str = "") -> None:
        self.console.print(Text(text, style=style))

    def show(self, titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        shown = RichTable(*titles)
        for row in rows:
            shown.add_row(*(Text(str(cell)) for cell in row))
        self.console.print(shown)

    def timed(self, done: str, work: Callable[[], _Answer]) -> _Answer:
        started = time.perf_counter()
        answer = work()
        self.say(f"{done} ({(time.perf_counter() - started) * 1000:.1f} ms)", style="cyan")
        return answer


def commit_from_processes(url: str) -> list[Work]:
    """Let new processes commit to the table, all at the same time."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(NUM_WRITERS)
    receivers = []
    processes = []
    for writer in range(NUM_WRITERS):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=write, args=(url, writer, barrier, sender))
        process.start()
        sender.close()
        receivers.append(receiver)
        processes.append(process)
    works = [receiver.recv() for receiver in receivers]
    for process in processes:
        process.join()
    return works


def write(url: str, writer: int, barrier: Barrier, sender: Connection) -> None:
    """Run one writer, in its own process."""
    log = it.TransactionLog(url)
    barrier.wait(START_TIMEOUT_SECONDS)
    commits = []
    for number in range(COMMITS_PER_WRITER):
        time.sleep(PAUSE_SECONDS)  # a real writer would write its data here
        adds = [new_file(day, f"w{writer}-{number}") for day in DAYS]
        started = time.perf_counter()
        version = log.add_files(adds)
        commits.append(Commit(version, (time.perf_counter() - started) * 1000))
    sender.send(Work(os.getpid(), commits))
    sender.close()


def append(url: str, name: str) -> int:
    """Commit one file through a new handle, as another program would."""
    return it.TransactionLog(url).add_files([new_file(DAYS[0], name)])


def new_file(day: str, name: str, num_records: int = RECORDS_PER_FILE) -> it.actions.Add:
    """Return the log's entry of a file; the file does not exist."""
    return it.actions.Add(
        path=f"date={day}/splits/split-{name}.split",
        partition_values={"date": day},
        size=64 * num_records,
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        num_records=num_records,
    )


def program_path() -> str:
    """Return the command's name if the shell finds it, else its path."""
    if shutil.which("indextables"):
        return "indextables"
    program = Path(sys.executable).parent / "indextables"
    return str(program.relative_to(Path.cwd()) if program.is_relative_to(Path.cwd()) else program)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
