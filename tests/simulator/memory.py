"""A store that is a dict: the quickest one that keeps the contract, and one that can be copied and compared.

E-tags are those of the content, as those of S3 are: the same bytes put again look the same. Whether it takes itself for
a remote store can be chosen, since commits treat an unclear answer of local disk otherwise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from indextables.errors import ObjectExistsError, ObjectNotFoundError, StorageError
from indextables.store import ObjectMeta, parse_location
from indextables.store.base import check_key


class DictStore:
    """Objects in a dict, the content of each with its e-tag."""

    def __init__(self, url: str, *, is_remote: bool = True) -> None:
        self.location = parse_location(url)
        self.is_remote = is_remote
        self.objects: dict[str, tuple[bytes, str]] = {}

    def put_if_absent(self, key: str, data: bytes, *, once: bool = False) -> None:
        if key in self.objects:
            raise ObjectExistsError(f"cannot create `{key}` because it is there")
        self.put(key, data)

    def put(self, key: str, data: bytes) -> None:
        self.objects[check_key(key)] = (bytes(data), hashlib.md5(data, usedforsecurity=False).hexdigest())

    def put_file(self, key: str, path: str) -> None:
        with open(path, "rb") as source:
            self.put(key, source.read())

    def get(self, key: str, *, e_tag: str | None = None) -> bytes:
        data, known = self._find(key)
        if e_tag is not None and e_tag != known:
            raise ObjectNotFoundError(f"cannot read `{key}` because it is another object now")
        return data

    def get_object(self, key: str) -> tuple[bytes, ObjectMeta]:
        return self._find(key)[0], self._meta(key)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self.get_ranges(key, [(start, end)])[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        data = self._find(key)[0] if any(start < end for start, end in ranges) else b""
        if any(start < end and end > len(data) for start, end in ranges):
            raise StorageError(f"cannot read `{key}` because it ends at byte {len(data)}")
        return [data[start:end] for start, end in ranges]

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectMeta]:
        start = f"{prefix}/" if prefix else ""
        keys = sorted(key for key in self.objects if key.startswith(start) and key > after)
        return iter([self._meta(key) for key in keys])

    def pages(self, prefix: str = "") -> Iterator[Sequence[ObjectMeta]]:
        yield [*self.list(prefix)]

    def head(self, key: str) -> ObjectMeta:
        self._find(key)
        return self._meta(key)

    def delete(self, key: str, *, with_directory: bool = False) -> None:
        self.objects.pop(key, None)

    def delete_many(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.delete(key)

    def _find(self, key: str) -> tuple[bytes, str]:
        try:
            return self.objects[key]
        except KeyError:
            raise ObjectNotFoundError(f"cannot read `{key}` because it is not there") from None

    def _meta(self, key: str) -> ObjectMeta:
        data, e_tag = self.objects[key]
        return ObjectMeta(key, len(data), e_tag, 0)
