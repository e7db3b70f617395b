"""Interrupts at a chosen line of the library, as a signal handler may raise them."""

from __future__ import annotations

import sys
from pathlib import Path

import indextables as it

SOURCE = str(Path(it.__file__).parent)


def interrupted_at(step: int, work) -> int:
    """Run work, interrupt it before so many lines of the library in this thread; how many lines were run."""
    lines = 0

    def trace(frame, event, argument):
        nonlocal lines
        if event == "call" and not frame.f_code.co_filename.startswith(SOURCE):
            return None
        if event == "line":
            lines += 1
            if lines == step:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return lines
    finally:
        sys.settrace(before)
    return lines
