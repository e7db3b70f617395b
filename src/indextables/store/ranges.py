"""Byte ranges of one object: near ones are fetched together, and each is cut out again."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from indextables.errors import StorageError

_NEAR_BYTES = 1 << 20


def merged(ranges: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """The ranges in order, and those that overlap or lie close together as one."""
    spans: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if spans and start - spans[-1][1] <= _NEAR_BYTES:
            spans[-1] = (spans[-1][0], max(spans[-1][1], end))
        else:
            spans.append((start, end))
    return spans


def cut(key: str, starts: Sequence[int], parts: Sequence[memoryview], start: int, end: int) -> bytes:
    """One range out of the span that holds it."""
    if start == end:
        return b""
    at = bisect.bisect_right(starts, start) - 1
    ends = starts[at] + len(parts[at])
    if end > ends:
        raise StorageError(f"cannot read `{key}` up to byte {end} because it ends at byte {ends}")
    return bytes(parts[at][start - starts[at] : end - starts[at]])
