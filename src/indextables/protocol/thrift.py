"""Thrift's compact protocol, limited to the headers of a Parquet file.

A struct is read as a dictionary from field numbers to values, and written from a dictionary of `Encoded` values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from indextables.protocol.varints import read_signed, read_unsigned, signed, unsigned

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
_LONG_LIST = 15
_MAX_DEPTH = 32


class Encoded(NamedTuple):
    """Encoded value with its type."""

    kind: int
    data: bytes


def read_struct(data: Any, position: int = 0, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Return the struct at a position, and its end; raise `ValueError` for bad bytes."""
    if depth > _MAX_DEPTH:
        raise ValueError("a header is nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    try:
        while head := data[position]:
            position += 1
            if head >> 4:
                number += head >> 4
            else:
                number, position = read_signed(data, position)
            fields[number], position = _read_value(data, position, head & 15, depth)
    except IndexError:
        raise ValueError("a header is cut off") from None
    return fields, position + 1


def read_list_spans(data: Any, field: int) -> list[tuple[dict[int, Any], bytes]]:
    """Return the structs of a list field of the first struct, each also as its bytes."""
    position, number = 0, 0
    try:
        while head := data[position]:
            number += head >> 4
            position += 1
            if number != field:
                _, position = _read_value(data, position, head & 15, 0)
                continue
            length, _, position = _read_list_head(data, position)
            found = []
            for _ in range(length):
                value, end = read_struct(data, position)
                found.append((value, bytes(data[position:end])))
                position = end
            return found
    except IndexError:
        raise ValueError("a header is cut off") from None
    return []


def with_short_number(data: bytes, field: int, value: int) -> bytes | None:
    """Return an encoded struct with another number of 0 to 63 in a field.

    None if the struct has no such number, or a longer one.
    """
    position, number = 0, 0
    while head := data[position]:
        number += head >> 4
        _, end = _read_value(data, position + 1, head & 15, 0)
        if number == field:
            is_short = head & 15 in (_I16, _I32, _I64) and end == position + 2
            return data[: position + 1] + signed(value) + data[end:] if is_short else None
        position = end
    return None


def struct(fields: Mapping[int, Encoded], begun: bytes = b"", last: int = 0) -> Encoded:
    """Encode a struct with fields by ascending number, with gaps of at most 15.

    `begun` has the encoded fields up to the number `last`.
    """
    return Encoded(_STRUCT, begin_struct(fields, begun, last) + b"\0")


def begin_struct(fields: Mapping[int, Encoded], begun: bytes = b"", last: int = 0) -> bytes:
    """Encode the first fields of a struct, before others."""
    written = bytearray(begun)
    for number, value in fields.items():
        written.append((number - last) << 4 | value.kind)
        written += value.data
        last = number
    return bytes(written)


def i32(value: int) -> Encoded:
    return Encoded(_I32, signed(value))


def i64(value: int) -> Encoded:
    return Encoded(_I64, signed(value))


def flag(*, is_set: bool) -> Encoded:
    """Encode a flag, which is part of its type."""
    return Encoded(_TRUE if is_set else _FALSE, b"")


def binary(value: bytes) -> Encoded:
    return Encoded(_BINARY, unsigned(len(value)) + value)


def raw_struct(data: bytes) -> Encoded:
    """Return an encoded struct as a value."""
    return Encoded(_STRUCT, data)


def list_of(values: Iterable[Encoded]) -> Encoded:
    """Encode a list of values of one type, which must not be empty."""
    items = list(values)
    kind = items[0].kind
    short = len(items) < _LONG_LIST
    head = bytes([len(items) << 4 | kind]) if short else bytes([_LONG_LIST << 4 | kind]) + unsigned(len(items))
    return Encoded(_LIST, head + b"".join(item.data for item in items))


def _read_value(data: Any, position: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_I16, _I32, _I64):
        return read_signed(data, position)
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, position
    if kind == _STRUCT:
        return read_struct(data, position, depth + 1)
    if kind == _BINARY:
        length, position = read_unsigned(data, position)
        return bytes(data[position : position + length]), position + length
    if kind in (_LIST, _SET):
        return _read_list(data, position, depth)
    if kind in (_BYTE, _DOUBLE):
        width = 1 if kind == _BYTE else 8
        return bytes(data[position : position + width]), position + width
    raise ValueError(f"a header has a value of the unknown type {kind}")


def _read_list(data: Any, position: int, depth: int) -> tuple[list[Any], int]:
    if depth > _MAX_DEPTH:
        raise ValueError("a header is nested too deeply")
    length, kind, position = _read_list_head(data, position)
    found = []
    for _ in range(length):
        if kind in (_TRUE, _FALSE):  # in a list a flag takes one byte
            value, position = data[position] == _TRUE, position + 1
        else:
            value, position = _read_value(data, position, kind, depth + 1)
        found.append(value)
    return found, position


def _read_list_head(data: Any, position: int) -> tuple[int, int, int]:
    head = data[position]
    length, kind, position = head >> 4, head & 15, position + 1
    if length == _LONG_LIST:
        length, position = read_unsigned(data, position)
    if length > len(data) - position:  # each item takes at least one byte
        raise ValueError("a list in a header is longer than the header")
    return length, kind, position
