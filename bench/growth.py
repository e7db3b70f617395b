"""`growth`: how the cost of a table grows with its files, up to ten million.

A commit of a few files and the state after it, by a handle that stays open; one partition of a thousand files, listed
by a new handle without a local cache; all files, manifest by manifest, in a new process, whose memory is measured
too; and the memory of a compaction. The tables are those of `many_files`. The first three are held to at most 1.5
times their cost at the second size; their times are of the processor, so that other work on the machine counts less.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import indextables as it
from bench import many_files, our_files
from bench.harness import Figure, Goal, Setting, Side, Unit, checked_count
from bench.processes import cost_in_new_process
from indextables.protocol.file_table import adds_of

COMMIT = "commit a few files"
WRITE_STATE = "write the state after a few files were added"
LIST_PARTITION = "list one partition"
LIST_ALL = "list all files by manifest"
LIST_MEMORY = "memory, listing all files by manifest"
COMPACT_MEMORY = "memory, compaction"
_FLAT = (COMMIT, WRITE_STATE, LIST_PARTITION)
_WORKS = (*_FLAT, LIST_ALL)
_MEMORY = (LIST_MEMORY, COMPACT_MEMORY)
_FLAT_GOAL = Goal(max_ratio=1.5)
_MEMORY_GOAL = Goal(below_mb=1_000)

Series = Mapping[str, Mapping[int, float]]
"""What was done, and its median time in milliseconds by the number of files."""


def run(setting: Setting) -> list[Figure]:
    counts = setting.sizes.num_files_growing
    samples: dict[str, list[float]] = {}
    sides = {count: _sides(setting, count) for count in counts}
    for number in range(setting.sizes.num_rounds):
        for count in counts:
            setting.say(f"round {number + 1} of {setting.sizes.num_rounds}: {count} files")
            for work, side in sides[count].items():
                samples.setdefault(_name(work, count), []).extend(side(number))
    for count in counts:
        samples.update(_whole(setting, count))
    found = [_figure(work, counts, at, samples) for work in (*_WORKS, *_MEMORY) for at in range(len(counts))]
    return [figure for figure in found if figure is not None]


def series_of(figures: list[Figure]) -> Series:
    """The curves among the figures of a run."""
    return {work: _curve(work, figures) for work in _WORKS}


def _curve(work: str, figures: list[Figure]) -> dict[int, float]:
    before, after = _name(work, 0).split("0")
    return {
        int(figure.name.removeprefix(before).removesuffix(after)): figure.ours_median
        for figure in figures
        if figure.name.startswith(before)
    }


def _name(work: str, count: int) -> str:
    return f"growth: {work}, {count} files"


def _figure(work: str, counts: Sequence[int], at: int, samples: Mapping[str, list[float]]) -> Figure | None:
    ours = samples.get(_name(work, counts[at]))
    if ours is None:
        return None
    unit = Unit.MB if work in _MEMORY else Unit.MS
    yardstick = counts[min(1, len(counts) - 2)]
    if work not in _FLAT or counts[at] <= yardstick:
        return Figure(_name(work, counts[at]), ours, [], _MEMORY_GOAL if unit is Unit.MB else Goal(), unit=unit)
    theirs = samples[_name(work, yardstick)]
    return Figure(_name(work, counts[at]), ours, theirs, _FLAT_GOAL, yardstick=f"ours, {yardstick} files")


def _sides(setting: Setting, count: int) -> dict[str, Side]:
    setting.say(f"building a table of {count} files")
    source = many_files.shared_table(setting.shared, count)
    path = our_files.copy_table(source, setting.directory / f"growing-{count}")
    grower = Grower(path, count, setting.sizes.num_files_added)
    grower.commit()
    grower.write_state()
    return {
        COMMIT: lambda _: [cpu_ms(grower.commit)],
        WRITE_STATE: lambda _: [cpu_ms(grower.write_state)],
        LIST_PARTITION: lambda _: [cpu_ms(lambda: list_partition(source, count))],
    }


def _whole(setting: Setting, count: int) -> dict[str, list[float]]:
    """What is done to the whole table: once a run, as it takes minutes."""
    setting.say(f"listing and compacting {count} files")
    source = many_files.shared_table(setting.shared, count)
    listed = cost_in_new_process(count, our_files.list_by_manifest, source, our_files.WITHOUT_CACHE)
    found = {_name(LIST_ALL, count): [listed.elapsed_ms], _name(LIST_MEMORY, count): [listed.peak_mb]}
    if count <= setting.sizes.num_files_compacted:
        path = our_files.copy_table(source, setting.directory / f"compacted-{count}")
        compacted = cost_in_new_process(count, _compact, path)
        found[_name(COMPACT_MEMORY, count)] = [compacted.peak_mb]
    return found


class Grower:
    """A table to which files are added by one handle."""

    def __init__(self, path: Path, count: int, num_added: int) -> None:
        options = {**our_files.WITHOUT_CACHE, "checkpoint.interval": our_files.NEVER, "cleanup.enabled": "false"}
        self._log = it.TransactionLog(path, options=options)
        self._count = count
        self._next = count
        self._num_added = num_added

    def commit(self) -> None:
        start, self._next = self._next, self._next + self._num_added
        self._log.add_files(adds_of(many_files.entries(start, self._next, many_files.num_partitions(self._count))))

    def write_state(self) -> None:
        checkpointer = self._log._checkpointer
        if checkpointer is None:
            raise AssertionError("the handle writes no states")
        written = checkpointer.write(self._log.reader.segment().newest, self._log.config)
        checked_count(written.hint.num_files or 0, self._next)


def list_partition(path: Path, count: int) -> None:
    log = it.TransactionLog(path, options=our_files.WITHOUT_CACHE)
    found = log.list_files(where=f"{many_files.PARTITION_COLUMN} = {many_files.PARTITION_LISTED}")
    checked_count(found.num_rows, min(count, many_files.FILES_PER_PARTITION))


def _compact(path: Path) -> int:
    options = {**our_files.WITHOUT_CACHE, "cleanup.enabled": "false"}
    log = it.TransactionLog(path, options=options)
    log.add_files([])
    return log.checkpoint().num_files or 0


def cpu_ms(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000
