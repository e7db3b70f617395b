"""`cold-split`: opening a table of one large split and asking it for the first time, with an empty index cache.

Each measurement is a new process and a cache directory of its own, so that nothing is kept but the operating system's
pages. One more finds the index in the cache, and compares its checksums, as the first use in a process does. Starting
Python and importing the library are not counted. How the time is made up is measured in processes of their own, which
take the same steps one by one.
"""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import indextables as it
from bench.first_queries import count_first, search_first, take_steps
from bench.harness import Figure, Goal, Setting, Unit, alternate
from bench.log_places import BYTES_PER_MB, split_bytes
from bench.log_rows import WordSearch, log_rows, searches
from bench.processes import in_new_process, ms_in_new_process
from bench.search_peers import build_ours, our_query

_GOAL = Goal(below_ms=150)
_SPARE = 1.03


def run(setting: Setting) -> list[Figure]:
    path = setting.directory / "table"
    rare = _build(path, setting)
    query = our_query(rare)
    in_new_process(search_first, path, setting.directory / "kept", query)
    caches = (setting.directory / f"cache-{number}" for number in itertools.count())
    times = alternate(
        {
            "search": lambda _: [ms_in_new_process(rare.num_hits, search_first, path, next(caches), query)],
            "again": lambda _: [
                ms_in_new_process(rare.num_hits, search_first, path, setting.directory / "kept", query)
            ],
            "count": lambda _: [ms_in_new_process(rare.num_hits, count_first, path, next(caches), query)],
        },
        setting.sizes.num_rounds,
        setting.say,
    )
    setting.say("step by step")
    taken = [in_new_process(take_steps, path, next(caches), query) for _ in range(setting.sizes.num_rounds)]
    size_mb = split_bytes(path) / BYTES_PER_MB
    return [
        Figure(f"cold-split: open and first search, {rare.name}", times["search"], [], _GOAL),
        Figure("cold-split: the same, its index in the cache", times["again"], [], Goal()),
        Figure("cold-split: open and first count", times["count"], [], _GOAL),
        *(Figure(f"cold-split: of it, {step}", [steps[step] for steps in taken], [], Goal()) for step in taken[0]),
        Figure("cold-split: size of the split", [size_mb], [], Goal(), unit=Unit.MB),
    ]


def _build(path: Path, setting: Setting) -> WordSearch:
    """One split of the size asked for, or little more. Gives the search for the rarest of its words."""
    wanted = setting.sizes.cold_split_mb * BYTES_PER_MB
    num_rows = setting.sizes.num_rows
    while True:
        setting.say(f"building a split of {num_rows} rows")
        build_ours(path, log_rows(num_rows))
        found = split_bytes(path)
        if found >= wanted:
            break
        shutil.rmtree(path)
        num_rows = int(num_rows * wanted / found * _SPARE)
    num_files = it.Table.open(path).num_files
    if num_files != 1:
        raise AssertionError(f"{num_files} splits were written where one was wanted")
    return searches(num_rows)[0]
