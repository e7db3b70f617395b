"""Columns of an earlier sheet, taken over without reading the splits again.

A split never changes, so its column in an earlier sheet is right as long as path and size are the same. The columns of
both sheets have one form: the earlier one's. Each row of bits is gathered anew, window by window, so memory holds a few
windows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar
from indextables.errors import CheckpointError, ObjectNotFoundError
from indextables.filters.columns import Geometry
from indextables.filters.sheet import NUM_PARTS, ROW_ALIGNMENT, WINDOW_BITS, Kind, Sheet, SheetError
from indextables.filters.sheet_source import Place, read_sheet, read_windows
from indextables.protocol.avro.state_manifest import ManifestInfo
from indextables.protocol.names import LOG_DIRECTORY
from indextables.state.manifests import StateFiles
from indextables.store import ObjectStore

logger = logging.getLogger(__name__)

_LEAST_SHARE = 0.5
_BYTES_AT_ONCE = 8 << 20


class Carried(NamedTuple):
    """An earlier sheet of one block, and the column in it of each new entry, or null."""

    sheet: Sheet
    columns: pa.Array[Any]
    kinds: bytes

    @property
    def geometry(self) -> Geometry:
        (block,) = self.sheet.header.blocks
        return Geometry(block.num_windows, block.hash_bits)

    def kinds_of(self, first: int, count: int) -> list[Kind | None]:
        """Return the kinds of some entries that are taken over; None for others."""
        found = self.columns.slice(first, count).to_pylist()
        return [None if column is None else self.sheet.header.kinds[self.kinds[column] - 1] for column in found]


def find_carried(store: ObjectStore, files: StateFiles, entries: pa.Table, keys: Sequence[str]) -> Carried | None:
    """Return the first of some sheets that has columns for half of the entries.

    `entries` has the paths and sizes of the new columns.
    """
    for key in keys:
        try:
            found = _carried(store, files, entries, read_sheet(store, key))
        except (SheetError, ObjectNotFoundError, CheckpointError) as error:
            logger.info("no column of `%s` is taken over: %s", key, error)
            continue
        if found is not None:
            return found
    return None


def carried_rows(
    store: ObjectStore, carried: Carried, fresh: Iterator[list[bytes]], num_fresh: int, num_padded: int
) -> Iterator[list[bytes]]:
    """Yield the rows of each window, from the earlier sheet and fresh columns.

    `num_fresh` and `num_padded` are whole multiples of a row's alignment; fresh columns stand in the order of the
    entries that are not taken over.
    """
    (block,) = carried.sheet.header.blocks
    num_old = 8 * block.row_bytes
    order = _order(carried.columns, num_old, num_fresh, num_padded)
    zeros = _bits(bytes(ROW_ALIGNMENT // 8))
    for old, new in zip(_old_windows(store, carried.sheet), fresh, strict=True):
        rows = []
        for bit in range(WINDOW_BITS):
            own = _bits(old[bit * block.row_bytes : (bit + 1) * block.row_bytes])
            joined = pa.concat_arrays([own, _bits(new[bit]), zeros]).take(order)
            rows.append(bytes(joined.buffers()[1])[: num_padded // 8])
        yield rows


def _carried(store: ObjectStore, files: StateFiles, entries: pa.Table, sheet: Sheet) -> Carried | None:
    header = sheet.header
    if len(header.blocks) != 1:
        return None
    kinds = header.entry_kinds()
    infos = [
        ManifestInfo(
            path=each.path.removeprefix(f"{LOG_DIRECTORY}/"),
            num_entries=each.num_entries,
            min_added_at_version=0,
            max_added_at_version=0,
        )
        for each in header.manifests
    ]
    known = pa.concat_tables(files.entries(infos, ["path", "size"])).combine_chunks()
    columns = pc.index_in(_one(entries["path"]), value_set=_one(known["path"]))
    is_same = pc.equal(_one(entries["size"]), _one(known["size"]).take(columns))
    has_column = pc.not_equal(_bytes(kinds).take(columns), to_scalar(0, pa.uint8()))
    columns = pc.if_else(pc.and_(is_same, has_column), columns, to_scalar(None, columns.type))
    is_enough = len(columns) - columns.null_count >= _LEAST_SHARE * len(columns)
    return Carried(sheet, columns, kinds) if is_enough else None


def _order(columns: pa.Array[Any], num_old: int, num_fresh: int, num_padded: int) -> pa.Array[Any]:
    """Return the place of each new column among old ones, fresh ones and zeros."""
    is_fresh = pc.is_null(columns)
    number = pc.subtract(pc.cumulative_sum(is_fresh.cast(pa.int64())), to_scalar(1, pa.int64()))
    fresh = pc.add(number, to_scalar(num_old, pa.int64()))
    order = pc.if_else(is_fresh, fresh, columns.cast(pa.int64()))
    padding = to_array([num_old + num_fresh] * (num_padded - len(columns)), pa.int64())
    return pa.concat_arrays([order, padding])


def _old_windows(store: ObjectStore, sheet: Sheet) -> Iterator[memoryview]:
    (block,) = sheet.header.blocks
    at_once = max(1, _BYTES_AT_ONCE // block.window_bytes)
    for part in range(NUM_PARTS):
        for first in range(0, block.num_windows, at_once):
            windows = range(first, min(first + at_once, block.num_windows))
            yield from read_windows(store, sheet, [Place(0, part, window) for window in windows])


def _bits(data: bytes | memoryview) -> pa.Array[Any]:
    return pa.Array.from_buffers(pa.bool_(), 8 * len(data), [None, pa.py_buffer(data)])


def _bytes(data: bytes) -> pa.Array[Any]:
    return pa.Array.from_buffers(pa.uint8(), len(data), [None, pa.py_buffer(data)])


def _one(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    return column.combine_chunks()
