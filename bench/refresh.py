"""`refresh`: bringing an open table up to date when there is nothing new.

The local store keeps a directory's listing once its handle has seen the directory unchanged for 2.5 seconds, so it is
measured both right after a commit by another writer (which every handle has picked up already) and after that time.
delta-rs is measured without a checkpoint, as our side is, and with one, as a table that it wrote itself has. The store
calls of one refresh are counted on a handle of its own, so that counting costs the measured one nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import deltalake
from tests.doubles.metered_store import MeteredStore

import indextables as it
from bench import tables
from bench.harness import THEIRS_WITH_CHECKPOINT, Figure, Goal, Setting, timed_ms
from indextables.config import Config
from indextables.store import open_store

_GOAL = Goal(below_ms=2, store_calls={"list": 1})
_SETTLING_SECONDS = 3.0
_UNSETTLED_SECONDS = 2.0


def run(setting: Setting) -> list[Figure]:
    figures = []
    for count in setting.sizes.num_versions_refreshed:
        figures.extend(_run_one(setting, count))
    return figures


class _Tables:
    """One table on every side, each with an open handle."""

    def __init__(self, directory: Path, count: int) -> None:
        self._ours_path = directory / f"ours-{count}"
        self._theirs_paths = [directory / f"theirs-{count}", directory / f"theirs-with-checkpoint-{count}"]
        tables.build_ours(self._ours_path, count)
        for path in self._theirs_paths:
            tables.build_theirs(path, count)
        deltalake.DeltaTable(str(self._theirs_paths[1])).create_checkpoint()
        self.ours = it.Table.open(self._ours_path)
        self.theirs, self.theirs_with_checkpoint = (deltalake.DeltaTable(str(path)) for path in self._theirs_paths)
        self._writer = it.TransactionLog(self._ours_path)
        self._newest = count

    def commit_elsewhere(self) -> None:
        """One commit on each side by another writer."""
        self._newest += 1
        for path in self._theirs_paths:
            tables.write_their_version(path, self._newest)
        self._writer.add_files([tables.our_add(self._newest)])

    def catch_up(self) -> None:
        """Bring every handle up to date, so that there is nothing new."""
        self.theirs.update_incremental()
        self.theirs_with_checkpoint.update_incremental()
        self.ours.refresh()
        versions = {self.ours.version, self.theirs.version(), self.theirs_with_checkpoint.version()}
        if versions != {self._newest}:
            raise AssertionError(f"refreshed to {sorted(versions)}, not to {self._newest}")

    def count_store_calls(self) -> Mapping[str, int]:
        """What one refresh with nothing new asks of the store."""
        store = MeteredStore(open_store(str(self._ours_path), Config.resolve()))
        log = it.TransactionLog(self._ours_path, store=store)
        table = it.Table(log, log.snapshot())
        store.calls.clear()
        table.refresh()
        return dict(store.calls)


class _Times:
    """Refreshes of every side in turn."""

    def __init__(self) -> None:
        self.ours_ms: list[float] = []
        self.theirs_ms: list[float] = []
        self.theirs_with_checkpoint_ms: list[float] = []

    def measure(self, sides: _Tables, num_refreshes: int, *, until: float) -> None:
        """At least one of each; more of them up to a number and a moment."""
        for _ in range(num_refreshes):
            self.ours_ms.append(timed_ms(sides.ours.refresh))
            self.theirs_ms.append(timed_ms(sides.theirs.update_incremental))
            self.theirs_with_checkpoint_ms.append(timed_ms(sides.theirs_with_checkpoint.update_incremental))
            if time.monotonic() > until:
                break

    def figures(self, name: str, store_calls: Mapping[str, int]) -> list[Figure]:
        return [
            Figure(name, self.ours_ms, self.theirs_ms, _GOAL, store_calls),
            Figure(f"{name}, {THEIRS_WITH_CHECKPOINT}", self.ours_ms, self.theirs_with_checkpoint_ms, Goal()),
        ]


def _run_one(setting: Setting, count: int) -> list[Figure]:
    sizes = setting.sizes
    setting.say(f"writing logs of {count} versions")
    sides = _Tables(setting.directory, count)
    unsettled, settled = _Times(), _Times()
    sides.commit_elsewhere()
    unsettled_calls = sides.count_store_calls()
    for number in range(sizes.num_rounds):
        setting.say(f"round {number + 1} of {sizes.num_rounds}: {count} versions")
        sides.commit_elsewhere()
        until = time.monotonic() + _UNSETTLED_SECONDS
        sides.catch_up()
        unsettled.measure(sides, sizes.num_refreshes, until=until)
        time.sleep(_SETTLING_SECONDS)
        sides.catch_up()
        settled.measure(sides, sizes.num_refreshes, until=float("inf"))
    settled_calls = sides.count_store_calls()
    return [
        *unsettled.figures(f"refresh: {count} versions, just changed", unsettled_calls),
        *settled.figures(f"refresh: {count} versions, settled", settled_calls),
    ]
