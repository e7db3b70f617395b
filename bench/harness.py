"""What all benchmarks share: sizes, alternating rounds, and figures with both sides, a ratio and a goal.

Both sides of a figure are measured in the same run, round by round in turn, so that the noise of a machine hits both.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Say = Callable[[str], None]
Side = Callable[[int], Sequence[float]]

OURS = "indextables"
THEIRS = "delta-rs"
THEIRS_WITH_CHECKPOINT = "delta-rs with checkpoint"


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    num_commits: int = 1_000
    num_versions_opened: int = 10_000
    num_versions_refreshed: tuple[int, ...] = (1_000, 10_000)
    num_refreshes: int = 10
    num_files: int = 100_000
    num_files_scanned: int = 1_000_000
    num_files_added: int = 100
    num_files_by_format: tuple[int, ...] = (70_000, 100_000)
    num_versions_checkpointed: tuple[int, ...] = (1_000, 10_000)
    num_versions_read: tuple[int, ...] = (50, 200)
    num_files_growing: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    num_files_compacted: int = 1_000_000
    num_manifests: tuple[int, int] = (2, 200)
    num_files_by_manifest: int = 5_000
    num_rows: int = 500_000
    num_searches: int = 5
    num_splits: int = 200
    num_small_splits: tuple[int, ...] = (200, 1_000)
    num_rows_of_small_splits: int = 2_500
    num_rows_by_split: tuple[int, ...] = (2_500, 20_000, 50_000)
    num_splits_merged: int = 64
    num_rows_merged: int = 20_000
    cold_split_mb: float = 100
    num_cold_rows: int = 10_000_000
    num_spark_rows: int = 10_000_000
    num_splits_loaded: int = 5_000
    stream_seconds: int = 70
    stream_interval_seconds: int = 10
    stream_rows_per_minute: int = 100_000
    num_rounds: int = 3
    num_slow_rounds: int = 1


QUICK = Sizes(
    num_commits=12,
    num_versions_opened=40,
    num_versions_refreshed=(10, 40),
    num_refreshes=3,
    num_files=300,
    num_files_scanned=400,
    num_files_added=5,
    num_files_by_format=(200, 300),
    num_versions_checkpointed=(20, 40),
    num_versions_read=(8,),
    num_files_growing=(300, 400),
    num_files_compacted=400,
    num_manifests=(2, 4),
    num_files_by_manifest=1_000,
    num_rows=1_000,
    num_searches=1,
    num_splits=4,
    num_small_splits=(4, 8),
    num_rows_of_small_splits=250,
    num_rows_by_split=(250, 400),
    num_splits_merged=4,
    num_rows_merged=250,
    cold_split_mb=0.2,
    num_cold_rows=2_000,
    num_spark_rows=3_000,
    num_splits_loaded=300,
    stream_seconds=4,
    stream_interval_seconds=1,
    stream_rows_per_minute=6_000,
    num_rounds=1,
)


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a benchmark is given: an empty directory of its own, one that it shares with the others for tables which
    nobody changes, sizes, where to report progress, and what is to be ended with the run."""

    directory: Path
    shared: Path
    sizes: Sizes
    say: Say
    at_end: contextlib.ExitStack


class Unit(enum.Enum):
    """What a figure counts."""

    MS = "ms"
    MB = "MB"
    KB = "kB"
    REQUESTS = "requests"
    COUNT = "open"


@dataclasses.dataclass(frozen=True)
class Goal:
    """What our side is held to: a ratio, a time, an amount, or the store calls it makes; what is None is not asked."""

    max_ratio: float | None = None
    below_ms: float | None = None
    below_mb: float | None = None
    store_calls: Mapping[str, int] | None = None
    most_requests: int | None = None

    def __str__(self) -> str:
        parts = []
        if self.max_ratio is not None:
            parts.append(f"ratio at most {self.max_ratio:g}")
        if self.store_calls is not None:
            parts.append(f"calls: {calls_text(self.store_calls)}")
        if self.below_ms is not None:
            parts.append(f"under {self.below_ms:g} ms")
        if self.below_mb is not None:
            parts.append(f"under {self.below_mb:g} MB")
        if self.most_requests is not None:
            parts.append(f"at most {self.most_requests} requests")
        return ", ".join(parts) or "none set"


@dataclasses.dataclass(frozen=True)
class Figure:
    """One comparison with a yardstick: another library, or another way of ours; no samples of it where there is none.

    `store_calls` counts what our side asked of its store, where that is measured.
    """

    name: str
    ours: Sequence[float]
    theirs: Sequence[float]
    goal: Goal
    store_calls: Mapping[str, int] | None = None
    yardstick: str = THEIRS
    unit: Unit = Unit.MS

    @property
    def ours_median(self) -> float:
        return statistics.median(self.ours)

    @property
    def theirs_median(self) -> float | None:
        return statistics.median(self.theirs) if self.theirs else None

    @property
    def ratio(self) -> float | None:
        theirs = self.theirs_median
        return None if theirs is None else self.ours_median / theirs

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None where none is set."""
        goal, ratio = self.goal, self.ratio
        verdicts = []
        if goal.max_ratio is not None:
            verdicts.append(ratio is not None and ratio <= goal.max_ratio)
        if goal.below_ms is not None:
            verdicts.append(self.unit is Unit.MS and self.ours_median < goal.below_ms)
        if goal.below_mb is not None:
            verdicts.append(self.unit is Unit.MB and self.ours_median < goal.below_mb)
        if goal.most_requests is not None:
            verdicts.append(self.unit is Unit.REQUESTS and self.ours_median <= goal.most_requests)
        if goal.store_calls is not None:
            verdicts.append(self.store_calls is not None and dict(self.store_calls) == dict(goal.store_calls))
        return all(verdicts) if verdicts else None

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "yardstick": self.yardstick if self.theirs else None,
            "unit": self.unit.value,
            "ours_median": self.ours_median,
            "theirs_median": self.theirs_median,
            "ratio": self.ratio,
            "goal": str(self.goal),
            "met": self.met,
            "store_calls": None if self.store_calls is None else dict(self.store_calls),
            "ours": list(self.ours),
            "theirs": list(self.theirs),
        }


def alternate(sides: Mapping[str, Side], num_rounds: int, say: Say) -> dict[str, list[float]]:
    """The samples of every side: each round runs every side once, given the number of the round."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(num_rounds):
        for name, side in sides.items():
            say(f"round {number + 1} of {num_rounds}: {name}")
            times[name].extend(side(number))
    return times


def timed_ms(work: Callable[[], object]) -> float:
    """How long a call takes, in milliseconds."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def timed_cpu_ms(work: Callable[[], object]) -> float:
    """The user and system time of a call, in this process and in those that it started and that have ended."""
    start = _cpu_seconds()
    work()
    return (_cpu_seconds() - start) * 1000


def _cpu_seconds() -> float:
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def checked_count(found: int, expected: int) -> None:
    """Refuse to measure a table that does not hold what it should."""
    if found != expected:
        raise AssertionError(f"{found} are found in a table that should hold {expected}")


def calls_text(calls: Mapping[str, int]) -> str:
    """Store calls for people."""
    return ", ".join(f"{count} {verb}" for verb, count in sorted(calls.items())) or "none"
