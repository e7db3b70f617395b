"""The search tour runs anywhere, tells what is true, and leaves nothing behind."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "search_tour.py"


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("tour")


@pytest.fixture(scope="module")
def output(place) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLE],
        cwd=place,
        env={**os.environ, "TMPDIR": str(place)},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_nothing_is_left_behind(output, place) -> None:
    assert os.listdir(place) == []


def test_its_numbers_are_those_of_its_lines(output) -> None:
    spec = importlib.util.spec_from_file_location("search_tour", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    tour = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tour)
    lines = tour.log_lines().to_pylist()
    timeouts = sum("timeout" in line["message"] for line in lines)
    assert f"timeout: {timeouts:,} (" in output
    assert f"tiemout~: {timeouts:,} (" in output
    assert f"ms:[0 TO 9]: {sum(line['ms'] < 10 for line in lines):,} (" in output
    for level, count in Counter(line["level"] for line in lines).items():
        assert re.search(rf"│ {level} +│ {count} +│", output)
    assert f"version 1: {timeouts:,} timeouts of {len(lines):,} rows" in output
    assert "version 2: 0 timeouts of 1 rows" in output


def test_it_shows_every_station(output) -> None:
    for text in ("[timeout], [upstream] [gateway]", "1996", "errors a day", "all is calm", " ms)"):
        assert text in output
    assert "\x1b" not in output
