"""`manifests`: what a table costs more if its state has many manifests, each of few files.

The same as the first three of `growth`, on tables of a million files at most, so that it takes a minute: a state of two
manifests beside one of two hundred. What is left of the ratio is the list of manifests itself.
"""

from __future__ import annotations

from pathlib import Path

from bench import many_files, our_files
from bench.growth import COMMIT, LIST_PARTITION, WRITE_STATE, Grower, cpu_ms, list_partition
from bench.harness import Figure, Goal, Setting, Side, Unit

_GOAL = Goal(max_ratio=1.5)


def run(setting: Setting) -> list[Figure]:
    few, many = (_sides(setting, count) for count in setting.sizes.num_manifests)
    samples: dict[str, tuple[list[float], list[float]]] = {work: ([], []) for work in many}
    for number in range(setting.sizes.num_rounds * setting.sizes.num_searches):
        setting.say(f"round {number + 1}")
        for work, (theirs, ours) in samples.items():
            theirs += few[work](number)
            ours += many[work](number)
    least, most = setting.sizes.num_manifests
    return [
        Figure(f"manifests: {work}, {most}, CPU", ours, theirs, _GOAL, yardstick=f"ours, {least}", unit=Unit.MS)
        for work, (theirs, ours) in samples.items()
    ]


def _sides(setting: Setting, num_manifests: int) -> dict[str, Side]:
    setting.say(f"building a table of {num_manifests} manifests")
    count = num_manifests * setting.sizes.num_files_by_manifest
    source = _table(setting, count)
    grower = Grower(our_files.copy_table(source, setting.directory / f"growing-{count}"), count, 100)
    grower.commit()
    grower.write_state()
    return {
        COMMIT: lambda _: [cpu_ms(grower.commit)],
        WRITE_STATE: lambda _: [cpu_ms(grower.write_state)],
        LIST_PARTITION: lambda _: [cpu_ms(lambda: list_partition(source, count))],
    }


def _table(setting: Setting, count: int) -> Path:
    path = setting.directory / f"manifests-{count}"
    many_files.build(path, count, {"state.entriesPerManifest": str(setting.sizes.num_files_by_manifest)})
    return path
