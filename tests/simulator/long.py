"""The simulator for as long as one likes: `python -m tests.simulator.long --minutes 10 --seed 1 --json`.

One process per core tries random casts, faults and seeds: histories of the log, of rows with tiny splits and with real
ones, and slices of the exhaustive mode within wider bounds than the suite has. Progress goes to stderr; at the end one
JSON object (or, without `--json`, a line for each of its entries) goes to stdout. The exit code is 1 where anything was
violated. A violation names what shows it again: `python -m tests.simulator.long --again rows/together/often/1234`.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import queue
import random
import sys
import time
from collections import Counter
from typing import Any

import msgspec
from tests.simulator import log_histories, row_histories
from tests.simulator.exhaustive import Exploration, Explored
from tests.simulator.maintenance import Diary
from tests.simulator.meetings import PAIRS, TRIPLES
from tests.simulator.world import World, lineage

_LOG_CASTS = ("contention", "mixed", "cleaned", "truncated", "checkpointed", "bereft")
_ROW_CASTS = ("together", "streamed", "watched", "swept", "crowded", "undone", "aged", "daily", "alone")
_FAULTS = {"none": {}, "rarely": row_histories.RARELY, "often": row_histories.OFTEN}
_LOG_FAULTS = {**_FAULTS, "stale": {**row_histories.OFTEN, **log_histories.STALE}}
# How often each world is chosen, by what a history of it costs.
_WORLDS = {"rows": 60, "log": 30, "splits": 4, "schedules": 6}
_RUNS_AT_ONCE = 200
_SECONDS_BETWEEN_REPORTS = 5.0
_SECONDS_BETWEEN_LINES = 30.0
_SECONDS_TO_END = 120.0
_BOUNDS = ((0, 2), (1, 1), (0, None), (1, 2), (1, None))


class Tally(msgspec.Struct):
    """What was done, and what went wrong."""

    histories: int = 0
    schedules: int = 0
    runs_of_schedules: int = 0
    store_calls: int = 0
    versions_committed: int = 0
    rows_written: int = 0
    rows_lost: int = 0
    faults_injected: Counter[str] = msgspec.field(default_factory=Counter)
    operations: Counter[str] = msgspec.field(default_factory=Counter)
    explored: dict[str, str] = msgspec.field(default_factory=dict)
    violations: list[dict[str, str]] = msgspec.field(default_factory=list)

    def add(self, other: Tally) -> None:
        for name in self.__struct_fields__:
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, dict) and not isinstance(mine, Counter):
                mine.update(theirs)
            else:
                setattr(self, name, mine + theirs)


class Worker:
    """One process: does this and that until its time is over, and tells every few seconds what it did."""

    def __init__(self, seed: int, number: int, num_workers: int, told: Any) -> None:
        self._random = random.Random(f"{seed} {number}")
        self._told = told
        self._tally = Tally()
        scenarios = [*PAIRS.items(), *TRIPLES.items()]
        self._waiting = [(name, scenario, bounds) for bounds in _BOUNDS for name, scenario in scenarios]
        self._waiting = self._waiting[number::num_workers]
        self._exploration: tuple[str, Exploration, Explored | None] | None = None

    def run(self, seconds: float) -> None:
        ends_at = time.monotonic() + seconds
        tells_at = time.monotonic() + _SECONDS_BETWEEN_REPORTS
        while time.monotonic() < ends_at:
            world = self._random.choices([*_WORLDS], [*_WORLDS.values()])[0]
            if world == "schedules":
                self._explore()
            else:
                self._simulate(world)
            if time.monotonic() >= tells_at:
                self._tell()
                tells_at = time.monotonic() + _SECONDS_BETWEEN_REPORTS
        self._tell()

    def _tell(self) -> None:
        self._told.put(msgspec.structs.asdict(self._tally))
        self._tally = Tally()

    def _simulate(self, world: str) -> None:
        casts, faults = (_LOG_CASTS, _LOG_FAULTS) if world == "log" else (_ROW_CASTS, _FAULTS)
        choice = self._random.choice
        name = f"{world}/{choice(casts)}/{choice([*faults])}/{self._random.randrange(10**9)}"
        try:
            lived, diary = run_history(name)
        except Exception as error:  # a history that ends in any other way is no less a finding
            self._violated(name, error)
            return
        self._tally.histories += 1
        self._tally.store_calls += lived.num_calls
        self._tally.versions_committed += len(lineage(lived)) - 1
        self._tally.faults_injected += lived.injected
        if isinstance(diary, Diary):
            self._tally.rows_written += sum(len(entry.ids) for entry in diary.written if entry.told == "acknowledged")
            self._tally.operations += diary.done
        entries = diary.written if isinstance(diary, Diary) else diary.done
        self._tally.operations += Counter(f"{entry.kind}: {entry.told.partition(':')[0]}" for entry in entries)

    def _explore(self) -> None:
        """A slice of one exploration, and then of the next."""
        if self._exploration is None:
            if not self._waiting:
                return
            name, scenario, (max_faults, bound) = self._waiting.pop(0)
            label = f"{name}; {max_faults} faults; {'no bound' if bound is None else f'{bound} preemptions'}"
            self._exploration = (label, Exploration(scenario, max_faults=max_faults, max_preemptions=bound), None)
        label, exploration, before = self._exploration
        try:
            found = exploration.run((before.runs if before else 0) + _RUNS_AT_ONCE)
        except Exception as error:
            self._violated(f"schedules/{label}", error)
            self._exploration = None
            return
        self._tally.runs_of_schedules += found.runs - (before.runs if before else 0)
        self._tally.schedules += found.schedules - (before.schedules if before else 0)
        self._tally.store_calls += found.calls - (before.calls if before else 0)
        state = "complete" if found.is_complete else "cut off"
        self._tally.explored[label] = f"{state}: {found.schedules} schedules, {found.states} states, {found.runs} runs"
        self._exploration = None if found.is_complete else (label, exploration, found)

    def _violated(self, name: str, error: Exception) -> None:
        message = str(error)
        self._tally.violations.append({"name": name, "kind": type(error).__name__, "message": message[:2000]})
        self._tally.rows_lost += any(word in message for word in ("has lost rows", "is nowhere"))


def run_history(name: str) -> tuple[World, Any]:
    """One history by its name: world, cast, faults and seed."""
    world, cast, faults, seed = name.split("/")
    if world == "log":
        return log_histories.simulate(int(seed), getattr(log_histories, cast), _LOG_FAULTS[faults])
    return row_histories.simulate(int(seed), getattr(row_histories, cast), _FAULTS[faults], tiny=world == "rows")


def _work(seed: int, number: int, num_workers: int, seconds: float, told: Any) -> None:
    logging.disable(logging.CRITICAL)
    Worker(seed, number, num_workers, told).run(seconds)
    told.put(None)


def run_long(seed: int, seconds: float, num_processes: int) -> dict[str, Any]:
    """Let all cores work for a while, and sum up what they tell."""
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    processes = [
        context.Process(target=_work, args=(seed, number, num_processes, seconds, told), daemon=True)
        for number in range(num_processes)
    ]
    started = time.monotonic()
    for process in processes:
        process.start()
    tally = _collect(told, num_processes, started, started + seconds + _SECONDS_TO_END)
    for process in processes:
        process.join(_SECONDS_BETWEEN_REPORTS)
        if process.is_alive():
            process.kill()
    return {"seed": seed, "seconds": round(time.monotonic() - started, 1), **msgspec.to_builtins(tally)}


def _collect(told: Any, num_running: int, started: float, ends_at: float) -> Tally:
    tally = Tally()
    line_at = started + _SECONDS_BETWEEN_LINES
    while num_running and time.monotonic() < ends_at:
        try:
            message = told.get(timeout=1.0)
        except queue.Empty:
            message = {}
        if message is None:
            num_running -= 1
        elif message:
            tally.add(Tally(**message))
        if time.monotonic() >= line_at:
            line_at += _SECONDS_BETWEEN_LINES
            done = f"{tally.histories} histories, {tally.runs_of_schedules} runs of schedules"
            print(f"{time.monotonic() - started:.0f} s: {done}, {len(tally.violations)} violations", file=sys.stderr)
    if num_running:
        tally.violations.append({"name": "a process", "kind": "hang", "message": f"{num_running} did not end in time"})
    return tally


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.long", description="The simulator, for long.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    parser.add_argument("--again", help="one history by its name, with its trace where it fails")
    options = parser.parse_args(arguments)
    if options.again:
        run_history(options.again)
        print(f"{options.again}: fine")
        return 0
    found = run_long(options.seed, options.minutes * 60, options.processes)
    if options.json:
        print(json.dumps(found))
    else:
        print("\n".join(f"{name}: {value}" for name, value in found.items()))
    return 1 if found["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
