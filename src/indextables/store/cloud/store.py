"""Store on S3, Azure, Google Cloud Storage and memory, through obstore.

The store pickles as its location and settings; each process makes its client on first use. Errors are translated, with
secrets masked. A failed put may have been applied: only `ObjectExistsError` of a create means that this call changed
nothing, and even then the client's own first attempt may have created the object.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import obstore
from obstore import exceptions
from obstore.store import MemoryStore

from indextables.config import Config, store_settings
from indextables.errors import ConfigError, ObjectExistsError, ObjectNotFoundError, StorageDeniedError, StorageError
from indextables.location import Location, redact
from indextables.runtime.fork_guard import enter_network
from indextables.store.base import ObjectMeta, check_key, check_source
from indextables.store.cloud.credentials import build_client, secret_values
from indextables.store.ranges import Spans, read_together

_DELETE_BATCH = 1000
_PAGE = 1000
_MOST_PARTS = 16  # of an upload; each takes memory
_MOST_SAID = 600
# The text after this mark is about internals of the client.
_DEBUG = " Debug source:"
_HINTS = (
    (
        re.compile("redirect without LOCATION|AuthorizationHeaderMalformed|PermanentRedirect"),
        f"the bucket may be in another region: set `{store_settings.AWS_REGION.key}`",
    ),
    (
        re.compile("NoSuchBucket|ContainerNotFound"),
        "there is no such bucket or container: check the address, and the endpoint if you have set one",
    ),
    (
        re.compile("ConnectionRefused|dns error|ConnectError"),
        "the server cannot be reached: check its address, the endpoint if you have set one, and the network",
    ),
    (
        re.compile("BadScheme"),
        f"an address without TLS requires `{store_settings.STORE_ALLOW_HTTP.key}` to be `true`",
    ),
)
"""Error texts of the client, and hints for users."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class CloudStore:
    """Prefix of a bucket or container."""

    is_remote = True

    def __init__(self, location: Location, config: Config) -> None:
        self.location = location
        self._config = config
        self._lock = threading.Lock()
        self._made: dict[bool, Any] = {}
        self._at_once = config[store_settings.STORE_PARALLELISM]
        self._parts_at_once = min(self._at_once, _MOST_PARTS)
        self._slots = threading.BoundedSemaphore(self._at_once)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.location, self._config)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location.url!r})"

    def put_if_absent(self, key: str, data: bytes, *, once: bool = False) -> None:
        with self._request("create", key):
            client = self._client(repeats=not once)
            obstore.put(client, self._checked(key), data, mode="create", use_multipart=False)

    def put(self, key: str, data: bytes) -> None:
        with self._request("write", key):
            obstore.put(self._client(), self._checked(key), data, mode="overwrite", max_concurrency=self._parts_at_once)

    def put_file(self, key: str, path: str) -> None:
        check_source(path)
        with self._request(f"upload `{path}` to", key):
            obstore.put(
                self._client(), self._checked(key), Path(path), mode="overwrite", max_concurrency=self._parts_at_once
            )

    def get(self, key: str, *, e_tag: str | None = None) -> bytes:
        with self._request("read", key):
            found = obstore.get(self._client(), self._checked(key))
            if e_tag is not None and _meta(found.meta).e_tag != e_tag:
                raise FileNotFoundError
            return bytes(found.bytes())

    def get_object(self, key: str) -> tuple[bytes, ObjectMeta]:
        with self._request("read", key):
            found = obstore.get(self._client(), self._checked(key))
            return bytes(found.bytes()), _meta(found.meta)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self.get_ranges(key, [(start, end)])[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        def read(spans: Spans) -> list[Any]:
            starts, ends = [start for start, _ in spans], [end for _, end in spans]
            with self._request("read", key):
                # Merged here, because the client's own merging panics if an object ends between two ranges.
                return obstore.get_ranges(self._client(), self._checked(key), starts=starts, ends=ends, coalesce=0)

        return read_together(key, ranges, read)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectMeta]:
        with self._request("list", prefix):
            if prefix:
                self._checked(prefix)
            stream = obstore.list(self._client(), prefix or None, offset=_offset(after), chunk_size=_PAGE)
            # Not every server filters or sorts, so do both here.
            found = [_meta(entry) for chunk in stream for entry in chunk if entry["path"] > after]
        yield from sorted(found)

    def pages(self, prefix: str = "") -> Iterator[Sequence[ObjectMeta]]:
        with self._request("list", prefix):
            stream = iter(obstore.list(self._client(), self._checked(prefix) if prefix else None, chunk_size=_PAGE))
        while True:
            # The reader of the pages may send requests between two pages, and needs a free slot.
            with self._request("list", prefix):
                chunk = next(stream, None)
            if chunk is None:
                return
            yield [_meta(entry) for entry in chunk]

    def head(self, key: str) -> ObjectMeta:
        with self._request("look at", key):
            return _meta(obstore.head(self._client(), self._checked(key)))

    def delete(self, key: str, *, with_directory: bool = False) -> None:
        with self._request("delete", key), contextlib.suppress(FileNotFoundError, exceptions.NotFoundError):
            obstore.delete(self._client(), self._checked(key))

    def delete_many(self, keys: Iterable[str]) -> None:
        remaining = [self._checked(key) for key in keys]
        for start in range(0, len(remaining), _DELETE_BATCH):
            batch = remaining[start : start + _DELETE_BATCH]
            try:
                with self._request("delete", f"{batch[0]} and {len(batch) - 1} more"):
                    obstore.delete(self._client(), batch)
            except ObjectNotFoundError:
                for key in batch:
                    self.delete(key)

    def _checked(self, key: str) -> str:
        if self.location.family == "az" and "\\" in key:
            raise StorageError(f"cannot use the key `{key}` because Azure reads a backslash as a slash")
        return check_key(key)

    def _enter(self) -> None:
        """Refuse calls that would hang, before any waiting."""
        enter_network(self.location.url)

    def _client(self, *, repeats: bool = True) -> Any:
        with self._lock:
            if repeats not in self._made:
                self._made[repeats] = self._build(repeats=repeats)
            return self._made[repeats]

    def _build(self, *, repeats: bool) -> Any:
        return build_client(self.location, self._config, repeats=repeats)

    @contextlib.contextmanager
    def _request(self, verb: str, key: str) -> Iterator[None]:
        """Run one call of the client in a free slot, and translate its errors."""
        try:
            self._enter()
            with self._slots:
                yield
        except (StorageError, ConfigError):
            raise
        except (FileNotFoundError, exceptions.NotFoundError):
            message = f"cannot {verb} `{key}` in `{self.location.url}` because the key or its bucket does not exist"
            raise ObjectNotFoundError(message, path=key) from None
        except (exceptions.BaseError, OSError, ValueError, RuntimeError) as error:
            raise self._translated(error, verb, key) from None

    def _translated(self, error: Exception, verb: str, key: str) -> StorageError:
        said = " ".join(redact(str(error), secret_values(self._config)).split())
        message = f"cannot {verb} `{key}` in `{self.location.url}`: {said.partition(_DEBUG)[0][:_MOST_SAID]}"
        if isinstance(error, exceptions.AlreadyExistsError | exceptions.PreconditionError):
            return ObjectExistsError(message, path=key)
        if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
            return StorageDeniedError(message, path=key, hint="check the credentials and their permissions")
        hint = next((hint for sign, hint in _HINTS if sign.search(said)), None)
        return StorageError(message, path=key, hint=hint)


