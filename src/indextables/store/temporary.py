"""Hidden temporary files, for stores that name an object in a second step.

Files of a killed writer are never listed. A later put into the same directory deletes them after a day.
"""

from __future__ import annotations

from indextables.clock import Clock

_PREFIX = ".indextables-"
_SUFFIX = ".tmp"
_STALE_MS = 24 * 3600 * 1000
_MOST_DIRECTORIES = 10_000


def temporary_path(directory: str, clock: Clock) -> str:
    """Return the path of a new temporary file in a directory."""
    return f"{directory}/{_PREFIX}{clock.uuid()}{_SUFFIX}"


def is_temporary(name: str) -> bool:
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def is_after_temporary(name: str) -> bool:
    """Return True if no temporary file follows this name in a sorted listing."""
    return name.isascii() and name[: len(_PREFIX)] > _PREFIX


def is_stale(modified_ms: int, now_ms: int) -> bool:
    """Return True if a temporary file is a day old by the store's clock.

    Its writer is then gone.
    """
    return modified_ms < now_ms - _STALE_MS


class Once:
    """Bounded set of directories; it may forget its members."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __contains__(self, directory: str) -> bool:
        return directory in self._seen

    def add(self, directory: str) -> None:
        if len(self._seen) >= _MOST_DIRECTORIES:
            self._seen.clear()
        self._seen.add(directory)
