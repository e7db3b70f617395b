"""`parallel`: reading versions side by side against one after the other, on a store that answers late.

The store is the local one with a pause of ten milliseconds before every read and listing; that pause is simulated, not
measured anywhere. Each sample is a new handle on a table without a checkpoint.
"""

from __future__ import annotations

from pathlib import Path

import indextables as it
from bench import tables
from bench.harness import Figure, Goal, Setting, alternate, checked_count, timed_ms
from bench.latency import LateStore
from indextables.config import Config
from indextables.store import open_store

_PAUSE_SECONDS = 0.010
_SIDE_BY_SIDE = 4
_GOAL = Goal(max_ratio=0.4)
_ONE_BY_ONE = "ours, one at a time"


def run(setting: Setting) -> list[Figure]:
    return [_run_one(setting, count) for count in setting.sizes.num_versions_read]


def _run_one(setting: Setting, count: int) -> Figure:
    path = setting.directory / f"table-{count}"
    tables.build_ours(path, count)
    times = alternate(
        {
            "side by side": lambda _: [_read_ms(path, count, _SIDE_BY_SIDE)],
            "one at a time": lambda _: [_read_ms(path, count, 1)],
        },
        setting.sizes.num_rounds,
        setting.say,
    )
    name = (
        f"parallel: {count} versions, {_SIDE_BY_SIDE} at once, each read {_PAUSE_SECONDS * 1000:g} ms late (simulated)"
    )
    return Figure(name, times["side by side"], times["one at a time"], _GOAL, yardstick=_ONE_BY_ONE)


def _read_ms(path: Path, count: int, parallelism: int) -> float:
    store = LateStore(open_store(str(path), Config.resolve()), _PAUSE_SECONDS)
    log = it.TransactionLog(path, store=store, options={"checkpoint.parallelism": str(parallelism)})
    elapsed_ms = timed_ms(log.list_files)
    checked_count(log.list_files().num_rows, count)
    return elapsed_ms
