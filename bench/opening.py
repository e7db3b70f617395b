"""`open`: opening a table of many versions without a checkpoint, and listing its files as Arrow.

Each measurement is a process of its own, so nothing is cached but the operating system's pages. Starting Python and
importing the library are not counted; everything the library does at its first call is.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
from collections.abc import Callable
from pathlib import Path

from bench import tables
from bench.harness import OURS, THEIRS, Figure, Goal, Setting, alternate, timed_ms

_GOAL = Goal(max_ratio=1.0)


def run(setting: Setting) -> list[Figure]:
    count = setting.sizes.num_versions_opened
    ours, theirs = setting.directory / "ours", setting.directory / "theirs"
    setting.say(f"writing logs of {count} versions")
    tables.build_ours(ours, count)
    tables.build_theirs(theirs, count)
    for num_files in (tables.num_files_ours(ours), tables.num_files_theirs(theirs)):
        if num_files != count:
            raise AssertionError(f"a table of {count} files lists {num_files}")
    times = alternate(
        {
            OURS: lambda _: [_in_new_process(tables.num_files_ours, ours)],
            THEIRS: lambda _: [_in_new_process(tables.num_files_theirs, theirs)],
        },
        setting.sizes.num_rounds,
        setting.say,
    )
    return [Figure(f"open: {count} versions, files as Arrow", times[OURS], times[THEIRS], _GOAL)]


def _in_new_process(list_files: Callable[[Path], int], path: Path) -> float:
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(max_workers=1, mp_context=context) as executor:
        return executor.submit(_measure, list_files, path).result()


def _measure(list_files: Callable[[Path], int], path: Path) -> float:
    return timed_ms(lambda: list_files(path))
