"""Cache of partly fetched indexes on local disk: sparse files with a map.

An entry has the files of an index in their full sizes, with holes for the pieces that were not fetched. Its record is a
map with one byte a piece, written after the piece's data. Processes fill an entry at the same time: they write the same
bytes, and files that are mapped by the engine show them. Pieces never become holes again; entries are removed whole.

Nothing is synced, and disks err: a process compares the checksum of a piece that it did not fill itself before its
first use, and again if the files have changed while it did not hold the entry. A piece that does not match is missing,
so a map that was kept without its data, as after a power cut, costs a fetch and nothing else.

Without a cache, an entry is made for one use. Some file systems have no holes, or do not show a write to those who
have mapped the file. There, and where the disk is full, an index is fetched whole.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import functools
import itertools
import logging
import os
import re
import shutil
import stat
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence

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
    PARTIAL,
    RECORD,
    CacheEntries,
    entry_name,
    is_disk_full,
    lock_record,
    read_record,
)
from indextables.split.partial.piece_table import PieceTable

logger = logging.getLogger(__name__)

Filled = Iterable[tuple[int, bytes | memoryview]]

_MAGIC = b"ITSPARS1"
_HEAD_BYTES = len(_MAGIC) + 16
_FILLED = b"\x01"
_TRIES = 3
_MOST_KNOWN = 10_000
_MOUNTS = "/proc/self/mountinfo"
# Local file systems with holes, whose page cache serves writes and mappings alike.
_FIT = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "tmpfs", "overlay"})
_WORTH_HOLES = 1 << 20
_BLOCK = 512  # the unit of `st_blocks`

_Facts = tuple[tuple[int, int, int, int], ...]
# Pieces that this process has filled or compared, by entry, and the facts of the files when it was closed.
_known: dict[str, tuple[_Facts, bytearray]] = {}


class NotKeptError(Exception):
    """Pieces cannot be kept: the disk is full, or the entry was replaced.

    The index must be fetched whole, or the entry opened again.
    """


class SparseCache:
    """Entries with the pieces of indexes, limited by `cache.disk.maxSize`."""

    def __init__(self, config: Config, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._entries = CacheEntries(config, PARTIAL, clock)

    @property
    def place(self) -> str | None:
        """Directory of the entries; None if the cache is off."""
        return self._entries.root

    def open(self, identity: str, table: PieceTable) -> SparseEntry | None:
        """Open or make the entry of an index; None if it must be fetched whole.

        `identity` names the content: address, key, size and e-tag.
        """
        root = self._entries.root
        if root is not None:
            return self._attempt(root, functools.partial(self._shared, root, entry_name(identity), table))
        return self._attempt(tempfile.gettempdir(), functools.partial(_private, table))

    def holds(self, identity: str) -> bool:
        """Return whether pieces of an index seem to be in the cache."""
        return self.place is not None and os.path.exists(os.path.join(self._entries.path(entry_name(identity)), RECORD))

    def clear(self) -> int:
        """Remove all entries that no process uses, and return their number."""
        return self._entries.clear()

    def _attempt(self, place: str, make: Callable[[], SparseEntry | None]) -> SparseEntry | None:
        if file_system(place) not in _FIT:
            return None
        try:
            return make()
        except OSError as error:
            if isinstance(error, IndexTablesError) and not is_disk_full(error):
                raise
            if not is_disk_full(error):
                refuse_shortage(f"keep parts of indexes in `{place}`", error)
            logger.info("cannot keep parts of indexes in %s: %s", place, error)
        return None

    def _shared(self, root: str, name: str, table: PieceTable) -> SparseEntry | None:
        make_private(root)
        for _ in range(_TRIES):
            with in_turn(("sparse", root, name)):
                entry = self._use(name, table) or self._make(name, table)
            if entry is not None:
                return entry
        return None

    def _use(self, name: str, table: PieceTable) -> SparseEntry | None:
        """Open an entry under a shared lock; drop a damaged one."""
        path = self._entries.path(name)
        lock = lock_record(path, fcntl.LOCK_SH)
        if lock is None:
            if os.path.isdir(path) and not os.path.lexists(os.path.join(path, RECORD)):
                self._entries.remove(path)
            return None
        try:
            problem = _find_problem(path, lock, table)
            if problem is None:
                os.utime(lock)
        except OSError as error:
            if shortage(error) is not None:
                os.close(lock)
                raise
            problem = str(error)
        except BaseException:
            os.close(lock)
            raise
        if problem is None:
            return SparseEntry(path, table, lock, self._entries)
        logger.info("dropping the parts of an index %s: %s", name, problem)
        self._entries.remove(path)
        os.close(lock)
        return None

    def _make(self, name: str, table: PieceTable) -> SparseEntry | None:
        """Make an entry without pieces; None if another process was faster."""
        making, path = self._entries.temporary(), self._entries.path(name)
        os.mkdir(making, 0o700)
        try:
            lock = _make_files(making, table)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
        try:
            os.rename(making, path)
        except BaseException as error:
            os.close(lock)
            shutil.rmtree(making, ignore_errors=True)
            if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return None
            raise
        return SparseEntry(path, table, lock, self._entries)


class SparseEntry:
    """Files of an index with some of their pieces; safe for threads.

    An entry is locked until it is closed. It can be replaced nevertheless, by a process that finds it damaged. So look
    at `is_current` after opening the files in `directory`; afterwards, pieces go into the files that were opened, or
    nowhere. Then, and when the disk is full, the methods raise `NotKeptError`.
    """

    def __init__(
        self,
        path: str,
        table: PieceTable,
        lock: int,
        entries: CacheEntries | None = None,
        held: contextlib.ExitStack | None = None,
    ) -> None:
        """Take over a lock, and what is `held` with the entry."""
        self.table = table
        self.directory = os.path.join(path, FILES)
        self._path = path
        self._lock: _Lock | None = _Lock(lock)
        self._entries = entries
        self._held = held or contextlib.ExitStack()
        facts = self._facts()
        self._inodes = [inode for inode, *_ in facts]
        known = _known.pop(path, None)
        self._trusted = known[1] if known is not None and known[0] == facts else bytearray(table.num_pieces)

    def missing(self, pieces: Iterable[int]) -> list[int]:
        """Return the pieces that must be filled before they are used, in order."""
        trusted = self._trusted
        asked = [piece for piece in pieces if not trusted[piece]]
        if not asked:
            return []
        lock = self._locked()
        marks = os.pread(lock.number, self.table.num_pieces, _HEAD_BYTES).ljust(self.table.num_pieces, b"\0")
        doubtful = [piece for piece in asked if marks[piece] == _FILLED[0]]
        self._compare(doubtful)
        return sorted({piece for piece in asked if not trusted[piece]})

    def fill(self, filled: Filled) -> None:
        """Write unpacked pieces, then mark them; refuse other bytes by a `ValueError`."""
        table, lock = self.table, self._locked()
        pieces = []
        num_bytes = 0
        with self._keeping(), contextlib.ExitStack() as opened:
            handle, handle_of = -1, -1  # one at a time: many threads fill files of many segments
            for piece, raw in filled:
                if len(raw) != table.raw_length[piece] or zlib.crc32(raw) != table.raw_crc[piece]:
                    raise ValueError(f"the checksum of the unpacked piece {piece} does not match")
                member = table.member[piece]
                if member != handle_of:
                    opened.close()
                    handle, handle_of = self._open(member, os.O_RDWR), member
                    opened.callback(os.close, handle)
                _write_at(handle, raw, table.raw_start[piece])
                pieces.append(piece)
                num_bytes += len(raw)
            self._mark(lock, pieces)
        if self._entries is not None:
            self._entries.added(num_bytes)

    def read(self, member: int, start: int, end: int) -> bytes:
        """Return bytes of a member whose pieces are there."""
        with self._keeping():
            handle = self._open(member, os.O_RDONLY)
            try:
                return os.pread(handle, end - start, start)
            finally:
                os.close(handle)

    @property
    def is_complete(self) -> bool:
        """Whether every piece is there."""
        return not self.missing(range(self.table.num_pieces))

    @property
    def is_current(self) -> bool:
        """Whether the files in `directory` are still those of this entry."""
        try:
            return [inode for inode, *_ in self._facts()] == self._inodes and self._has_its_record()
        except (FileNotFoundError, NotADirectoryError):
            return False

    def close(self) -> None:
        """Release the entry after its last use; it may be removed then."""
        if self._lock is None:
            return
        if self._entries is not None:
            with contextlib.suppress(OSError):
                facts = self._facts()
                if self.is_current:
                    _remember(self._path, facts, self._trusted)
        self._lock = None
        self._held.close()
        if self._entries is not None and self._entries.is_over:
            self._entries.evict()

    def _facts(self) -> _Facts:
        return tuple(map(_facts_of, _lstat_members(self.directory, self.table)))

    def _open(self, member: int, flags: int) -> int:
        """Open the file that was there when the entry was opened."""
        handle = open_file(os.path.join(self.directory, self.table.members[member][0]), flags | os.O_NOFOLLOW)
        if os.fstat(handle).st_ino == self._inodes[member] and self._has_its_record():
            return handle
        os.close(handle)
        raise NotKeptError("the entry was replaced")

    def _has_its_record(self) -> bool:
        """Return whether the record is the locked one, whose inode no new file can have."""
        lock = self._locked()
        return os.path.samestat(os.lstat(os.path.join(self._path, RECORD)), os.fstat(lock.number))

    def _locked(self) -> _Lock:
        """Return the lock, which stays open as long as a caller has it."""
        lock = self._lock
        if lock is None:
            raise NotKeptError("the entry is closed")
        return lock

    def _compare(self, pieces: Sequence[int]) -> None:
        """Trust the pieces whose bytes match their checksums."""
        table = self.table
        for member, group in itertools.groupby(sorted(pieces, key=table.member.__getitem__), table.member.__getitem__):
            with self._keeping():
                handle = self._open(member, os.O_RDONLY)
                try:
                    for piece in group:
                        data = os.pread(handle, table.raw_length[piece], table.raw_start[piece])
                        if len(data) == table.raw_length[piece] and zlib.crc32(data) == table.raw_crc[piece]:
                            self._trusted[piece] = 1
                finally:
                    os.close(handle)

    def _mark(self, lock: _Lock, pieces: Iterable[int]) -> None:
        """Note that pieces are there, after their data."""
        for start, end in _runs(sorted(set(pieces))):
            _write_at(lock.number, _FILLED * (end - start), _HEAD_BYTES + start)
            self._trusted[start:end] = _FILLED * (end - start)

    @contextlib.contextmanager
    def _keeping(self) -> Iterator[None]:
        try:
            yield
        except IndexTablesError:
            raise
        except OSError as error:
            if not is_disk_full(error):
                refuse_shortage(f"keep parts of indexes in `{self._path}`", error)
            raise NotKeptError(str(error)) from error


class _Lock:
    """An open record, closed after its last use.

    A thread may still fill a closed entry.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        weakref.finalize(self, os.close, number)


