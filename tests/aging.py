"""A store whose objects are as old as a test wants them to be."""

from __future__ import annotations

from collections.abc import Callable


class AgingStore:
    """Dates every object by a clock of the test's own, whatever the real one says."""

    def __init__(self, inner, now_ms: Callable[[], int], modified_ms: dict[str, int] | None = None) -> None:
        self._inner = inner
        self._now_ms = now_ms
        self._modified_ms = {} if modified_ms is None else modified_ms

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def put_if_absent(self, key: str, data: bytes, *, once: bool = False) -> None:
        self._inner.put_if_absent(key, data, once=once)
        self._modified_ms[key] = self._now_ms()

    def put(self, key: str, data: bytes) -> None:
        self._inner.put(key, data)
        self._modified_ms[key] = self._now_ms()

    def put_file(self, key: str, path: str) -> None:
        self._inner.put_file(key, path)
        self._modified_ms[key] = self._now_ms()

    def pages(self, prefix: str = ""):
        for page in self._inner.pages(prefix):
            yield [self._dated(meta) for meta in page]

    def list(self, prefix: str = "", *, after: str = ""):
        for meta in self._inner.list(prefix, after=after):
            yield self._dated(meta)

    def get_object(self, key: str):
        data, meta = self._inner.get_object(key)
        return data, self._dated(meta)

    def head(self, key: str):
        return self._dated(self._inner.head(key))

    def _dated(self, meta):
        return meta._replace(modified_ms=self._modified_ms.get(meta.key, self._now_ms()))
