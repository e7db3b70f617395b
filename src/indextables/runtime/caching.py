"""Values kept in memory: lazy properties, and caches bounded by size and age.

Threads may share both. One atomic operation stores a value, so an interrupt between two operations loses at most a
cached value. No lock survives a fork.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, NamedTuple, Self, TypeVar, overload

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class lazy_property(Generic[_Value]):  # noqa: N801 - a decorator, named like `property`
    """Property computed on first use and kept in the instance.

    Threads that read it on one instance compute it once. Other instances never wait, unlike with
    `functools.cached_property`, which on Python 3.11 has one lock per class.
    """

    def __init__(self, compute: Callable[[Any], _Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> _Value: ...
    def __get__(self, instance: object | None, owner: type) -> Self | _Value:
        if instance is None:
            return self
        known = instance.__dict__
        with in_turn((id(instance), self._name)):
            if self._name not in known:
                known[self._name] = self._compute(instance)
        value: _Value = known[self._name]
        return value


@contextlib.contextmanager
def in_turn(what: Hashable) -> Iterator[None]:
    """Make threads with the same work take turns; check afterwards if it is done."""
    with _under_way.setdefault(what, threading.RLock()):
        try:
            yield
        finally:
            _under_way.pop(what, None)


_under_way: dict[Hashable, threading.RLock] = {}
os.register_at_fork(after_in_child=_under_way.clear)  # a thread that is gone may hold a lock


class _Entry(NamedTuple):
    value: Any
    weight: int
    expires_at: float


class BoundedCache(Generic[_Key, _Value]):
    """Values by key; the least recently used is evicted first.

    It has no lock: each step is one call of `OrderedDict`.
    """

    def __init__(
        self,
        max_weight: int,
        *,
        weigh: Callable[[_Value], int] | None = None,
        ttl_seconds: float = float("inf"),
        timer: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Limit the sum of `weigh(value)` (default: the number of values) and the age."""
        self.max_weight = max_weight
        self._weigh = weigh
        self._ttl_seconds = ttl_seconds
        self._timer = timer
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def values(self) -> list[_Value]:
        """Return all values, the least recently used first."""
        return [entry.value for entry in list(self._entries.values())]

    def get(self, key: _Key) -> _Value | None:
        """Return the value of a key and mark it as used; None if it is absent or too old."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.expires_at <= self._timer():
            self._entries.pop(key, None)
            return None
        with contextlib.suppress(KeyError):  # another thread may have evicted it
            self._entries.move_to_end(key)
        value: _Value = entry.value
        return value

    def put(self, key: _Key, value: _Value) -> list[_Value]:
        """Keep a value and return the evicted ones; do not keep a value above the bound."""
        weight = 1 if self._weigh is None else self._weigh(value)
        if weight > self.max_weight:
            self._entries.pop(key, None)
            return []
        self._entries[key] = _Entry(value, weight, self._timer() + self._ttl_seconds)
        with contextlib.suppress(KeyError):
            self._entries.move_to_end(key)
        return self._evict()

    def clear(self) -> None:
        """Drop all values."""
        self._entries.clear()

    def _evict(self) -> list[_Value]:
        evicted = []
        with contextlib.suppress(KeyError):  # another thread may have evicted the last one
            excess = self.weight() - self.max_weight
            while excess > 0:
                _, entry = self._entries.popitem(last=False)
                evicted.append(entry.value)
                excess -= entry.weight
        return evicted

    def weight(self) -> int:
        """Return the sum of all weights. A running sum would be wrong after an interrupt."""
        if self._weigh is None:
            return len(self._entries)
        return sum([entry.weight for entry in list(self._entries.values())])
