"""Bombs in every form that a table can hold are refused before they take the memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.security.bombs import BOMBS

MOST_BYTES = 450 << 20


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(
        [sys.executable, "-m", "tests.security.bombs"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return {outcome["bomb"]: outcome for outcome in map(json.loads, run.stdout.splitlines())}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_before_it_takes_the_memory(outcomes, bomb) -> None:
    """Each would take 250 MB or more; what is always allowed is 128 MiB, of which there may be a few copies."""
    outcome = outcomes[bomb]
    assert outcome["how"].startswith(("CorruptLogError", "CheckpointCorruptionError")), outcome
    assert outcome["grew_bytes"] < MOST_BYTES, outcome
