"""A store that counts what is asked of it, to prove promises such as "one list call"."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from indextables.location import Location
from indextables.store.base import ObjectMeta, ObjectStore


class MeteredStore:
    """Passes every call on and counts it by its verb, also where it fails. A pickled copy counts for itself, from 0."""

    def __init__(self, inner: ObjectStore) -> None:
        self.calls: Counter[str] = Counter()
        self._inner = inner
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._inner,)

    def __repr__(self) -> str:
        return f"MeteredStore({self._inner!r})"

    @property
    def location(self) -> Location:
        return self._inner.location

    @property
    def is_remote(self) -> bool:
        return self._inner.is_remote

    def put_if_absent(self, key: str, data: bytes, *, once: bool = False) -> None:
        self._count("put_if_absent")
        self._inner.put_if_absent(key, data, once=once)

    def put(self, key: str, data: bytes) -> None:
        self._count("put")
        self._inner.put(key, data)

    def put_file(self, key: str, path: str) -> None:
        self._count("put_file")
        self._inner.put_file(key, path)

    def get(self, key: str, *, e_tag: str | None = None) -> bytes:
        self._count("get")
        return self._inner.get(key, e_tag=e_tag)

    def get_object(self, key: str) -> tuple[bytes, ObjectMeta]:
        self._count("get")
        return self._inner.get_object(key)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self._count("get_range")
        return self._inner.get_range(key, start, end)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self._count("get_ranges")
        return self._inner.get_ranges(key, ranges)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectMeta]:
        self._count("list")
        return self._inner.list(prefix, after=after)

    def pages(self, prefix: str = "") -> Iterator[Sequence[ObjectMeta]]:
        self._count("pages")
        return self._inner.pages(prefix)

    def head(self, key: str) -> ObjectMeta:
        self._count("head")
        return self._inner.head(key)

    def delete(self, key: str, *, with_directory: bool = False) -> None:
        self._count("delete")
        self._inner.delete(key, with_directory=with_directory)

    def delete_many(self, keys: Iterable[str]) -> None:
        self._count("delete_many")
        self._inner.delete_many(keys)

    def _count(self, verb: str) -> None:
        with self._lock:
            self.calls[verb] += 1