def _private(table: PieceTable) -> SparseEntry:
    """Make an entry for one use."""
    with contextlib.ExitStack() as held:
        path = held.enter_context(scratch_directory())
        return SparseEntry(path, table, _make_files(path, table), held=held.pop_all())


def _make_files(path: str, table: PieceTable) -> int:
    """Make the files of an entry without pieces; return a shared lock on its record."""
    lock = open_file(os.path.join(path, RECORD), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        files = os.path.join(path, FILES)
        os.mkdir(files, 0o700)
        allocated = sum(make_hole(os.path.join(files, name), size) for name, size in table.members)
        if allocated > table.raw_bytes // 2 and table.raw_bytes >= _WORTH_HOLES:
            raise OSError(errno.EOPNOTSUPP, "its file system has no sparse files")
        _write_at(lock, _head(table) + bytes(table.num_pieces), 0)
    except BaseException:
        os.close(lock)
        raise
    return lock


def make_hole(path: str, size: int) -> int:
    """Make a file that is one hole, and return the bytes that it takes on disk."""
    handle = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        os.ftruncate(handle, size)
        return os.fstat(handle).st_blocks * _BLOCK
    finally:
        os.close(handle)


@functools.lru_cache(maxsize=64)
def file_system(place: str) -> str | None:
    """Return the type of the file system of a directory; None if it is unknown."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape", opener=open_file) as mounts:
            lines = mounts.read().splitlines()
    except OSError:
        return None
    real, found, longest = os.path.realpath(place), None, -1
    for line in lines:
        before, _, behind = line.partition(" - ")
        point = _unescaped(before.split(" ")[4])
        if len(point) >= longest and os.path.commonpath([point, real]) == point:
            found, longest = behind.split(" ")[0], len(point)
    return found


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _head(table: PieceTable) -> bytes:
    """Return the head of a map, which names its pieces by their checksums."""
    hashed = xxhash.xxh3_128(repr(table.members).encode())
    for column in (table.member, table.raw_length, table.raw_crc):
        hashed.update(array.array("Q", column).tobytes())
    return _MAGIC + hashed.digest()


def _find_problem(path: str, lock: int, table: PieceTable) -> str | None:
    """Return why an entry cannot be used, or None."""
    record = read_record(lock)
    if len(record) != _HEAD_BYTES + table.num_pieces or record[:_HEAD_BYTES] != _head(table):
        return "its map cannot be understood"
    files = os.path.join(path, FILES)
    for facts in (os.lstat(path), os.lstat(files)):
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
            return "it belongs to another user"
    for (name, size), facts in zip(table.members, _lstat_members(files, table), strict=True):
        if not stat.S_ISREG(facts.st_mode) or facts.st_size != size:
            return f"{name} was changed"
    return None


def _lstat_members(files: str, table: PieceTable) -> list[os.stat_result]:
    return [os.lstat(os.path.join(files, name)) for name, _ in table.members]


def _facts_of(facts: os.stat_result) -> tuple[int, int, int, int]:
    return facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _remember(path: str, facts: _Facts, trusted: bytearray) -> None:
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[path] = facts, trusted


def _runs(pieces: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the starts and ends of consecutive numbers."""
    for _, group in itertools.groupby(enumerate(pieces), lambda item: item[1] - item[0]):
        numbers = [piece for _, piece in group]
        yield numbers[0], numbers[-1] + 1


def _write_at(handle: int, data: bytes | memoryview, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, offset)
        view, offset = view[written:], offset + written
