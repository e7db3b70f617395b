"""The benchmarks run, and their JSON holds every figure with both sides and a ratio."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the benchmarks measure beside delta-rs: install `indextables[bench]`")

_ROOT = Path(__file__).resolve().parents[2]
_FIGURES = [
    "commits: 12 through one handle",
    "commits: 12, delta-rs opened anew for each",
    "commits: 12, delta-rs opened anew, checkpoint every 10",
    "commits: 12, both opened anew for each",
    "open: 40 versions, files as Arrow",
    "open: 40 versions, files as Arrow, delta-rs with checkpoint",
    "refresh: 10 versions, just changed",
    "refresh: 10 versions, just changed, delta-rs with checkpoint",
    "refresh: 10 versions, settled",
    "refresh: 10 versions, settled, delta-rs with checkpoint",
    "refresh: 40 versions, just changed",
    "refresh: 40 versions, just changed, delta-rs with checkpoint",
    "refresh: 40 versions, settled",
    "refresh: 40 versions, settled, delta-rs with checkpoint",
]


def run_bench(*arguments: str, temporary: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=_ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return tmp_path_factory.mktemp("out"), tmp_path_factory.mktemp("temporary")


@pytest.fixture(scope="module")
def quick_run(places):
    out, temporary = places
    done = run_bench("--quick", "--rounds", "1", "--json", str(out / "figures.json"), temporary=temporary)
    assert done.returncode == 0, done.stderr
    return done, json.loads((out / "figures.json").read_text())


def test_every_figure_has_both_sides_and_a_ratio(quick_run):
    _, report = quick_run
    assert [figure["name"] for figure in report["figures"]] == _FIGURES
    for figure in report["figures"]:
        assert figure["ours_ms"], figure["name"]
        assert figure["theirs_ms"], figure["name"]
        assert min(figure["ours_ms"] + figure["theirs_ms"]) > 0
        assert figure["ratio"] == pytest.approx(figure["ours_median_ms"] / figure["theirs_median_ms"])


def test_a_refresh_is_one_list_call(quick_run):
    _, report = quick_run
    calls = [figure["store_calls"] for figure in report["figures"] if figure["store_calls"] is not None]
    assert calls == [{"list": 1}] * 4


def test_the_environment_is_named_and_the_machine_is_not(quick_run):
    _, report = quick_run
    assert set(report["environment"]) == {"python", "indextables", "deltalake", "num_cores", "fsync_median_ms"}


def test_the_table_shows_every_figure(quick_run):
    done, _ = quick_run
    for name in _FIGURES:
        assert name in done.stdout


def test_nothing_is_left_behind(quick_run, places):
    assert [path.name for path in places[1].iterdir() if path.name.startswith("indextables-bench-")] == []


def test_an_unknown_name_is_an_error(tmp_path):
    done = run_bench("nonsense", temporary=tmp_path)
    assert done.returncode == 2
    assert "nonsense" in done.stderr
