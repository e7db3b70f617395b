"""Protocol of all stores: the few operations that the library needs.

A store has one root; keys are relative to it and literal. Every operation raises only `StorageError` and its
subclasses. Only `put_if_absent` decides races: it creates the whole object, or raises `ObjectExistsError` and changes
nothing. After any *other* error of a put, it is unknown whether the put was applied. A client that retries requests may
find the object of its own first request: commits create with `once`, and resolve unknown outcomes themselves.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from indextables.errors import StorageError
from indextables.location import Location

MAX_SEGMENT_BYTES = 255
MAX_OBJECT_BYTES = 2**63 - 1
# Control characters, and lone surrogates, which no text encoding can write.
_UNFIT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


class ObjectMeta(NamedTuple):
    """Facts of an object that a store knows without reading it.

    The e-tag changes whenever the content may have changed. `head` and `list` return the same e-tag, but in one of them
    some services round the time to seconds.
    """

    key: str
    size: int
    e_tag: str
    modified_ms: int


class ObjectStore(Protocol):
    """One place in an object store."""

    @property
    def location(self) -> Location:
        """Root of this store."""

    @property
    def is_remote(self) -> bool:
        """True if a call crosses a network, so that parallel calls pay off."""

    def put_if_absent(self, key: str, data: bytes, *, once: bool = False) -> None:
        """Create the object durably and whole, or raise `ObjectExistsError`.

        With `once`, send one request, and do not repeat it if its response is lost. Otherwise a response may belong to
        a retry, long after the first request was applied.
        """

    def put(self, key: str, data: bytes) -> None:
        """Create or replace the object, durably and whole."""

    def put_file(self, key: str, path: str) -> None:
        """Upload a local file of any size, durably and whole."""

    def get(self, key: str, *, e_tag: str | None = None) -> bytes:
        """Return the bytes.

        Raise `ObjectNotFoundError` if no object has the key and e-tag.
        """

    def get_object(self, key: str) -> tuple[bytes, ObjectMeta]:
        """Return the bytes and the facts of one and the same object."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return the bytes from `start` (inclusive) to `end` (exclusive).

        Raise an error if the object ends before `end`. An empty range returns empty bytes without a request.
        """

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return several ranges of one object; fetch near ranges together."""

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectMeta]:
        """Yield the objects below the directory `prefix` with keys after `after`, sorted."""

    def pages(self, prefix: str = "") -> Iterator[Sequence[ObjectMeta]]:
        """Yield the objects below the directory `prefix` in pages, unsorted.

        Millions of objects are never in memory together. Objects that are created or deleted during the listing may be
        missing or present.
        """

    def head(self, key: str) -> ObjectMeta:
        """Return the facts of the object, or raise `ObjectNotFoundError`."""

    def delete(self, key: str, *, with_directory: bool = False) -> None:
        """Delete the object; succeed if it does not exist.

        With `with_directory`, also remove a directory that becomes empty, in stores with directories. Use it only for
        directories that never receive a second put: a concurrent put into the directory may be lost on a power cut.
        """

    def delete_many(self, keys: Iterable[str]) -> None:
        """Delete many objects in as few requests as the store allows."""


def check_key(key: str) -> str:
    """Return the key if every store can hold it unchanged; refuse any other key."""
    segments = key.split("/")
    if any(segment in ("", ".", "..") for segment in segments) or _UNFIT.search(key):
        raise StorageError(
            f"cannot use the key `{key!a}` because it has an empty, `.` or `..` segment or a control character"
        )
    if any(
        len(segment) >= MAX_SEGMENT_BYTES // 4 and len(segment.encode()) > MAX_SEGMENT_BYTES for segment in segments
    ):
        raise StorageError(f"cannot use the key `{key}` because a segment of it is over {MAX_SEGMENT_BYTES} bytes long")
    return key


def check_range(key: str, start: int, end: int) -> None:
    """Refuse a range that no object can have."""
    if not 0 <= start <= end <= MAX_OBJECT_BYTES:
        raise StorageError(f"cannot read `{key}` from byte {start} to byte {end} because that is not a valid range")


def check_source(path: str) -> None:
    """Refuse to upload a path that is not a file."""
    if not os.path.isfile(path):
        raise StorageError(f"cannot upload `{path}` because there is no such file")
