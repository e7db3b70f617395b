"""Store for cancellable work: it refuses requests after the cancellation.

The work may still delete objects that it has put itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from indextables.location import Location
from indextables.runtime.cancellation import Cancellation
from indextables.store.base import ObjectMeta, ObjectStore


class CancellableStore:
    """Store for cancellable work.

    Its pickled copy is the inner store: processes are terminated, not cancelled.
    """

    def __init__(self, inner: ObjectStore, cancellation: Cancellation) -> None:
        self._inner = inner
        self._cancellation = cancellation
        self._own_keys: set[str] = set()

    def __reduce__(self) -> tuple[object, ...]:
        return _itself, (self._inner,)

    def __repr__(self) -> str:
        return f"CancellableStore({self._inner!r})"

    @property
    def location(self) -> Location:
        return self._inner.location

    @property
    def is_remote(self) -> bool:
        return self._inner.is_remote

    def put_if_absent(self, key: str, data: bytes, *, once: bool = False) -> None:
        self._cancellation.check()
        self._inner.put_if_absent(key, data, once=once)

    def put(self, key: str, data: bytes) -> None:
        self._cancellation.check()
        self._inner.put(key, data)

    def put_file(self, key: str, path: str) -> None:
        self._cancellation.check()
        self._own_keys.add(key)
        self._inner.put_file(key, path)

    def get(self, key: str, *, e_tag: str | None = None) -> bytes:
        self._cancellation.check()
        return self._inner.get(key, e_tag=e_tag)

    def get_object(self, key: str) -> tuple[bytes, ObjectMeta]:
        self._cancellation.check()
        return self._inner.get_object(key)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self._cancellation.check()
        return self._inner.get_range(key, start, end)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self._cancellation.check()
        return self._inner.get_ranges(key, ranges)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectMeta]:
        self._cancellation.check()
        for meta in self._inner.list(prefix, after=after):
            yield meta
            self._cancellation.check()

    def pages(self, prefix: str = "") -> Iterator[Sequence[ObjectMeta]]:
        self._cancellation.check()
        for page in self._inner.pages(prefix):
            yield page
            self._cancellation.check()

    def head(self, key: str) -> ObjectMeta:
        self._cancellation.check()
        return self._inner.head(key)

    def delete(self, key: str, *, with_directory: bool = False) -> None:
        self._check_delete([key])
        self._inner.delete(key, with_directory=with_directory)

    def delete_many(self, keys: Iterable[str]) -> None:
        asked = list(keys)
        self._check_delete(asked)
        self._inner.delete_many(asked)

    def _check_delete(self, keys: Iterable[str]) -> None:
        """Refuse after the cancellation to delete objects that this work has not put."""
        if not self._own_keys.issuperset(keys):
            self._cancellation.check()


def _itself(store: ObjectStore) -> ObjectStore:
    return store
