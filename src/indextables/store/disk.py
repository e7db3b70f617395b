"""The few things the local store asks of the operating system, each durable when it returns.

They stand apart from the store so that a test can put a disk in their place that loses what was not synced.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable

from indextables.resources import open_file


class Disk:
    """The machine's file system."""

    def write_new(self, path: str, chunks: Iterable[bytes]) -> None:
        """Write a file that must not exist yet, and sync its content."""
        handle = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            for chunk in chunks:
                _write_all(handle, chunk)
            _sync(handle)
        finally:
            os.close(handle)

    def link(self, source: str, target: str) -> None:
        """Give a file a second name; `FileExistsError` where the name is taken."""
        os.link(source, target)

    def replace(self, source: str, target: str) -> None:
        """Rename a file over whatever stands there."""
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        """Take a name away."""
        os.unlink(path)

    def make_directory(self, path: str) -> None:
        """Make one directory; no error where another process was first."""
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    def remove_directory(self, path: str) -> None:
        """Remove one directory; one that is not empty, or in use, stays."""
        with contextlib.suppress(OSError):
            os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        handle = open_file(path, os.O_RDONLY)
        try:
            _sync(handle)
        finally:
            os.close(handle)


def _write_all(handle: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(handle, view) :]


def _sync(handle: int) -> None:
    if sys.platform == "darwin":
        # There fsync leaves the data in the drive's own cache.
        import fcntl

        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
    else:
        os.fsync(handle)
