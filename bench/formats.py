"""`formats`: listing a table from an Avro state, and from a JSON checkpoint of the same version.

Each measurement is a new process without a local cache. The JSON checkpoint is gzip, in one file while it fits into the
default of `checkpoint.maxFileSize`; it stands beside the Avro state, and the hint names it.
"""

from __future__ import annotations

import indextables as it
from bench import our_files
from bench.harness import Figure, Goal, Setting, alternate
from bench.processes import ms_in_new_process

_JSON = "ours, JSON checkpoint"
_RATIO = 0.1
_BELOW_MS = {70_000: 500.0, 100_000: 700.0}


def run(setting: Setting) -> list[Figure]:
    return [_run_one(setting, count) for count in setting.sizes.num_files_by_format]


def _run_one(setting: Setting, count: int) -> Figure:
    setting.say(f"building tables of {count} files")
    avro = our_files.shared_table(setting.shared, count)
    in_json = setting.directory / f"json-{count}"
    our_files.copy_table(avro, in_json)
    it.TransactionLog(in_json, options={**our_files.WITHOUT_CACHE, "state.format": "json"}).checkpoint()
    options = our_files.WITHOUT_CACHE
    times = alternate(
        {
            "Avro": lambda _: [ms_in_new_process(count, our_files.list_all, avro, options)],
            "JSON": lambda _: [ms_in_new_process(count, our_files.list_all, in_json, options)],
        },
        setting.sizes.num_rounds,
        setting.say,
    )
    goal = Goal(max_ratio=_RATIO, below_ms=_BELOW_MS.get(count))
    return Figure(f"formats: {count} files, Avro state", times["Avro"], times["JSON"], goal, yardstick=_JSON)
