"""`open`: opening a table of many versions without a checkpoint, and listing its files as Arrow.

Each measurement is a process of its own, so nothing is cached but the operating system's pages. Starting Python and
importing the library are not counted; everything the library does at its first call is. A table that delta-rs wrote
itself has a checkpoint, so delta-rs with one is measured too; it reads the checkpoint instead of the versions.
"""

from __future__ import annotations

import deltalake

from bench import tables
from bench.harness import OURS, THEIRS, THEIRS_WITH_CHECKPOINT, Figure, Goal, Setting, alternate, checked_count
from bench.processes import ms_in_new_process

_GOAL = Goal(max_ratio=1.0)


def run(setting: Setting) -> list[Figure]:
    count = setting.sizes.num_versions_opened
    ours, theirs, checkpointed = (setting.directory / name for name in ("ours", "theirs", "theirs-with-checkpoint"))
    setting.say(f"writing logs of {count} versions")
    tables.build_ours(ours, count)
    tables.build_theirs(theirs, count)
    tables.build_theirs(checkpointed, count)
    deltalake.DeltaTable(str(checkpointed)).create_checkpoint()
    listed = [tables.num_files_ours(ours), tables.num_files_theirs(theirs), tables.num_files_theirs(checkpointed)]
    for num_files in listed:
        checked_count(num_files, count)
    times = alternate(
        {
            OURS: lambda _: [ms_in_new_process(count, tables.num_files_ours, ours)],
            THEIRS: lambda _: [ms_in_new_process(count, tables.num_files_theirs, theirs)],
            THEIRS_WITH_CHECKPOINT: lambda _: [ms_in_new_process(count, tables.num_files_theirs, checkpointed)],
        },
        setting.sizes.num_rounds,
        setting.say,
    )
    name = f"open: {count} versions, files as Arrow"
    return [
        Figure(name, times[OURS], times[THEIRS], _GOAL),
        Figure(f"{name}, {THEIRS_WITH_CHECKPOINT}", times[OURS], times[THEIRS_WITH_CHECKPOINT], Goal()),
    ]
