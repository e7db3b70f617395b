"""What all benchmarks share: sizes, alternating rounds, and figures with both sides, a ratio and a goal.

Both sides of a figure are measured in the same run, round by round in turn, so that the noise of a machine hits both.
"""

from __future__ import annotations

import dataclasses
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
    num_rounds: int = 3
    num_slow_rounds: int = 1


QUICK = Sizes(num_commits=12, num_versions_opened=40, num_versions_refreshed=(10, 40), num_refreshes=3, num_rounds=1)


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a benchmark is given: an empty directory of its own, sizes, and where to report progress."""

    directory: Path
    sizes: Sizes
    say: Say


@dataclasses.dataclass(frozen=True)
class Goal:
    """What our side is held to: a ratio, a time, or the store calls it makes; what is None is not asked."""

    max_ratio: float | None = None
    below_ms: float | None = None
    store_calls: Mapping[str, int] | None = None

    def __str__(self) -> str:
        parts = []
        if self.max_ratio is not None:
            parts.append(f"ratio at most {self.max_ratio:g}")
        if self.store_calls is not None:
            parts.append(f"calls: {calls_text(self.store_calls)}")
        if self.below_ms is not None:
            parts.append(f"under {self.below_ms:g} ms")
        return ", ".join(parts) or "none set"


@dataclasses.dataclass(frozen=True)
class Figure:
    """One comparison. `store_calls` counts what our side asked of its store, where that is measured."""

    name: str
    ours_ms: Sequence[float]
    theirs_ms: Sequence[float]
    goal: Goal
    store_calls: Mapping[str, int] | None = None

    @property
    def ours_median_ms(self) -> float:
        return statistics.median(self.ours_ms)

    @property
    def theirs_median_ms(self) -> float:
        return statistics.median(self.theirs_ms)

    @property
    def ratio(self) -> float:
        return self.ours_median_ms / self.theirs_median_ms

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None where none is set."""
        goal = self.goal
        verdicts = []
        if goal.max_ratio is not None:
            verdicts.append(self.ratio <= goal.max_ratio)
        if goal.below_ms is not None:
            verdicts.append(self.ours_median_ms < goal.below_ms)
        if goal.store_calls is not None:
            verdicts.append(self.store_calls is not None and dict(self.store_calls) == dict(goal.store_calls))
        return all(verdicts) if verdicts else None

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "ours_median_ms": self.ours_median_ms,
            "theirs_median_ms": self.theirs_median_ms,
            "ratio": self.ratio,
            "goal": str(self.goal),
            "met": self.met,
            "store_calls": None if self.store_calls is None else dict(self.store_calls),
            "ours_ms": list(self.ours_ms),
            "theirs_ms": list(self.theirs_ms),
        }


def alternate(sides: Mapping[str, Side], num_rounds: int, say: Say) -> dict[str, list[float]]:
    """The times of every side, in milliseconds: each round runs every side once, given the number of the round."""
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


def calls_text(calls: Mapping[str, int]) -> str:
    """Store calls for people."""
    return ", ".join(f"{count} {verb}" for verb, count in sorted(calls.items())) or "none"
