"""Table of the pieces of an index: where each one is in the split and in its file.

A piece is a range of one index file (a member), packed by itself, or plain if packing saves little. The pieces of a
member cover it without gaps. In the split they stand one behind the other, in the order of the table. The last ones are
the tails: what the engine reads of every file when it opens an index, and of a field before its first use.
"""

from __future__ import annotations

import bisect
import itertools
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from indextables.protocol.compression import plain_limit
from indextables.split.format.layout import member_name_problem

MOST_PIECE_BYTES = 1 << 20

_MAGIC = b"ITPIECE1"
_HEAD = struct.Struct("<8sIIIQI")  # magic, members, pieces, first tail, packed and plain bytes of the rest
_MOST_MEMBERS = 10_000
_MOST_PIECES = 16 << 20
_LEVEL = 3


class PieceColumns(NamedTuple):
    """Facts of the pieces, one value a piece in each column.

    `raw_start` and `raw_length` are the place in the unpacked member. Equal lengths mean that the piece is plain.
    """

    member: Sequence[int]
    raw_start: Sequence[int]
    raw_length: Sequence[int]
    stored_length: Sequence[int]
    stored_crc: Sequence[int]
    raw_crc: Sequence[int]


class PieceTable:
    """The pieces of the index of one split; a piece is its number in the table."""

    def __init__(
        self, members: Iterable[tuple[str, int]], columns: PieceColumns, *, offset: int, first_tail: int
    ) -> None:
        """Check the table; raise `ValueError` if the pieces do not cover the members.

        `members` are names and unpacked sizes. `offset` is the place of the first piece in the split.
        """
        self.members = tuple(members)
        self.member, self.raw_start, self.raw_length, self.stored_length, self.stored_crc, self.raw_crc = columns
        self.num_pieces = len(self.member)
        self.first_tail = first_tail
        starts = list(itertools.accumulate(self.stored_length, initial=offset))
        self.end = starts.pop()
        self.offset = offset
        self.stored_start: Sequence[int] = starts
        self.member_of = {name: number for number, (name, _) in enumerate(self.members)}
        self._check_numbers()
        self._by_member = self._sorted_by_place()

    @property
    def tails(self) -> range:
        """The pieces without which no file can be opened."""
        return range(self.first_tail, self.num_pieces)

    @property
    def tails_offset(self) -> int:
        """Place of the first tail in the split."""
        return self.stored_start[self.first_tail] if self.first_tail < self.num_pieces else self.end

    @property
    def raw_bytes(self) -> int:
        """Size of all members together."""
        return sum(size for _, size in self.members)

    def is_plain(self, piece: int) -> bool:
        """Return whether a piece is stored without packing."""
        return self.stored_length[piece] == self.raw_length[piece]

    def covering(self, member: int, start: int, end: int) -> Sequence[int]:
        """Return the pieces with the bytes `start` to `end` of a member, in their order."""
        if start >= end:
            return ()
        starts, pieces = self._by_member[member]
        return pieces[bisect.bisect_right(starts, start) - 1 : bisect.bisect_left(starts, end)]

    def of_member(self, member: int) -> Sequence[int]:
        """Return all pieces of a member, in the order of its bytes."""
        return self._by_member[member][1]

    def to_bytes(self) -> bytes:
        """Encode the table; `offset` is not part of it."""
        names = [name.encode() for name, _ in self.members]
        count, num_names = self.num_pieces, len(names)
        plain = b"".join(
            [
                struct.pack(f"<{num_names}I", *map(len, names)),
                struct.pack(f"<{num_names}Q", *(size for _, size in self.members)),
                *names,
                *(struct.pack(f"<{count}I", *column) for column in (self.member, self.raw_length, self.stored_length)),
                struct.pack(f"<{count}Q", *self.raw_start),
                *(struct.pack(f"<{count}I", *column) for column in (self.stored_crc, self.raw_crc)),
            ]
        )
        packed = bytes(pa.Codec("zstd", compression_level=_LEVEL).compress(plain, asbytes=True))
        return _HEAD.pack(_MAGIC, num_names, count, self.first_tail, len(plain), len(packed)) + packed

    @classmethod
    def from_bytes(cls, data: bytes | memoryview, *, offset: int) -> PieceTable:
        """Decode a table; raise `ValueError` if it is none.

        `offset` is the place of the first piece in the split.
        """
        if len(data) < _HEAD.size:
            raise ValueError("it is too short")
        magic, num_names, count, first_tail, num_plain, num_packed = _HEAD.unpack_from(data)
        if magic != _MAGIC or len(data) != _HEAD.size + num_packed:
            raise ValueError("it does not start or end like one")
        if num_names > _MOST_MEMBERS or count > _MOST_PIECES or num_plain > plain_limit(num_packed):
            raise ValueError("it is too large")
        try:
            plain = memoryview(pa.Codec("zstd").decompress(memoryview(data)[_HEAD.size :], num_plain))
            return cls._from_plain(plain, num_names, count, first_tail, offset)
        except (pa.ArrowException, OSError, struct.error, UnicodeDecodeError) as error:
            raise ValueError(f"it cannot be unpacked ({error})") from error

    @classmethod
    def _from_plain(cls, plain: memoryview, num_names: int, count: int, first_tail: int, offset: int) -> PieceTable:
        lengths = struct.unpack_from(f"<{num_names}I", plain)
        sizes = struct.unpack_from(f"<{num_names}Q", plain, 4 * num_names)
        place = 12 * num_names
        members = []
        for length, size in zip(lengths, sizes, strict=True):
            members.append((bytes(plain[place : place + length]).decode(), size))
            place += length
        if len(plain) != place + 28 * count:
            raise ValueError("its length is wrong")
        words = f"<{count}I"
        columns = PieceColumns(
            member=struct.unpack_from(words, plain, place),
            raw_length=struct.unpack_from(words, plain, place + 4 * count),
            stored_length=struct.unpack_from(words, plain, place + 8 * count),
            raw_start=struct.unpack_from(f"<{count}Q", plain, place + 12 * count),
            stored_crc=struct.unpack_from(words, plain, place + 20 * count),
            raw_crc=struct.unpack_from(words, plain, place + 24 * count),
        )
        return cls(members, columns, offset=offset, first_tail=first_tail)

    def _check_numbers(self) -> None:
        if not 0 <= self.first_tail <= self.num_pieces:
            raise ValueError("its tails are outside of it")
        for name, _ in self.members:
            problem = member_name_problem(name)
            if problem is not None:
                raise ValueError(f"a member's name {problem}")
        if len({name.casefold() for name, _ in self.members}) != len(self.members):
            raise ValueError("two members have one name")
        if self.num_pieces and max(self.member) >= len(self.members):
            raise ValueError("a piece belongs to no member")
        if any(
            not 0 < stored <= raw <= MOST_PIECE_BYTES
            for stored, raw in zip(self.stored_length, self.raw_length, strict=True)
        ):
            raise ValueError("the length of a piece is wrong")
        if self.raw_bytes > plain_limit(self.end - self.offset):
            raise ValueError("its members unpack to far more than an index could hold")

    def _sorted_by_place(self) -> list[tuple[list[int], list[int]]]:
        """Return for each member the starts of its pieces and their numbers, in order."""
        found: list[tuple[list[int], list[int]]] = [([], []) for _ in self.members]
        ends = [0] * len(self.members)
        raw_start = self.raw_start
        for piece in sorted(range(self.num_pieces), key=raw_start.__getitem__):
            member, start = self.member[piece], raw_start[piece]
            if start != ends[member]:
                raise ValueError("its pieces do not cover a member")
            starts, pieces = found[member]
            starts.append(start)
            pieces.append(piece)
            ends[member] = start + self.raw_length[piece]
        if ends != [size for _, size in self.members]:
            raise ValueError("its pieces do not cover a member")
        return found
