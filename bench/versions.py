"""`versions`: opening a table of many versions of one add each and listing its files, with a checkpoint and without.

Each measurement is a new process without a local cache.
"""

from __future__ import annotations

import indextables as it
from bench import our_files, tables
from bench.harness import Figure, Goal, Setting, alternate
from bench.processes import ms_in_new_process

_GOALS = {1_000: Goal(max_ratio=0.5), 10_000: Goal(max_ratio=0.01)}
_WITHOUT = "ours, without checkpoint"


def run(setting: Setting) -> list[Figure]:
    return [_run_one(setting, count) for count in setting.sizes.num_versions_checkpointed]


def _run_one(setting: Setting, count: int) -> Figure:
    setting.say(f"writing logs of {count} versions")
    bare, checkpointed = setting.directory / f"bare-{count}", setting.directory / f"checkpointed-{count}"
    options = our_files.WITHOUT_CACHE
    tables.build_ours(bare, count)
    our_files.copy_table(bare, checkpointed)
    it.TransactionLog(checkpointed, options=options).checkpoint()
    times = alternate(
        {
            "with checkpoint": lambda _: [ms_in_new_process(count, our_files.list_all, checkpointed, options)],
            "without": lambda _: [ms_in_new_process(count, our_files.list_all, bare, options)],
        },
        setting.sizes.num_rounds,
        setting.say,
    )
    goal = _GOALS.get(count, Goal())
    name = f"versions: {count}, with checkpoint"
    return Figure(name, times["with checkpoint"], times["without"], goal, yardstick=_WITHOUT)
