"""Store on HDFS, with `hdfs://` and `viewfs://`, without a Java process.

A put writes a hidden temporary file next to its key, lets the DataNodes sync it to disk, closes it, and renames it. The
NameNode renames atomically, and refuses if the key must be free but is taken. Readers see a whole object or none.
Temporary files of a killed writer are never listed; a later put into the same directory deletes them after a day.

The store pickles as its location and settings; each process makes its client on first use.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.config import Config
from indextables.errors import StorageError, StorageRefusedError
from indextables.location import Location
from indextables.runtime.fork_guard import enter_network
from indextables.store.base import ObjectMeta, check_key, check_source
from indextables.store.hdfs.client import build_client, hdfs_errors, remote_class
from indextables.store.ranges import Spans, read_together
from indextables.store.temporary import Once, is_after_temporary, is_stale, is_temporary, temporary_path

_CHUNK_BYTES = 8 << 20
_PAGE = 1000
_READ_TRIES = 3

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class HdfsStore:
    """Directory of HDFS."""

    is_remote = True

    def __init__(self, location: Location, config: Config, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.location = location
        self._config = config
        self._clock = clock
        self._lock = threading.Lock()
        self._made: tuple[Any, str] | None = None
        self._swept = Once()

    def __reduce__(self) -> tuple[object, ...]:
        return HdfsStore, (self.location, self._config)

    def __repr__(self) -> str:
        return f"HdfsStore({self.location.url!r})"

    def put_if_absent(self, key: str, data: bytes, *, once: bool = False) -> None:
        with self._errors("create", key, writes=True):
            self._put(key, (data,), overwrite=False)

    def put(self, key: str, data: bytes) -> None:
        with self._errors("write", key, writes=True):
            self._put(key, (data,), overwrite=True)

    def put_file(self, key: str, path: str) -> None:
        check_source(path)
        with self._errors(f"upload `{path}` to", key, writes=True), open(path, "rb") as source:
            self._put(key, iter(lambda: source.read(_CHUNK_BYTES), b""), overwrite=True)

    def get(self, key: str, *, e_tag: str | None = None) -> bytes:
        def read() -> bytes:
            reader = self._client.read(path)
            # Open first: an old e-tag never returns, so a file with this e-tag had it when it was opened.
            if e_tag is not None and _meta(key, self._client.get_file_info(path)).e_tag != e_tag:
                raise FileNotFoundError("another file is there")
            size = len(reader)
            return bytes(reader.read_range(0, size)) if size else b""

        with self._errors("read", key):
            path = self._path(key)
            return _tried(read)

    def get_object(self, key: str) -> tuple[bytes, ObjectMeta]:
        meta = self.head(key)
        return self.get(key, e_tag=meta.e_tag), meta

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self.get_ranges(key, [(start, end)])[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        def read(spans: Spans) -> list[bytes]:
            def read_spans() -> list[bytes]:
                reader = self._client.read(path)
                return [_read_up_to(reader, start, end) for start, end in spans]

            with self._errors("read", key):
                path = self._path(key)
                return _tried(read_spans)

        return read_together(key, ranges, read)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectMeta]:
        with self._errors("list", prefix):
            yield from self._walk(check_key(prefix) if prefix else "", after)

    def pages(self, prefix: str = "") -> Iterator[Sequence[ObjectMeta]]:
        with self._errors("list", prefix):
            found = self._scan(check_key(prefix) if prefix else "")
            while page := list(itertools.islice(found, _PAGE)):
                yield page

    def head(self, key: str) -> ObjectMeta:
        with self._errors("look at", key):
            status = self._client.get_file_info(self._path(key))
            if status.isdir:
                raise FileNotFoundError("a directory is there")
            return _meta(key, status)

    def delete(self, key: str, *, with_directory: bool = False) -> None:
        with self._errors("delete", key):
            path = self._path(key)
            self._remove(path)
            directory = path.rpartition("/")[0]
            if with_directory and directory:
                self._remove(directory)

    def delete_many(self, keys: Iterable[str]) -> None:
        for key in [self._checked(key) for key in keys]:
            self.delete(key)

    @property
    def _client(self) -> Any:
        return self._open()[0]

    def _open(self) -> tuple[Any, str]:
        enter_network(self.location.url)
        with self._lock:
            if self._made is None:
                self._made = build_client(self.location, self._config)
            return self._made

    def _errors(self, verb: str, key: str, *, writes: bool = False) -> contextlib.AbstractContextManager[None]:
        return hdfs_errors(self.location, verb, key, writes=writes)

    def _checked(self, key: str) -> str:
        if is_temporary(key.rpartition("/")[2]):
            raise StorageError(f"cannot use the key `{key!a}` because such names are reserved for temporary files")
        if ":" in key:
            raise StorageRefusedError(f"cannot use the key `{key!a}` because HDFS has no names with a colon")
        return check_key(key)

    def _path(self, key: str) -> str:
        checked = self._checked(key)
        return f"{self._open()[1]}/{checked}"

    def _directory(self, key: str) -> str:
        root = self._open()[1]
        return f"{root}/{key}" if key else root or "/"

    def _put(self, key: str, chunks: Iterable[bytes], *, overwrite: bool) -> None:
        path = self._path(key)
        directory = path.rpartition("/")[0]
        temporary = temporary_path(directory, self._clock)
        try:
            self._write_new(temporary, chunks)
            self._client.rename(temporary, path, overwrite)
        except BaseException as error:
            if not _is_out_of_reach(error):
                with contextlib.suppress(OSError, RuntimeError):
                    self._client.delete(temporary)
            raise
        self._sweep(directory, path)

    def _write_new(self, path: str, chunks: Iterable[bytes]) -> None:
        """Write a new file, and create missing directories."""
        try:
            writer = self._client.create(path)
        except FileExistsError:
            # The client's own retry found its first attempt; this does not concern the key.
            raise StorageError(f"cannot write `{path}` because a response of the NameNode was lost") from None
        for chunk in chunks:
            if chunk:
                writer.write(chunk)
        writer.hsync()
        writer.close()

    def _remove(self, path: str) -> None:
        """Remove a file or an empty directory; keep anything else."""
        try:
            self._client.delete(path)
        except FileNotFoundError:
            return
        except RuntimeError as error:
            if remote_class(error) != "PathIsNotEmptyDirectoryException":
                raise

    def _sweep(self, directory: str, written: str) -> None:
        """Delete temporary files older than a day, once per directory."""
        if directory in self._swept:
            return
        self._swept.add(directory)
        try:
            now_ms = self._client.get_file_info(written).modification_time
            for status in self._client.list_status(directory or "/"):
                name = status.path.rpartition("/")[2]
                if is_after_temporary(name):
                    return
                if is_temporary(name) and is_stale(status.modification_time, now_ms):
                    self._client.delete(status.path)
        except (OSError, RuntimeError) as error:
            _log.debug("cannot sweep `%s`: %s", directory, error)

    def _walk(self, directory_key: str, after: str) -> Iterator[ObjectMeta]:
        """Yield the objects below a directory with keys after `after`, sorted."""
        key_prefix = f"{directory_key}/" if directory_key else ""
        if after > key_prefix and not after.startswith(key_prefix):
            return
        entries = [(f"{key}/" if status.isdir else key, status) for key, status in self._entries(directory_key)]
        for key, status in sorted(entries, key=lambda entry: entry[0]):
            if status.isdir:
                yield from self._walk(key[:-1], after)
            elif key > after:
                yield _meta(key, status)

    def _scan(self, directory_key: str) -> Iterator[ObjectMeta]:
        """Yield the objects below a directory in the NameNode's order."""
        for key, status in self._entries(directory_key):
            if status.isdir:
                yield from self._scan(key)
            else:
                yield _meta(key, status)

    def _entries(self, directory_key: str) -> Iterator[tuple[str, Any]]:
        """Yield the files and directories of a directory with their keys.

        A missing directory has none.
        """
        directory = self._directory(directory_key)
        with contextlib.suppress(FileNotFoundError):
            for status in self._client.list_status(directory):
                name = status.path.rpartition("/")[2]
                if status.path != directory and not is_temporary(name):
                    yield f"{directory_key}/{name}" if directory_key else name, status


def _tried(read: Callable[[], _T]) -> _T:
    """Retry a read if the DataNodes had no data.

    A file that is replaced during the read loses its blocks.
    """
    for _ in range(_READ_TRIES - 1):
        try:
            return read()
        except RuntimeError as error:
            if remote_class(error):
                raise
            _log.debug("reading again: %s", error)
    return read()


def _read_up_to(reader: Any, start: int, end: int) -> bytes:
    """Return the bytes of a range up to the end of the file.

    The client fails on a range beyond the end.
    """
    end = min(end, len(reader))
    return bytes(reader.read_range(start, end - start)) if start < end else b""


def _is_out_of_reach(error: BaseException) -> bool:
    """Return True if the client has just tried long to reach a server.

    The next call would take as long.
    """
    return type(error) is OSError or isinstance(error, ConnectionError | TimeoutError)


def _meta(key: str, status: Any) -> ObjectMeta:
    e_tag = f"{status.modification_time:x}-{status.length:x}"
    return ObjectMeta(key, status.length, e_tag, status.modification_time)
