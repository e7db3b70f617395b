"""Store on local disk: atomic *and durable* puts.

The general-purpose library syncs none.

A put writes a hidden temporary file, syncs it, gives it its name (by a hard link if the name must be free) and syncs
the directory. The directory's own name is made durable before the first put into it, even if another process created
it. After a power cut an object is whole or absent, and an object is present if its put returned; a delete may be
undone.
"""

from __future__ import annotations

import bisect
import contextlib
import errno
import itertools
import logging
import os
import stat
from collections.abc import Iterable, Iterator, Sequence

from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    StorageDeniedError,
    StorageError,
    StorageRefusedError,
)
from indextables.location import Location
from indextables.runtime.resources import open_file, with_descriptors
from indextables.runtime.tally import note
from indextables.store.base import ObjectMeta, check_key, check_range, check_source
from indextables.store.local.disk import Disk
from indextables.store.local.listings import Listings
from indextables.store.temporary import Once, is_stale, is_temporary, temporary_path

_COPY_CHUNK_BYTES = 8 << 20
_GAP_BYTES = 8 << 10  # read in the time of another call
_TOGETHER_BYTES = 1 << 20
_PAGE = 1000
_READ = os.O_RDONLY | os.O_NONBLOCK  # opening a pipe would otherwise wait for its writer
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_NOTHING_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_log = logging.getLogger(__name__)


