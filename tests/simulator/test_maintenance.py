"""Seeded histories of everything that changes a table, with real rows, time that moves, and faults.

A failing seed prints its trace. To see one again: `pytest tests/simulator -k "maintained and daily" --seed 1234`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from tests.simulator.actors import open_log
from tests.simulator.maintenance import (
    MAINTAINED,
    SCHEMA,
    Diary,
    everything,
    ids_of,
    keeper,
    models,
    reader,
    writer,
)
from tests.simulator.test_simulator import DEATHS, NETWORK, check_chain
from tests.simulator.world import Archive, World, lineage

import indextables as it
from indextables.errors import IndexTablesError, RetentionError
from indextables.log import replacing
from indextables.log.restoring import MoveHorizon
from indextables.ops import purge_plan
from indextables.ops.fsck import fsck
from indextables.protocol.horizon import horizon_of
from indextables.store.faulty import Fault

ALL_WRITES = ["append", "append", "append", "overwrite where", "overwrite"]


def daily(world: World, diary: Diary) -> None:
    """A table that is written to all day, merged, checkpointed and purged."""
    world.spawn("w", writer(world, diary, "w", 6, ALL_WRITES))
    world.spawn("v", writer(world, diary, "v", 4, ["append", "overwrite where"]))
    world.spawn("m", keeper(world, diary, "m", 4, ["merge", "merge", "checkpoint"]))
    world.spawn("p", keeper(world, diary, "p", 4, ["purge"]))
    world.spawn("r", reader(world, diary, "r", 4))


def undone(world: World, diary: Diary) -> None:
    """Partitions are dropped and versions restored, while others merge and purge."""
    world.spawn("w", writer(world, diary, "w", 6, ALL_WRITES))
    world.spawn("u", keeper(world, diary, "u", 5, ["restore", "restore", "drop"]))
    world.spawn("m", keeper(world, diary, "m", 3, ["merge", "checkpoint"]))
    world.spawn("p", keeper(world, diary, "p", 4, ["purge", "purge", "truncate"]))
    world.spawn("r", reader(world, diary, "r", 3))


def crowded(world: World, diary: Diary) -> None:
    """Two of each chore at once."""
    world.spawn("w", writer(world, diary, "w", 5, ["append", "append", "overwrite where"]))
    for number in range(2):
        world.spawn(f"m{number}", keeper(world, diary, f"m{number}", 3, ["merge"]))
        world.spawn(f"p{number}", keeper(world, diary, f"p{number}", 3, ["purge", "truncate"]))
    world.spawn("r", reader(world, diary, "r", 3))


def aged(world: World, diary: Diary) -> None:
    """Purges for several days, so that they find what to delete, while others merge, drop and restore."""
    world.spawn("w", writer(world, diary, "w", 7, ALL_WRITES))
    world.spawn("u", keeper(world, diary, "u", 5, ["restore", "restore", "drop"]))
    world.spawn("m", keeper(world, diary, "m", 4, ["merge"]))
    world.spawn("p", keeper(world, diary, "p", 8, ["purge"]))
    world.spawn("q", keeper(world, diary, "q", 4, ["purge"]))


def alone(world: World, diary: Diary) -> None:
    """Everything, one after the other; what really happened is checked after each."""
    world.spawn("a", everything(world, diary, "a", 14, lambda: check(world, diary)))


# Where less fails, more chores come to their end.
OFTEN = {**NETWORK, **DEATHS}
RARELY = {fault: probability / 4 for fault, probability in OFTEN.items()}

Cast = Callable[[World, Diary], None]
SCENARIOS: dict[str, tuple[Cast, dict[Fault, float], int]] = {
    "daily, quiet store": (daily, {}, 24),
    "daily, failing store": (daily, OFTEN, 60),
    "undone, failing store": (undone, OFTEN, 60),
    "crowded, failing store": (crowded, OFTEN, 60),
    "aged, rarely failing store": (aged, RARELY, 32),
    "alone, failing store": (alone, OFTEN, 20),
    "alone, rarely failing store": (alone, RARELY, 20),
}
_SHARES = 4


@pytest.mark.parametrize("share", range(_SHARES))
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_maintained_table_loses_nothing(scenario: str, share: int, request) -> None:
    cast, faults, num_seeds = SCENARIOS[scenario]
    chosen = request.config.getoption("--seed")
    seeds = [chosen] if chosen is not None else range(share, num_seeds, _SHARES)
    for seed in seeds:
        simulate(seed, cast, faults)


def simulate(seed: int, cast: Cast, faults: dict[Fault, float]) -> tuple[World, Diary]:
    world, diary = World(seed, faults), Diary()
    world.real_states = True
    world.options = dict(MAINTAINED)
    world.pause_probability = 0.01
    open_log(world, Archive(world.inner, world, "setup")).initialize(SCHEMA, partition_columns=("shelf",))
    cast(world, diary)
    try:
        world.run()
        check(world, diary)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}\n" + "\n".join(world.trace)) from error
    return world, diary


def check(world: World, diary: Diary) -> None:
    """Rows equal the model's at every version that can be read, readers never saw others, and fsck is clean."""
    versions = lineage(world)
    check_chain(versions)
    rows = models(world, versions)
    check_answers(diary, rows)
    for version, seen in diary.seen:
        assert seen == rows[version], f"version {version} was read as {seen} instead of {rows[version]}"
    log = open_log(world, Archive(world.inner, world, "check"))
    assert log.snapshot().version == len(versions) - 1
    horizon = horizon_of(log.metadata().configuration)
    for version, expected in enumerate(rows):
        try:
            table = it.Table(log, log.snapshot(version=version))
        except RetentionError:
            assert version < len(rows) - 1, "the newest version can always be read"
            continue
        assert version >= horizon, f"version {version} is read in spite of the horizon {horizon}"
        assert ids_of(table) == expected, f"version {version} has lost rows"
    problems = [problem for problem in fsck(log).to_pylist() if problem["severity"] == "error"]
    assert not problems, problems


