"""Variable-length integers of Avro and Thrift: seven bits per byte, lowest first.

Signed numbers use zigzag encoding, so that small ones stay short. Reading beyond the end raises `IndexError`, a number
without an end raises `ValueError`.
"""

from __future__ import annotations

from typing import Any

_MAX_SHIFT = 63
_SHORT = [bytes([value]) for value in range(0x80)]


def read_unsigned(data: Any, position: int) -> tuple[int, int]:
    """Return the unsigned number at a position, and its end."""
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
    """Return the signed number at a position, and its end."""
    value, position = read_unsigned(data, position)
    return (value >> 1) ^ -(value & 1), position


def unsigned(value: int) -> bytes:
    """Encode a number of at least 0."""
    if value < 0x80:
        return _SHORT[value]
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def signed(value: int) -> bytes:
    """Encode any number."""
    return unsigned(value << 1 if value >= 0 else ~value << 1 | 1)
