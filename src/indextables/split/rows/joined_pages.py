"""Join pages of plain values, so that Arrow decodes them as few large pages.

Arrow makes a decompressor for every page, and sets up decoders for every page. For pages of a few kilobytes this takes
longer than their values. So all pages of a column are decompressed here as one stream, and the values of pages without
nulls become one page. A page with nulls keeps its own levels. Pages of any other form are left to Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from indextables.protocol import thrift
from indextables.protocol.varints import unsigned
from indextables.split.format.layout import MAGIC
from indextables.split.format.page_headers import COMPRESSED, PLAIN_PAGE, number_of

_NONE = b"\0"
_MOST_BYTES = 1 << 30
_DATA_V2 = 3


class _Part:
    """Pages that become one page: one page with nulls, or adjacent pages without."""

    __slots__ = ("is_compressed", "levels", "num_nulls", "num_values", "raw_length", "values")

    def __init__(self, levels: bytes | None, num_nulls: int, *, is_compressed: bool) -> None:
        self.levels = levels
        self.num_nulls = num_nulls
        self.is_compressed = is_compressed
        self.num_values = 0
        self.raw_length = 0
        self.values: list[memoryview] = []


class JoinedPages:
    """Pages of one chunk, joined and uncompressed."""

    def __init__(self, parts: Sequence[_Part], *, is_optional: bool) -> None:
        self._parts = [(_head(part, is_optional), part) for part in parts]
        self.num_values = sum(part.num_values for part in parts)
        self.num_bytes = sum(len(head) + part.raw_length for head, part in self._parts)

    def image(self, tail: bytes) -> pa.Buffer:
        """Return the pages between the start and the end of a Parquet file.

        Raises `ValueError` if pages do not have the sizes they claim.
        """
        end = len(MAGIC) + self.num_bytes
        image = pa.allocate_buffer(end + len(tail))  # Arrow reuses memory, where Python asks the system for it
        view = memoryview(image).cast("B")
        view[: len(MAGIC)] = MAGIC
        view[end:] = tail
        _fill(view[len(MAGIC) : end], self._parts)
        return image


def join_pages(stored: Iterable[bytes], *, is_optional: bool) -> JoinedPages | None:
    """Join the pages of a flat column; None if Arrow must decode them."""
    parts = _find_parts(stored)
    if not parts or sum(part.raw_length for part in parts) > _MOST_BYTES:
        return None
    return JoinedPages(parts, is_optional=is_optional)


def _find_parts(stored: Iterable[bytes]) -> list[_Part] | None:
    """Group the pages; None if one is not of plain values by Arrow's writer."""
    found: list[_Part] = []
    part, joined_flag = None, b""
    for data in stored:
        view, at, length = memoryview(data), 0, len(data)
        while at < length:
            header = PLAIN_PAGE.match(data, at)
            if header is None:
                return None
            raw, size, values, nulls, levels, flag = header.groups()
            start, levels_length = header.end(), number_of(levels)
            at, first = start + number_of(size), start + levels_length
            raw_length = number_of(raw) - levels_length
            if first > at or at > length or raw_length < 0:
                return None
            if part is None or nulls != _NONE or flag != joined_flag:
                is_alone = nulls != _NONE
                part = _Part(
                    data[start:first] if is_alone else None, number_of(nulls), is_compressed=flag == COMPRESSED
                )
                joined_flag = b"" if is_alone else flag
                found.append(part)
            part.num_values += number_of(values)
            if raw_length:
                part.raw_length += raw_length
                part.values.append(view[first:at])
    return found


def _head(part: _Part, is_optional: bool) -> bytes:
    """Return header and levels of a page."""
    levels = part.levels
    if levels is None:  # all values are there, in one run
        levels = unsigned(part.num_values << 1) + b"\1" if is_optional else b""
    size = thrift.i32(len(levels) + part.raw_length)
    fields = {
        1: thrift.i32(part.num_values),
        2: thrift.i32(part.num_nulls),
        3: thrift.i32(part.num_values),
        4: thrift.i32(0),
        5: thrift.i32(len(levels)),
        6: thrift.i32(0),
        7: thrift.flag(is_set=False),
    }
    return thrift.struct({1: thrift.i32(_DATA_V2), 2: size, 3: size, 8: thrift.struct(fields)}).data + levels


def _fill(image: memoryview, parts: Sequence[tuple[bytes, _Part]]) -> None:
    """Write the pages with their values decompressed."""
    frames = _concatenated([frame for _, part in parts if part.is_compressed for frame in part.values])
    stream = pa.CompressedInputStream(pa.BufferReader(frames), "zstd")
    at = 0
    for head, part in parts:
        image[at : at + len(head)] = head
        at += len(head)
        end = at + part.raw_length
        if part.is_compressed and part.raw_length:
            if stream.readinto(image[at:end]) != part.raw_length:
                raise ValueError("its pages have fewer values than they claim")
        elif part.raw_length:
            image[at:end] = b"".join(part.values)
        at = end
    if frames.size and stream.read(1):
        raise ValueError("its pages have more values than they claim")


def _concatenated(parts: Sequence[memoryview]) -> pa.Buffer:
    joined = pa.allocate_buffer(sum(map(len, parts)))
    view, at = memoryview(joined).cast("B"), 0
    for part in parts:
        end = at + len(part)
        view[at:end] = part
        at = end
    return joined
