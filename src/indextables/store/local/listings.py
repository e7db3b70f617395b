"""Cached names in local directories, valid while time stamps prove them unchanged.

The stamp of a directory is its inode and its two times, only one of which users can set. A change sets both to the
current time of the file system, and two changes within one tick of that clock leave the same stamp. Names are therefore
cached only if their stamp was older than the coarsest tick when they were read: any later change then makes another
stamp. The age of a stamp is measured by watching it, never by comparing clocks, because a file server has its own
clock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from indextables.clock import Clock
from indextables.runtime.resources import with_descriptors

# The coarsest time stamps of file systems are two seconds.
_SETTLED_SECONDS = 2.5
_MOST_DIRECTORIES = 64
_MOST_NAMES = 200_000

_Stamp = tuple[int, int, int, int]


class _Sighting(NamedTuple):
    """Stamp, the time since it was first seen, and the names that surely belong to it."""

    stamp: _Stamp
    since: float
    names: Sequence[str] | None


class Listings:
    """Sorted names of directories.

    Threads may share it: it has no lock that a fork could leave locked.
    """

    def __init__(self, clock: Clock, is_hidden: Callable[[str], bool]) -> None:
        self._clock = clock
        self._is_hidden = is_hidden
        self._known: dict[str, _Sighting] = {}

    def names(self, directory: str) -> Sequence[str]:
        """Return the sorted names in a directory, without hidden ones."""
        # Open the directory, since a network file system asks its server only then.
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
        """Return the sorted names that are not hidden.

        A hidden name begins with a dot or is not ASCII; this test is fast for the many thousand names of a log.
        """
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
