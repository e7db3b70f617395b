"""Figures: ratios, goals and verdicts."""

from __future__ import annotations

import click
import pytest
from bench.__main__ import _check_installed
from bench.harness import Figure, Goal, Unit


def test_a_ratio_is_that_of_the_medians():
    assert Figure("a", [1, 9, 2], [4, 4, 400], Goal()).ratio == 0.5


def test_a_figure_without_yardstick_has_no_ratio():
    figure = Figure("a", [1], [], Goal())
    assert figure.ratio is None
    assert figure.as_json()["yardstick"] is None


@pytest.mark.parametrize(
    ("goal", "unit", "is_met"),
    [
        (Goal(), Unit.MS, None),
        (Goal(max_ratio=0.5), Unit.MS, True),
        (Goal(max_ratio=0.49), Unit.MS, False),
        (Goal(below_ms=51), Unit.MS, True),
        (Goal(below_ms=50), Unit.MS, False),
        (Goal(max_ratio=0.5, below_ms=50), Unit.MS, False),
        (Goal(below_mb=51), Unit.MB, True),
        (Goal(below_mb=50), Unit.MB, False),
        (Goal(below_mb=51), Unit.MS, False),
        (Goal(most_requests=50), Unit.REQUESTS, True),
        (Goal(most_requests=49), Unit.REQUESTS, False),
        (Goal(most_requests=50), Unit.MS, False),
        (Goal(store_calls={"list": 1}), Unit.MS, False),
    ],
)
def test_a_goal_is_met_when_all_of_it_is(goal, unit, is_met):
    assert Figure("a", [50], [100], goal, unit=unit).met is is_met


def test_a_ratio_that_is_not_there_meets_no_goal():
    assert Figure("a", [50], [], Goal(max_ratio=1)).met is False


def test_a_goal_says_what_it_asks():
    goal = Goal(max_ratio=0.1, below_ms=500, below_mb=600, store_calls={"list": 1})
    assert str(goal) == "ratio at most 0.1, calls: 1 list, under 500 ms, under 600 MB"


def test_what_is_missing_is_named():
    with pytest.raises(click.ClickException, match="nothing_of_the_sort is not installed"):
        _check_installed("click", "nothing_of_the_sort")
