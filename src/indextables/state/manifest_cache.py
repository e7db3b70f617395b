"""Decoded manifests on local disk, as Arrow files that are mapped into memory.

A second process opens them without decoding. A file is written under a temporary name, synced and renamed, and ends
with its own hash, which is checked before it is first mapped: a damaged Arrow file in memory would crash the process.
The directory is private to the user; if it is unavailable or not safe, nothing is cached and everything still works.
The size on disk and in memory is bounded: the least recently used file is dropped first.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import stat
import threading
from collections.abc import Callable

import pyarrow as pa

from indextables.config import Config, settings
from indextables.protocol.file_table import FILES_SCHEMA
from indextables.runtime.caching import BoundedCache
from indextables.runtime.private_directory import cache_directory, make_private
from indextables.runtime.resources import shortage

logger = logging.getLogger(__name__)

_HASH_BYTES = 32
_SUFFIX = ".arrow"
_MOST_OPEN_BYTES = 128 << 20

_Identity = tuple[int, int, int]


class DecodedManifests:
    """Cache of decoded manifests, shared by the processes of one user."""

    def __init__(self, config: Config) -> None:
        self._max_bytes = config[settings.CACHE_DISK_MAX_SIZE]
        self._directory = cache_directory(config, "manifests") if config[settings.CACHE_DISK_ENABLED] else None
        self._open: BoundedCache[str, pa.Table] = BoundedCache(_MOST_OPEN_BYTES, weigh=_num_bytes)
        self._whole: dict[str, _Identity] = {}

    def get(self, key: str, decode: Callable[[], pa.Table]) -> pa.Table:
        """Return the table of a manifest whose name is the hash of its content."""
        table = self.find(key)
        if table is None:
            table = decode()
            name = os.path.basename(key)
            if self._store(name, table):
                mapped = self._load(name)
                table = table if mapped is None else mapped
            self.remember(key, table)
        return table

    def find(self, key: str) -> pa.Table | None:
        """Return the table of a manifest from memory or disk, or None."""
        name = os.path.basename(key)
        known = self._open.get(name)
        if known is None:
            known = self._load(name)
            if known is not None:
                self.remember(key, known)
        return known

    @property
    def is_on_disk(self) -> bool:
        """True if decoded manifests are kept on disk, for all processes."""
        return self._directory is not None

    def remember(self, key: str, table: pa.Table) -> None:
        """Keep the table of a manifest in memory, unless it exceeds the limit."""
        self._open.put(os.path.basename(key), table)

    def _path(self, name: str) -> str:
        return os.path.join(self._directory or "", name + _SUFFIX)

    def _load(self, name: str) -> pa.Table | None:
        if self._directory is None:
            return None
        path = self._path(name)
        try:
            facts = os.lstat(path)
            if not _is_own(facts):
                return None
            with pa.memory_map(path) as mapped:
                buffer = mapped.read_buffer()
            if self._whole.get(name) != _identity(facts):
                if not _is_whole(buffer):
                    raise ValueError("its hash does not fit")
                os.utime(path)
                self._whole[name] = _identity(os.lstat(path))
            table = pa.ipc.open_file(pa.BufferReader(buffer.slice(0, buffer.size - _HASH_BYTES))).read_all()
            if not table.schema.equals(FILES_SCHEMA):
                raise ValueError("another version of the library wrote it")
        except FileNotFoundError:
            return None
        except (OSError, ValueError, pa.ArrowException) as error:
            if shortage(error) is not None:  # it may be intact
                return None
            logger.info("dropping the decoded manifest %s: %s", name, error)
            with contextlib.suppress(OSError):
                os.unlink(path)
            return None
        return table

    def _store(self, name: str, table: pa.Table) -> bool:
        """Store the table on disk, and return True if it is there."""
        if self._directory is None:
            return False
        try:
            if table.nbytes > self._max_bytes:
                return False
            make_private(self._directory)
            self._write(name, table)
            self._whole[name] = _identity(os.lstat(self._path(name)))
            self._evict()
        except OSError as error:
            logger.info("cannot keep decoded manifests in %s: %s", self._directory, error)
            return False
        return True

    def _write(self, name: str, table: pa.Table) -> None:
        path = self._path(name)
        temporary = f"{path}.{os.getpid()}-{threading.get_ident()}.tmp"
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                with pa.ipc.new_file(file, table.schema) as writer:
                    writer.write_table(table)
                file.flush()
                with open(temporary, "rb") as written:
                    file.write(hashlib.file_digest(written, "sha256").digest())
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)

    def _evict(self) -> None:
        entries = []
        with os.scandir(self._directory) as found:
            for entry in found:
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


def _num_bytes(table: pa.Table) -> int:
    return int(table.nbytes)


def _identity(facts: os.stat_result) -> _Identity:
    """Return facts that identify a file that was checked before."""
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def _is_own(facts: os.stat_result) -> bool:
    return stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid()


def _is_whole(buffer: pa.Buffer) -> bool:
    size = buffer.size - _HASH_BYTES
    return bool(size > 0 and hashlib.sha256(buffer.slice(0, size)).digest() == buffer.slice(size).to_pybytes())
