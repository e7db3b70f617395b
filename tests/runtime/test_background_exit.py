"""What is under way in the background when somebody does not wait for the end of the process."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

_SCRIPT = """
    import pathlib, sys, time
    from indextables.runtime.background import BACKGROUND

    place = pathlib.Path(sys.argv[1])

    def work(cancellation):
        try:
            (place / "begun").touch()
            while True:
                cancellation.check()
                time.sleep(0.01)
        finally:
            time.sleep(0.1)
            (place / "put away").touch()

    BACKGROUND.begin("table", work, wait_seconds=600)
"""


def test_an_interrupt_while_the_end_is_waited_for_calls_the_work_off(tmp_path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_SCRIPT), str(tmp_path)], stderr=subprocess.PIPE, text=True
    ) as process:
        errors = _interrupt_until_it_ends(process, tmp_path / "begun")
    assert (tmp_path / "put away").exists(), errors
    assert "the background work on `table` was cancelled" in errors


def _interrupt_until_it_ends(process: subprocess.Popen[str], begun: Path) -> str:
    """An interrupt that comes before the script has ended is not yet one of the waiting."""
    for _ in range(30):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=1)[1]
        if begun.exists():
            process.send_signal(signal.SIGINT)
    process.kill()
    raise AssertionError("it did not end")
