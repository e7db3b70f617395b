"""Thousands of seeded histories over a failing store: nothing acknowledged is lost, nothing is there twice.

A failing seed prints its trace. To see one again: `pytest tests/simulator -k "seeds and mixed" --seed 1234`.
"""

from __future__ import annotations

from collections import Counter

import pytest
from tests.doubles.faulty_store import Fault
from tests.simulator.actors import PARTITION_COLUMNS, SCHEMA, Book, open_log
from tests.simulator.log_histories import (
    DEATHS,
    NETWORK,
    SCENARIOS,
    STALE,
    check,
    checkpointed,
    cleaned,
    contention,
    contested,
    crowd,
    mixed,
    simulate,
    simulate_exchanged,
    simulate_skewed,
    skewed,
)
from tests.simulator.world import Archive, World, lineage

from indextables.errors import CorruptLogError
from indextables.protocol.names import version_key

_SHARES = 4


@pytest.mark.parametrize("share", range(_SHARES))
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_seeds(scenario: str, share: int, seeds) -> None:
    cast, faults, num_seeds = SCENARIOS[scenario]
    for seed in seeds(num_seeds, share, _SHARES):
        simulate(seed, cast, faults)


def test_version_files_copied_over_others_are_never_taken_for_them() -> None:
    told: Counter[str] = Counter()
    for seed in range(24):
        told += simulate_exchanged(seed, checkpointed if seed % 12 == 0 else mixed, {})
    assert told["refused"] > 100
    assert told["right"] > 20


def test_clocks_that_are_ahead_do_not_spoil_time_travel() -> None:
    for seed in range(40):
        simulate_skewed(seed, skewed, NETWORK if seed % 2 else {})


def test_one_seed_is_one_run() -> None:
    traces = [simulate(7, mixed, {**NETWORK, **DEATHS})[0].trace for _ in range(2)]
    assert traces[0] == traces[1]
    assert len(traces[0]) > 50


def test_nobody_starves_in_a_crowd(seeds) -> None:
    """Every commit succeeds, few tries are lost, and no writer ends long after the others.

    A fair share is six commits of the first half. A crowd may be unlucky, so all seeds are judged together.
    """
    least = []
    for seed in seeds(30, 0, 1):
        world, book = simulate(seed, crowd, {})
        assert {entry.told for entry in book.done} == {"acknowledged"}
        puts = sum("put_if_absent" in line for line in world.trace)
        assert puts < 4 * len(book.done), (seed, puts, len(book.done))
        first_half = Counter(entry.actor for entry in book.done if entry.version <= len(book.done) / 2)
        least.append(min(first_half.values()) if len(first_half) == 12 else 0)
    assert sum(least) / len(least) > 2, least
    assert least.count(0) <= len(least) / 50, least


def test_crowds_over_a_failing_network(seeds) -> None:
    for seed in seeds(40, 0, 1):
        simulate(seed, crowd, {**NETWORK, **DEATHS})


def test_faults_really_happen() -> None:
    """The runs above are worth nothing if they are all quiet: every fault and every answer has been seen."""
    told, faults = set(), set()
    often = {fault: 3 * probability for fault, probability in {**NETWORK, **DEATHS, **STALE}.items()}
    for seed in range(80):
        cast = contested if seed >= 60 else mixed if seed % 2 else cleaned
        world, book = simulate(seed, cast, often)
        told |= {entry.told.partition(":")[0] for entry in book.done}
        faults |= {line.partition("[")[2] for line in world.trace if "[" in line}
    assert {"acknowledged", "conflict", "unknown", "died", "failed"} <= told
    assert len(faults) == len(often)


def test_a_torn_version_is_an_error_until_it_is_removed() -> None:
    for seed in range(60):
        world, book = World(seed, {Fault.TORN: 0.3}), Book()
        open_log(world, Archive(world.inner, world, "setup")).initialize(SCHEMA, partition_columns=PARTITION_COLUMNS)
        contention(world, book)
        world.run()
        versions = lineage(world)
        torn = [entry.version for entry in world.created if entry.version >= len(versions)]
        if torn:
            with pytest.raises(CorruptLogError, match=version_key(torn[0])):
                open_log(world, world.inner).snapshot()
            world.inner.delete(version_key(torn[0]))
        check(world, book)
