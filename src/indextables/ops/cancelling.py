"""Work that can be called off: nothing of it reaches the store afterwards, except that it takes back what it had put.

Whoever calls it off does not wait. The work ends by `WorkCancelled` at its next call of the store, so that a commit is
either in the log already or never made.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from indextables.store import ObjectMeta, ObjectStore
from indextables.store.url import Location


class WorkCancelled(BaseException):
    """The work was called off. Like an interrupt it is no error, and nobody who handles errors goes on after it."""


class Cancellation:
    """Whether some work was called off."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._listeners: list[Callable[[], None]] = []

    @property
    def is_cancelled(self) -> bool:
        return self._is_cancelled

    def cancel(self) -> None:
        """Call the work off, and tell those who wait for something outside of this process."""
        with self._lock:
            self._is_cancelled = True
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def check(self) -> None:
        """Raise `WorkCancelled` where the work was called off."""
        if self._is_cancelled:
            raise WorkCancelled

    @contextlib.contextmanager
    def telling(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call somebody at the moment when the work is called off, should that happen meanwhile."""
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
    """By what the work of this thread may be called off, if by anything."""
    return _current.get()


@contextlib.contextmanager
def cancelled_by(cancellation: Cancellation) -> Iterator[None]:
    """Let all work that is done meanwhile be called off."""
    token = _current.set(cancellation)
    try:
        yield
    finally:
        _current.reset(token)


class CancellableStore:
    """A store for work that may be called off. A pickled copy is the store itself: other processes are ended, not
    asked."""

    def __init__(self, inner: ObjectStore, cancellation: Cancellation) -> None:
        self._inner = inner
        self._cancellation = cancellation
        self._own_keys: set[str] = set()

    def __reduce__(self) -> tuple[object, ...]:
        return _itself, (self._inner,)

    def __repr__(self) -> str:
        return f"CancellableStore({self._inner!r})"

    @property
    def location(self) -> Location:
        return self._inner.location

    @property
    def is_remote(self) -> bool:
        return self._inner.is_remote

    def put_if_absent(self, key: str, data: bytes, *, once: bool = False) -> None:
        self._cancellation.check()
        self._inner.put_if_absent(key, data, once=once)

    def put(self, key: str, data: bytes) -> None:
        self._cancellation.check()
        self._inner.put(key, data)

    def put_file(self, key: str, path: str) -> None:
        self._cancellation.check()
        self._own_keys.add(key)
        self._inner.put_file(key, path)

    def get(self, key: str, *, e_tag: str | None = None) -> bytes:
        self._cancellation.check()
        return self._inner.get(key, e_tag=e_tag)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self._cancellation.check()
        return self._inner.get_range(key, start, end)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self._cancellation.check()
        return self._inner.get_ranges(key, ranges)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectMeta]:
        self._cancellation.check()
        for meta in self._inner.list(prefix, after=after):
            yield meta
            self._cancellation.check()

    def pages(self, prefix: str = "") -> Iterator[Sequence[ObjectMeta]]:
        self._cancellation.check()
        for page in self._inner.pages(prefix):
            yield page
            self._cancellation.check()

    def head(self, key: str) -> ObjectMeta:
        self._cancellation.check()
        return self._inner.head(key)

    def delete(self, key: str, *, with_directory: bool = False) -> None:
        self._check_delete([key])
        self._inner.delete(key, with_directory=with_directory)

    def delete_many(self, keys: Iterable[str]) -> None:
        asked = list(keys)
        self._check_delete(asked)
        self._inner.delete_many(asked)

    def _check_delete(self, keys: Iterable[str]) -> None:
        """What the work itself has put may be taken back at any time."""
        if not self._own_keys.issuperset(keys):
            self._cancellation.check()


def _itself(store: ObjectStore) -> ObjectStore:
    return store
