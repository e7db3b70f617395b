"""Files of row copies on local disk, shared by the processes of one user.

A copy is one file: bytes of Arrow, their length, their checksum. It is written under another name and renamed, and
never changed or shortened afterwards, so a mapping of it stays valid after it is removed. Beside it are a count of the
decoding that was spent before it was made, and a note of its last comparison with its checksum, whose time is the time
of last use. A note has the boot of the machine, and inode, size and times of the file: a copy is compared again after
a boot or a change. Nothing is synced.

Copies take at most a share of the cache, and are removed before anything else in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import logging
import os
import stat
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import xxhash

from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.config import Config, settings
from indextables.runtime.private_directory import cache_directory, is_private, make_private
from indextables.runtime.resources import open_file

SHARE_OF_CACHE = 0.3
FULL = 4_096
"""The count of a decoding that costs as much as a copy."""

_COPY, _SPENT, _NOTE, _TEMPORARY = ".rows", ".spent", ".note", ".tmp"
_TRAILER = struct.Struct("<Q16s8s")
_MAGIC = b"itrows01"
_BLOCK_BYTES = 256 << 10
_YOUNG_NS = 60 * 10**9
_COLD_NS = 24 * 3600 * 10**9
_TOUCH_NS = 30 * 10**9

logger = logging.getLogger(__name__)


class Facts(NamedTuple):
    """Facts that differ after a change of a file; programs cannot set the last one."""

    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class CopyFiles:
    """Copies in the directory of the cache."""

    def __init__(self, config: Config, *, clock: Clock = SYSTEM_CLOCK) -> None:
        max_bytes = config[settings.CACHE_DISK_MAX_SIZE]
        enabled = config[settings.CACHE_DISK_ENABLED] and max_bytes > 0
        self.root = cache_directory(config, "rows") if enabled else None
        self.max_bytes = int(max_bytes * SHARE_OF_CACHE)
        self._clock = clock

    def path(self, name: str) -> str:
        return os.path.join(self.root or "", name + _COPY)

    def facts(self, name: str) -> Facts | None:
        """Return the facts of a copy; None if there is none."""
        return facts_of(self.path(name))

    def spend(self, name: str, count: int) -> bool:
        """Count decoding, and return whether a copy would have paid before.

        The count is the size of a file: processes add to it at once, and none is lost.
        """
        if self.root is None:
            return False
        try:
            make_private(self.root)
            handle = open_file(
                self._beside(name, _SPENT), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600
            )
            try:
                before = os.fstat(handle).st_size
                if before < FULL:
                    os.write(handle, bytes(count))
            finally:
                os.close(handle)
        except OSError as error:
            logger.debug("cannot count decoded rows in %s: %s", self.root, error)
            return False
        return before >= FULL

    def is_whole(self, name: str, facts: Facts) -> bool:
        """Compare a copy with its checksum, once after each boot or change."""
        note = self._beside(name, _NOTE)
        if _read_text(note) == _note_text(facts):
            self._touch(note)
            return True
        try:
            is_whole = _is_whole(self.path(name), facts)
        except OSError as error:
            logger.info("cannot read the row copy %s: %s", name, error)
            return False
        if not is_whole:
            logger.info("dropping the row copy %s, which is damaged", name)
            self.remove(name)
            return False
        self._write_note(name, facts)
        return True

    def touch(self, name: str) -> None:
        """Note that a copy is used, if the last time is some time ago."""
        self._touch(self._beside(name, _NOTE))

    def make(self, name: str, write: Callable[[str], bool]) -> int:
        """Make a copy unless it is there or being made; return its size, 0 for none.

        `write` fills a new file, or returns False.
        """
        if self.root is None:
            return 0
        with self._alone(name) as is_alone:
            if not is_alone or self.facts(name) is not None:
                return 0
            making = os.path.join(self.root, f"{self._clock.uuid()}{_TEMPORARY}")
            try:
                os.close(open_file(making, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
                if not write(making):
                    return 0
                _seal(making)
                os.rename(making, self.path(name))
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(making)
            facts = self.facts(name)
            if facts is None:
                return 0
            self._write_note(name, facts)
            return facts.size

    def remove(self, name: str) -> None:
        """Remove a copy; a process that maps it may go on reading."""
        for ending in (_COPY, _NOTE, _SPENT):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._beside(name, ending))

    def clear(self) -> int:
        """Remove all copies and counts, and return the number of copies."""
        copies, _ = self._copies()
        for name, _, _ in copies:
            self.remove(name)
        return len(copies)

    def num_bytes(self) -> int:
        """Return the bytes of all copies."""
        return sum(size for _, size, _ in self._copies()[0])

    def shrink(self, max_bytes: int | None = None) -> int:
        """Remove the least recently used copies down to a size; return the bytes left.

        Also removes files that dead processes left, and counts of splits that are no longer read.
        """
        copies, others = self._copies()
        left = sum(size for _, size, _ in copies)
        most = self.max_bytes if max_bytes is None else min(max_bytes, self.max_bytes)
        for name, size, _ in sorted(copies, key=lambda copy: copy[2]):
            if left <= most:
                break
            self.remove(name)
            left -= size
        now_ns = self._clock.now_ms() * 1_000_000
        for path, modified_ns in others:
            lives = _YOUNG_NS if path.endswith(_TEMPORARY) else _COLD_NS
            if now_ns - modified_ns > lives:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
        return left

    def _copies(self) -> tuple[list[tuple[str, int, int]], list[tuple[str, int]]]:
        """Return name, size and time of use of all copies; path and time of other files."""
        sizes: dict[str, int] = {}
        used: dict[str, int] = {}
        others: list[tuple[str, int]] = []
        try:
            if not is_private(self.root or ""):
                return [], []
            with os.scandir(self.root or "") as found:
                for entry in found:
                    name, ending = os.path.splitext(entry.name)
                    with contextlib.suppress(FileNotFoundError):
                        facts = entry.stat(follow_symlinks=False)
                        used[name] = max(used.get(name, 0), facts.st_mtime_ns)
                        if ending == _COPY:
                            sizes[name] = facts.st_size
                        elif ending in (_SPENT, _NOTE, _TEMPORARY):
                            others.append((entry.path, facts.st_mtime_ns))
        except FileNotFoundError:
            return [], []
        except OSError as error:
            logger.info("cannot look into %s: %s", self.root, error)
            return [], []
        copied = {self._beside(name, _NOTE) for name in sizes}
        return (
            [(name, size, used[name]) for name, size in sizes.items()],
            [(path, modified) for path, modified in others if path not in copied],
        )

    @contextlib.contextmanager
    def _alone(self, name: str) -> Iterator[bool]:
        """Lock the count of a split while its copy is made, then start it anew.

        So a copy that cannot be made, or is removed, has to pay again before the next try.
        """
        path = self._beside(name, _SPENT)
        try:
            make_private(self.root or "")
            lock = open_file(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            logger.info("cannot make row copies in %s: %s", self.root, error)
            yield False
            return
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_alone = os.path.samestat(os.fstat(lock), os.stat(path))
            except OSError:  # another process makes it, or has just made it
                is_alone = False
            try:
                yield is_alone
            finally:
                if is_alone:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(path)
        finally:
            os.close(lock)

    def _beside(self, name: str, ending: str) -> str:
        return os.path.join(self.root or "", name + ending)

    def _write_note(self, name: str, facts: Facts) -> None:
        """Note that a copy is whole; without a note it is compared again."""
        making = os.path.join(self.root or "", f"{self._clock.uuid()}{_TEMPORARY}")
        try:
            with open(making, "x", opener=lambda path, flags: open_file(path, flags, 0o600)) as file:
                file.write(_note_text(facts))
            os.rename(making, self._beside(name, _NOTE))
        except OSError as error:
            logger.debug("cannot note that the row copy %s is whole: %s", name, error)
            with contextlib.suppress(OSError):
                os.unlink(making)

    def _touch(self, note: str) -> None:
        with contextlib.suppress(OSError):
            now_ns = self._clock.now_ms() * 1_000_000
            if abs(now_ns - os.stat(note).st_mtime_ns) > _TOUCH_NS:
                os.utime(note, ns=(now_ns, now_ns))


def copy_name(identity: str) -> str:
    """Return the name of the copy of a split."""
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()


def arrow_bytes(size: int) -> int:
    """Return the length of the bytes of Arrow in a copy of this size."""
    return size - _TRAILER.size


def facts_of(path: str) -> Facts | None:
    """Return the facts of a file of this user; None if there is none."""
    try:
        facts = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
        return None
    return Facts(facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


def _seal(path: str) -> None:
    """Append length and checksum to a new copy."""
    size = os.stat(path).st_size
    with open(path, "ab") as file:
        file.write(_TRAILER.pack(size, _checksum(path, size), _MAGIC))


def _is_whole(path: str, facts: Facts) -> bool:
    """Compare a file with its checksum, and its facts before with those after."""
    size = arrow_bytes(facts.size)
    if size < 0:
        return False
    with open(path, "rb", opener=open_file) as file:
        file.seek(size)
        trailer = file.read(_TRAILER.size)
    expected = (size, _checksum(path, size), _MAGIC)
    return len(trailer) == _TRAILER.size and _TRAILER.unpack(trailer) == expected and facts_of(path) == facts


def _checksum(path: str, size: int) -> bytes:
    hashed = xxhash.xxh3_128()
    block = memoryview(bytearray(_BLOCK_BYTES))
    with open(path, "rb", opener=open_file) as file:
        while size > 0 and (num_bytes := file.readinto(block[:size])):
            hashed.update(block[:num_bytes])
            size -= num_bytes
    return hashed.digest()


def _note_text(facts: Facts) -> str:
    return " ".join([_boot(), *map(str, facts)])


@functools.cache
def _boot() -> str:
    """Return an id of the machine's boot; without Linux, one of this process."""
    return _read_text("/proc/sys/kernel/random/boot_id") or f"process {SYSTEM_CLOCK.uuid()}"


def _read_text(path: str) -> str | None:
    try:
        with open(path, encoding="ascii", opener=open_file) as file:
            return file.read().strip()
    except (OSError, ValueError):
        return None
