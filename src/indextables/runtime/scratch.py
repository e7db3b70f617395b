"""Temporary directories on local disk, locked during use.

A killed process leaves its directories, and the operating system releases their locks. Each process removes once all
unlocked directories next to its first directory. A lock works across containers, where process ids do not.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator

from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.runtime.resources import local_errors, open_file

_PREFIX = "indextables-scratch-"
_IN_MEMORY = "/dev/shm"  # noqa: S108 - directories in it belong to one user, as in the temporary directory
_YOUNG_MS = 60_000
_REMOVAL_TRIES = 10
_READ = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW

logger = logging.getLogger(__name__)

_swept: set[str] = set()


@contextlib.contextmanager
def scratch_directory(parent: str | None = None) -> Iterator[str]:
    """Create a directory for this process, and remove it at the end of the block."""
    parent = parent or tempfile.gettempdir()
    with local_errors(f"make a temporary directory in `{parent}`"):
        path, lock = _make(parent)
    try:
        yield path
    finally:
        remove_directory(path)
        os.close(lock)


def directory_in_memory(free_bytes: int) -> str | None:
    """Return the system's directory in memory if it has so much room, else None.

    A user that names a temporary directory by `TMPDIR` wants that one.
    """
    if os.environ.get("TMPDIR"):
        return None
    try:
        facts = os.statvfs(_IN_MEMORY)
    except OSError:
        return None
    has_room = facts.f_bavail * facts.f_frsize >= free_bytes
    return _IN_MEMORY if has_room and os.access(_IN_MEMORY, os.W_OK | os.X_OK) else None


def directory_until_exit() -> str:
    """Create a directory that is removed at exit; a forked child does not remove it."""
    held = contextlib.ExitStack()
    path = held.enter_context(scratch_directory())
    owner = os.getpid()
    atexit.register(lambda: held.close() if os.getpid() == owner else None)
    return path


def remove_directory(directory: str) -> None:
    """Remove a directory that contained an open index.

    A thread of the engine may create its lock file again during the removal, so retry.
    """
    for _ in range(_REMOVAL_TRIES):
        shutil.rmtree(directory, ignore_errors=True)
        if not os.path.lexists(directory):
            return


def sweep(parent: str, *, clock: Clock = SYSTEM_CLOCK) -> int:
    """Remove the directories of dead processes and return their number."""
    num_removed = 0
    try:
        with os.scandir(parent) as entries:
            for entry in entries:
                if entry.name.startswith(_PREFIX) and _is_old(entry, clock.now_ms()) and _remove_unlocked(entry.path):
                    num_removed += 1
    except OSError as error:
        logger.debug("cannot look for directories of dead processes in `%s`: %s", parent, error)
    return num_removed


def _make(parent: str) -> tuple[str, int]:
    path = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
    try:
        lock = open_file(path, _READ)
    except BaseException:
        os.rmdir(path)
        raise
    with contextlib.suppress(OSError):  # some network disks have no locks; on them no process sweeps either
        fcntl.flock(lock, fcntl.LOCK_SH)
    if parent not in _swept:
        _swept.add(parent)
        sweep(parent)
    return path, lock


def _is_old(entry: os.DirEntry[str], now_ms: int) -> bool:
    """Return True if the directory is old enough to be locked by a running process."""
    with contextlib.suppress(FileNotFoundError):
        facts = entry.stat(follow_symlinks=False)
        is_own = entry.is_dir(follow_symlinks=False) and facts.st_uid == os.geteuid()
        return is_own and now_ms - facts.st_mtime_ns // 1_000_000 >= _YOUNG_MS
    return False


def _remove_unlocked(path: str) -> bool:
    try:
        lock = os.open(path, _READ)
    except OSError:  # another process is removing it, or too many files are open
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        shutil.rmtree(path, ignore_errors=True)
        return True
    finally:
        os.close(lock)
