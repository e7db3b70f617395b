"""Thrift's compact protocol, as far as the headers of a Parquet file need it.

A struct is read as a dictionary from field numbers to values, and written from one to `Encoded` values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from indextables.protocol.varints import read_signed, read_unsigned, signed, unsigned

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
_LONG_LIST = 15
_MAX_DEPTH = 32


class Encoded(NamedTuple):
    """A value as it is written, and its type."""

    kind: int
    data: bytes


def read_struct(data: Any, position: int = 0, depth: int = 0) -> tuple[dict[int, Any], int]:
    """The struct at a position of some bytes, and where it ends. A `ValueError` where there is none."""
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
    """The structs in a list that is a field of the struct at the start, each also as the bytes that it stands in."""
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


def struct(fields: Mapping[int, Encoded], begun: bytes = b"", last: int = 0) -> Encoded:
    """A struct of fields by their numbers, which ascend by at most 15; the fields up to `last` may have begun it."""
    return Encoded(_STRUCT, begin_struct(fields, begun, last) + b"\0")


def begin_struct(fields: Mapping[int, Encoded], begun: bytes = b"", last: int = 0) -> bytes:
    """The first fields of a struct, which others can follow."""
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


def binary(value: bytes) -> Encoded:
    return Encoded(_BINARY, unsigned(len(value)) + value)


def raw_struct(data: bytes) -> Encoded:
    """A struct that stands in bytes already."""
    return Encoded(_STRUCT, data)


def list_of(values: Iterable[Encoded]) -> Encoded:
    """A list of values of one type; it must not be empty."""
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
        if kind in (_TRUE, _FALSE):  # in a list a flag is a byte of its own
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
    if length > len(data) - position:  # each takes a byte at least
        raise ValueError("a list in a header is longer than what holds it")
    return length, kind, position
