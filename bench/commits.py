"""`commits`: single-add commits, one after the other, to one local table.

A handle of delta-rs that stays open gets slower with every commit, also with its checkpoints; opened anew for each
commit it is several times faster. Both are measured, and so is delta-rs opened anew with a checkpoint every ten
commits, so that our figure also stands beside the fastest way to use delta-rs that we found. The long-lived handle
takes minutes and is measured in fewer rounds.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path

import deltalake

import indextables as it
from bench import tables
from bench.harness import Figure, Goal, Setting, alternate, timed_ms

_GOAL = Goal(max_ratio=0.5)
_FREQUENT_CHECKPOINTS = 10


def run(setting: Setting) -> list[Figure]:
    sizes = setting.sizes
    count = sizes.num_commits
    ways: dict[str, Callable[[Path], float]] = {
        "ours, one handle": lambda path: _ours(path, count),
        "delta-rs, opened anew": lambda path: _theirs_reopened(path, count, None),
        "delta-rs, opened anew, checkpoint every 10": lambda path: _theirs_reopened(path, count, _FREQUENT_CHECKPOINTS),
        "ours, opened anew": lambda path: _ours_reopened(path, count),
    }
    times = alternate(
        {name: functools.partial(_in_new_place, setting, way) for name, way in ways.items()},
        sizes.num_rounds,
        setting.say,
    )
    slow = alternate(
        {
            "ours, one handle": functools.partial(_in_new_place, setting, ways["ours, one handle"]),
            "delta-rs, one handle": functools.partial(_in_new_place, setting, lambda path: _theirs(path, count)),
        },
        min(sizes.num_rounds, sizes.num_slow_rounds),
        setting.say,
    )
    ours = times["ours, one handle"]
    anew = times["delta-rs, opened anew"]
    tuned = times["delta-rs, opened anew, checkpoint every 10"]
    return [
        Figure(f"commits: {count} through one handle", slow["ours, one handle"], slow["delta-rs, one handle"], _GOAL),
        Figure(f"commits: {count}, delta-rs opened anew for each", ours, anew, _GOAL),
        Figure(f"commits: {count}, delta-rs opened anew, checkpoint every 10", ours, tuned, _GOAL),
        Figure(f"commits: {count}, both opened anew for each", times["ours, opened anew"], anew, Goal()),
    ]


def _in_new_place(setting: Setting, way: Callable[[Path], float], _: int) -> list[float]:
    path = setting.directory / "table"
    try:
        return [way(path)]
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _ours(path: Path, count: int) -> float:
    log = tables.create_ours(path)

    def commit_all() -> None:
        for number in range(count):
            log.add_files([tables.our_add(number)])
        log.wait_for_checkpoint()

    return _checked(timed_ms(commit_all), tables.num_files_ours(path), count)


def _ours_reopened(path: Path, count: int) -> float:
    tables.create_ours(path)

    def commit_all() -> None:
        for number in range(count):
            log = it.TransactionLog(path)
            log.add_files([tables.our_add(number)])
            log.wait_for_checkpoint()

    return _checked(timed_ms(commit_all), tables.num_files_ours(path), count)


def _theirs(path: Path, count: int) -> float:
    table = tables.create_theirs(path)

    def commit_all() -> None:
        for number in range(count):
            tables.commit_theirs(table, number)

    return _checked(timed_ms(commit_all), tables.num_files_theirs(path), count)


def _theirs_reopened(path: Path, count: int, checkpoint_interval: int | None) -> float:
    tables.create_theirs(path, checkpoint_interval=checkpoint_interval)

    def commit_all() -> None:
        for number in range(count):
            tables.commit_theirs(deltalake.DeltaTable(str(path)), number)

    return _checked(timed_ms(commit_all), tables.num_files_theirs(path), count)


def _checked(elapsed_ms: float, num_files: int, expected: int) -> float:
    if num_files != expected:
        raise AssertionError(f"the table lists {num_files} files after {expected} commits")
    return elapsed_ms
