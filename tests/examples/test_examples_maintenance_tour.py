"""The tour of maintenance runs anywhere and tells what is true."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "maintenance_tour.py"


def test_the_tour(tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines == [
        "written: 60 splits, 12 timeouts",
        "a merge would write 3 splits from 60",
        "merged: 3 splits, 12 timeouts",
        "dropped 2 partitions by mistake: 20 rows are left",
        "restored version 21: 60 rows",
        "error: day=mon/splits: it is missing",
        "repaired: 2 of 3 splits are undamaged",
        "mended: 2 splits, 40 rows, 0 problems",
        "purged: 60 files; 8 timeouts are still found",
    ]
    assert list(tmp_path.iterdir()) == []
