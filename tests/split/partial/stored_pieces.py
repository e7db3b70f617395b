"""Indexes made of random bytes, stored in pieces, for tests of the cache and of fetches."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Iterable, Sequence

import pyarrow as pa

from indextables.config import Config
from indextables.split.partial.piece_table import PieceColumns, PieceTable
from indextables.split.partial.sparse_cache import SparseCache, SparseEntry

OFFSET = 1_000
_MOST = 256 << 10


class StoredPieces:
    """An index as it is stored in a split; the same seed has the same bytes."""

    def __init__(self, seed: int = 0, *, num_members: int = 3, most_bytes: int = 40_000) -> None:
        rng = random.Random(seed)
        self.members = {
            f"{number}.idx": rng.choice([rng.randbytes, lambda size: b"aab" * (size // 3)])(rng.randrange(most_bytes))
            for number in range(num_members)
        }
        self.reads: list[tuple[int, int]] = []
        parts, stored = [], []
        for number, data in enumerate(self.members.values()):
            cuts = sorted({*range(0, len(data), _MOST), len(data), *(rng.randrange(len(data) + 1) for _ in range(12))})
            for start, end in itertools.pairwise(cuts):
                raw = data[start:end]
                packed = bytes(pa.Codec("zstd").compress(raw, asbytes=True))
                kept = packed if len(packed) < len(raw) else raw
                parts.append((number, start, len(raw), len(kept), zlib.crc32(kept), zlib.crc32(raw)))
                stored.append(kept)
        order = rng.sample(range(len(parts)), len(parts))
        self.stored = b"".join(stored[piece] for piece in order)
        columns = zip(*(parts[piece] for piece in order), strict=True)
        sizes = [(name, len(data)) for name, data in self.members.items()]
        self.table = PieceTable(sizes, PieceColumns(*columns), offset=OFFSET, first_tail=max(0, len(parts) - 2))

    @property
    def num_pieces(self) -> int:
        return self.table.num_pieces

    def raw(self, piece: int) -> bytes:
        """The unpacked bytes of a piece."""
        table = self.table
        start = table.raw_start[piece]
        return self.members[table.members[table.member[piece]][0]][start : start + table.raw_length[piece]]

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read ranges of the split; note them."""
        self.reads += ranges
        return [self.stored[start - OFFSET : end - OFFSET] for start, end in ranges]

    def fill(self, entry: SparseEntry, pieces: Iterable[int]) -> None:
        entry.fill([(piece, self.raw(piece)) for piece in pieces])

    def check(self, entry: SparseEntry, pieces: Iterable[int]) -> None:
        """Refuse an entry whose files have other bytes in these pieces."""
        table = self.table
        for piece in pieces:
            name, _ = table.members[table.member[piece]]
            with open(f"{entry.directory}/{name}", "rb") as file:
                file.seek(table.raw_start[piece])
                assert file.read(table.raw_length[piece]) == self.raw(piece), piece


def sparse_cache(place, **options: str) -> SparseCache:
    return SparseCache(Config.resolve(options={"cache.disk.path": str(place), **options}))


def opened(place, stored: StoredPieces, identity: str = "a", **options: str) -> SparseEntry:
    entry = sparse_cache(place, **options).open(identity, stored.table)
    assert entry is not None
    return entry
