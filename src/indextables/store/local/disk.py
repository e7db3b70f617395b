"""System calls of the local store, each durable when it returns.

They are a separate class, so that a test can use a disk that loses unsynced data.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable

from indextables.runtime.resources import open_file


class Disk:
    """File system of the machine."""

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
        """Create a hard link, or raise `FileExistsError` if the name is taken."""
        os.link(source, target)

    def replace(self, source: str, target: str) -> None:
        """Rename a file, and replace an existing one."""
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        """Remove a name."""
        os.unlink(path)

    def make_directory(self, path: str) -> None:
        """Create one directory; succeed if another process created it first."""
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    def remove_directory(self, path: str) -> None:
        """Remove one directory, unless it is not empty or in use."""
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
        # On macOS, fsync leaves the data in the drive's own cache.
        import fcntl

        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
    else:
        os.fsync(handle)
