"""A store that fails on purpose, in every way that real ones do.

`FaultyStore` wraps any store and asks a `Script` before each call what shall go wrong. What real stores do to a put:
it is applied and its answer is lost, it is not applied, it is applied later, the client's own retry meets it ("exists",
and it is ours), a conflict is answered though nothing is there. A listing may miss what was created last, a local write
may be torn, and the process may die before or after any call.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from indextables.errors import ObjectExistsError, ObjectNotFoundError, StorageError
from indextables.location import Location
from indextables.store.base import ObjectMeta, ObjectStore

_Result = TypeVar("_Result")


class Fault(enum.Enum):
    """What goes wrong with one call."""

    NONE = "nothing"
    UNAVAILABLE = "503: not applied, and said so"
    DROPPED = "time-out: not applied"
    ANSWER_LOST = "time-out: applied"
    DELAYED = "time-out: applied later"
    RETRIED = "412: applied, and the client's own retry met it"
    FALSE_CONFLICT = "409: not applied, and nothing is there"
    STALE = "the listing misses what was created last"
    TORN = "power cut: a part of the bytes is there"
    DIES_BEFORE = "the process dies before the call"
    DIES_AFTER = "the process dies after the call"


class Call(NamedTuple):
    """One call of a store."""

    verb: str
    key: str


Script = Callable[[Call], Fault]


class ProcessDied(BaseException):
    """The simulated end of the process. Every later call of the same store raises it again."""


class SharedFate:
    """What several faulty stores over one inner store have in common: puts under way, and the last keys created."""

    def __init__(self, num_recent: int = 1) -> None:
        self.pending: list[Callable[[], None]] = []
        self._recent: list[str] = []
        self._num_recent = num_recent

    def created(self, key: str) -> None:
        self._recent = [*self._recent, key][-self._num_recent :]

    @property
    def recent(self) -> frozenset[str]:
        """The keys that a stale listing misses."""
        return frozenset(self._recent)

    def deliver(self, at: int = 0) -> None:
        """Let one delayed put arrive."""
        self.pending.pop(at)()


class FaultyStore:
    """A store whose calls go wrong as a script says."""

    def __init__(self, inner: ObjectStore, script: Script, fate: SharedFate | None = None) -> None:
        self._inner = inner
        self._script = script
        self._fate = fate or SharedFate()
        self._dead = False

    @property
    def location(self) -> Location:
        return self._inner.location

    @property
    def is_remote(self) -> bool:
        return self._inner.is_remote

    def put_if_absent(self, key: str, data: bytes, *, once: bool = False) -> None:
        def create(content: bytes = data) -> None:
            self._inner.put_if_absent(key, content, once=once)
            self._fate.created(key)

        fault = self._next("put_if_absent", key)
        if fault is Fault.RETRIED:
            create()
            raise ObjectExistsError(f"injected: `{key}` exists, after a retry")
        if fault is Fault.FALSE_CONFLICT:
            raise ObjectExistsError(f"injected: a conflict on `{key}`")
        if fault is Fault.TORN:
            create(data[: len(data) // 2])
            self._die()
        self._write(fault, key, create)

    def put(self, key: str, data: bytes) -> None:
        fault = self._next("put", key)
        if fault is Fault.TORN:
            self._inner.put(key, data[: len(data) // 2])
            self._die()
        self._write(fault, key, lambda: self._inner.put(key, data))

    def put_file(self, key: str, path: str) -> None:
        with open(path, "rb") as source:
            self.put(key, source.read())

    def get(self, key: str, *, e_tag: str | None = None) -> bytes:
        return self._read("get", key, lambda: self._inner.get(key, e_tag=e_tag))

    def get_object(self, key: str) -> tuple[bytes, ObjectMeta]:
        return self._read("get", key, lambda: self._inner.get_object(key))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._read("get_range", key, lambda: self._inner.get_range(key, start, end))

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return self._read("get_ranges", key, lambda: self._inner.get_ranges(key, ranges))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectMeta]:
        fault = self._next("list", prefix)
        hidden = self._fate.recent if fault is Fault.STALE else frozenset()
        found = self._finish(fault, prefix, lambda: [*self._inner.list(prefix, after=after)])
        return iter([meta for meta in found if meta.key not in hidden])

    def pages(self, prefix: str = "") -> Iterator[Sequence[ObjectMeta]]:
        fault = self._next("pages", prefix)
        hidden = self._fate.recent if fault is Fault.STALE else frozenset()
        found = self._finish(fault, prefix, lambda: [*self._inner.pages(prefix)])
        return iter([[meta for meta in page if meta.key not in hidden] for page in found])

    def head(self, key: str) -> ObjectMeta:
        return self._read("head", key, lambda: self._inner.head(key))

    def delete(self, key: str, *, with_directory: bool = False) -> None:
        self._write(self._next("delete", key), key, lambda: self._inner.delete(key, with_directory=with_directory))

    def delete_many(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.delete(key)

    def _next(self, verb: str, key: str) -> Fault:
        if self._dead:
            raise ProcessDied
        fault = self._script(Call(verb, key))
        if fault is Fault.DIES_BEFORE:
            self._die()
        if fault in (Fault.UNAVAILABLE, Fault.DROPPED):
            raise StorageError(f"injected: {verb} of `{key}`: {fault.value}")
        return fault

    def _read(self, verb: str, key: str, read: Callable[[], _Result]) -> _Result:
        return self._finish(self._next(verb, key), key, read)

    def _finish(self, fault: Fault, key: str, call: Callable[[], _Result]) -> _Result:
        try:
            result = call()
        finally:
            if fault is Fault.DIES_AFTER:
                self._die()
        if fault in (Fault.ANSWER_LOST, Fault.DELAYED):
            raise StorageError(f"injected: `{key}`: {fault.value}")
        return result

    def _write(self, fault: Fault, key: str, write: Callable[[], None]) -> None:
        if fault is Fault.DELAYED:
            self._fate.pending.append(lambda: _late(write))
            raise StorageError(f"injected: `{key}`: {fault.value}")
        self._finish(fault, key, write)

    def _die(self) -> None:
        self._dead = True
        raise ProcessDied


def _late(write: Callable[[], None]) -> None:
    try:
        write()
    except (ObjectExistsError, ObjectNotFoundError):
        return
