"""Extracted indexes on local disk, shared by the processes of one user.

An entry is a directory with the files of an index in `files` and a record of them. It is filled under another name and
renamed, so an entry is always whole, also if processes fill it at the same time or die. A process that uses an entry
holds a shared lock on its record. Only unlocked entries are removed, the least recently used first. Nothing is synced,
and disks err: a process compares the checksums of an entry on first use, and again if a file's size, time or inode has
changed. Damage to the files of an open index goes unnoticed.

Where the cache is switched off, cannot be written or is not the user's own, an index is extracted for one use.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence

import msgspec
import xxhash

from indextables.caching import in_turn
from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.config import Config, settings
from indextables.errors import IndexTablesError
from indextables.resources import open_file, refuse_shortage, shortage
from indextables.scratch import scratch_directory
from indextables.store.private import cache_directory, make_private

Extract = Callable[[str], None]

logger = logging.getLogger(__name__)

_FILES = "files"
_RECORD = "record"
_TEMPORARY = ".tmp"
_YOUNG_MS = 60_000
_BLOCK_BYTES = 256 << 10
_TRIES = 3
_MOST_VERIFIED = 10_000


class _File(msgspec.Struct, frozen=True):
    name: str
    size: int
    modified_ns: int
    checksum: str


class _Record(msgspec.Struct, frozen=True):
    files: list[_File]


# Made here, because msgspec crashes where two threads decode a type for the first time at once.
_decoder = msgspec.json.Decoder(_Record)
# Entries whose checksums this process has compared: a hash of what the system said of their files.
_verified: dict[str, int] = {}


class IndexCache:
    """Directories of extracted indexes, bounded by `cache.disk.maxSize`."""

    def __init__(self, config: Config, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._max_bytes = config[settings.CACHE_DISK_MAX_SIZE]
        enabled = config[settings.CACHE_DISK_ENABLED] and self._max_bytes > 0
        self._root = cache_directory(config, "indexes") if enabled else None
        self._clock = clock
        self._is_over = False

    @contextlib.contextmanager
    def directory(self, identity: str, extract: Extract) -> Iterator[str]:
        """A directory with the files of an index, which stays until the block ends.

        `identity` names the content: place, key, size and e-tag. `extract` fills an empty directory, and verifies what
        it writes.
        """
        held = self._hold(identity, extract)
        if held is not None:
            path, lock = held
            try:
                yield path
            finally:
                os.close(lock)
                if self._is_over:
                    self._evict_quietly()
            return
        with scratch_directory() as private:
            extract(private)
            yield private

    def holds(self, identity: str) -> bool:
        """Whether an index seems to be there."""
        return self._root is not None and os.path.exists(os.path.join(self._root, _name(identity), _RECORD))

    @property
    def place(self) -> str | None:
        """The directory that holds the entries; None where nothing is kept."""
        return self._root

    def clear(self) -> int:
        """Remove every entry that nobody holds, in this process or another, and say how many there were."""
        if self._root is None:
            return 0
        try:
            with os.scandir(self._root) as found:
                entries = [entry.path for entry in found if not entry.name.endswith(_TEMPORARY)]
        except OSError as error:
            logger.info("cannot look into %s: %s", self._root, error)
            return 0
        return sum(map(self._remove_unused, entries))

    def _hold(self, identity: str, extract: Extract) -> tuple[str, int] | None:
        if self._root is None:
            return None
        name = _name(identity)
        try:
            make_private(self._root)
            for _ in range(_TRIES):
                with in_turn(("index", self._root, name)):  # threads extract an index once
                    lock = self._use(name)
                    lock = self._fill(name, extract) if lock is None else lock
                if lock is not None:
                    return os.path.join(self._root, name, _FILES), lock
        except OSError as error:
            if isinstance(error, IndexTablesError) and not _is_disk_full(error):
                raise
            if not _is_disk_full(error):
                refuse_shortage(f"keep extracted indexes in `{self._root}`", error)
            logger.info("cannot keep extracted indexes in %s: %s", self._root, error)
        return None

    def _use(self, name: str) -> int | None:
        """A shared lock on an entry that is there and whole; one that is damaged is dropped."""
        entry = os.path.join(self._root or "", name)
        lock = _lock_record(entry, fcntl.LOCK_SH)
        if lock is None:
            if os.path.isdir(entry) and not os.path.lexists(os.path.join(entry, _RECORD)):
                self._remove(entry)
            return None
        try:
            problem = _find_problem(entry, lock)
            if problem is None:
                os.utime(lock)
                return lock
        except OSError as error:
            if shortage(error) is not None:
                os.close(lock)
                raise
            problem = str(error)
        except BaseException:
            os.close(lock)
            raise
        logger.info("dropping the extracted index %s: %s", name, problem)
        self._remove(entry)
        os.close(lock)
        return None

    def _fill(self, name: str, extract: Extract) -> int | None:
        """A shared lock on an entry that is made now, or `None` where another process was first."""
        root = self._root or ""
        making = os.path.join(root, f"{self._clock.uuid()}{_TEMPORARY}")
        os.mkdir(making, 0o700)
        lock = open_file(os.path.join(making, _RECORD), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)
            files = os.path.join(making, _FILES)
            os.mkdir(files, 0o700)
            extract(files)
            record = _Record([_describe(files, name) for name in sorted(os.listdir(files))])
            os.write(lock, msgspec.json.encode(record))
            facts = [os.lstat(os.path.join(files, file.name)) for file in record.files]
            os.rename(making, os.path.join(root, name))
            _note_verified(os.path.join(root, name), facts)
        except BaseException as error:
            os.close(lock)
            shutil.rmtree(making, ignore_errors=True)
            if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return None
            raise
        self._evict_quietly()
        return lock

    def _evict_quietly(self) -> None:
        try:
            self._evict()
        except OSError as error:
            logger.info("cannot tidy up %s: %s", self._root, error)

    def _evict(self) -> None:
        """Remove what was used longest ago, and what a process left behind that died while it filled an entry."""
        entries = []
        with os.scandir(self._root) as found:
            for entry in found:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    if entry.name.endswith(_TEMPORARY):
                        self._remove_left_behind(entry)
                    else:
                        used = os.stat(os.path.join(entry.path, _RECORD)).st_mtime_ns
                        entries.append((used, _num_bytes(entry.path), entry.path))
        excess = sum(size for _, size, _ in entries) - self._max_bytes
        for _, size, path in sorted(entries):
            if excess > 0 and self._remove_unused(path):
                excess -= size
        self._is_over = excess > 0

    def _remove_left_behind(self, entry: os.DirEntry[str]) -> None:
        age_ms = self._clock.now_ms() - entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000
        if age_ms < _YOUNG_MS or self._remove_unused(entry.path):
            return
        if not os.path.exists(os.path.join(entry.path, _RECORD)):  # it died before it could lock anything
            shutil.rmtree(entry.path, ignore_errors=True)

    def _remove_unused(self, entry: str) -> bool:
        lock = _lock_record(entry, fcntl.LOCK_EX)
        if lock is None:
            return False
        try:
            self._remove(entry)
        finally:
            os.close(lock)
        return True

    def _remove(self, entry: str) -> None:
        """Take away the name first, so that nobody finds half of an entry. Open files stay readable."""
        trash = os.path.join(os.path.dirname(entry), f"{self._clock.uuid()}{_TEMPORARY}")
        with contextlib.suppress(FileNotFoundError):
            os.rename(entry, trash)
            shutil.rmtree(trash, ignore_errors=True)


def _is_disk_full(error: OSError) -> bool:
    """Whether the cache's own disk is full; another disk may have room."""
    return shortage(error) in (errno.ENOSPC, errno.EDQUOT)


