"""Decoded manifests on local disk, as Arrow files that are mapped into memory: a second process opens them at once.

A file is written aside, synced and renamed, and ends with its own hash, which is checked before it is first mapped: a
damaged Arrow file in memory would end the process. The directory is the user's own; when it cannot be had, or is not
safe, nothing is kept and everything still works. Its size is bounded: the files used longest ago go first.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import stat
import threading
from collections.abc import Callable

import cachetools
import pyarrow as pa

from indextables.config import Config, settings
from indextables.protocol.file_table import FILES_SCHEMA

logger = logging.getLogger(__name__)

_HASH_BYTES = 32
_SUFFIX = ".arrow"
_MOST_OPEN = 256


class DecodedManifests:
    """A cache of decoded manifests, shared by the processes of one user."""

    def __init__(self, config: Config) -> None:
        self._max_bytes = config[settings.CACHE_DISK_MAX_SIZE]
        chosen = config[settings.CACHE_DISK_PATH] or os.path.join(_user_cache(), "indextables")
        self._directory = os.path.join(chosen, "manifests") if config[settings.CACHE_DISK_ENABLED] else None
        self._lock = threading.Lock()
        self._open: cachetools.LRUCache[str, pa.Table] = cachetools.LRUCache(maxsize=_MOST_OPEN)

    def get(self, key: str, decode: Callable[[], pa.Table]) -> pa.Table:
        """The table of a manifest whose name is the hash of its content."""
        name = os.path.basename(key)
        with self._lock:
            known = self._open.get(name)
        table = known if known is not None else self._load(name)
        if table is None:
            table = decode()
            self._store(name, table)
        with self._lock:
            self._open[name] = table
        return table

    def _path(self, name: str) -> str:
        return os.path.join(self._directory or "", name + _SUFFIX)

    def _load(self, name: str) -> pa.Table | None:
        if self._directory is None:
            return None
        path = self._path(name)
        try:
            if not _is_own(path):
                return None
            with pa.memory_map(path) as mapped:
                buffer = mapped.read_buffer()
            if not _is_whole(buffer):
                raise ValueError("its hash does not fit")
            table = pa.ipc.open_file(pa.BufferReader(buffer.slice(0, buffer.size - _HASH_BYTES))).read_all()
            if not table.schema.equals(FILES_SCHEMA):
                raise ValueError("it was made by another version")
            os.utime(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, pa.ArrowException) as error:
            logger.info("dropping the decoded manifest %s: %s", name, error)
            with contextlib.suppress(OSError):
                os.unlink(path)
            return None
        return table

    def _store(self, name: str, table: pa.Table) -> None:
        if self._directory is None:
            return
        try:
            _make_private(self._directory)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
            data = sink.getvalue()
            if data.size + _HASH_BYTES > self._max_bytes:
                return
            self._write(name, data)
            self._evict()
        except OSError as error:
            logger.info("cannot keep decoded manifests in %s: %s", self._directory, error)

    def _write(self, name: str, data: pa.Buffer) -> None:
        path = self._path(name)
        temporary = f"{path}.{os.getpid()}-{threading.get_ident()}.tmp"
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(data)
                file.write(hashlib.sha256(data).digest())
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)

    def _evict(self) -> None:
        entries = []
        for entry in os.scandir(self._directory):
            with contextlib.suppress(FileNotFoundError):
                facts = entry.stat(follow_symlinks=False)
                entries.append((facts.st_mtime_ns, facts.st_size, entry.path))
        excess = sum(size for _, size, _ in entries) - self._max_bytes
        for _, size, path in sorted(entries):
            if excess <= 0:
                return
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            excess -= size


def _user_cache() -> str:
    return os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")


def _make_private(directory: str) -> None:
    """The directory, which nobody else may write: what is mapped from it is trusted."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    facts = os.stat(directory)
    if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o022:
        raise PermissionError(f"{directory} belongs to somebody else, or others may write it")


def _is_own(path: str) -> bool:
    facts = os.lstat(path)
    return stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid()


def _is_whole(buffer: pa.Buffer) -> bool:
    size = buffer.size - _HASH_BYTES
    return bool(size > 0 and hashlib.sha256(buffer.slice(0, size)).digest() == buffer.slice(size).to_pybytes())
