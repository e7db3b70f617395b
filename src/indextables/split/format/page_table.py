"""Offsets, rows and checksums of the pages of every column chunk.

Parquet's own page index has the same without checksums, in a form that is slow to read. This table consists of arrays
of 32-bit numbers. For each chunk: the start of its pages in the later arrays, and the CRC of all its bytes. For each
page: its offset in the chunk, its first row in the row group, and the CRC of its header and data. A dictionary page has
its own entry before the pages that need it, with first row 0 like the page after it. A column of several leaves has one
entry per chunk, since its leaves break into pages at different rows.
"""

from __future__ import annotations

import mmap
import struct
import sys
import zlib
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from indextables.errors import SchemaError
from indextables.protocol.thrift import read_struct
from indextables.runtime.resources import open_file
from indextables.split.format.layout import MAGIC
from indextables.split.format.page_headers import DATA_PAGE, number_of

_WORD = 4
_MOST = (1 << 32) - 1
_DICTIONARY, _DATA_V2 = 2, 3
_KIND, _STORED_BYTES, _V2_HEADER, _NUM_ROWS = 1, 3, 8, 3


class Pages(NamedTuple):
    """The pages of one column chunk."""

    offsets: tuple[int, ...]
    first_rows: tuple[int, ...]
    checksums: tuple[int, ...]
    checksum: int

    @property
    def has_dictionary(self) -> bool:
        return len(self.first_rows) > 1 and self.first_rows[1] == 0


class PageTable:
    """The pages of every chunk, by row group and then by column."""

    def __init__(self, data: bytes | memoryview) -> None:
        """Parse a page table; raise `ValueError` if the bytes are not one."""
        words = array("I")
        if words.itemsize != _WORD or len(data) % _WORD or len(data) < 2 * _WORD:
            raise ValueError("it is too short")
        words.frombytes(data)
        if sys.byteorder == "big":
            words.byteswap()
        self.num_chunks = words[0]
        head = 2 * (self.num_chunks + 1)
        if len(words) < head:
            raise ValueError("it is too short")
        self._starts = words[1 : self.num_chunks + 2]
        self._checksums = words[self.num_chunks + 2 : head]
        num_pages = self._starts[-1]
        if len(words) != head + 3 * num_pages or list(self._starts) != sorted(self._starts):
            raise ValueError("its length is wrong")
        self.offsets, self.first_rows, self.checksums = (
            words[head + at * num_pages : head + (at + 1) * num_pages] for at in range(3)
        )
        """Offsets, first rows and checksums of all pages; those of a chunk are at `place_of`."""

    def place_of(self, chunk: int) -> tuple[int, int]:
        """Return the first page of a chunk, and the first page behind it."""
        return self._starts[chunk], self._starts[chunk + 1]

    def has_dictionary(self, chunk: int) -> bool:
        """Return whether the first page of a chunk is a dictionary."""
        start, end = self.place_of(chunk)
        return end - start > 1 and self.first_rows[start + 1] == 0

    def pages(self, chunk: int) -> Pages:
        """Return the pages of a chunk."""
        start, end = self.place_of(chunk)
        offsets, rows, checksums = (
            tuple(values[start:end]) for values in (self.offsets, self.first_rows, self.checksums)
        )
        return Pages(offsets, rows, checksums, self._checksums[chunk])

    def checksum(self, chunk: int) -> int:
        """Return the CRC of all bytes of a chunk."""
        return int(self._checksums[chunk])

    def num_pages(self, chunks: range) -> int:
        """Return the total number of pages of some chunks."""
        return sum(self._starts[chunk + 1] - self._starts[chunk] for chunk in chunks)


def encode_page_table(chunks: Sequence[Pages]) -> bytes:
    """Encode the table of all chunks."""
    starts = [0]
    for chunk in chunks:
        starts.append(starts[-1] + len(chunk.offsets))
    words = [len(chunks), *starts, *(chunk.checksum for chunk in chunks)]
    for name in ("offsets", "first_rows", "checksums"):
        words += [value for chunk in chunks for value in getattr(chunk, name)]
    return struct.pack(f"<{len(words)}I", *words)


def find_pages(path: str, end: int, group_rows: Sequence[int], leaf_counts: Sequence[int]) -> list[Pages]:
    """Find the pages of a file whose row groups end at `end`.

    `leaf_counts` are the numbers of leaves of the columns. The file has no footer yet, so this walks from page to page.
    """
    if end == len(MAGIC):
        return []
    with (
        open(path, "rb", opener=open_file) as file,
        mmap.mmap(file.fileno(), end, prot=mmap.PROT_READ) as data,
        memoryview(data) as view,
    ):
        walk = _Walk(view)
        chunks = []
        for num_rows in group_rows:
            for leaves in leaf_counts:
                chunks += [walk.chunk(num_rows, paged=leaves == 1) for _ in range(leaves)]
        if walk.position != end:
            raise SchemaError(f"cannot write a split because its pages end at {walk.position} and not at {end}")
    return chunks


class _Walk:
    """A walk from page to page."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.position = len(MAGIC)

    def chunk(self, num_rows: int, *, paged: bool) -> Pages:
        """Return the pages of the chunk of `num_rows` rows at the current position."""
        start = self.position
        found = list(self._pages(num_rows))
        if self.position - start > _MOST:
            raise SchemaError("cannot write a split because the values of one row are larger than 4 GiB")
        checksum = zlib.crc32(self._data[start : self.position])
        if not paged:
            return Pages((0,), (0,), (checksum,), checksum)
        offsets, rows, checksums = zip(*found, strict=True)
        return Pages(tuple(offset - start for offset in offsets), rows, checksums, checksum)

    def _pages(self, num_rows: int) -> Iterator[tuple[int, int, int]]:
        row = 0
        while row < num_rows:
            start = self.position
            end, rows = self._facts(start)
            yield start, row, zlib.crc32(self._data[start:end])
            self.position = end
            row += rows

    def _facts(self, start: int) -> tuple[int, int]:
        """Return the end of a page, and its number of rows; a dictionary has none."""
        found = DATA_PAGE.match(self._data, start)
        if found is not None:
            size, rows = found.groups()
            return found.end() + number_of(size), number_of(rows)
        header, end = read_struct(self._data, start)
        if header[_KIND] not in (_DICTIONARY, _DATA_V2):
            raise SchemaError(f"cannot write a split because it has a page of type {header[_KIND]}")
        return end + header[_STORED_BYTES], header[_V2_HEADER][_NUM_ROWS] if header[_KIND] == _DATA_V2 else 0
