"""Reading of filter sheets from a store: headers and windows, verified."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from indextables.errors import ObjectNotFoundError, StorageError
from indextables.filters.sheet import FIRST_READ, Sheet, SheetError, decode_sheet, header_end
from indextables.store import ObjectStore


class Place(NamedTuple):
    """A window of a sheet."""

    block: int
    part: int
    window: int


def read_sheet(store: ObjectStore, key: str) -> Sheet:
    """Read the header of a sheet.

    Raises an `ObjectNotFoundError` without a sheet, and a `SheetError` if it is damaged.
    """
    start = _read(store, key, [(0, FIRST_READ)])[0]
    end = header_end(start)
    if end > len(start):
        start += _read(store, key, [(len(start), end)])[0]
    return decode_sheet(start, key)


def read_windows(store: ObjectStore, sheet: Sheet, places: Sequence[Place]) -> list[memoryview]:
    """Read windows of a sheet, verified; near ones are fetched together."""
    if not places:
        return []
    blocks = sheet.header.blocks
    ranges = [blocks[block].window_range(part, window) for block, part, window in places]
    found = _read(store, sheet.key, ranges)
    return [sheet.rows(*place, stored) for place, stored in zip(places, found, strict=True)]


def _read(store: ObjectStore, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    try:
        return store.get_ranges(key, ranges)
    except ObjectNotFoundError:
        raise
    except StorageError:
        there, needed = store.head(key).size, max(end for _, end in ranges)
        if there < needed:
            raise SheetError(f"it has {there} bytes of {needed}") from None
        raise
