"""`partition`: one partition of a large table against all of it, and the memory that listing all of it takes.

Each measurement is a new process without a local cache; what the library imports only when it meets a predicate is
counted. The state is compacted, so its manifests are sorted by partition: they hold as many files as is the default,
which makes one of twenty, or a hundredth of them. Peak memory is that of the whole process,
with Python and everything imported, while the files are listed manifest by manifest.
"""

from __future__ import annotations

from bench import our_files
from bench.files import NUM_PARTITIONS, num_in_partition
from bench.harness import Figure, Goal, Setting, Unit, alternate
from bench.processes import cost_in_new_process, ms_in_new_process

_NUM_SMALL_MANIFESTS = 100
_ALL = "ours, listing it all"
_BY_MANIFEST = "ours, as one Arrow table"


def run(setting: Setting) -> list[Figure]:
    count = setting.sizes.num_files_scanned
    num_listed = num_in_partition(count, our_files.PARTITION_LISTED)
    setting.say(f"building a table of {count} files")
    path = our_files.shared_table(setting.shared, count)
    small = our_files.copy_table(path, setting.directory / "small-manifests")
    our_files.compact(small, {"state.entriesPerManifest": str(max(1, count // _NUM_SMALL_MANIFESTS))})
    options = our_files.WITHOUT_CACHE
    peaks: dict[str, list[float]] = {"all": [], "by manifest": []}

    def list_all(_: int) -> list[float]:
        cost = cost_in_new_process(count, our_files.list_all, path, options)
        peaks["all"].append(cost.peak_mb)
        return [cost.elapsed_ms]

    def list_by_manifest(_: int) -> list[float]:
        cost = cost_in_new_process(count, our_files.list_by_manifest, path, options)
        peaks["by manifest"].append(cost.peak_mb)
        return [cost.elapsed_ms]

    times = alternate(
        {
            "one partition": lambda _: [ms_in_new_process(num_listed, our_files.list_partition, path, options)],
            "small manifests": lambda _: [ms_in_new_process(num_listed, our_files.list_partition, small, options)],
            "all": list_all,
            "by manifest": list_by_manifest,
        },
        setting.sizes.num_rounds,
        setting.say,
    )
    name = f"partition: one of {NUM_PARTITIONS} of {count} files"
    whole = f"partition: all {count} files, manifest by manifest"
    return [
        Figure(name, times["one partition"], times["all"], Goal(max_ratio=0.05), yardstick=_ALL),
        Figure(
            f"{name}, {_NUM_SMALL_MANIFESTS} manifests",
            times["small manifests"],
            times["all"],
            Goal(max_ratio=0.05),
            yardstick=_ALL,
        ),
        Figure(whole, times["by manifest"], times["all"], Goal(), yardstick=_BY_MANIFEST),
        Figure(
            f"{whole}, peak memory",
            peaks["by manifest"],
            peaks["all"],
            Goal(below_mb=600),
            yardstick=_BY_MANIFEST,
            unit=Unit.MB,
        ),
    ]
