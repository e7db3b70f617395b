"""Column-wise encoder of Arrow columns to Avro records, without a value as object.

Every column becomes pieces: binary arrays as long as the table, which joined row by row form the records. A null piece
means no bytes.
"""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar
from indextables.protocol.file_table import without_null_items

_GROUP_BITS = 14
_GROUP = 1 << _GROUP_BITS

Pieces = list[Any]


def encode_rows(batch: pa.RecordBatch) -> memoryview:
    """Encode the rows as consecutive Avro records.

    A nullable column is a union of null and its type.
    """
    pieces: Pieces = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if field.nullable:
            pieces.append(_choose(pc.is_valid(column), b"\x02", b"\x00"))
        elif column.null_count:
            raise ValueError(f"the column `{field.name}` has a null")
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
    """Encode a list or map: length, items, and a final zero unless the length is zero."""
    offsets = column.offsets
    start, stop = offsets[0].as_py(), offsets[-1].as_py()
    children = [child.slice(start, stop - start) for child in children]
    if any(child.null_count for child in children):
        return _pieces(without_null_items(column))
    lengths = pc.subtract(offsets[1:], offsets[:-1])
    items = _join([piece for child in children for piece in _texts(child)])
    joined = pc.binary_join(pa.ListArray.from_arrays(pc.subtract(offsets, offsets[0]), items), to_scalar(b""))
    pieces = [_varints(_doubled(lengths)), joined, _choose(pc.greater(lengths, to_scalar(0)), b"\x00", b"")]
    if column.null_count:
        valid = pc.is_valid(column)
        pieces = [pc.if_else(valid, piece, to_scalar(None, pa.binary())) for piece in pieces]
    return pieces


def _longs(column: Any) -> Any:
    wide = column.cast(pa.int64())
    doubled = pc.shift_left(wide, to_scalar(1))
    return _varints(pc.if_else(pc.less(wide, to_scalar(0)), pc.bit_wise_not(doubled), doubled).view(pa.uint64()))


def _doubled(lengths: Any) -> Any:
    return pc.shift_left(lengths.cast(pa.uint64()), to_scalar(1, pa.uint64()))


def _varints(values: Any) -> Any:
    """Encode unsigned numbers with seven bits per byte, by lookup of fourteen bits."""
    largest = pc.max(values).as_py() or 0
    if largest < _GROUP:
        return _varint_table().take(values)
    pieces: Pieces = []
    rest, first = values, True
    while largest or first:
        low = pc.bit_wise_and(rest, to_scalar(_GROUP - 1, pa.uint64()))
        high = pc.shift_right(rest, to_scalar(_GROUP_BITS, pa.uint64()))
        index = pc.if_else(pc.equal(high, to_scalar(0, pa.uint64())), low, pc.add(low, to_scalar(_GROUP, pa.uint64())))
        if not first:
            index = pc.if_else(pc.equal(rest, to_scalar(0, pa.uint64())), to_scalar(2 * _GROUP, pa.uint64()), index)
        pieces.append(_varint_table().take(index))
        rest, first, largest = high, False, largest >> _GROUP_BITS
    return _join(pieces)


@functools.cache
def _varint_table() -> Any:
    """Return the lookup table.

    Last groups, then continued groups, then the empty group.
    """
    last = [bytes([low]) for low in range(128)] + [bytes([i & 0x7F | 0x80, i >> 7]) for i in range(128, _GROUP)]
    more = [bytes([i & 0x7F | 0x80, i >> 7 | 0x80]) for i in range(_GROUP)]
    return to_array([*last, *more, b""], pa.binary())


def _choose(condition: Any, yes: bytes, no: bytes) -> Any:
    return pc.if_else(condition, to_scalar(yes, pa.binary()), to_scalar(no, pa.binary()))


def _join(pieces: Pieces) -> Any:
    return pc.binary_join_element_wise(*pieces, to_scalar(b""), null_handling="replace", null_replacement=b"")


def _data(rows: Any) -> memoryview:
    _, offsets, data = rows.buffers()
    if data is None or not len(rows):
        return memoryview(b"")
    ends = memoryview(offsets).cast("i")
    return memoryview(data)[ends[rows.offset] : ends[rows.offset + len(rows)]]
