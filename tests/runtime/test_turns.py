"""Turns: who waits how long, by what the log tells."""

from __future__ import annotations

import pytest

from indextables.runtime.turns import Turns


class StillClock:
    """Time that passes when a test says so; chance is in the middle."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.chance = 0.5

    def monotonic(self) -> float:
        return self.seconds

    def uniform(self) -> float:
        return self.chance


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


def crowd(turns: Turns, num_writers: int) -> None:
    for version in range(100, 120):
        turns.began(version, version - num_writers)


def test_a_lonely_writer_never_waits(clock) -> None:
    turns = Turns(clock)
    for version in range(1, 20):
        turns.took(None, 0.05)
        turns.began(version, version - 1)
        turns.seen(version, own=True)
        clock.seconds += 3
        assert turns.until_turn(turns.known_since(version)) == 0
        assert not turns.is_stale(version)
    assert not turns.is_crowded


def test_a_writer_waits_for_the_others_from_its_own_beginning(clock) -> None:
    turns = Turns(clock)
    crowd(turns, 8)
    turns.took(0.05, 0.05)
    assert turns.contenders == 8
    assert turns.until_turn(clock.seconds) == pytest.approx(7 * turns.turn_seconds)
    assert turns.until_turn(clock.seconds - 3 * turns.turn_seconds) == pytest.approx(4 * turns.turn_seconds)
    assert turns.until_turn(clock.seconds - 60) == 0


def test_the_rate_of_commits_bounds_the_wait_from_below(clock) -> None:
    turns = Turns(clock)
    crowd(turns, 8)
    turns.took(0.0, 0.001)
    turns.seen(10, own=True)
    clock.seconds += 4
    turns.seen(18, own=True)  # two commits a second
    assert turns.until_turn(clock.seconds) == pytest.approx((8 - 2) / 2)


def test_one_writer_that_was_away_for_long_is_no_crowd(clock) -> None:
    turns = Turns(clock)
    for version in range(1, 6):
        turns.began(version, version - 1)
    turns.began(1000, 3)
    assert turns.contenders == 1


def test_a_crowd_that_is_gone_is_forgotten(clock) -> None:
    turns = Turns(clock)
    crowd(turns, 8)
    turns.took(0.05, 0.05)
    turns.seen(119)
    clock.seconds += 0.7
    turns.seen(125)  # six more of them, as expected
    assert turns.contenders == 8
    clock.seconds += 0.7
    turns.seen(126)
    assert turns.contenders == 1


def test_a_head_is_stale_once_others_have_probably_committed(clock) -> None:
    turns = Turns(clock)
    turns.seen(5)
    clock.seconds += 10
    turns.seen(6)  # one commit of another in ten seconds
    clock.seconds += 4
    assert not turns.is_stale(6)
    clock.seconds += 4
    assert turns.is_stale(6)


def test_the_writer_that_lost_most_waits_least(clock) -> None:
    turns = Turns(clock)
    crowd(turns, 32)
    turns.took(0.05, 0.05)
    clock.chance = 1.0
    waits = [turns.after_loss(losses) for losses in range(1, 30)]
    assert waits[:2] == [0, 0]
    longest = max(range(len(waits)), key=waits.__getitem__)
    assert waits[:longest] == sorted(waits[:longest])
    assert waits[longest] <= 16 * turns.turn_seconds
    assert waits[-1] == turns.turn_seconds < waits[longest]
