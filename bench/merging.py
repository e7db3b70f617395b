"""`merge`: splits of log rows merged into one, beside writing the same rows anew as one split.

Both sides end with a table of one split: ours by `merge_splits` on a copy of a table of many, which also compacts the
state, the other by one append. What the merged split costs later is measured too: its size, and the first count in it
with an empty index cache.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import indextables as it
from bench.harness import OURS, Figure, Goal, Setting, Unit, alternate, checked_count, timed_ms
from bench.log_places import BYTES_PER_MB, shared_rows
from bench.log_rows import SCHEMA, TEXT_COLUMN
from bench.our_files import with_cache
from indextables.maintain.merge.merge_plan import MergeLimits, plan_merge
from indextables.protocol.actions import Add
from indextables.protocol.file_table import AddedFile, files_table

_AGAIN = "indexing the rows again"
_OF_INDEXING = Goal(max_ratio=0.5)
_PLANNED_WITHIN = Goal(below_ms=1_000)
_QUERY = f"{TEXT_COLUMN}:timeout"

Counts = dict[str, list[float]]


def run(setting: Setting) -> list[Figure]:
    num_splits, num_rows = setting.sizes.num_splits_merged, setting.sizes.num_rows_merged
    rows = shared_rows(num_splits * num_rows)
    many = setting.directory / "many"
    _build(many, setting, rows)
    sizes: Counts = {}
    first_counts: Counts = {}
    sides = {OURS: functools.partial(_merge, many), _AGAIN: functools.partial(_write, rows)}
    times = alternate(
        {name: functools.partial(_measure, setting, name, side, sizes, first_counts) for name, side in sides.items()},
        setting.sizes.num_rounds,
        setting.say,
    )
    name = f"merge: {num_splits} splits of {num_rows} rows"
    return [
        Figure(name, times[OURS], times[_AGAIN], _OF_INDEXING, yardstick=_AGAIN),
        Figure(f"{name}, size", sizes[OURS], sizes[_AGAIN], Goal(), yardstick=_AGAIN, unit=Unit.MB),
        Figure(f"{name}, first count after it", first_counts[OURS], first_counts[_AGAIN], Goal(), yardstick=_AGAIN),
        Figure(f"{name}, planning {setting.sizes.num_files} files", _planning_times(setting), [], _PLANNED_WITHIN),
    ]


def _build(path: Path, setting: Setting, rows: pa.Table) -> None:
    table = it.Table.create(path, SCHEMA, indexing={TEXT_COLUMN: "text"})
    num_splits, num_rows = setting.sizes.num_splits_merged, setting.sizes.num_rows_merged
    for number in range(num_splits):
        setting.say(f"writing split {number + 1} of {num_splits}")
        table.append(rows.slice(number * num_rows, num_rows))
    checked_count(table.num_files, num_splits)


def _measure(
    setting: Setting, name: str, side: Callable[[Path], float], sizes: Counts, first_counts: Counts, number: int
) -> list[float]:
    path = setting.directory / "one"
    try:
        elapsed_ms = side(path)
        table = it.Table.open(path, options=with_cache(setting.directory / "cache" / name / str(number)))
        checked_count(table.num_files, 1)
        checked_count(table.num_records, setting.sizes.num_splits_merged * setting.sizes.num_rows_merged)
        sizes.setdefault(name, []).append(table.snapshot.total_bytes / BYTES_PER_MB)
        first_counts.setdefault(name, []).append(timed_ms(lambda: table.count(_QUERY)))
        return [elapsed_ms]
    finally:
        shutil.rmtree(path)


def _merge(many: Path, path: Path) -> float:
    shutil.copytree(many, path)
    table = it.Table.open(path)
    return timed_ms(table.merge_splits)


def _write(rows: pa.Table, path: Path) -> float:
    table = it.Table.create(path, SCHEMA, indexing={TEXT_COLUMN: "text"})
    return timed_ms(lambda: table.append(rows))


def _planning_times(setting: Setting) -> list[float]:
    """Small files of 100 partitions, all of which are to be merged."""
    entries = (_entry(number) for number in range(setting.sizes.num_files))
    files = files_table(entries)
    limits = MergeLimits(target_bytes=5 << 30, skip_share=0.45, max_sources=1_000)
    return [timed_ms(lambda: plan_merge(files, limits)) for _ in range(setting.sizes.num_rounds)]


def _entry(number: int) -> AddedFile:
    add = Add(
        path=f"day={number % 100}/splits/split-{number}.split",
        partition_values={"day": str(number % 100)},
        size=1_000_000 + number,
        modification_time=number,
        data_change=True,
        num_records=1_000,
    )
    return AddedFile(add, 1, number)
