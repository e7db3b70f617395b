"""Counts of one scan by stage: requests, bytes, cache hits, rows and time.

`Tally.active` starts counting in the calling thread; pools pass it on to their threads. Without it nothing is counted,
and `note` costs one look-up.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import TypeVar

from indextables.clock import SYSTEM_CLOCK

_T = TypeVar("_T")

PLAN, SHEETS, FOOTERS, FILTERS, INDEX, SEARCH, ROWS = (
    "plan",
    "sheets",
    "footers",
    "filters",
    "index",
    "search",
    "rows",
)
"""Stages of a scan: log, filter sheets, footers and filters of splits, their indexes, the engine, the rows of hits."""


class Tally:
    """Counts by stage; safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._splits: defaultdict[str, set[str]] = defaultdict(set)

    def add(self, stage: str, **counts: float) -> None:
        """Add to the counts of a stage."""
        with self._lock:
            self._counts[stage].update(counts)

    def add_split(self, stage: str, key: str, **counts: float) -> None:
        """Add to the counts of a stage, if it meets this split for the first time."""
        with self._lock:
            if key not in self._splits[stage]:
                self._splits[stage].add(key)
                self._counts[stage].update({"splits": 1, **counts})

    def of(self, stage: str) -> Mapping[str, float]:
        """Return the counts of a stage; a missing one is 0."""
        with self._lock:
            return Counter(self._counts[stage])

    @contextlib.contextmanager
    def active(self, stage: str) -> Iterator[Tally]:
        """Count until the block ends, first for the given stage."""
        token = _place.set(_Place(self, stage))
        start = SYSTEM_CLOCK.monotonic()
        try:
            yield self
        finally:
            self.add(stage, seconds=SYSTEM_CLOCK.monotonic() - start)
            _place.reset(token)


class _Place:
    """The stage that a thread, and the threads it starts, count for."""

    def __init__(self, tally: Tally, stage: str) -> None:
        self.tally = tally
        self.stage = stage
        self.is_asking = False


_place: contextvars.ContextVar[_Place | None] = contextvars.ContextVar("indextables-tally", default=None)


def is_counting() -> bool:
    """Return whether a tally is active."""
    return _place.get() is not None


def note(**counts: float) -> None:
    """Add to the counts of the current stage, if a tally is active."""
    place = _place.get()
    if place is not None:
        place.is_asking = place.is_asking or "requests" in counts
        place.tally.add(place.stage, **counts)


def note_split(key: str, **counts: float) -> None:
    """Count a split once in the current stage, if a tally is active."""
    place = _place.get()
    if place is not None:
        place.tally.add_split(place.stage, key, **counts)


@contextlib.contextmanager
def stage(name: str, split: str | None = None) -> Iterator[None]:
    """Count for another stage until the block ends; its time is not the outer stage's.

    A `split` counts as cached if the block makes no request.
    """
    place = _place.get()
    if place is None:
        yield
        return
    inner = _Place(place.tally, name)
    token = _place.set(inner)
    start = SYSTEM_CLOCK.monotonic()
    try:
        yield
    finally:
        if split is not None:
            place.tally.add_split(name, split, cached=not inner.is_asking)
        seconds = SYSTEM_CLOCK.monotonic() - start
        place.tally.add(name, seconds=seconds)
        place.tally.add(place.stage, seconds=-seconds)
        _place.reset(token)


def staged(name: str, items: Iterator[_T]) -> Iterator[_T]:
    """Yield the items; the time of the iterator counts for a stage, the caller's not."""
    if not is_counting():
        yield from items
        return
    while True:
        with stage(name):
            try:
                item = next(items)
            except StopIteration:
                return
        yield item
