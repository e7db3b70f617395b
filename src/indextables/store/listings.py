"""The names in local directories, remembered for as long as their time stamps prove that nothing has changed.

A directory's stamp is its inode and its two times, of which users can set only one. A change sets both to the file
system's present, and two changes within one tick of that clock leave the same stamp. So names are remembered only if
they were read when their stamp had stood for longer than the coarsest tick: any later change then leaves another one.
How long it stood is measured by watching it, never by comparing clocks, because a file server's clock is not ours.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from indextables.clock import Clock
from indextables.resources import with_descriptors

# The coarsest time stamps of file systems are two seconds.
_SETTLED_SECONDS = 2.5
_MOST_DIRECTORIES = 64
_MOST_NAMES = 200_000

_Stamp = tuple[int, int, int, int]


class _Sighting(NamedTuple):
    """A stamp, since when we have seen it, and the names that are sure to belong to it."""

    stamp: _Stamp
    since: float
    names: Sequence[str] | None


class Listings:
    """Sorted names of directories. Safe to share between threads: it holds no lock that a fork could leave behind."""

    def __init__(self, clock: Clock, is_hidden: Callable[[str], bool]) -> None:
        self._clock = clock
        self._is_hidden = is_hidden
        self._known: dict[str, _Sighting] = {}

    def names(self, directory: str) -> Sequence[str]:
        """The names in a directory, sorted, without the hidden ones."""
        # Opened, not only looked at: that is when a network file system asks its server.
        handle = with_descriptors(lambda: os.open(directory, os.O_RDONLY | os.O_DIRECTORY))
        try:
            sighting = self._look(directory, os.fstat(handle))
            if sighting.names is not None:
                return sighting.names
            now = self._clock.monotonic()
            names = self._visible(os.listdir(handle))
        finally:
            os.close(handle)
        settled = now - sighting.since > _SETTLED_SECONDS
        self._remember(directory, sighting._replace(names=names if settled else None))
        return names

    def _visible(self, names: list[str]) -> list[str]:
        """The names that are not hidden, sorted. What could be begins with a dot or is not ASCII, which is quick to
        see of the many thousand names of a log."""
        return sorted([name for name in names if (name[0] != "." and name.isascii()) or not self._is_hidden(name)])

    def _look(self, directory: str, facts: os.stat_result) -> _Sighting:
        stamp = (facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns)
        known = self._known.get(directory)
        if known is not None and known.stamp == stamp:
            return known
        return _Sighting(stamp, self._clock.monotonic(), None)

    def _remember(self, directory: str, sighting: _Sighting) -> None:
        kept = list(self._known.values())
        if len(kept) >= _MOST_DIRECTORIES or sum(len(known.names or ()) for known in kept) > _MOST_NAMES:
            self._known.clear()
        self._known[directory] = sighting
