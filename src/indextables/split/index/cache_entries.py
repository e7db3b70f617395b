"""Entries of the cache on local disk: locked in use, removed by age.

An entry is a directory with a record and its files in `files`. A process that uses an entry holds a shared lock on its
record. Only unlocked entries are removed, the least recently used first. Each kind of entry has a directory of its own;
all kinds share one limit with the copies of rows, which are removed before any entry. Combined indexes are links to the
files of other entries, which count as used meanwhile; they are removed first. An entry is filled under another name and
renamed, and renamed again before it is deleted, so no process finds half of one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import logging
import os
import shutil
from collections.abc import Callable, Iterator

from indextables.clock import Clock
from indextables.config import Config, settings
from indextables.runtime.private_directory import cache_directory, is_private
from indextables.runtime.resources import open_file, shortage
from indextables.split.rows.copy_files import CopyFiles

FILES = "files"
RECORD = "record"

WHOLE = "indexes"
PARTIAL = "partial-indexes"
COMBINED = "combined-indexes"

_TEMPORARY = ".tmp"
_YOUNG_MS = 60_000
_SHARE_TO_COUNT = 64
_BLOCK = 512  # the unit of `st_blocks`

logger = logging.getLogger(__name__)


class CacheEntries:
    """Entries of one kind; all kinds together are limited by `cache.disk.maxSize`."""

    def __init__(self, config: Config, kind: str, clock: Clock) -> None:
        self._max_bytes = config[settings.CACHE_DISK_MAX_SIZE]
        enabled = config[settings.CACHE_DISK_ENABLED] and self._max_bytes > 0
        self.root = cache_directory(config, kind) if enabled else None
        self._roots = {cache_directory(config, known): num_bytes for known, num_bytes in _KINDS.items()}
        self._combined_root = cache_directory(config, COMBINED)
        self._copies = CopyFiles(config, clock=clock)
        self._clock = clock
        self._added = self._max_bytes  # look at the first entry that is added
        self.is_over = False
        """Whether the last count found more than the limit, in entries that are in use."""

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def temporary(self) -> str:
        """Return a new name for an entry that is being made or removed."""
        return self.path(f"{self._clock.uuid()}{_TEMPORARY}")

    def clear(self) -> int:
        """Remove all entries of this kind that no process uses, and return their number."""
        if self.root is None:
            return 0
        try:
            with os.scandir(self.root) as found:
                entries = [entry.path for entry in found if not entry.name.endswith(_TEMPORARY)]
        except FileNotFoundError:
            return 0
        except OSError as error:
            logger.info("cannot look into %s: %s", self.root, error)
            return 0
        return sum(map(self._remove_unused, entries))

    def remove(self, entry: str) -> None:
        """Rename the entry, then delete it; open files stay readable."""
        trash = os.path.join(os.path.dirname(entry), f"{self._clock.uuid()}{_TEMPORARY}")
        with contextlib.suppress(FileNotFoundError):
            os.rename(entry, trash)
            shutil.rmtree(trash, ignore_errors=True)

    def added(self, num_bytes: int) -> None:
        """Note that an entry grew, and look at the limit after a share of it was added.

        To count takes a look at every file of the cache.
        """
        self._added += num_bytes
        if self._added >= self._max_bytes // _SHARE_TO_COUNT:
            self.evict()

    def evict(self) -> None:
        """Remove the least recently used entries, and leftovers of processes that died."""
        self._added = 0
        try:
            self._evict()
        except OSError as error:
            logger.info("cannot tidy up %s: %s", self.root, error)

    def _evict(self) -> None:
        """Remove combined indexes first: their links keep the bytes of other entries."""
        entries = self._all_used()
        total = sum(size for _, size, _ in entries)
        excess = total + self._copies.shrink(max(0, self._max_bytes - total)) - self._max_bytes
        if excess > 0 and self._remove_combined():
            entries = self._all_used()
            excess += sum(size for _, size, _ in entries) - total
        has_links = self._has_combined() if excess > 0 else False
        for _, size, path in sorted(entries):
            if excess > 0 and not (has_links and _is_linked(path)) and self._remove_unused(path):
                excess -= size
        self.is_over = excess > 0

    def _all_used(self) -> list[tuple[int, int, str]]:
        entries: list[tuple[int, int, str]] = []
        for root, num_bytes in self._roots.items():
            with contextlib.suppress(FileNotFoundError):
                if is_private(root):
                    entries += self._used(root, num_bytes)
        return entries

    def _remove_combined(self) -> int:
        root = self._combined_root
        with contextlib.suppress(FileNotFoundError):
            if is_private(root):
                return sum(self._remove_unused(path) for _, _, path in self._used(root, lambda _: 0))
        return 0

    def _has_combined(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return bool(os.listdir(self._combined_root))
        return False

    def _used(self, root: str, num_bytes: Callable[[str], int]) -> Iterator[tuple[int, int, str]]:
        """Yield time of use, size and path of all entries; remove leftovers."""
        with os.scandir(root) as found:
            for entry in found:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    if entry.name.endswith(_TEMPORARY):
                        self._remove_left_behind(entry)
                    else:
                        used = os.stat(os.path.join(entry.path, RECORD)).st_mtime_ns
                        yield used, num_bytes(entry.path), entry.path

    def _remove_left_behind(self, entry: os.DirEntry[str]) -> None:
        age_ms = self._clock.now_ms() - entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000
        if age_ms < _YOUNG_MS or self._remove_unused(entry.path):
            return
        if not os.path.exists(os.path.join(entry.path, RECORD)):  # the process died before it could lock it
            shutil.rmtree(entry.path, ignore_errors=True)

    def _remove_unused(self, entry: str) -> bool:
        lock = lock_record(entry, fcntl.LOCK_EX)
        if lock is None:
            return False
        try:
            self.remove(entry)
        finally:
            os.close(lock)
        return True


@functools.lru_cache(maxsize=10_000)
def entry_name(identity: str) -> str:
    """Return the name of the entry of an index."""
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()


def lock_record(entry: str, kind: int) -> int | None:
    """Return a lock on an entry's record; None if it cannot be locked at once."""
    path = f"{entry}/{RECORD}"
    try:
        lock = open_file(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.stat(path)):  # otherwise it was removed before it was locked
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(lock)
        raise
    os.close(lock)
    return None


