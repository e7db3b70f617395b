"""Work that is spread over processes of this host."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from indextables.maintain.workers import LocalWorkers

_SCRIPT = """
import functools, sys
from indextables.maintain.workers import LocalWorkers
from tests.maintain.test_local_workers import tell_and_wait

list(LocalWorkers().run(functools.partial(tell_and_wait, sys.argv[1]), [0, 1], at_once=2))
"""
_PATIENCE_SECONDS = 30


def tell_and_wait(directory: str, item: int) -> None:
    """Say who works, and work for longer than any test waits."""
    Path(directory, f"{item}.begun").write_text(str(os.getpid()))
    Path(directory, f"{item}.begun").rename(Path(directory, f"{item}.pid"))
    time.sleep(10 * _PATIENCE_SECONDS)


def double(item: int) -> int:
    return 2 * item


def test_results_come_with_their_places() -> None:
    assert sorted(LocalWorkers().run(double, [5, 6, 7], at_once=2)) == [(0, 10), (1, 12), (2, 14)]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nothing tells zombies from others")
def test_processes_end_with_a_parent_that_was_killed(tmp_path) -> None:
    paths = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as parent:
        try:
            _wait_for(lambda: len(list(tmp_path.glob("*.pid"))) == 2)
            workers = [int(path.read_text()) for path in tmp_path.glob("*.pid")]
            assert all(map(_is_alive, workers))
        finally:
            parent.send_signal(signal.SIGKILL)
    _wait_for(lambda: not any(map(_is_alive, workers)))


def _wait_for(condition) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _is_alive(pid: int) -> bool:
    """A zombie, which nobody has taken the end of, is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
