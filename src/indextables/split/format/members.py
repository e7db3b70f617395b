"""Pack index files into a split; verify and unpack them for a search.

Each file is split into pieces that are compressed separately, so that several pieces are packed, fetched and unpacked
in parallel, and an index of any size takes little memory. Nothing is written outside of the target directory, no file
is overwritten, and no more bytes are unpacked than the split's directory promises.
"""

from __future__ import annotations

import functools
import itertools
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from indextables.protocol.compression import plain_limit
from indextables.runtime.pools import SHARED_POOLS
from indextables.runtime.resources import open_file, refuse_shortage
from indextables.split.format.layout import Member, Piece, check_crc, corrupt, member_name_problem

ReadRanges = Callable[[Sequence[tuple[int, int]]], list[bytes]]

_PACKING = "member-packing"
_EXTRACTING = "member-extraction"
_WORKERS = min(8, os.cpu_count() or 1)
_READERS = 8  # they mostly wait for a store
_PIECE_BYTES = 4 << 20
_LEVEL = 3
_WORTH_PACKING = 0.9


def write_members(sink: pa.NativeFile, directory: str, names: Sequence[str]) -> list[Member]:
    """Append the files to the sink."""
    members: list[Member] = []
    stored, raw = 0, 0
    for name in names:
        problem = member_name_problem(name)
        if problem is not None:
            raise ValueError(f"cannot put a file into a split because {problem}")
        offset, crc32, pieces = int(sink.tell()), 0, []
        for data, packed in _packed_pieces(os.path.join(directory, name)):
            crc32 = zlib.crc32(data, crc32)
            raw += len(data)
            # Data that compresses too well would be taken for a decompression bomb.
            is_packed = len(packed) < len(data) * _WORTH_PACKING and raw <= plain_limit(stored + len(packed))
            kept = packed if is_packed else data
            stored += len(kept)
            pieces.append(Piece(length=len(kept), raw_length=len(data), crc32=zlib.crc32(kept)))
            sink.write(kept)
        members.append(Member(name=name, offset=offset, pieces=pieces, raw_crc32=crc32))
    return members


def write_bytes(sink: pa.NativeFile, name: str, data: bytes) -> Member:
    """Append bytes to the sink without compression."""
    offset, crc32 = int(sink.tell()), zlib.crc32(data)
    sink.write(data)
    piece = Piece(length=len(data), raw_length=len(data), crc32=crc32)
    return Member(name=name, offset=offset, pieces=[piece], raw_crc32=crc32)


def extract_members(members: Sequence[Member], into: str, key: str, read: ReadRanges) -> None:
    """Write the members of the split `key` as files; `read` fetches its ranges."""
    for member in members:
        os.close(open_file(_path(into, member), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
    work = functools.partial(_extract_run, into=into, key=key, read=read)
    SHARED_POOLS.map(_EXTRACTING, work, list(_runs(members)), workers=_READERS)


class _Part(NamedTuple):
    """One piece of a member, with its offsets in the split and in the member's file."""

    member: Member
    piece: Piece
    start: int
    raw_start: int

    @property
    def end(self) -> int:
        return self.start + self.piece.length


def _packed_pieces(path: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the pieces of a file, each plain and packed."""
    with open(path, "rb", opener=open_file) as source:
        pieces = iter(lambda: source.read(_PIECE_BYTES), b"")
        while wave := list(itertools.islice(pieces, _WORKERS)):
            yield from zip(wave, SHARED_POOLS.map(_PACKING, _pack, wave, workers=_WORKERS), strict=True)


def _pack(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd", compression_level=_LEVEL).compress(data, asbytes=True))


def _parts(members: Sequence[Member]) -> Iterator[_Part]:
    for member in members:
        start, raw_start = member.offset, 0
        for piece in member.pieces:
            yield _Part(member, piece, start, raw_start)
            start += piece.length
            raw_start += piece.raw_length


def _runs(members: Sequence[Member]) -> Iterator[list[_Part]]:
    """Group adjacent pieces for one read each.

    An index of many segments has hundreds of small files.
    """
    run: list[_Part] = []
    for part in _parts(members):
        if run and (part.start != run[-1].end or part.end - run[0].start > _PIECE_BYTES):
            yield run
            run = []
        run.append(part)
    if run:
        yield run


def _extract_run(run: Sequence[_Part], *, into: str, key: str, read: ReadRanges) -> None:
    start = run[0].start
    (stored,) = read([(start, run[-1].end)])
    for part in run:
        _extract_piece(part, memoryview(stored)[part.start - start : part.end - start], into=into, key=key)


def _extract_piece(part: _Part, stored: memoryview, *, into: str, key: str) -> None:
    name, piece = part.member.name, part.piece
    check_crc(stored, piece.crc32, key, f"its member `{name}`")
    handle = open_file(_path(into, part.member), os.O_WRONLY | os.O_NOFOLLOW)
    try:
        _write_at(handle, stored if piece.is_plain else _unpack(stored, piece, name, key), part.raw_start)
    finally:
        os.close(handle)


def _unpack(stored: bytes | memoryview, piece: Piece, name: str, key: str) -> pa.Buffer:
    try:
        return pa.Codec("zstd").decompress(stored, piece.raw_length)
    except (pa.ArrowException, OSError) as error:
        refuse_shortage(f"read the split `{key}`", error)
        raise corrupt(key, f"its member `{name}` cannot be unpacked ({error})") from error


def _write_at(handle: int, data: memoryview | pa.Buffer, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, offset)
        view, offset = view[written:], offset + written


def _path(into: str, member: Member) -> str:
    return os.path.join(into, member.name)