class LocalStore:
    """Directory of the local file system."""

    is_remote = False

    def __init__(self, location: Location, *, disk: Disk | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self.location = location
        self._root = location.path
        self._disk = disk or Disk()
        self._clock = clock
        self._listings = Listings(clock, _is_hidden)
        self._held, self._swept = Once(), Once()

    def __reduce__(self) -> tuple[object, ...]:
        return LocalStore, (self.location,)

    def __repr__(self) -> str:
        return f"LocalStore({self.location.url!r})"

    def put_if_absent(self, key: str, data: bytes, *, once: bool = False) -> None:
        with _storage_errors("create", key, writes=True):
            path = self._path(key)
            with self._temporary(path, (data,)) as temporary:
                if not os.path.lexists(path):
                    self._drop_checksum(path)
                self._link(temporary, path, key)
            self._finish(path)

    def put(self, key: str, data: bytes) -> None:
        with _storage_errors("write", key, writes=True):
            self._replace(key, (data,))

    def put_file(self, key: str, path: str) -> None:
        check_source(path)
        with _storage_errors(f"upload `{path}` to", key, writes=True), open(path, "rb", opener=open_file) as source:
            self._replace(key, iter(lambda: source.read(_COPY_CHUNK_BYTES), b""))

    def get(self, key: str, *, e_tag: str | None = None) -> bytes:
        return self._get(key, e_tag)[0]

    def get_object(self, key: str) -> tuple[bytes, ObjectMeta]:
        return self._get(key, None)

    def _get(self, key: str, e_tag: str | None) -> tuple[bytes, ObjectMeta]:
        with _storage_errors("read", key):
            handle = open_file(self._path(key), _READ)
            try:
                facts = _facts_of_file(handle)
                meta = _meta(key, facts)
                if e_tag is not None and meta.e_tag != e_tag:
                    raise FileNotFoundError(errno.ENOENT, "another file is there")
                return _read_all(handle, facts.st_size), meta
            finally:
                os.close(handle)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self.get_ranges(key, [(start, end)])[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        for start, end in ranges:
            check_range(key, start, end)
        if all(start == end for start, end in ranges):
            return [b"" for _ in ranges]
        with _storage_errors("read", key):
            handle = open_file(self._path(key), _READ)
            try:
                _facts_of_file(handle)
                note(requests=1, bytes=sum(end - start for start, end in ranges))
                return _read_ranges(handle, key, ranges)
            finally:
                os.close(handle)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectMeta]:
        if prefix:
            check_key(prefix)
        with _storage_errors("list", prefix):
            start = _stat(self._directory(prefix))
            if start is not None:
                yield from self._walk(prefix, after, frozenset({(start.st_dev, start.st_ino)}))

    def pages(self, prefix: str = "") -> Iterator[Sequence[ObjectMeta]]:
        if prefix:
            check_key(prefix)
        with _storage_errors("list", prefix):
            found = self._scan(prefix, frozenset())
            while page := list(itertools.islice(found, _PAGE)):
                yield page

    def head(self, key: str) -> ObjectMeta:
        with _storage_errors("look at", key):
            facts = os.stat(self._path(key))
            if not stat.S_ISREG(facts.st_mode):
                raise FileNotFoundError(errno.ENOENT, "not a file")
            return _meta(key, facts)

    def delete(self, key: str, *, with_directory: bool = False) -> None:
        with _storage_errors("delete", key), contextlib.suppress(*_NOTHING_THERE):
            self._check_inside(key)
            self._disk.unlink(self._path(key))
            self._drop_checksum(self._path(key))
        if with_directory:
            self._disk.remove_directory(os.path.dirname(self._path(key)))

    def delete_many(self, keys: Iterable[str]) -> None:
        for key in [check_key(key) for key in keys]:
            self.delete(key)

    def _path(self, key: str) -> str:
        if _is_hidden(key.rpartition("/")[2]):
            raise StorageError(f"cannot use the key `{key!a}` because such names are reserved for temporary files")
        return f"{self._root}/{check_key(key)}"

    def _check_inside(self, key: str) -> None:
        """Refuse to delete through a link out of the table: the target is not part of it."""
        if not self._has_links(key):
            return
        root = os.path.realpath(self._root)
        directory = os.path.realpath(os.path.dirname(self._path(key)))
        if directory != root and not directory.startswith(root.rstrip("/") + "/"):
            raise StorageRefusedError(f"cannot delete `{key}` because a link on its way leads out of the table")

    def _has_links(self, key: str) -> bool:
        """Return True if a directory between the root and a key is a link."""
        ends = (at for at, letter in enumerate(key) if letter == "/")
        return any(os.path.islink(f"{self._root}/{key[:end]}") for end in ends)

    def _directory(self, key: str) -> str:
        return f"{self._root}/{key}" if key else self._root

    def _replace(self, key: str, chunks: Iterable[bytes]) -> None:
        path = self._path(key)
        with self._temporary(path, chunks) as temporary:
            self._drop_checksum(path)
            self._disk.replace(temporary, path)
        self._finish(path)

    def _drop_checksum(self, path: str) -> None:
        """Delete Hadoop's checksum file of a file.

        A checksum of other bytes makes the file unreadable for Hadoop; without one Hadoop reads the file unchecked.
        """
        directory, _, name = path.rpartition("/")
        checksum = f"{directory}/.{name}.crc"
        if os.path.lexists(checksum):
            with contextlib.suppress(*_NOTHING_THERE):
                self._disk.unlink(checksum)

    def _link(self, temporary: str, path: str, key: str) -> None:
        try:
            self._disk.link(temporary, path)
        except FileExistsError:
            if os.path.isdir(path):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)) from None
            # A writer that builds on this object, or adopts it as its own, must not lose it on a power cut.
            self._disk.sync_directory(os.path.dirname(path))
            raise ObjectExistsError(f"cannot create `{key}` because it exists already", path=key) from None
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            raise StorageError(
                f"cannot create `{key}` because the file system under `{self._root}` has no hard links",
                hint="a table needs them to decide races between writers; put it on another file system",
            ) from error

    @contextlib.contextmanager
    def _temporary(self, path: str, chunks: Iterable[bytes]) -> Iterator[str]:
        directory = os.path.dirname(path)
        self._hold(directory)
        temporary = temporary_path(directory, self._clock)
        try:
            self._write_new(temporary, path, chunks)
            yield temporary
        finally:
            with contextlib.suppress(FileNotFoundError):
                self._disk.unlink(temporary)

    def _write_new(self, temporary: str, path: str, chunks: Iterable[bytes]) -> None:
        try:
            self._disk.write_new(temporary, chunks)
        except PermissionError:
            raise
        except OSError as error:
            key = path.removeprefix(f"{self._root}/")
            raise StorageRefusedError(f"cannot write `{key}`: {error.strerror or error}", path=key) from error

    def _hold(self, directory: str) -> None:
        """Create the directory if it is missing, and make its name durable.

        The process that created a directory may have died before syncing it, so sync every directory once per store.
        """
        found = _stat(directory) is not None
        if found and directory in self._held:
            return
        parent = os.path.dirname(directory)
        if not found:
            self._hold(parent)
            self._disk.make_directory(directory)
            self._disk.sync_directory(parent)
        elif os.access(parent, os.R_OK | os.W_OK):  # in other parents this process cannot have created directories
            self._disk.sync_directory(parent)
        self._held.add(directory)

    def _finish(self, path: str) -> None:
        """Make a new name durable."""
        directory = os.path.dirname(path)
        self._disk.sync_directory(directory)
        if directory not in self._swept:
            self._swept.add(directory)
            self._sweep(directory, path)

    def _sweep(self, directory: str, written: str) -> None:
        """Delete temporary files older than a day from a directory."""
        try:
            now_ms = os.stat(written).st_mtime_ns // 1_000_000
            with os.scandir(directory) as entries:
                for entry in entries:
                    if _is_left_behind(entry, now_ms):
                        self._disk.unlink(entry.path)
        except OSError as error:  # another process is sweeping too, or this one lacks permission
            _log.debug("cannot sweep `%s`: %s", directory, error)

    def _scan(self, directory_key: str, trail: frozenset[tuple[int, int]]) -> Iterator[ObjectMeta]:
        """Yield the objects below a directory in the disk's order, without a name list.

        `trail` is the same as in `_walk`.
        """
        directory = self._directory(directory_key)
        own = _stat(directory)
        if own is None or (here := (own.st_dev, own.st_ino)) in trail:
            return
        try:
            entries = with_descriptors(lambda: os.scandir(directory))
        except OSError as error:
            if error.errno in _GONE:
                return
            raise
        with entries:
            for entry in entries:
                facts = None if _is_hidden(entry.name) else _stat(entry.path)
                if facts is None:
                    continue
                key = f"{directory_key}/{entry.name}" if directory_key else entry.name
                if stat.S_ISDIR(facts.st_mode):
                    yield from self._scan(key, trail | {here})
                elif stat.S_ISREG(facts.st_mode):
                    yield _meta(key, facts)

    def _walk(self, directory_key: str, after: str, trail: frozenset[tuple[int, int]]) -> Iterator[ObjectMeta]:
        """Yield the objects below a directory.

        `trail` has its parents, to end loops of links.
        """
        key_prefix = f"{directory_key}/" if directory_key else ""
        level_after = after[len(key_prefix) :] if after.startswith(key_prefix) else ""
        if after and not level_after and after > key_prefix:
            return
        for name, facts in self._entries(directory_key, level_after.partition("/")[0]):
            if not name.endswith("/"):
                if key_prefix + name > after:
                    yield _meta(key_prefix + name, facts)
            elif (here := (facts.st_dev, facts.st_ino)) not in trail:
                yield from self._walk(key_prefix + name[:-1], after, trail | {here})

    def _entries(self, directory_key: str, first: str) -> Sequence[tuple[str, os.stat_result]]:
        """Return files and directories (with a final slash) by key, from about `first` on."""
        directory = self._directory(directory_key)
        found = []
        for name in _names_from(self._names(directory), first):
            facts = _stat(f"{directory}/{name}")
            if facts is None:
                continue
            if stat.S_ISDIR(facts.st_mode):
                found.append((f"{name}/", facts))
            elif stat.S_ISREG(facts.st_mode):
                found.append((name, facts))
        return sorted(found, key=lambda entry: entry[0])

    def _names(self, directory: str) -> Sequence[str]:
        try:
            return self._listings.names(directory)
        except OSError as error:
            if error.errno in _GONE:
                return []
            raise


