"""Whole numbers of few bytes, as Avro and Thrift write them: seven bits to a byte, the lowest first.

Signed ones are written in zigzag, so that small ones stay short. Reading beyond the end is an `IndexError`, a number
without an end a `ValueError`.
"""

from __future__ import annotations

from typing import Any

_MAX_SHIFT = 63
_SHORT = [bytes([value]) for value in range(0x80)]


def read_unsigned(data: Any, position: int) -> tuple[int, int]:
    """The number at a position, and where it ends."""
    value, shift = 0, 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > _MAX_SHIFT:
            raise ValueError("a number in a header has no end")


def read_signed(data: Any, position: int) -> tuple[int, int]:
    """The same for a number that may be negative."""
    value, position = read_unsigned(data, position)
    return (value >> 1) ^ -(value & 1), position


def unsigned(value: int) -> bytes:
    """A number of at least 0 as it is written."""
    if value < 0x80:
        return _SHORT[value]
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def signed(value: int) -> bytes:
    """Any number as it is written."""
    return unsigned(value << 1 if value >= 0 else ~value << 1 | 1)
