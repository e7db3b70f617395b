"""Entry point of the `indextables` command.

It is outside the package because imports take time, and Ctrl-C must end the command silently during them, too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

_INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    with ending_on_interrupt():
        from indextables.cli.main import main as run
    try:
        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


@contextlib.contextmanager
def ending_on_interrupt() -> Iterator[None]:
    """End the process silently on Ctrl-C, during an import.

    A `KeyboardInterrupt` inside an import may be lost or become another exception.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield  # the caller ignores interrupts, as `nohup` does, or handles them itself
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)
