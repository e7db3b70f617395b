"""Format of a filter sheet: term filters of many splits, side by side and by bit.

A sheet covers the manifests that one compaction of the state laid out. Entry `i` of these manifests is column `i`, and
columns come in blocks. A block has four parts of equal size, and a part has windows of 16 bits. A term chooses one
window in each part, and three bits in the window. For each of the 16 bits, the bits of all columns follow each other.
So one term costs four ranges, whatever the number of terms in a split.

    "ITSHEET1" | length of the header | CRC of the header | identity | header, MessagePack | padding | blocks
    a block:   part 0, windows 0, 1, ... | part 1 | part 2 | part 3
    a window:  bit 0 of all columns | ... | bit 15 of all columns | CRC

The CRC of a window also covers the identity of the sheet and the place of the window, so that bytes of another window
or of another sheet never pass for it. A sheet is an accelerator: if it is missing or damaged, the splits are asked.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from indextables.split.index.term_filter import mixed_number

FIRST_READ = 16 << 10
"""Every sheet is at least this long, and most headers fit into it."""

COLUMNS_PER_BLOCK = 1 << 17
NUM_PARTS = 4
WINDOW_BITS = 16
BITS_PER_TERM_AND_PART = 3
ROW_ALIGNMENT = 64
MOST_HEADER_BYTES = 64 << 20
MOST_KINDS = 255
_MAGIC = b"ITSHEET1"
_PRELUDE = struct.Struct("<8sII16s")
_PLACE = struct.Struct("<QQQ")
_CRC = struct.Struct("<I")
_MOST_ENTRIES = 1 << 32


class SheetError(Exception):
    """A sheet is damaged, or of an unknown format; the splits have to be asked."""


class Covered(msgspec.Struct, frozen=True, array_like=True):
    """A manifest whose entries are columns of the sheet, by its path in the log."""

    path: str
    num_entries: int


class Kind(msgspec.Struct, frozen=True, array_like=True):
    """How splits are indexed: their engine, their doc mapping, their filtered fields."""

    engine: str
    engine_version: str
    doc_mapping: str
    fields: tuple[str, ...]


class Block(msgspec.Struct, frozen=True, array_like=True):
    """Place and form of consecutive columns; hashes are cut to `hash_bits`."""

    offset: int
    num_columns: int
    num_windows: int
    hash_bits: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one bit of all columns."""
        return -(-self.num_columns // ROW_ALIGNMENT) * (ROW_ALIGNMENT // 8)

    @property
    def window_bytes(self) -> int:
        return WINDOW_BITS * self.row_bytes + _CRC.size

    @property
    def num_bytes(self) -> int:
        return NUM_PARTS * self.num_windows * self.window_bytes

    def window_range(self, part: int, window: int) -> tuple[int, int]:
        """Return the range of a window in the file."""
        start = self.offset + (part * self.num_windows + window) * self.window_bytes
        return start, start + self.window_bytes

    def places(self, value: int) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Yield for each part the window of a hash, and the bits in it."""
        pairs, picks = (mixed_number(value, 1), mixed_number(value, 2)), mixed_number(value, 3)
        for part in range(NUM_PARTS):
            half = pairs[part // 2] >> (32 if part % 2 == 0 else 0) & 0xFFFFFFFF
            shift = WINDOW_BITS + 4 * BITS_PER_TERM_AND_PART * part
            bits = tuple(picks >> shift + 4 * probe & 0xF for probe in range(BITS_PER_TERM_AND_PART))
            yield part, half * self.num_windows >> 32, bits


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a sheet.

    `kinds_of_entries` has one packed byte per entry: the number of its kind from 1, or 0 if it is not covered.
    """

    manifests: tuple[Covered, ...]
    kinds: tuple[Kind, ...]
    kinds_of_entries: bytes
    blocks: tuple[Block, ...]

    @property
    def num_entries(self) -> int:
        return sum(each.num_entries for each in self.manifests)

    def entry_kinds(self) -> bytes:
        """Return the kind of each entry: 0 if the sheet says nothing about it."""
        try:
            unpacker = zlib.decompressobj()
            found = unpacker.decompress(self.kinds_of_entries, self.num_entries + 1)
        except zlib.error as error:
            raise SheetError(f"its kinds cannot be unpacked ({error})") from error
        if len(found) != self.num_entries or max(found, default=0) > len(self.kinds):
            raise SheetError("its kinds do not fit its entries")
        return found


class Sheet(NamedTuple):
    """A verified header, the identity that its windows are checked with, and its key."""

    header: Header
    identity: bytes
    key: str

    def rows(self, block: int, part: int, window: int, stored: bytes) -> memoryview:
        """Return the bits of a window, or raise a `SheetError` if it is damaged."""
        rows = memoryview(stored)[: -_CRC.size]
        if len(stored) != self.header.blocks[block].window_bytes:
            raise SheetError("a window is cut off")
        if window_crc(self.identity, block, part, window, rows) != _CRC.unpack(stored[-_CRC.size :])[0]:
            raise SheetError("the checksum of a window does not match")
        return rows


def pack_kinds(kinds: bytes) -> bytes:
    """Pack the kinds of all entries for a header."""
    return zlib.compress(kinds, 6)


def with_offsets(header: Header) -> Header:
    """Return the header with the places of its blocks, behind a header of this length."""
    start = 0
    while True:
        blocks, offset = [], start
        for block in header.blocks:
            blocks.append(msgspec.structs.replace(block, offset=offset))
            offset += block.num_bytes
        placed = msgspec.structs.replace(header, blocks=tuple(blocks))
        needed = len(encode_header(placed, bytes(16)))
        if needed == start:
            return placed
        start = needed


def encode_header(header: Header, identity: bytes) -> bytes:
    """Return the bytes before the first block."""
    body = msgspec.msgpack.encode(header)
    length = _PRELUDE.size + len(body)
    crc = zlib.crc32(identity + body)
    data = _PRELUDE.pack(_MAGIC, len(body), crc, identity) + body
    return data + bytes(-length % FIRST_READ)


def header_end(start: bytes) -> int:
    """Return where the header ends, from the first bytes of a sheet."""
    if len(start) < _PRELUDE.size:
        raise SheetError("it is cut off")
    magic, length, _, _ = _PRELUDE.unpack_from(start)
    if magic != _MAGIC or length > MOST_HEADER_BYTES:
        raise SheetError("it does not start like a filter sheet")
    return _PRELUDE.size + int(length)


def decode_sheet(start: bytes, key: str) -> Sheet:
    """Decode and check the header of a sheet; `start` is at least the whole header."""
    end = header_end(start)
    _, length, crc, identity = _PRELUDE.unpack_from(start)
    body = start[_PRELUDE.size : end]
    if len(body) != length or zlib.crc32(identity + body) != crc:
        raise SheetError("the checksum of its header does not match")
    try:
        header = _decoder.decode(body)
    except (msgspec.DecodeError, ValueError) as error:
        raise SheetError(f"its header cannot be understood ({error})") from error
    _check(header)
    return Sheet(header, identity, key)


def window_crc(identity: bytes, block: int, part: int, window: int, rows: bytes | memoryview) -> int:
    """Return the checksum of a window at its place."""
    return zlib.crc32(rows, zlib.crc32(identity + _PLACE.pack(block, part, window)))


def encode_window(identity: bytes, block: int, part: int, window: int, rows: Sequence[bytes]) -> bytes:
    """Return the bits of a window with their checksum."""
    joined = b"".join(rows)
    return joined + _CRC.pack(window_crc(identity, block, part, window, joined))


def _check(header: Header) -> None:
    """Refuse a header with impossible numbers."""
    counts = [each.num_entries for each in header.manifests]
    sizes = [block.num_columns for block in header.blocks]
    if any(count < 0 for count in counts) or sum(counts) > _MOST_ENTRIES or sum(sizes) != sum(counts):
        raise SheetError("its blocks do not fit its manifests")
    if any(size != COLUMNS_PER_BLOCK for size in sizes[:-1]) or len(header.kinds) > MOST_KINDS:
        raise SheetError("its blocks or kinds have an impossible size")
    for block in header.blocks:
        if block.offset < 0 or not 0 < block.num_windows < 1 << 32 or not 0 < block.hash_bits <= 64:
            raise SheetError("a block has impossible numbers")


# Created at import: msgspec crashes if two threads decode a type for the first time at once.
_decoder = msgspec.msgpack.Decoder(Header)
