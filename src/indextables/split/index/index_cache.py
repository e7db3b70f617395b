"""Cache of extracted indexes on local disk, shared by the processes of one user.

An entry holds the files of an index, and a record of them. It is always complete, even if processes fill it at the same
time or die. Nothing is synced, and disks err: a process compares the checksums of an entry on first use, and again if a
file's size, time or inode has changed. Damage to the files of an open index goes unnoticed.

If the cache is switched off, not writable or owned by another user, an index is extracted for one use.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import xxhash

from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.config import Config
from indextables.errors import IndexTablesError
from indextables.runtime.caching import in_turn
from indextables.runtime.private_directory import make_private
from indextables.runtime.resources import open_file, refuse_shortage, shortage
from indextables.runtime.scratch import scratch_directory
from indextables.split.index.cache_entries import (
    FILES,
    RECORD,
    WHOLE,
    CacheEntries,
    entry_name,
    is_disk_full,
    lock_record,
    read_record,
)

Extract = Callable[[str], "Mapping[str, str] | None"]
"""Fills a directory; may return the checksums of files that it did not write itself."""

logger = logging.getLogger(__name__)

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


# Created at import: msgspec crashes if two threads decode a type for the first time at once.
_decoder = msgspec.json.Decoder(_Record)
# Entries whose checksums this process has compared: a hash of the stat results of their files.
_verified: dict[str, int] = {}


class IndexCache:
    """Directories of extracted indexes, limited by `cache.disk.maxSize`."""

    def __init__(self, config: Config, *, kind: str = WHOLE, clock: Clock = SYSTEM_CLOCK) -> None:
        self._entries = CacheEntries(config, kind, clock)
        self._root = self._entries.root

    @contextlib.contextmanager
    def directory(self, identity: str, extract: Extract) -> Iterator[str]:
        """Provide a directory with the files of an index until the block ends.

        `identity` names the content: address, key, size and e-tag. `extract` fills an empty directory and verifies the
        files.
        """
        held = self._hold(identity, extract)
        if held is not None:
            with self._until_released(*held) as path:
                yield path
            return
        with scratch_directory() as private:
            extract(private)
            yield private

    @contextlib.contextmanager
    def kept_directory(self, identity: str, extract: Extract) -> Iterator[str]:
        """Provide a directory like `directory`; raise `OSError` if none can be kept."""
        held = self._hold(identity, extract)
        if held is None:
            raise OSError(errno.EPERM, f"no files can be kept in `{self._root}`")
        del extract  # it may hold the index that closes this directory
        with self._until_released(*held) as path:
            yield path

    @contextlib.contextmanager
    def _until_released(self, path: str, lock: int) -> Iterator[str]:
        try:
            yield path
        finally:
            os.close(lock)
            if self._entries.is_over:
                self._entries.evict()

    def link_files(self, identity: str, extract: Extract, into: str, apart: str) -> tuple[dict[str, str], bytes]:
        """Link the verified files of an entry into a directory, but one.

        Returns the checksums of the links, and the bytes of the file `apart`. A link changes the time of change of a
        file, so the entry counts as verified again.
        """
        with self.kept_directory(identity, extract) as files:
            entry = os.path.dirname(files)
            with open(f"{entry}/{RECORD}", "rb") as file:
                record = _decoder.decode(file.read())
            links = [member for member in record.files if member.name != apart]
            for member in links:
                os.link(f"{files}/{member.name}", f"{into}/{member.name}")
            _note_verified(entry, [os.lstat(f"{files}/{member.name}") for member in record.files])
            with open(f"{files}/{apart}", "rb") as file:
                return {linked.name: linked.checksum for linked in links}, file.read()

    def holds(self, identity: str) -> bool:
        """Return whether an index seems to be in the cache."""
        return self._root is not None and os.path.exists(os.path.join(self._entries.path(entry_name(identity)), RECORD))

    @property
    def place(self) -> str | None:
        """Directory of the entries; None if the cache is off."""
        return self._root

    def added(self, num_bytes: int) -> None:
        """Note that something else in the cache grew."""
        self._entries.added(num_bytes)

    def clear(self) -> int:
        """Remove all entries that no process uses, and return their number."""
        return self._entries.clear()

    def _hold(self, identity: str, extract: Extract) -> tuple[str, int] | None:
        if self._root is None:
            return None
        name = entry_name(identity)
        try:
            make_private(self._root)
            for _ in range(_TRIES):
                with in_turn(("index", self._root, name)):  # threads extract an index once
                    lock = self._use(name)
                    lock = self._fill(name, extract) if lock is None else lock
                if lock is not None:
                    return os.path.join(self._entries.path(name), FILES), lock
        except OSError as error:
            if isinstance(error, IndexTablesError) and not is_disk_full(error):
                raise
            if not is_disk_full(error):
                refuse_shortage(f"keep extracted indexes in `{self._root}`", error)
            logger.info("cannot keep extracted indexes in %s: %s", self._root, error)
        return None

    def _use(self, name: str) -> int | None:
        """Return a shared lock on a complete entry; drop a damaged one."""
        entry = self._entries.path(name)
        lock = lock_record(entry, fcntl.LOCK_SH)
        if lock is None:
            if os.path.isdir(entry) and not os.path.lexists(os.path.join(entry, RECORD)):
                self._entries.remove(entry)
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
        self._entries.remove(entry)
        os.close(lock)
        return None

    def _fill(self, name: str, extract: Extract) -> int | None:
        """Make an entry and return a shared lock; None if another process was faster."""
        making, entry = self._entries.temporary(), self._entries.path(name)
        os.mkdir(making, 0o700)
        lock = open_file(os.path.join(making, RECORD), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)
            files = os.path.join(making, FILES)
            os.mkdir(files, 0o700)
            known = extract(files) or {}
            record = _Record([_describe(files, name, known.get(name)) for name in sorted(os.listdir(files))])
            os.write(lock, msgspec.json.encode(record))
            facts = [os.lstat(os.path.join(files, file.name)) for file in record.files]
            os.rename(making, entry)
            _note_verified(entry, facts)
        except BaseException as error:
            os.close(lock)
            shutil.rmtree(making, ignore_errors=True)
            if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return None
            raise
        self._entries.added(sum(file.size for file in record.files))
        return lock


def _find_problem(entry: str, lock: int) -> str | None:
    """Return why an entry cannot be used, or None."""
    try:
        record = _decoder.decode(read_record(lock))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"its record cannot be understood ({error})"
    files = os.path.join(entry, FILES)
    for facts in (os.lstat(entry), os.lstat(files)):
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
            return "it belongs to another user"
    found = []
    for file in record.files:
        try:
            facts = os.lstat(f"{files}/{file.name}")
        except FileNotFoundError:
            return f"{file.name} is missing"
        if not stat.S_ISREG(facts.st_mode) or (facts.st_size, facts.st_mtime_ns) != (file.size, file.modified_ns):
            return f"{file.name} was changed"
        found.append(facts)
    if _verified.get(entry) != _hash(found):
        for file in record.files:
            if _checksum(os.path.join(files, file.name)) != file.checksum:
                return f"the checksum of {file.name} does not match"
        _note_verified(entry, found)
    return None


def _note_verified(entry: str, files: Sequence[os.stat_result]) -> None:
    if len(_verified) >= _MOST_VERIFIED:
        _verified.clear()
    _verified[entry] = _hash(files)


def _hash(files: Sequence[os.stat_result]) -> int:
    """Hash the stat results of files; programs cannot set the time of change."""
    return hash(tuple((facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns) for facts in files))


def _describe(directory: str, name: str, checksum: str | None) -> _File:
    path = os.path.join(directory, name)
    facts = os.lstat(path)
    return _File(name, facts.st_size, facts.st_mtime_ns, checksum or _checksum(path))


def _checksum(path: str) -> str:
    """Hash a file's bytes; xxHash runs at memory speed, six times as fast as a CRC."""
    hashed = xxhash.xxh3_128()
    block = memoryview(bytearray(_BLOCK_BYTES))
    with open(path, "rb") as file:
        while num_bytes := file.readinto(block):
            hashed.update(block[:num_bytes])
    return hashed.hexdigest()