def is_disk_full(error: OSError) -> bool:
    """Return whether the cache's own disk is full; another disk may have space."""
    return shortage(error) in (errno.ENOSPC, errno.EDQUOT)


def read_record(handle: int) -> bytes:
    """Return the bytes of a record."""
    return os.pread(handle, os.fstat(handle).st_size, 0)


def _size_of_files(entry: str) -> int:
    """Return the bytes of an entry; each link to a file has its share of the bytes."""
    with os.scandir(os.path.join(entry, FILES)) as files:
        found = [file.stat(follow_symlinks=False) for file in files]
    return sum(facts.st_size // max(1, facts.st_nlink) for facts in found)


def _is_linked(entry: str) -> bool:
    """Return whether a combined index in use has links to the files of an entry."""
    with contextlib.suppress(FileNotFoundError), os.scandir(os.path.join(entry, FILES)) as files:
        return any(file.stat(follow_symlinks=False).st_nlink > 1 for file in files)
    return False


def _size_on_disk(entry: str) -> int:
    """Return the bytes of sparse files without their holes."""
    with os.scandir(os.path.join(entry, FILES)) as files:
        found = [file.stat(follow_symlinks=False) for file in files]
    return sum(min(facts.st_size, facts.st_blocks * _BLOCK) for facts in found)


_KINDS: dict[str, Callable[[str], int]] = {
    WHOLE: _size_of_files,
    PARTIAL: _size_on_disk,
    COMBINED: _size_of_files,
}
