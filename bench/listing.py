"""`cold` and `second`: opening a table of many files and listing them in a new process.

`cold` has no local cache of decoded manifests; in `second` an earlier process has filled it. delta-rs reads the
checkpoint that it wrote itself. pyiceberg is measured in both ways that it has: `plan_files`, which is the faster one
and answers with Python objects, and `inspect.files`, which answers with Arrow as the others do.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench import delta_files, iceberg_files, our_files
from bench.harness import OURS, THEIRS, Figure, Goal, Setting, Side, alternate
from bench.processes import ms_in_new_process

_PLANNED = "pyiceberg, plan_files"
_INSPECTED = "pyiceberg, inspect.files"
_COLD_GOALS = {THEIRS: Goal(max_ratio=0.4), _PLANNED: Goal(max_ratio=0.05), _INSPECTED: Goal(max_ratio=0.05)}
_SECOND_GOALS = {THEIRS: Goal(max_ratio=0.1), _PLANNED: Goal()}


def run_cold(setting: Setting) -> list[Figure]:
    ours = _our_table(setting)
    return _compare(setting, "cold", ours, our_files.WITHOUT_CACHE, _COLD_GOALS)


def run_second(setting: Setting) -> list[Figure]:
    ours = _our_table(setting)
    options = our_files.with_cache(setting.directory / "cache")
    setting.say("filling the local cache in a first process")
    ms_in_new_process(setting.sizes.num_files, our_files.list_all, ours, options)
    return _compare(setting, "second", ours, options, _SECOND_GOALS)


def _compare(
    setting: Setting, name: str, ours: Path, options: Mapping[str, str], goals: Mapping[str, Goal]
) -> list[Figure]:
    count = setting.sizes.num_files
    sides: dict[str, Side] = {
        OURS: lambda _: [ms_in_new_process(count, our_files.list_all, ours, options)],
        **_their_sides(setting, goals),
    }
    times = alternate(sides, setting.sizes.num_rounds, setting.say)
    state = "no local cache" if name == "cold" else "local cache warm"
    return [
        Figure(f"{name}: {count} files to Arrow, {state}", times[OURS], times[side], goal, yardstick=side)
        for side, goal in goals.items()
    ]


def _our_table(setting: Setting) -> Path:
    setting.say(f"building tables of {setting.sizes.num_files} files")
    return our_files.shared_table(setting.shared, setting.sizes.num_files)


def _their_sides(setting: Setting, wanted: Mapping[str, Goal]) -> dict[str, Side]:
    count = setting.sizes.num_files
    delta = delta_files.shared_table(setting.shared, count)
    iceberg = iceberg_files.shared_table(setting.shared, count)
    sides: dict[str, Side] = {
        THEIRS: lambda _: [ms_in_new_process(count, delta_files.list_all, delta)],
        _PLANNED: lambda _: [ms_in_new_process(count, iceberg_files.plan_all, iceberg)],
        _INSPECTED: lambda _: [ms_in_new_process(count, iceberg_files.list_all, iceberg)],
    }
    return {name: side for name, side in sides.items() if name in wanted}
