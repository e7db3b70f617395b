"""The store protocol: the few verbs that the rest of the library needs of an object store.

A store is rooted at one place; keys are relative to it and literal. Every verb raises `StorageError` or one of its
kinds, and nothing else. `put_if_absent` is the only verb that decides races: it creates the whole object, or raises
`ObjectExistsError` and changes nothing. Any *other* error of a put leaves open whether it was applied. A client that
repeats requests may meet its own first try: commits create `once`, and settle what is open by themselves.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from indextables.errors import StorageError
from indextables.store.url import Location

MAX_SEGMENT_BYTES = 255
MAX_OBJECT_BYTES = 2**63 - 1
# Control characters, and halves of characters, which no text encoding can write.
_UNFIT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


class ObjectMeta(NamedTuple):
    """What a store knows of an object without reading it. The e-tag changes whenever the content may have changed.

    `head` and `list` give the same e-tag, but some services cut the time to seconds in one of them.
    """

    key: str
    size: int
    e_tag: str
    modified_ms: int


class ObjectStore(Protocol):
    """One place in an object store."""

    @property
    def location(self) -> Location:
        """Where this store is rooted."""

    @property
    def is_remote(self) -> bool:
        """Whether a call crosses a network, so that calls are worth making side by side."""

    def put_if_absent(self, key: str, data: bytes, *, once: bool = False) -> None:
        """Create the object durably and whole, or raise `ObjectExistsError`.

        `once`: in one request, which is not repeated where its answer is lost. Otherwise an answer may be that of a
        repetition, long after the first try was applied.
        """

    def put(self, key: str, data: bytes) -> None:
        """Create or replace the object, durably and whole."""

    def put_file(self, key: str, path: str) -> None:
        """Upload a local file of any size, durably and whole."""

    def get(self, key: str, *, e_tag: str | None = None) -> bytes:
        """The object's bytes; `ObjectNotFoundError` where there is none, or none with the e-tag that is asked for."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """The bytes from `start` up to, not including, `end`; an error where the object ends before.

        An empty range is empty bytes, and asks nothing of the store.
        """

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Several ranges of one object, near ones fetched together."""

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectMeta]:
        """The objects below the directory `prefix` whose keys sort after `after`, in the order of their keys."""

    def pages(self, prefix: str = "") -> Iterator[Sequence[ObjectMeta]]:
        """The objects below the directory `prefix`, page by page and in no order, so that millions of them never stand
        in memory at once. Those that come or go meanwhile may be among them or not."""

    def head(self, key: str) -> ObjectMeta:
        """The object's facts; `ObjectNotFoundError` where there is none."""

    def delete(self, key: str, *, with_directory: bool = False) -> None:
        """Delete the object. Deleting what is not there is no error.

        `with_directory`: where objects stand in directories, also the one that this leaves empty. Only for places in
        which nothing is put twice: whoever puts something there at the same time may lose it to a power cut.
        """

    def delete_many(self, keys: Iterable[str]) -> None:
        """Delete many objects in as few requests as the store allows."""


def check_key(key: str) -> str:
    """The key, if every store can hold it under this very name."""
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
        raise StorageError(f"cannot read `{key}` from byte {start} to byte {end} because that is no range")


def check_source(path: str) -> None:
    """Refuse to upload what is no file."""
    if not os.path.isfile(path):
        raise StorageError(f"cannot upload `{path}` because there is no such file")