class SharedMemoryStore(CloudStore):
    """`memory://...`: one store per address and process, for tests and trials.

    It ends with its process.
    """

    is_remote = False

    def __init__(self, location: Location, config: Config) -> None:
        super().__init__(location, config)
        self._process = os.getpid()

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen_memory, (self.location, self._config, self._process)

    def _enter(self) -> None:
        _check_process(self.location, self._process)
        super()._enter()

    def _build(self, *, repeats: bool) -> Any:
        return _memory(self.location)


_memory_lock = threading.Lock()
_memory_stores: dict[Location, MemoryStore] = {}


def _memory(location: Location) -> MemoryStore:
    with _memory_lock:
        return _memory_stores.setdefault(location, MemoryStore())


def _reopen_memory(location: Location, config: Config, process: int) -> SharedMemoryStore:
    _check_process(location, process)
    return SharedMemoryStore(location, config)


def _check_process(location: Location, process: int) -> None:
    if process != os.getpid():
        raise StorageError(f"cannot open `{location.url}` here because a memory table exists only in its own process")


def _offset(after: str) -> str | None:
    """Return a listing offset for the server: a valid key or None.

    The client refuses or changes any other text.
    """
    try:
        return check_key(after) if after else None
    except StorageError:
        return None


def _meta(entry: Any) -> ObjectMeta:
    modified_ms = (entry["last_modified"] - _EPOCH) // datetime.timedelta(milliseconds=1)
    # Azure quotes its tags in a head but not in a listing.
    e_tag = (entry["e_tag"] or "").removeprefix("W/").strip('"')
    return ObjectMeta(entry["path"], entry["size"], e_tag or str(entry["version"] or modified_ms), modified_ms)
