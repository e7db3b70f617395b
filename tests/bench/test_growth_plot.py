"""The drawing of `growth`: labelled, and the same bytes for the same figures."""

from __future__ import annotations

import pytest

pytest.importorskip("deltalake", reason="the benchmarks measure beside delta-rs: install `indextables[bench]`")
pytest.importorskip("matplotlib", reason="the drawing needs matplotlib: install `indextables[bench]`")

from bench.harness import Figure, Goal

from bench import growth, plot

_FIGURES = [
    Figure("commits: 12 through one handle", [3], [4], Goal()),
    Figure("growth: list all files by manifest, 1000 files", [20], [], Goal()),
    Figure("growth: list all files by manifest, 100000 files", [400], [20], Goal()),
    Figure("growth: list one partition, 1000 files", [10], [], Goal()),
]


def test_the_curves_are_those_of_the_figures():
    found = growth.series_of(_FIGURES)
    assert found == {
        growth.LIST_ALL: {1000: 20, 100000: 400},
        growth.LIST_PARTITION: {1000: 10},
        growth.WRITE_STATE: {},
        growth.COMMIT: {},
    }


def test_a_drawing_is_labelled_and_repeatable(tmp_path):
    for name in ("one.svg", "two.svg"):
        plot.draw(growth.series_of(_FIGURES), tmp_path / name)
    text = (tmp_path / "one.svg").read_text()
    assert text == (tmp_path / "two.svg").read_text()
    assert "<dc:date>" not in text
    for label in (
        growth.LIST_ALL,
        growth.LIST_PARTITION,
        "files in the table",
        "milliseconds (median)",
    ):
        assert label in text
