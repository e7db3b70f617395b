"""Check of a filter sheet: its header, its length and all checksums."""

from __future__ import annotations

from indextables.errors import ObjectNotFoundError
from indextables.filters.sheet import NUM_PARTS, Sheet, SheetError, encode_header
from indextables.filters.sheet_source import Place, read_sheet, read_windows
from indextables.store import ObjectStore

_BYTES_AT_ONCE = 8 << 20


def sheet_problem(store: ObjectStore, key: str, *, deep: bool) -> str | None:
    """Return why a sheet is damaged; None if it is whole, or there is none.

    Without `deep`, only its header and its length are checked.
    """
    try:
        sheet = read_sheet(store, key)
        sheet.header.entry_kinds()
        _check_length(store, sheet)
        if deep:
            _check_windows(store, sheet)
    except ObjectNotFoundError:
        return None
    except SheetError as error:
        return str(error)
    return None


def _check_length(store: ObjectStore, sheet: Sheet) -> None:
    start = encode_header(sheet.header, sheet.identity)
    expected = len(start) + sum(block.num_bytes for block in sheet.header.blocks)
    found = store.head(sheet.key).size
    if found != expected:
        raise SheetError(f"it has {found} bytes of {expected}")
    if store.get_range(sheet.key, 0, len(start)) != start:
        raise SheetError("there is something between its header and its first block")


def _check_windows(store: ObjectStore, sheet: Sheet) -> None:
    """Read all windows, many at a time: they follow each other."""
    for number, block in enumerate(sheet.header.blocks):
        at_once = max(1, _BYTES_AT_ONCE // block.window_bytes)
        for part in range(NUM_PARTS):
            for first in range(0, block.num_windows, at_once):
                windows = range(first, min(first + at_once, block.num_windows))
                read_windows(store, sheet, [Place(number, part, window) for window in windows])
