"""Shortage of resources: file descriptors, memory and disk space.

The error number of the operating system identifies a shortage. Libraries written in other languages put it into their
messages. A shortage is never reported as damage. Descriptors held only for speed are released before their shortage is
reported.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from indextables.errors import IndexTablesError, StorageError

_Result = TypeVar("_Result")

_DISK_HINT = (
    "free space on the local disk, or choose another one by `indexWriter.tempDirectoryPath` and `cache.disk.path`"
)
_LOCAL_HINT = (
    "check the local disk, or choose another directory by `indexWriter.tempDirectoryPath` and `cache.disk.path`"
)
_HINTS = {
    errno.EMFILE: "let the process open more files (`ulimit -n`), or close tables and files that it holds open",
    errno.ENFILE: "the machine has too many files open: raise `fs.file-max`, or end other processes",
    errno.ENOMEM: "free memory on the machine; a process also runs out of mappings (`vm.max_map_count`)",
    errno.EAGAIN: "let the user run more threads (`ulimit -u`), or end other processes",
    errno.ENOSPC: _DISK_HINT,
    errno.EDQUOT: _DISK_HINT,
}
_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_LATE = (errno.ENOMEM, errno.EAGAIN)
_NUMBER = re.compile(r"\(os error (\d+)\)|\bOs \{ code: (\d+)|\[Errno (\d+)\]")

_givers: list[Callable[[], int]] = []


def system_error(error: BaseException | None) -> int | None:
    """Return the operating system's error number behind an error, or None."""
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return error.errno
        found = _NUMBER.search(str(error))
        if found is not None:
            return int(next(number for number in found.groups() if number is not None))
        error = error.__cause__
    return None


def shortage(error: BaseException) -> int | None:
    """Return the operating system's error number if it is a shortage, else None."""
    number = system_error(error)
    return number if number in _HINTS and not isinstance(error, BlockingIOError) else None


def refuse_shortage(what: str, error: BaseException) -> None:
    """Raise a `StorageError`, or the `MemoryError` itself, if an error is a shortage."""
    if isinstance(error, MemoryError):
        raise error
    if shortage(error) is not None:
        raise local_error(what, error) from error


def local_error(what: str, error: BaseException) -> StorageError:
    """Return the `StorageError` for a failure of this machine: cannot `what`."""
    number = system_error(error)
    reason = str(error)[:300] if number is None else os.strerror(number)
    return StorageError(f"cannot {what} because of this machine: {reason}", hint=_HINTS.get(number or 0, _LOCAL_HINT))


@contextlib.contextmanager
def local_errors(what: str) -> Iterator[None]:
    """Convert an error of the operating system to a `StorageError`: cannot `what`."""
    try:
        yield
    except IndexTablesError:
        raise
    except OSError as error:
        raise local_error(what, error) from error


def on_shortage(give_back: Callable[[], int]) -> None:
    """Register a function that closes descriptors held for speed and counts them."""
    _givers.append(give_back)


def give_back() -> int:
    """Close all descriptors held for speed and return their number."""
    return sum([give() for give in _givers])


def is_room_short(error: BaseException) -> bool:
    """Return whether an error is a lack of descriptors, mappings, memory or threads."""
    return shortage(error) in (*_DESCRIPTORS, *_LATE)


def comes_back_late(error: BaseException) -> bool:
    """Return whether the lacking resource is released some time after its last use."""
    return shortage(error) in _LATE


def with_descriptors(work: Callable[[], _Result]) -> _Result:
    """Do work; repeat it if it lacks descriptors and some could be released."""
    try:
        return work()
    except (OSError, IndexTablesError) as error:
        if shortage(error) not in _DESCRIPTORS or not give_back():
            raise
    return work()


def open_file(path: str, flags: int, mode: int = 0o777) -> int:
    """Open a file like `os.open`; release descriptors if there are too few."""
    return with_descriptors(lambda: os.open(path, flags, mode))
