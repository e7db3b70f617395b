"""Codecs with bounded output: bytes that expand far beyond any log are refused.

The check comes before the memory is allocated. Text files of the log are plain, gzip, or gzip behind the two bytes `01
01`. Avro blocks are plain, deflate, snappy or zstd. Every refusal is a `ValueError` with the reason; the caller adds
the name of the file.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

GZIP = b"\x1f\x8b"
AVRO_CODECS = {"zstd": "zstandard", "snappy": "snappy", "none": "null"}

_OLD_PREFIX = b"\x01\x01"
_GZIP_WBITS = 31
_DEFLATE_WBITS = -15
_GZIP_LEVEL = 6
_PLAIN_BYTES_ALWAYS_ALLOWED = 128 << 20
_MAX_RATIO = 200
_MAX_GZIP_MEMBERS = 1000
_CRC_BYTES = 4
_PIECE_BYTES = 1 << 20


def gzip_text(text: bytes) -> bytes:
    """Return the text as one gzip member; the same text has the same bytes."""
    return zlib.compress(text, level=_GZIP_LEVEL, wbits=_GZIP_WBITS)


def plain_text(data: bytes) -> bytes:
    """Return the text of a file that may be compressed."""
    if data.startswith(_OLD_PREFIX + GZIP):
        data = data[len(_OLD_PREFIX) :]
    if data.startswith(GZIP):
        try:
            data = _gunzip(data)
        except zlib.error as error:
            raise ValueError(f"it is not a whole gzip file ({error})") from error
    if not data or data.isspace():
        raise ValueError("it is empty")
    return data


def compress_block(body: Any, codec: str, level: int) -> bytes:
    """Compress the body of an Avro block; `codec` is a value of `AVRO_CODECS`."""
    if codec == "null":
        return bytes(body)
    if codec == "snappy":
        packed = pa.Codec("snappy").compress(body, asbytes=True)
        return bytes(packed) + zlib.crc32(body).to_bytes(_CRC_BYTES, "big")
    if codec == "zstandard":
        return bytes(pa.Codec("zstd", compression_level=level).compress(body, asbytes=True))
    raise ValueError(f"there is no codec `{codec}` to write with")


def decompress_block(body: bytes, codec: str) -> bytes:
    """Return the decompressed body of an Avro block."""
    limit = plain_limit(len(body))
    match codec:
        case "null":
            return body
        case "deflate":
            return _inflate(body, limit)
        case "snappy":
            return _unsnap(body, limit)
        case "zstandard":
            return _unzstd(body, limit)
    raise ValueError(f"its codec `{codec[:40]}` is unknown")


def check_block(body: bytes, codec: str) -> None:
    """Refuse a block that expands too much, without ever holding it whole."""
    if codec == "zstandard":
        for _ in _unzstd_pieces(body, plain_limit(len(body))):
            pass
    else:
        decompress_block(body, codec)


def plain_limit(num_packed_bytes: int) -> int:
    """Return the maximum decompressed size of compressed bytes."""
    return max(_PLAIN_BYTES_ALWAYS_ALLOWED, num_packed_bytes * _MAX_RATIO)


def _gunzip(data: bytes) -> bytes:
    limit = plain_limit(len(data))
    parts: list[bytes] = []
    while data:
        if len(parts) == _MAX_GZIP_MEMBERS:
            raise ValueError(f"it has over {_MAX_GZIP_MEMBERS} gzip members")
        member = zlib.decompressobj(wbits=_GZIP_WBITS)
        parts.append(member.decompress(data, limit + 1))
        limit -= len(parts[-1])
        _check_limit(limit)
        if not member.eof:
            raise ValueError("it is cut off")
        data = member.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _inflate(body: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(wbits=_DEFLATE_WBITS)
    try:
        plain = stream.decompress(body, limit + 1)
    except zlib.error as error:
        raise ValueError(f"a block is not deflate data ({error})") from error
    _check_limit(limit - len(plain))
    if not stream.eof:  # some writers leave a part of a checksum after it
        raise ValueError("a block is not whole deflate data")
    return plain


def _unsnap(body: bytes, limit: int) -> bytes:
    packed, checksum = body[:-_CRC_BYTES], body[-_CRC_BYTES:]
    size, shift = 0, 0
    for byte in packed[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    _check_limit(limit - size)
    try:
        plain = bytes(pa.Codec("snappy").decompress(packed, size))
    except (pa.ArrowException, OSError) as error:
        raise ValueError("a block is not snappy data") from error
    if zlib.crc32(plain).to_bytes(_CRC_BYTES, "big") != checksum:
        raise ValueError("a block's checksum does not fit")
    return plain


def _unzstd(body: bytes, limit: int) -> bytes:
    return b"".join(map(bytes, _unzstd_pieces(body, limit)))


def _unzstd_pieces(body: bytes, limit: int) -> Iterator[pa.Buffer]:
    """Yield the decompressed bytes in pieces.

    They are buffers, because Arrow never frees bytes objects after a failed decompression.
    """
    try:
        with pa.CompressedInputStream(pa.BufferReader(body), "zstd") as stream:
            while piece := stream.read_buffer(_PIECE_BYTES):
                limit -= len(piece)
                _check_limit(limit)
                yield piece
    except (pa.ArrowException, OSError) as error:
        raise ValueError("a block is not zstd data") from error


def _check_limit(left: int) -> None:
    if left < 0:
        raise ValueError(f"it unpacks to over {_MAX_RATIO} times its size, which no log does")
