"""Hidden files: what a put writes on stores where an object gets its name in a second step.

Those that a killed writer leaves behind are never listed. Whoever puts something beside them a day later deletes them.
"""

from __future__ import annotations

from indextables.clock import Clock

_PREFIX = ".indextables-"
_SUFFIX = ".tmp"
_STALE_MS = 24 * 3600 * 1000
_MOST_DIRECTORIES = 10_000


def temporary_path(directory: str, clock: Clock) -> str:
    """Where a put into a directory writes first."""
    return f"{directory}/{_PREFIX}{clock.uuid()}{_SUFFIX}"


def is_temporary(name: str) -> bool:
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def is_after_temporary(name: str) -> bool:
    """Whether no temporary file comes behind this name in a listing that is in order."""
    return name.isascii() and name[: len(_PREFIX)] > _PREFIX


def is_stale(modified_ms: int, now_ms: int) -> bool:
    """Whether a temporary file is so old that its writer is gone. Both times are told by the store."""
    return modified_ms < now_ms - _STALE_MS


class Once:
    """Directories that were seen, as far as they are remembered."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __contains__(self, directory: str) -> bool:
        return directory in self._seen

    def add(self, directory: str) -> None:
        if len(self._seen) >= _MOST_DIRECTORIES:
            self._seen.clear()
        self._seen.add(directory)
