"""Reading of filter sheets from a store: headers and windows, verified."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from indextables.errors import ObjectNotFoundError, StorageError
from indextables.filters.sheet import FIRST_READ, Sheet, SheetError, decode_sheet, header_end
from indextables.protocol.names import sheet_key
from indextables.store import ObjectStore


class Place(NamedTuple):
    """A window of a sheet."""

    block: int
    part: int
    window: int


def read_sheet(store: ObjectStore, run: int) -> Sheet:
    """Read the header of a sheet.

    Raises an `ObjectNotFoundError` without a sheet, and a `SheetError` if it cannot be used.
    """
    key = sheet_key(run)
    start = _read(store, key, [(0, FIRST_READ)])[0]
    end = header_end(start)
    if end > len(start):
        start += _read(store, key, [(len(start), end)])[0]
    sheet = decode_sheet(start)
    if sheet.header.run != run:
        raise SheetError(f"it is the sheet of version {sheet.header.run}")
    return sheet


def read_windows(store: ObjectStore, sheet: Sheet, places: Sequence[Place]) -> list[memoryview]:
    """Read windows of a sheet, verified; near ones are fetched together."""
    blocks = sheet.header.blocks
    ranges = [blocks[block].window_range(part, window) for block, part, window in places]
    found = _read(store, sheet_key(sheet.header.run), ranges)
    return [sheet.rows(*place, stored) for place, stored in zip(places, found, strict=True)]


def _read(store: ObjectStore, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    try:
        return store.get_ranges(key, ranges)
    except ObjectNotFoundError:
        raise
    except StorageError as error:
        raise SheetError(f"it cannot be read ({error.message})") from error
