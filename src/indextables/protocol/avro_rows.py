"""Arrow columns to Avro records, a column at a time: no Python object per value.

Every column becomes pieces, which are binary arrays as long as the table; joined row by row they are the records. A
null piece stands for no bytes.
"""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_GROUP_BITS = 14
_GROUP = 1 << _GROUP_BITS

Pieces = list[Any]


def encode_rows(batch: pa.RecordBatch) -> memoryview:
    """The rows as Avro records, one after the other. A nullable column is a union of null and its type."""
    pieces: Pieces = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if field.nullable:
            pieces.append(_choose(pc.is_valid(column), b"\x02", b"\x00"))
        elif column.null_count:
            raise ValueError(f"the column `{field.name}` holds a null")
        pieces.extend(_pieces(column))
    return _data(_join(pieces))


def _pieces(column: Any) -> Pieces:
    kind = column.type
    if pa.types.is_boolean(kind):
        return [_choose(column, b"\x01", b"\x00")]
    if pa.types.is_integer(kind):
        return [_longs(column)]
    if pa.types.is_string(kind):
        return _texts(column)
    if pa.types.is_map(kind):
        return _items(column, [column.keys, column.items])
    if pa.types.is_list(kind):
        return _items(column, [column.values])
    raise TypeError(f"there is no Avro form of `{kind}`")


def _texts(column: Any) -> Pieces:
    data = column.cast(pa.binary())
    return [_varints(_doubled(pc.binary_length(data))), data]


def _items(column: Any, children: list[Any]) -> Pieces:
    """A list or map: its length, its items, and a zero at the end, unless the length was that zero."""
    offsets = column.offsets
    start, stop = offsets[0].as_py(), offsets[-1].as_py()
    children = [child.slice(start, stop - start) for child in children]
    if any(child.null_count for child in children):
        return _pieces(without_null_items(column))
    lengths = pc.subtract(offsets[1:], offsets[:-1])
    items = _join([piece for child in children for piece in _texts(child)])
    joined = pc.binary_join(pa.ListArray.from_arrays(pc.subtract(offsets, start), items), b"")
    pieces = [_varints(_doubled(lengths)), joined, _choose(pc.greater(lengths, 0), b"\x00", b"")]
    if column.null_count:
        valid = pc.is_valid(column)
        pieces = [pc.if_else(valid, piece, pa.scalar(None, pa.binary())) for piece in pieces]
    return pieces


def without_null_items(column: Any) -> Any:
    """A list or map less its null items: in a map, a null value is a key that is left out."""
    if pa.types.is_map(column.type):
        rows = [row and [(key, value) for key, value in row if value is not None] for row in column.to_pylist()]
    else:
        rows = [row and [value for value in row if value is not None] for row in column.to_pylist()]
    return pa.array(rows, column.type)


def _longs(column: Any) -> Any:
    wide = column.cast(pa.int64())
    doubled = pc.shift_left(wide, 1)
    return _varints(pc.if_else(pc.less(wide, 0), pc.bit_wise_not(doubled), doubled).view(pa.uint64()))


def _doubled(lengths: Any) -> Any:
    return pc.shift_left(lengths.cast(pa.uint64()), pa.scalar(1, pa.uint64()))


def _varints(values: Any) -> Any:
    """Unsigned numbers, seven bits to a byte, looked up fourteen bits at a time."""
    largest = pc.max(values).as_py() or 0
    if largest < _GROUP:
        return _varint_table().take(values)
    pieces: Pieces = []
    rest, first = values, True
    while largest or first:
        low = pc.bit_wise_and(rest, pa.scalar(_GROUP - 1, pa.uint64()))
        high = pc.shift_right(rest, pa.scalar(_GROUP_BITS, pa.uint64()))
        index = pc.if_else(pc.equal(high, 0), low, pc.add(low, pa.scalar(_GROUP, pa.uint64())))
        if not first:
            index = pc.if_else(pc.equal(rest, 0), pa.scalar(2 * _GROUP, pa.uint64()), index)
        pieces.append(_varint_table().take(index))
        rest, first, largest = high, False, largest >> _GROUP_BITS
    return _join(pieces)


@functools.cache
def _varint_table() -> Any:
    """By index: groups that end a number, then groups that go on, then nothing."""
    last = [bytes([low]) for low in range(128)] + [bytes([i & 0x7F | 0x80, i >> 7]) for i in range(128, _GROUP)]
    more = [bytes([i & 0x7F | 0x80, i >> 7 | 0x80]) for i in range(_GROUP)]
    return pa.array([*last, *more, b""], pa.binary())


def _choose(condition: Any, yes: bytes, no: bytes) -> Any:
    return pc.if_else(condition, pa.scalar(yes, pa.binary()), pa.scalar(no, pa.binary()))


def _join(pieces: Pieces) -> Any:
    return pc.binary_join_element_wise(*pieces, b"", null_handling="replace", null_replacement=b"")


def _data(rows: Any) -> memoryview:
    _, offsets, data = rows.buffers()
    if data is None or not len(rows):
        return memoryview(b"")
    ends = memoryview(offsets).cast("i")
    return memoryview(data)[ends[rows.offset] : ends[rows.offset + len(rows)]]
