"""The drawing of ratios: every chosen one is there, and the same bytes come of the same figures."""

from __future__ import annotations

import json
import xml.etree.ElementTree

import click.testing
import pytest

from bench import ratio_plot


def report(ratio: float) -> dict:
    figures = [
        {"name": name, "yardstick": peer, "ratio": ratio} for _, chosen in ratio_plot.CHOSEN for name, peer in chosen
    ]
    return {"figures": [*figures, {"name": "purge", "yardstick": None, "ratio": None}]}


def test_every_ratio_is_drawn_once(tmp_path) -> None:
    for number, ratio in enumerate((7.0, 0.25)):
        (tmp_path / f"{number}.json").write_text(json.dumps(report(ratio)))
    arguments = [str(tmp_path / "0.json"), str(tmp_path / "1.json")]
    for name in ("one.svg", "two.svg"):
        done = click.testing.CliRunner().invoke(ratio_plot.main, [*arguments, "--svg", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
    text = (tmp_path / "one.svg").read_text()
    assert text == (tmp_path / "two.svg").read_text()
    assert text.count(">0.25<") == sum(len(chosen) for _, chosen in ratio_plot.CHOSEN)
    assert ">7<" not in text  # the last report counts
    drawn = {element.text for element in xml.etree.ElementTree.fromstring(text).iter() if element.text}
    assert {label for label, _ in ratio_plot.CHOSEN} <= drawn
    assert len(text) < 20_000


def test_a_missing_figure_is_named() -> None:
    given = report(1.0)
    lost = given["figures"].pop(0)
    with pytest.raises(click.ClickException, match=lost["name"]):
        ratio_plot.rows_of([given], ratio_plot.CHOSEN)


def test_better_ratios_are_left_of_worse_ones() -> None:
    places = [ratio_plot._at(ratio) for ratio in (0.001, 0.01, 0.5, 1, 3, 30, 1000)]
    assert places == sorted(places)
    assert "ahead" in ratio_plot.drawing([ratio_plot.Row("a <b>", "c", 0.5)])
    assert "a &lt;b&gt;" in ratio_plot.drawing([ratio_plot.Row("a <b>", "c", 0.5)])
