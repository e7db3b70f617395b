"""Byte ranges of one object: near ranges are fetched together and cut apart."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from typing import Any

from indextables.errors import StorageError
from indextables.runtime.tally import note
from indextables.store.base import check_range

_NEAR_BYTES = 1 << 20
Spans = Sequence[tuple[int, int]]


def read_together(key: str, ranges: Spans, read: Callable[[Spans], Sequence[Any]]) -> list[bytes]:
    """Return ranges of an object from one read of merged spans.

    `read` returns buffers.
    """
    for start, end in ranges:
        check_range(key, start, end)
    spans = _merged([(start, end) for start, end in ranges if start < end])
    if not spans:
        return [b"" for _ in ranges]
    starts, parts = [start for start, _ in spans], [memoryview(part) for part in read(spans)]
    note(requests=len(spans), bytes=sum(map(len, parts)))
    return [_cut(key, starts, parts, start, end) for start, end in ranges]


def _merged(ranges: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """Sort the ranges, and merge ranges that overlap or are close together."""
    spans: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if spans and start - spans[-1][1] <= _NEAR_BYTES:
            spans[-1] = (spans[-1][0], max(spans[-1][1], end))
        else:
            spans.append((start, end))
    return spans


def _cut(key: str, starts: Sequence[int], parts: Sequence[memoryview], start: int, end: int) -> bytes:
    """Cut one range out of its span."""
    if start == end:
        return b""
    at = bisect.bisect_right(starts, start) - 1
    ends = starts[at] + len(parts[at])
    if end > ends:
        raise StorageError(f"cannot read `{key}` up to byte {end} because it ends at byte {ends}", path=key)
    return bytes(parts[at][start - starts[at] : end - starts[at]])