def _name(identity: str) -> str:
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()


def _lock_record(entry: str, kind: int) -> int | None:
    """A lock on an entry's record, or `None` where there is none to be had at once."""
    path = os.path.join(entry, _RECORD)
    try:
        lock = open_file(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.stat(path)):  # else it was removed before it was locked
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(lock)
        raise
    os.close(lock)
    return None


def _find_problem(entry: str, lock: int) -> str | None:
    """Why an entry cannot be used."""
    try:
        record = _decoder.decode(_read_all(lock))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"its record cannot be understood ({error})"
    files = os.path.join(entry, _FILES)
    for facts in (os.lstat(entry), os.lstat(files)):
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
            return "it is not the user's own"
    found = []
    for file in record.files:
        try:
            facts = os.lstat(os.path.join(files, file.name))
        except FileNotFoundError:
            return f"{file.name} is missing"
        if not stat.S_ISREG(facts.st_mode) or (facts.st_size, facts.st_mtime_ns) != (file.size, file.modified_ns):
            return f"{file.name} was changed"
        found.append(facts)
    if _verified.get(entry) != _hash(found):
        for file in record.files:
            if _checksum(os.path.join(files, file.name)) != file.checksum:
                return f"the checksum of {file.name} does not fit"
        _note_verified(entry, found)
    return None


def _note_verified(entry: str, files: Sequence[os.stat_result]) -> None:
    if len(_verified) >= _MOST_VERIFIED:
        _verified.clear()
    _verified[entry] = _hash(files)


def _hash(files: Sequence[os.stat_result]) -> int:
    """A hash of what changes with the content of files: the time of their last change cannot be set by programs."""
    return hash(tuple((facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns) for facts in files))


def _describe(directory: str, name: str) -> _File:
    path = os.path.join(directory, name)
    facts = os.lstat(path)
    return _File(name, facts.st_size, facts.st_mtime_ns, _checksum(path))


def _checksum(path: str) -> str:
    """Hash of a file's bytes; xxHash runs at the speed of memory, six times as fast as a CRC."""
    hashed = xxhash.xxh3_128()
    block = memoryview(bytearray(_BLOCK_BYTES))
    with open(path, "rb") as file:
        while num_bytes := file.readinto(block):
            hashed.update(block[:num_bytes])
    return hashed.hexdigest()


def _read_all(handle: int) -> bytes:
    return os.pread(handle, os.fstat(handle).st_size, 0)


def _num_bytes(entry: str) -> int:
    with os.scandir(os.path.join(entry, _FILES)) as files:
        return sum(file.stat(follow_symlinks=False).st_size for file in files)
