"""The files of an index inside a split: packed when it is written, verified and unpacked when it is searched.

Both ways go by pieces, so that an index of any size takes little memory. Nothing is written outside the directory that
is asked for, nothing is written over, and no more is unpacked than the split's directory said.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import pyarrow as pa

from indextables.errors import StorageError
from indextables.split.layout import Member, corrupt, member_name_problem

_PIECE_BYTES = 8 << 20
_SAMPLE_BYTES = 1 << 20
_LEVEL = 1
_WORTH_PACKING = 0.9
_LEAST_RATIO = 1 / 100  # what packs better is stored plain: a reader would take it for a bomb


def write_members(sink: pa.NativeFile, directory: str, names: Sequence[str]) -> list[Member]:
    """Append the files to the sink."""
    members = []
    for name in names:
        problem = member_name_problem(name)
        if problem is not None:
            raise ValueError(f"cannot put a file into a split because {problem}")
        with open(os.path.join(directory, name), "rb") as source:
            members.append(_write_member(sink, name, source))
    return members


def write_bytes(sink: pa.NativeFile, name: str, data: bytes) -> Member:
    """Append bytes to the sink as they are."""
    offset = sink.tell()
    sink.write(data)
    return Member(
        name=name, offset=offset, length=len(data), codec="none", raw_length=len(data), crc32=zlib.crc32(data)
    )


def extract_members(
    members: Sequence[Member], into: str, key: str, read: Callable[[int, int], bytes]
) -> dict[str, int]:
    """Write the members of the split `key` as files into a directory; `read` fetches a range of the split.

    Gives the CRC of each file.
    """
    if not members:
        return {}
    pieces = _Pieces(members[0].offset, members[-1].end, read)
    return {
        member.name: _extract_member(member, os.path.join(into, member.name), key, _Stored(pieces, member))
        for member in members
    }


def _extract_member(member: Member, path: str, key: str, stored: _Stored) -> int:
    written, crc32 = 0, 0
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(handle, "wb") as file:
        for piece in _unpacked(stored, member, key):
            written += len(piece)
            if written > member.raw_length:
                raise corrupt(key, f"its member `{member.name}` unpacks to more than it should")
            if member.codec != "none":
                crc32 = zlib.crc32(piece, crc32)
            file.write(piece)
    stored.drain()
    if stored.crc32 != member.crc32:
        raise corrupt(key, f"the checksum of its member `{member.name}` does not fit")
    if written != member.raw_length:
        raise corrupt(key, f"its member `{member.name}` unpacks to less than it should")
    return stored.crc32 if member.codec == "none" else crc32


def _write_member(sink: pa.NativeFile, name: str, source: io.BufferedReader) -> Member:
    offset, crc32, raw_length = sink.tell(), 0, 0
    codec = _choose_codec(source)
    packer = pa.Codec("zstd", compression_level=_LEVEL)
    while piece := source.read(_PIECE_BYTES):
        raw_length += len(piece)
        if codec == "zstd":
            piece = packer.compress(piece, asbytes=True)
        crc32 = zlib.crc32(piece, crc32)
        sink.write(piece)
    return Member(
        name=name, offset=offset, length=sink.tell() - offset, codec=codec, raw_length=raw_length, crc32=crc32
    )


def _choose_codec(source: io.BufferedReader) -> Literal["zstd", "none"]:
    """Whether packing is worth it, by the start, the middle and the end of a file."""
    size = source.seek(0, os.SEEK_END)
    raw, packed = 0, 0
    for offset in {0, size // 2, max(0, size - _SAMPLE_BYTES)}:
        source.seek(offset)
        sample = source.read(_SAMPLE_BYTES)
        raw += len(sample)
        packed += len(pa.compress(sample, "zstd", asbytes=True))
    source.seek(0)
    return "zstd" if raw * _LEAST_RATIO < packed < raw * _WORTH_PACKING else "none"


def _unpacked(stored: _Stored, member: Member, key: str) -> Iterator[bytes]:
    if member.codec == "none":
        yield from iter(lambda: stored.read(_PIECE_BYTES), b"")
        return
    try:
        with pa.CompressedInputStream(pa.PythonFile(stored, "r"), "zstd") as stream:
            yield from iter(lambda: stream.read(_PIECE_BYTES), b"")
    except StorageError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise corrupt(key, f"its member `{member.name}` cannot be unpacked ({error})") from error


class _Pieces:
    """The bytes from one offset of a split to another, in order, fetched by pieces."""

    def __init__(self, start: int, end: int, read: Callable[[int, int], bytes]) -> None:
        self._start = start
        self._end = end
        self._read = read
        self._piece = memoryview(b"")

    def take(self, offset: int, length: int) -> memoryview:
        """Bytes at an offset, up to so many; what stands before it is let go."""
        if offset >= self._start + len(self._piece):
            end = min(offset + _PIECE_BYTES, self._end)
            self._piece = memoryview(self._read(offset, end))
            self._start = offset
        first = offset - self._start
        return self._piece[first : first + length]


class _Stored:
    """The stored bytes of one member as a file that is read once; keeps their CRC."""

    closed = False

    def __init__(self, pieces: _Pieces, member: Member) -> None:
        self._pieces = pieces
        self._offset = member.offset
        self._end = member.end
        self.crc32 = 0

    def read(self, size: int = -1) -> Any:
        left = self._end - self._offset
        taken = self._pieces.take(self._offset, left if size < 0 else min(size, left)) if left else b""
        self.crc32 = zlib.crc32(taken, self.crc32)
        self._offset += len(taken)
        return taken

    def drain(self) -> None:
        """Read what is left, so that the CRC is that of all stored bytes."""
        while len(self.read(_PIECE_BYTES)):
            pass

    def close(self) -> None:
        """Nothing is held."""
