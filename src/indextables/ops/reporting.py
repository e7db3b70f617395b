"""How far long work has come, told to whoever wants to show it. Where nobody does, it costs nothing."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Protocol


class Reporter(Protocol):
    """Shows progress: what is being done, how many parts of it are done, and of how many."""

    def __call__(self, what: str, done: int, total: int) -> None: ...


_reporter: contextvars.ContextVar[Reporter | None] = contextvars.ContextVar("reporter", default=None)


@contextlib.contextmanager
def reporting_to(reporter: Reporter) -> Iterator[None]:
    """Show the progress of all work that is done meanwhile."""
    token = _reporter.set(reporter)
    try:
        yield
    finally:
        _reporter.reset(token)


def report(what: str, done: int, total: int) -> None:
    """Tell how far the work has come, as in `report("merging splits", 3, 10)`."""
    reporter = _reporter.get()
    if reporter is not None:
        reporter(what, done, total)
