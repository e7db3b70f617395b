"""Seeded histories of everything that changes a table, over rows, with time that moves, and faults.

A failing seed prints its trace. To see one again: `pytest tests/simulator -k "maintained and daily" --seed 1234`.
"""

from __future__ import annotations

from collections import Counter

import pytest
from tests.simulator import log_histories
from tests.simulator.actors import open_log
from tests.simulator.row_histories import (
    OFTEN,
    RARELY,
    REAL,
    TINY,
    simulate,
    streamed,
    swept,
    together,
    undone,
    watched,
)

from indextables.protocol.horizon import horizon_of

_SHARES = 4


@pytest.mark.parametrize("share", range(_SHARES))
@pytest.mark.parametrize("scenario", REAL)
def test_a_maintained_table_loses_nothing(scenario: str, share: int, seeds) -> None:
    cast, faults, num_seeds = REAL[scenario]
    for seed in seeds(num_seeds, share, _SHARES):
        simulate(seed, cast, faults, tiny=False)


@pytest.mark.parametrize("share", range(_SHARES))
@pytest.mark.parametrize("scenario", TINY)
def test_tiny_rows_are_never_lost(scenario: str, share: int, seeds) -> None:
    cast, faults, num_seeds = TINY[scenario]
    for seed in seeds(num_seeds, share, _SHARES):
        simulate(seed, cast, faults)


def test_there_are_ten_thousand_histories() -> None:
    assert sum(num for scenarios in (REAL, TINY, log_histories.SCENARIOS) for _, _, num in scenarios.values()) >= 10_000


def test_one_seed_is_one_run_of_rows() -> None:
    traces = [simulate(3, together, OFTEN)[0].trace for _ in range(2)]
    assert traces[0] == traces[1]
    assert len(traces[0]) > 50


def test_everything_really_happens() -> None:
    """Every chore has succeeded, every write was acknowledged and failed, streams went on and were cut off, and
    versions were purged."""
    done: Counter[str] = Counter()
    told: set[str] = set()
    formats: set[str] = set()
    horizons = []
    for seed in range(500, 540):
        cast = (undone, streamed, swept, watched)[seed % 4]
        world, diary = simulate(seed, cast, RARELY if cast is watched else OFTEN)
        done += diary.done
        told |= {f"{entry.kind}: {entry.told.partition(':')[0]}" for entry in diary.written}
        formats |= {kind for kind in ("state-v", ".checkpoint.json", ".parquet") for key in world.kept if kind in key}
        horizons.append(horizon_of(open_log(world, world.inner).metadata().configuration))
    chores = ("merge", "reindex", "purge", "truncate", "checkpoint", "drop", "restore", "check", "follow")
    assert {f"{kind}: done" for kind in chores} <= done.keys()
    assert {"follow: died, and starts again", "stream batch: died, and starts again"} <= done.keys()
    writes = ("append", "overwrite", "overwrite where", "overwrite partitions", "stream")
    assert {f"{kind}: acknowledged" for kind in writes} <= told
    assert {"append: died", "append: failed"} <= told
    assert len(formats) == 3
    assert max(horizons) > 3
