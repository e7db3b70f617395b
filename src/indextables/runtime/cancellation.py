"""Cancellation of work: cancelled work sends no requests but to undo its own puts.

The caller of `cancel` does not wait. The work ends with `WorkCancelled` at its next store call, so its commit is either
in the log already or never happens.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator


class WorkCancelled(BaseException):
    """Raised when work is cancelled.

    Derives from BaseException so that `except Exception` does not swallow it.
    """


class Cancellation:
    """Cancellation state of some work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._listeners: list[Callable[[], None]] = []

    @property
    def is_cancelled(self) -> bool:
        return self._is_cancelled

    def cancel(self) -> None:
        """Cancel the work, and notify the listeners that wait for other processes."""
        with self._lock:
            self._is_cancelled = True
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def check(self) -> None:
        """Raise `WorkCancelled` if the work is cancelled."""
        if self._is_cancelled:
            raise WorkCancelled

    @contextlib.contextmanager
    def notifying(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call the listener if the work is cancelled inside this block."""
        with self._lock:
            self.check()
            self._listeners.append(listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)


_current: contextvars.ContextVar[Cancellation | None] = contextvars.ContextVar("cancellation", default=None)


def current_cancellation() -> Cancellation | None:
    """Return the cancellation of this thread's work, if it has one."""
    return _current.get()


@contextlib.contextmanager
def cancelled_by(cancellation: Cancellation) -> Iterator[None]:
    """Make all work inside this block cancellable by `cancellation`."""
    token = _current.set(cancellation)
    try:
        yield
    finally:
        _current.reset(token)
