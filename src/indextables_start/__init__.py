"""Entry point of the `indextables` command.

It stands outside the package because importing the package takes a moment, and Ctrl-C must end the command silently
then too.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

_INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # else the caller ignores interrupts, as `nohup` does
        signal.signal(signal.SIGINT, _end)
    from indextables.cli.main import main as run

    try:
        signal.signal(signal.SIGINT, before)
        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)
