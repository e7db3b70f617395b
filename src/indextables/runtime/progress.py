"""Progress reports of long work; they cost nothing without a reporter."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Protocol


class Reporter(Protocol):
    """Callback that shows the work, the number of finished parts, and their total."""

    def __call__(self, what: str, done: int, total: int) -> None: ...


_reporter: contextvars.ContextVar[Reporter | None] = contextvars.ContextVar("reporter", default=None)


@contextlib.contextmanager
def reporting_to(reporter: Reporter) -> Iterator[None]:
    """Report the progress of all work inside this block to `reporter`."""
    token = _reporter.set(reporter)
    try:
        yield
    finally:
        _reporter.reset(token)


def report(what: str, done: int, total: int) -> None:
    """Report the progress of the work, as in `report("merging splits", 3, 10)`."""
    reporter = _reporter.get()
    if reporter is not None:
        reporter(what, done, total)
