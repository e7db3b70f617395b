"""`refresh`: bringing an open table up to date when there is nothing new.

The local store keeps a directory's listing once the directory has not changed for 2.5 seconds, so it is measured both
right after a commit by another writer (which both sides have picked up already) and after the directory has settled.
The store calls of one refresh are counted on a handle of its own, so that counting costs the measured one nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import deltalake

import indextables as it
from bench import tables
from bench.counting import CountingStore
from bench.harness import Figure, Goal, Setting, timed_ms
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


class _Times:
    """Refreshes of both sides in turn."""

    def __init__(self) -> None:
        self.ours_ms: list[float] = []
        self.theirs_ms: list[float] = []

    def measure(self, pair: _Pair, num_refreshes: int, *, until: float) -> None:
        """At least one of each; more of them up to a number and a moment."""
        for _ in range(num_refreshes):
            self.ours_ms.append(timed_ms(pair.ours.refresh))
            self.theirs_ms.append(timed_ms(pair.theirs.update_incremental))
            if time.monotonic() > until:
                break


class _Pair:
    """One table on both sides, each with an open handle."""

    def __init__(self, directory: Path, count: int) -> None:
        self._ours_path, self._theirs_path = directory / f"ours-{count}", directory / f"theirs-{count}"
        tables.build_ours(self._ours_path, count)
        tables.build_theirs(self._theirs_path, count)
        self.ours = it.Table.open(self._ours_path)
        self.theirs = deltalake.DeltaTable(str(self._theirs_path))
        self._writer = it.TransactionLog(self._ours_path)
        self._newest = count

    def commit_elsewhere(self) -> None:
        """One commit on each side by another writer."""
        self._newest += 1
        tables.write_their_version(self._theirs_path, self._newest)
        self._writer.add_files([tables.our_add(self._newest)])

    def catch_up(self) -> None:
        """Bring both handles up to date, so that there is nothing new."""
        self.theirs.update_incremental()
        self.ours.refresh()
        if (self.ours.version, self.theirs.version()) != (self._newest, self._newest):
            raise AssertionError(f"refreshed to {self.ours.version} and {self.theirs.version()}, not {self._newest}")

    def count_store_calls(self) -> Mapping[str, int]:
        """What one refresh with nothing new asks of the store."""
        store = CountingStore(open_store(str(self._ours_path), Config.resolve()))
        log = it.TransactionLog(self._ours_path, store=store.as_store())
        table = it.Table(log, log.snapshot())
        store.calls.clear()
        table.refresh()
        return dict(store.calls)


def _run_one(setting: Setting, count: int) -> list[Figure]:
    sizes = setting.sizes
    setting.say(f"writing logs of {count} versions")
    pair = _Pair(setting.directory, count)
    unsettled, settled = _Times(), _Times()
    pair.commit_elsewhere()
    unsettled_calls = pair.count_store_calls()
    for number in range(sizes.num_rounds):
        setting.say(f"round {number + 1} of {sizes.num_rounds}: {count} versions")
        pair.commit_elsewhere()
        until = time.monotonic() + _UNSETTLED_SECONDS
        pair.catch_up()
        unsettled.measure(pair, sizes.num_refreshes, until=until)
        time.sleep(_SETTLING_SECONDS)
        pair.catch_up()
        settled.measure(pair, sizes.num_refreshes, until=float("inf"))
    settled_calls = pair.count_store_calls()
    return [
        Figure(
            f"refresh: {count} versions, just changed", unsettled.ours_ms, unsettled.theirs_ms, _GOAL, unsettled_calls
        ),
        Figure(f"refresh: {count} versions, settled", settled.ours_ms, settled.theirs_ms, _GOAL, settled_calls),
    ]