def _is_hidden(name: str) -> bool:
    """Return True for temporary files, and for names that are not valid text."""
    if is_temporary(name):
        return True
    return not name.isascii() and any("\udc80" <= letter <= "\udcff" for letter in name)


def _is_left_behind(entry: os.DirEntry[str], now_ms: int) -> bool:
    """Return True for a temporary file of a dead writer."""
    if not is_temporary(entry.name) or not entry.is_file(follow_symlinks=False):
        return False
    return is_stale(entry.stat().st_mtime_ns // 1_000_000, now_ms)


def _names_from(names: Sequence[str], first: str) -> Sequence[str]:
    """Return the sorted names from `first` on, and directories with keys after it.

    A directory `a` has keys `a/...`, which sort after `a.b`: its name is then a prefix of `first`.
    """
    if not first:
        return names
    start = bisect.bisect_left(names, first)
    early = []
    for length in range(1, len(first)):
        at = bisect.bisect_left(names, first[:length])
        if at < start and names[at] == first[:length]:
            early.append(names[at])
    return [*early, *names[start:]]


def _stat(path: str) -> os.stat_result | None:
    """Return the facts of a file; None if it is gone, or a link has no target."""
    try:
        return os.stat(path)
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise


def _facts_of_file(handle: int) -> os.stat_result:
    """Return the facts of an open regular file.

    Refuse a directory, and a device or a pipe, which may have no end.
    """
    facts = os.fstat(handle)
    if not stat.S_ISREG(facts.st_mode):
        raise FileNotFoundError(errno.ENOENT, "not a file")
    return facts


def _meta(key: str, facts: os.stat_result) -> ObjectMeta:
    e_tag = f"{facts.st_ino:x}-{facts.st_mtime_ns:x}-{facts.st_size:x}"
    return ObjectMeta(key, facts.st_size, e_tag, facts.st_mtime_ns // 1_000_000)


def _read_all(handle: int, size: int) -> bytes:
    data = os.read(handle, size + 1)
    if len(data) == size:
        return data
    parts = [data]
    while part := os.read(handle, _COPY_CHUNK_BYTES):
        parts.append(part)
    return b"".join(parts)


def _read_ranges(handle: int, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    """Read ranges; those with small gaps between them are read together."""
    found: list[bytes] = []
    at = 0
    while at < len(ranges):
        start, end = ranges[at]
        last = at + 1
        while last < len(ranges) and end <= ranges[last][0] <= end + _GAP_BYTES and end - start < _TOGETHER_BYTES:
            end = ranges[last][1]
            last += 1
        data = _read_exactly(handle, key, start, end)
        if last == at + 1:
            found.append(data)
        else:
            found += [data[first - start : behind - start] for first, behind in ranges[at:last]]
        at = last
    return found


def _read_exactly(handle: int, key: str, start: int, end: int) -> bytes:
    parts: list[bytes] = []
    position = start
    while position < end:
        part = os.pread(handle, min(end - position, 1 << 30), position)
        if not part:
            raise StorageError(f"cannot read `{key}` up to byte {end} because it ends at byte {position}", path=key)
        parts.append(part)
        position += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


@contextlib.contextmanager
def _storage_errors(verb: str, key: str, *, writes: bool = False) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except _NOTHING_THERE as error:
        if writes:
            raise StorageError(
                f"cannot {verb} `{key}` because its place is taken or gone: {error.strerror}", path=key
            ) from error
        raise ObjectNotFoundError(
            f"cannot {verb} `{key}` because it does not exist ({error.strerror})", path=key
        ) from error
    except PermissionError as error:
        raise StorageDeniedError(f"cannot {verb} `{key}`: {error.strerror}", path=key) from error
    except OSError as error:
        raise StorageError(f"cannot {verb} `{key}`: {error.strerror or error}", path=key) from error
