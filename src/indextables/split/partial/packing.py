"""Pack the files of an index into pieces of a split, and unpack all of them.

Pieces are cut at the ends of fields, and stand by field, then by kind of file, then by segment: one range covers a
field in all segments. What the engine reads of every index stands together at the end.
"""

from __future__ import annotations

import errno
import functools
import itertools
import os
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from indextables.protocol.compression import plain_limit
from indextables.runtime.pools import SHARED_POOLS
from indextables.runtime.resources import open_file, refuse_shortage
from indextables.split.format.layout import check_crc, corrupt, member_name_problem
from indextables.split.format.members import ReadRanges
from indextables.split.partial.piece_table import PieceColumns, PieceTable
from indextables.split.partial.tantivy_files import (
    COMPOSITE,
    FAST,
    POSITIONS,
    POSTINGS,
    STORE,
    TERMS,
    kind_of,
    parts_of,
)

_PACKING = "piece-packing"
_EXTRACTING = "piece-extraction"
_WORKERS = min(8, os.cpu_count() or 1)
_READERS = 8  # they mostly wait for a store
_AT_ONCE = 64
_RUN_BYTES = 4 << 20
_LEVEL = 4
_WORTH_PACKING = 0.9
_SMALL_PIECE, _LARGE_PIECE = 64 << 10, 256 << 10
_SMALL_FILE = 64 << 10
_SMALL = frozenset({TERMS, POSTINGS, POSITIONS})
_KINDS = (*COMPOSITE, FAST, STORE)
_NO_FIELD = 1 << 32


class _Cut(NamedTuple):
    """A piece to be; the first four order the pieces."""

    is_tail: bool
    field: int
    kind: int
    member: int
    start: int
    end: int


class IndexFiles:
    """The files of an index in a local directory, cut into pieces."""

    def __init__(self, directory: str, names: Sequence[str]) -> None:
        """Find the pieces; raise `ValueError` if a file is not of the known form."""
        for name in names:
            problem = member_name_problem(name)
            if problem is not None:
                raise ValueError(f"cannot put a file into a split because {problem}")
        self._names = list(names)
        self._data = [_File(os.path.join(directory, name)) for name in names]
        self._cuts = sorted(cut for number in range(len(names)) for cut in self._cuts_of(number))

    def write(self, sink: pa.NativeFile) -> PieceTable:
        """Append the pieces to the sink."""
        offset = int(sink.tell())
        facts: list[tuple[int, int, int, int, int, int]] = []
        stored = raw = 0
        for cut, data, packed in self._packed():
            raw += len(data)
            # Data that compresses too well would be taken for a decompression bomb.
            is_packed = len(packed) < len(data) * _WORTH_PACKING and raw <= plain_limit(stored + len(packed))
            kept = packed if is_packed else data
            stored += len(kept)
            sink.write(kept)
            facts.append((cut.member, cut.start, len(data), len(kept), zlib.crc32(kept), zlib.crc32(data)))
        columns = PieceColumns(*zip(*facts, strict=True)) if facts else PieceColumns((), (), (), (), (), ())
        members = [(name, len(data)) for name, data in zip(self._names, self._data, strict=True)]
        first_tail = sum(not cut.is_tail for cut in self._cuts)
        return PieceTable(members, columns, offset=offset, first_tail=first_tail)

    def _cuts_of(self, member: int) -> Iterator[_Cut]:
        name, data = self._names[member], self._data[member]
        kind = kind_of(name)
        order = _KINDS.index(kind) if kind in _KINDS else len(_KINDS)
        most = _SMALL_PIECE if kind in _SMALL else _LARGE_PIECE
        for part in parts_of(name, data) if len(data) else ():
            field = _NO_FIELD if part.field is None else part.field
            for start in range(part.start, part.end, most):
                yield _Cut(part.is_tail, field, order, member, start, min(start + most, part.end))

    def _packed(self) -> Iterator[tuple[_Cut, bytes, bytes]]:
        cuts = iter(self._cuts)
        while wave := list(itertools.islice(cuts, _AT_ONCE)):
            plain = [self._data[cut.member][cut.start : cut.end] for cut in wave]
            workers = _WORKERS if sum(map(len, plain)) > _SMALL_FILE else 1
            yield from zip(wave, plain, SHARED_POOLS.map(_PACKING, _pack, plain, workers=workers), strict=True)


def extract_pieces(table: PieceTable, into: str, key: str, read: ReadRanges) -> None:
    """Write the files of the split `key`; `read` fetches its ranges."""
    for name, size in table.members:
        handle = open_file(os.path.join(into, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            os.truncate(handle, size)
        finally:
            os.close(handle)
    work = functools.partial(_extract_run, table, into=into, key=key, read=read)
    SHARED_POOLS.map(_EXTRACTING, work, list(_runs(table)), workers=_READERS)


def unpack_piece(table: PieceTable, piece: int, stored: bytes | memoryview, key: str) -> memoryview:
    """Return the raw bytes of a piece; compare the checksum of the stored ones."""
    name = table.members[table.member[piece]][0]
    check_crc(stored, table.stored_crc[piece], key, f"its member `{name}`")
    if table.is_plain(piece):
        return memoryview(stored)
    try:
        return memoryview(pa.Codec("zstd").decompress(stored, table.raw_length[piece]))
    except (pa.ArrowException, OSError) as error:
        refuse_shortage(f"read the split `{key}`", error)
        raise corrupt(key, f"its member `{name}` cannot be unpacked ({error})") from error


def _extract_run(table: PieceTable, run: range, *, into: str, key: str, read: ReadRanges) -> None:
    start = table.stored_start[run[0]]
    (stored,) = read([(start, _stored_end(table, run[-1]))])
    by_member = table.member.__getitem__
    for member, pieces in itertools.groupby(sorted(run, key=by_member), by_member):
        handle = open_file(os.path.join(into, table.members[member][0]), os.O_WRONLY | os.O_NOFOLLOW)
        try:
            for piece in pieces:
                place = table.stored_start[piece] - start
                found = memoryview(stored)[place : place + table.stored_length[piece]]
                _write_at(handle, unpack_piece(table, piece, found, key), table.raw_start[piece])
        finally:
            os.close(handle)


def _runs(table: PieceTable) -> Iterator[range]:
    """Group neighbours for one read each."""
    first = 0
    for piece in range(table.num_pieces):
        if _stored_end(table, piece) - table.stored_start[first] > _RUN_BYTES and piece > first:
            yield range(first, piece)
            first = piece
    if first < table.num_pieces:
        yield range(first, table.num_pieces)


def _stored_end(table: PieceTable, piece: int) -> int:
    return table.stored_start[piece] + table.stored_length[piece]


class _File:
    """Bytes of a file; it is open only while it is read, as there may be hundreds.

    A small file is read once.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._size = os.stat(path).st_size
        self._whole = self._read(0, self._size) if self._size <= _SMALL_FILE else None

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: slice) -> bytes:
        start, end, _ = place.indices(self._size)
        return self._read(start, end) if self._whole is None else self._whole[start:end]

    def _read(self, start: int, end: int) -> bytes:
        with open(self._path, "rb", buffering=0, opener=open_file) as file:
            data = os.pread(file.fileno(), end - start, start)
        if len(data) != end - start:
            raise OSError(errno.EIO, "a file of an index is shorter than it was", self._path)
        return data


def _pack(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd", compression_level=_LEVEL).compress(data, asbytes=True))


def _write_at(handle: int, data: memoryview, offset: int) -> None:
    while data:
        written = os.pwrite(handle, data, offset)
        data, offset = data[written:], offset + written
