"""A store that answers late, as one across a network does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from tests.doubles.metered_store import MeteredStore

from indextables.store import ObjectMeta, ObjectStore


class LateStore(MeteredStore):
    """Passes every read on after a pause, and calls itself remote, so that calls are made side by side."""

    def __init__(self, inner: ObjectStore, pause_seconds: float) -> None:
        super().__init__(inner)
        self._pause_seconds = pause_seconds

    @property
    def is_remote(self) -> bool:
        return True

    def get(self, key: str, *, e_tag: str | None = None) -> bytes:
        time.sleep(self._pause_seconds)
        return super().get(key, e_tag=e_tag)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        time.sleep(self._pause_seconds)
        return super().get_ranges(key, ranges)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectMeta]:
        time.sleep(self._pause_seconds)
        return super().list(prefix, after=after)
