"""Local disk: atomic *and durable* puts, written here because the general-purpose library syncs nothing.

A put writes a hidden temporary file, syncs it, gives it its name (by a hard link where the name must be free) and syncs
the directory; new directories are synced into their parents. After a power cut an object is there whole or not at all,
and one whose put returned is there. Temporary files that a crash leaves behind are never listed.
"""

from __future__ import annotations

import bisect
import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence

import cachetools

from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.errors import ObjectExistsError, ObjectNotFoundError, StorageDeniedError, StorageError
from indextables.store.base import ObjectMeta, check_key, check_range
from indextables.store.disk import Disk
from indextables.store.url import Location

_TEMPORARY_PREFIX = ".indextables-"
_TEMPORARY_SUFFIX = ".tmp"
_COPY_CHUNK_BYTES = 8 << 20
# A directory's time is trusted once it is older than the coarsest time stamps of file systems, which are two seconds.
_SETTLED_MS = 2_500
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)

_Stamp = tuple[int, int, int]
_Names = list[str]


class LocalStore:
    """A directory of the local file system."""

    is_remote = False

    def __init__(self, location: Location, *, disk: Disk | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self.location = location
        self._root = location.path
        self._disk = disk or Disk()
        self._clock = clock
        self._listings: cachetools.LRUCache[str, tuple[_Stamp, _Names]] = cachetools.LRUCache(maxsize=64)

    def __reduce__(self) -> tuple[object, ...]:
        return LocalStore, (self.location,)

    def __repr__(self) -> str:
        return f"LocalStore({self.location.url!r})"

    def put_if_absent(self, key: str, data: bytes) -> None:
        with _storage_errors("create", key):
            path = self._path(key)
            with self._temporary(path, (data,)) as temporary:
                self._link(temporary, path, key)
            self._disk.sync_directory(os.path.dirname(path))

    def put(self, key: str, data: bytes) -> None:
        with _storage_errors("write", key):
            self._replace(key, (data,))

    def put_file(self, key: str, path: str) -> None:
        with _storage_errors(f"upload `{path}` to", key), open(path, "rb") as source:
            self._replace(key, iter(lambda: source.read(_COPY_CHUNK_BYTES), b""))

    def get(self, key: str) -> bytes:
        with _storage_errors("read", key):
            handle = os.open(self._path(key), os.O_RDONLY)
            try:
                return _read_all(handle, os.fstat(handle).st_size)
            finally:
                os.close(handle)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self.get_ranges(key, [(start, end)])[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        for start, end in ranges:
            check_range(key, start, end)
        with _storage_errors("read", key):
            handle = os.open(self._path(key), os.O_RDONLY)
            try:
                return [_read_exactly(handle, key, start, end) for start, end in ranges]
            finally:
                os.close(handle)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectMeta]:
        if prefix:
            check_key(prefix)
        with _storage_errors("list", prefix):
            yield from self._walk(prefix, after)

    def head(self, key: str) -> ObjectMeta:
        with _storage_errors("look at", key):
            facts = os.stat(self._path(key))
            if not stat.S_ISREG(facts.st_mode):
                raise FileNotFoundError(errno.ENOENT, "not a file")
            return _meta(key, facts)

    def delete(self, key: str) -> None:
        with _storage_errors("delete", key), contextlib.suppress(FileNotFoundError):
            self._disk.unlink(self._path(key))

    def delete_many(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.delete(key)

    def _path(self, key: str) -> str:
        return f"{self._root}/{check_key(key)}"

    def _replace(self, key: str, chunks: Iterable[bytes]) -> None:
        path = self._path(key)
        with self._temporary(path, chunks) as temporary:
            self._disk.replace(temporary, path)
        self._disk.sync_directory(os.path.dirname(path))

    def _link(self, temporary: str, path: str, key: str) -> None:
        try:
            self._disk.link(temporary, path)
        except FileExistsError:
            raise ObjectExistsError(f"cannot create `{key}` because it is there already") from None
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
        temporary = f"{directory}/{_TEMPORARY_PREFIX}{self._clock.uuid()}{_TEMPORARY_SUFFIX}"
        try:
            self._write_temporary(temporary, chunks)
            yield temporary
        finally:
            with contextlib.suppress(FileNotFoundError):
                self._disk.unlink(temporary)

    def _write_temporary(self, temporary: str, chunks: Iterable[bytes]) -> None:
        try:
            self._disk.write_new(temporary, chunks)
        except FileNotFoundError:
            self._make_directories(os.path.dirname(temporary))
            self._disk.write_new(temporary, chunks)

    def _make_directories(self, directory: str) -> None:
        if os.path.isdir(directory):
            return
        parent = os.path.dirname(directory)
        self._make_directories(parent)
        self._disk.make_directory(directory)
        self._disk.sync_directory(parent)

    def _walk(self, directory_key: str, after: str) -> Iterator[ObjectMeta]:
        directory = f"{self._root}/{directory_key}" if directory_key else self._root
        key_prefix = f"{directory_key}/" if directory_key else ""
        level_after = after[len(key_prefix) :] if after.startswith(key_prefix) else ""
        if after and not level_after and after > key_prefix:
            return
        found: list[tuple[str, os.stat_result]] = []
        for name in _names_from(self._names(directory), level_after.partition("/")[0]):
            with contextlib.suppress(FileNotFoundError):
                facts = _stat(f"{directory}/{name}")
                found.append((f"{name}/" if stat.S_ISDIR(facts.st_mode) else name, facts))
        for name, facts in sorted(found, key=lambda entry: entry[0]):
            if name.endswith("/"):
                yield from self._walk(key_prefix + name[:-1], after)
            elif key_prefix + name > after:
                yield _meta(key_prefix + name, facts)

    def _names(self, directory: str) -> _Names:
        """The sorted names in a directory, from memory where its time stamp proves that nothing has changed."""
        try:
            facts = os.stat(directory)
            stamp = (facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns)
            known = self._listings.get(directory)
            if known is not None and known[0] == stamp:
                return known[1]
            names = sorted(name for name in os.listdir(directory) if not _is_hidden(name))
        except (FileNotFoundError, NotADirectoryError):
            return []
        if self._clock.now_ms() - facts.st_mtime_ns // 1_000_000 > _SETTLED_MS:
            self._listings[directory] = (stamp, names)
        return names


def _is_hidden(name: str) -> bool:
    """Our own temporary files, and names that are not text and so can be no key."""
    if name.startswith(_TEMPORARY_PREFIX) and name.endswith(_TEMPORARY_SUFFIX):
        return True
    return not name.isascii() and any("\udc80" <= letter <= "\udcff" for letter in name)


def _names_from(names: list[str], first: str) -> list[str]:
    """The sorted names at or after `first`, and the directories before it that may hold keys after it.

    A directory `a` holds keys `a/...`, which sort after `a.b`: its name is then a prefix of `first`.
    """
    if not first:
        return names
    start = bisect.bisect_left(names, first)
    prefixes = [first[:length] for length in range(1, len(first))]
    early = [names[at] for prefix in prefixes if names[(at := bisect.bisect_left(names, prefix)) : at + 1] == [prefix]]
    return early + names[start:]


def _stat(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FileNotFoundError(errno.ENOENT, "a loop of links") from error
        raise


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


def _read_exactly(handle: int, key: str, start: int, end: int) -> bytes:
    parts: list[bytes] = []
    position = start
    while position < end:
        part = os.pread(handle, min(end - position, 1 << 30), position)
        if not part:
            raise StorageError(f"cannot read `{key}` up to byte {end} because it ends at byte {position}")
        parts.append(part)
        position += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


@contextlib.contextmanager
def _storage_errors(verb: str, key: str) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise ObjectNotFoundError(f"cannot {verb} `{key}` because it is not there ({error.strerror})") from error
    except PermissionError as error:
        raise StorageDeniedError(f"cannot {verb} `{key}`: {error.strerror}") from error
    except OSError as error:
        raise StorageError(f"cannot {verb} `{key}`: {error.strerror or error}") from error
