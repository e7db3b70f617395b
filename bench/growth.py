"""`growth`: how the cost of a table grows with its files.

Listing all of it, listing one partition, and writing the state after a few files were added: the first two in new
processes without a local cache, the third by a handle that stays open, as in `state`. Each row compares a size with the
one before it, so its ratio says how much more the larger table costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench import our_files
from bench.files import num_in_partition
from bench.harness import Figure, Goal, Setting, Side, alternate
from bench.processes import ms_in_new_process
from bench.states import Grower

LIST_ALL = "list all files"
LIST_PARTITION = "list one partition"
WRITE_STATE = "write the state after a few files were added"
_WORKS = (LIST_ALL, LIST_PARTITION, WRITE_STATE)

Series = Mapping[str, Mapping[int, float]]
"""What was done, and its median time in milliseconds by the number of files."""


def run(setting: Setting) -> list[Figure]:
    counts = setting.sizes.num_files_growing
    sides = {(work, count): side for count in counts for work, side in _sides(setting, count).items()}
    times = alternate(
        {_name(work, count): side for (work, count), side in sides.items()}, setting.sizes.num_rounds, setting.say
    )
    return [_figure(work, counts, at, times) for work in _WORKS for at in range(len(counts))]


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


def _figure(work: str, counts: Sequence[int], at: int, times: Mapping[str, list[float]]) -> Figure:
    ours = times[_name(work, counts[at])]
    if at == 0:
        return Figure(_name(work, counts[at]), ours, [], Goal())
    before = counts[at - 1]
    return Figure(_name(work, counts[at]), ours, times[_name(work, before)], Goal(), yardstick=f"ours, {before} files")


def _sides(setting: Setting, count: int) -> dict[str, Side]:
    options, num_added = our_files.WITHOUT_CACHE, setting.sizes.num_files_added
    setting.say(f"building a table of {count} files")
    path = our_files.shared_table(setting.shared, count)
    num_listed = num_in_partition(count, our_files.PARTITION_LISTED)
    grower = Grower(path, setting.directory / f"growing-{count}", count, options, stays_open=True)
    grower.list_files()
    return {
        LIST_ALL: lambda _: [ms_in_new_process(count, our_files.list_all, path, options)],
        LIST_PARTITION: lambda _: [ms_in_new_process(num_listed, our_files.list_partition, path, options)],
        WRITE_STATE: lambda _: [grower.incremental(num_added).elapsed_ms],
    }
