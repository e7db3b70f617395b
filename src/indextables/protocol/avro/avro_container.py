"""Container format of Avro records.

Headers and blocks as bytes, without the records.

A file is read only if it is whole: every block ends with the file's sync marker, and the last block ends the file.
Every refusal is a `ValueError` with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from indextables.protocol.compression import check_block, compress_block, decompress_block
from indextables.protocol.varints import read_signed, signed

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
_MAX_HEADER_ENTRIES = 1000


class Header(NamedTuple):
    """Header of a file, and the offset of its first block."""

    metadata: dict[str, bytes]
    sync: bytes
    end: int

    @property
    def codec(self) -> str:
        return self.metadata.get("avro.codec", b"null").decode(errors="replace")


class Block(NamedTuple):
    """Block in its stored form."""

    num_records: int
    packed: bytes


def encode_header(metadata: Mapping[str, bytes], sync: bytes) -> bytes:
    """Encode the start of a file, with the metadata in the given order."""
    entries = b"".join(_text(key.encode()) + _text(value) for key, value in metadata.items())
    return MAGIC + signed(len(metadata)) + entries + b"\x00" + sync


def encode_block(num_records: int, body: Any, sync: bytes, codec: str, level: int) -> bytes:
    """Encode one block of encoded records."""
    packed = compress_block(body, codec, level)
    return signed(num_records) + signed(len(packed)) + packed + sync


def decode_header(data: bytes) -> Header:
    """Decode the header of a file."""
    if not data.startswith(MAGIC):
        raise ValueError("it is not an Avro file")
    metadata: dict[str, bytes] = {}
    at = len(MAGIC)
    while True:
        count, at = _read_long(data, at)
        if count == 0:
            break
        if count < 0:
            count = -count
            _, at = _read_long(data, at)
        if count + len(metadata) > _MAX_HEADER_ENTRIES:
            raise ValueError("its header has too many entries")
        for _ in range(count):
            key, at = _read_text(data, at)
            value, at = _read_text(data, at)
            metadata[key.decode(errors="replace")] = value
    return Header(metadata, _cut(data, at, SYNC_BYTES), at + SYNC_BYTES)


def blocks(data: bytes, header: Header) -> Iterator[Block]:
    """Yield the blocks of a file; refuse bytes after the last block."""
    at = header.end
    while at < len(data):
        num_records, at = _read_long(data, at)
        if num_records < 0:
            raise ValueError("a block has fewer than no records")
        packed, at = _read_text(data, at)
        if _cut(data, at, SYNC_BYTES) != header.sync:
            raise ValueError("a block does not end with the file's marker")
        at += SYNC_BYTES
        yield Block(num_records, packed)


def num_records(data: bytes) -> int:
    """Return the number of records that a whole file declares."""
    return sum(block.num_records for block in blocks(data, decode_header(data)))


def check_bodies(data: bytes) -> None:
    """Refuse a file with blocks that exceed the limit when decompressed."""
    header = decode_header(data)
    for block in blocks(data, header):
        check_block(block.packed, header.codec)


def plain_body(block: Block, header: Header) -> bytes:
    """Return the decompressed records of a block, within bounds."""
    return decompress_block(block.packed, header.codec)


def _text(value: bytes) -> bytes:
    return signed(len(value)) + value


def _read_text(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _read_long(data, at)
    return _cut(data, at, size), at + size


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    try:
        return read_signed(data, at)
    except IndexError:
        raise ValueError("it is cut off") from None


def _cut(data: bytes, at: int, size: int) -> bytes:
    if size < 0 or at + size > len(data):
        raise ValueError("it is cut off")
    return data[at : at + size]
