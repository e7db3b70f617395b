"""Every interleaving of a few actors, within the bounds of this table, with a crash or fault everywhere.

A row of `BOUNDS` is a scenario, how many faults a schedule may have, and how many preemptions: None is no bound. What
is too much for every run is left to the long mode (`python -m tests.simulator.long`), which goes further.
"""

from __future__ import annotations

import pytest
from tests.simulator.exhaustive import Exploration
from tests.simulator.meetings import PAIRS, TRIPLES
from tests.simulator.test_mutations import BY_HISTORIES

_LIGHT = ("append, append", "append, overwrite", "overwrite where, append", "batch, the same batch")
_MOST_RUNS = 20_000
BOUNDS: list[tuple[str, int, int | None]] = [
    *((name, 0, None if name in _LIGHT else 1) for name in PAIRS),
    *((name, 1, 1 if name in ("append, append", "batch, the same batch") else 0) for name in PAIRS),
    *((name, 0, 1) for name in TRIPLES),
]


QUICK = ("append, append", "append, merge", "restore, purge", "batch, the same batch", "truncate, reader")


@pytest.mark.parametrize(
    ("name", "max_faults", "max_preemptions"),
    [pytest.param(*bound, marks=() if bound[0] in QUICK and not bound[1] else pytest.mark.slow) for bound in BOUNDS],
)
def test_every_schedule(name: str, max_faults: int, max_preemptions: int | None) -> None:
    scenario = {**PAIRS, **TRIPLES}[name]
    explored = Exploration(scenario, max_faults=max_faults, max_preemptions=max_preemptions).run(_MOST_RUNS)
    assert explored.is_complete
    assert explored.ends >= len(scenario.actors)


def test_known_states_lose_no_schedule() -> None:
    """With and without a bound that is never reached, the same ends are found."""
    free = Exploration(PAIRS["append, append"], max_faults=0).run(_MOST_RUNS)
    bounded = Exploration(PAIRS["append, append"], max_faults=0, max_preemptions=99).run(_MOST_RUNS)
    assert bounded.schedules == free.schedules > 1000


NOTICED = {
    "no settling by transaction id": "append, append",
    "no look for the batch of a stream": "batch, the same batch",
}


@pytest.mark.parametrize("mutation", NOTICED)
def test_schedules_notice_a_missing_protection(mutation: str, monkeypatch) -> None:
    protection = BY_HISTORIES[mutation]
    monkeypatch.setattr(protection.place, protection.name, protection.instead)
    with pytest.raises(AssertionError):
        Exploration(PAIRS[NOTICED[mutation]], max_faults=1, max_preemptions=1).run(_MOST_RUNS)
