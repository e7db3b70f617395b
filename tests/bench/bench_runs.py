"""Runs of the benchmarks in a process of their own, as `make bench` starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).resolve().parents[2]


def run_bench(
    *arguments: str, temporary: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """One run, whose temporary files lie in a directory."""
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=_ROOT,
        env={**os.environ, "TMPDIR": str(temporary), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def check_figures(report: Mapping[str, Any], expected: list[tuple[str, str | None]]) -> None:
    """Every figure is there, in order, with samples of its sides and their ratio."""
    assert [(figure["name"], figure["yardstick"]) for figure in report["figures"]] == expected
    for figure in report["figures"]:
        assert figure["ours"], figure["name"]
        assert min(figure["ours"] + figure["theirs"]) > 0
        if figure["yardstick"] is None:
            assert figure["theirs"] == []
            assert figure["ratio"] is None
        else:
            assert figure["ratio"] == pytest.approx(figure["ours_median"] / figure["theirs_median"])


def left_behind(temporary: Path) -> list[str]:
    """What a run should have removed."""
    return [path.name for path in temporary.iterdir() if path.name.startswith("indextables-")]
