"""Compiled Java classes on local disk.

An entry is one file, named by the hash of everything that its classes depend on. The file starts with the hash of its
other bytes. It is written under a temporary name, synced and renamed. It is used only if the directory and the file
are private to the user and the hash is correct; in every other case the sources are compiled.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import stat
import tempfile

from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.config import Config, settings
from indextables.runtime.private_directory import cache_directory, is_private, make_private

_SUFFIX = ".classes"
_HASH_BYTES = 32
_MOST_BYTES = 64 << 20
_DAY_SECONDS = 24 * 60 * 60
_UNUSED_DAYS = 30

_log = logging.getLogger(__name__)


class ClassCache:
    """Cache of compiled classes, shared by the processes of one user."""

    def __init__(self, config: Config, clock: Clock = SYSTEM_CLOCK) -> None:
        self._root = cache_directory(config, "classes") if config[settings.CACHE_DISK_ENABLED] else None
        self._clock = clock

    @property
    def is_enabled(self) -> bool:
        """True if classes are kept on disk."""
        return self._root is not None

    def load(self, key: str) -> bytes | None:
        """Return the bytes of an entry, or None if there is no entry that is safe to use."""
        if self._root is None:
            return None
        try:
            if not is_private(self._root):
                raise PermissionError(f"{self._root} is not private")
            return self._read(self._path(key))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            _log.info("compiling the Java classes, because their cached copy is not used: %s", error)
            return None

    def store(self, key: str, classes: bytes) -> None:
        """Keep an entry if possible, and remove entries that were not used for a month."""
        if self._root is None:
            return
        try:
            make_private(self._root)
            self._write(self._path(key), classes)
            self._remove_unused()
        except OSError as error:
            _log.info("the compiled Java classes are not kept in %s: %s", self._root, error)

    def _path(self, key: str) -> str:
        return os.path.join(self._root or "", key + _SUFFIX)

    def _read(self, path: str) -> bytes:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            facts = os.fstat(file.fileno())
            if not _is_own(facts):
                raise PermissionError(f"{path} is no private file of this user")
            if facts.st_size > _MOST_BYTES:
                raise ValueError(f"{path} has {facts.st_size} bytes")
            stored = file.read(_MOST_BYTES)
            if self._clock.now_ms() / 1000 - facts.st_mtime > _DAY_SECONDS:
                with contextlib.suppress(OSError):  # a file system that is read-only
                    os.utime(file.fileno())
        digest, classes = stored[:_HASH_BYTES], stored[_HASH_BYTES:]
        if hashlib.sha256(classes).digest() != digest:
            raise ValueError(f"the hash of {path} is not correct")
        return classes

    def _write(self, path: str, classes: bytes) -> None:
        descriptor, draft = tempfile.mkstemp(suffix=".tmp", dir=self._root)
        try:
            with open(descriptor, "wb") as file:
                file.write(hashlib.sha256(classes).digest())
                file.write(classes)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise

    def _remove_unused(self) -> None:
        """Remove old entries, and the drafts of processes that died."""
        oldest = self._clock.now_ms() / 1000 - _UNUSED_DAYS * _DAY_SECONDS
        with os.scandir(self._root) as entries:
            for entry in entries:
                facts = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(facts.st_mode) and facts.st_mtime < oldest:
                    with contextlib.suppress(FileNotFoundError):  # another process removes it
                        os.unlink(entry.path)


def _is_own(facts: os.stat_result) -> bool:
    """Return whether a file belongs to this user alone and has one name."""
    is_plain = stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1
    return is_plain and facts.st_uid == os.geteuid() and not stat.S_IMODE(facts.st_mode) & 0o022