def check_answers(diary: Diary, rows: list[Counter[int]]) -> None:
    """What was acknowledged is there from its version on; what was refused never is."""
    for entry in diary.written:
        where = [version for version, now in enumerate(rows) if set(entry.ids) <= now.keys()]
        if entry.told == "acknowledged":
            assert where, f"{entry} is nowhere"
            assert where[0] == entry.version, f"{entry} is at {where}"
        elif entry.told == "conflict":
            assert not where, f"{entry} is at {where}"
        assert not any(set(entry.ids) & now.keys() for at, now in enumerate(rows) if at not in where), "half a write"


def test_everything_really_happens() -> None:
    """Every chore has succeeded, every write was acknowledged and failed, and versions were purged."""
    done: Counter[str] = Counter()
    told: set[str] = set()
    horizons = []
    for seed in range(500, 524):
        world, diary = simulate(seed, undone if seed % 2 else daily, OFTEN)
        done += diary.done
        told |= {entry.told.partition(":")[0] for entry in diary.written}
        horizons.append(horizon_of(open_log(world, world.inner).metadata().configuration))
    assert {f"{kind}: done" for kind in ("merge", "purge", "truncate", "checkpoint", "drop", "restore")} <= done.keys()
    assert {"acknowledged", "died"} <= told
    assert max(horizons) > 3


def _never_moves(self, start, now, timestamp_ms):
    """A purge that tells nobody what it deletes."""
    from indextables.log.operations import Done

    return Done(now.version)


def _keeps_nothing(reader, files, known, version):
    """A purge that does not look at what came after its horizon."""
    return []


def _all_live(live):
    """A merge that does not look whether its splits are still part of the table."""


MUTATIONS = {
    "no horizon": (MoveHorizon, "plan", _never_moves, undone, OFTEN),
    "no look above the horizon": (purge_plan, "_keep_above", _keeps_nothing, aged, RARELY),
    "no look at the sources of merges": (replacing, "sources_live", _all_live, aged, {}),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_the_simulator_notices_a_missing_protection(mutation: str, monkeypatch) -> None:
    place, name, replacement, cast, faults = MUTATIONS[mutation]
    monkeypatch.setattr(place, name, replacement)
    for seed in range(300):
        try:
            simulate(seed, cast, faults)
        except (AssertionError, IndexTablesError):
            return
    pytest.fail(f"{mutation}: 300 seeds, and nobody noticed")
