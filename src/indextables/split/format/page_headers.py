"""Headers of data pages as Arrow writes them, read by patterns, not by field.

A header of another form has to be read by `protocol.thrift`, which takes several times as long.
"""

from __future__ import annotations

import functools
import re

_ANY = rb"\x15[\x80-\xff]{0,4}[\x00-\x7f]"
_NUMBER = rb"\x15([\x80-\xff]{0,4}[\x00-\x7f])"
_START = rb"\x15\x06"
_CHECKSUM = _ANY
_DATA = rb"\x4c"
_END = rb"\0\0"

COMPRESSED = b"\x11"

# The size of a data page as stored, and its number of rows.
DATA_PAGE = re.compile(
    _START + _ANY + _NUMBER + _CHECKSUM + _DATA + _ANY * 2 + _NUMBER + _ANY * 3 + rb"[\x11\x12]" + _END
)

# Both sizes of a page of plain values without repetition levels, its values, nulls and length of levels, and whether it
# is compressed.
PLAIN_PAGE = re.compile(
    _START + _NUMBER * 2 + _CHECKSUM + _DATA + _NUMBER * 2 + _ANY + rb"\x15\0" + _NUMBER + rb"\x15\0([\x11\x12])" + _END
)


@functools.lru_cache(16_384)
def number_of(data: bytes) -> int:
    """Return a number of at least 0, as a pattern finds it."""
    value = 0
    for byte in reversed(data):
        value = value << 7 | byte & 0x7F
    return value >> 1
