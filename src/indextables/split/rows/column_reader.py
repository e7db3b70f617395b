"""Read columns in some row groups: choose the bytes, and decode them.

Arrow reads whole column chunks of whole files. So the needed pages are put before a footer made for them, as a small
Parquet file, and Arrow reads that file whole. Columns whose pages hold the same rows share one file, as each file has
its own cost. For few rows only their pages are read. Each page is verified before it is decoded.

Also takes and casts Arrow columns of types that Arrow itself does not support.
"""

from __future__ import annotations

import base64
import bisect
import copy
import functools
import struct
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from indextables.arrow_values import to_scalar
from indextables.protocol import thrift
from indextables.runtime.caching import lazy_property
from indextables.runtime.resources import refuse_shortage
from indextables.split.format.layout import MAGIC, check_crc, corrupt
from indextables.split.format.page_table import PageTable
from indextables.split.rows.joined_pages import join_pages


def take_rows(table: pa.Table, picks: pa.Array) -> pa.Table:
    """Return the picked rows of a table."""
    try:
        return table.take(picks)
    except pa.ArrowNotImplementedError:
        return pa.Table.from_arrays([take_values(column, picks) for column in table.columns], schema=table.schema)


def take_values(column: pa.ChunkedArray, picks: pa.Array) -> pa.ChunkedArray:
    """Return the picked rows of a column, including types such as string views."""
    try:
        return column.take(picks)
    except pa.ArrowNotImplementedError:
        chunks = [chunk for row in picks.to_pylist() for chunk in column.slice(row, 1).chunks]
        return pa.chunked_array([pa.concat_arrays(chunks)] if chunks else [], column.type)


def cast_values(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Cast a column to the type it was written with; Parquet has fewer types."""
    if column.type == kind:
        return column
    if pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(kind):
        return cast_values(column.cast(column.type.value_type), kind)
    if not pa.types.is_dictionary(kind) or pa.types.is_dictionary(column.type):
        return column.cast(kind)
    encoded = cast_values(column, kind.value_type).combine_chunks().dictionary_encode()
    indices = encoded.indices.cast(kind.index_type)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(indices, encoded.dictionary, ordered=kind.ordered)])


_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6}
# Field numbers of Parquet's headers.
_SCHEMA, _REPETITION, _NAME, _NUM_CHILDREN = 2, 3, 4, 5
_REQUIRED = 0
_V2_HEADER, _NUM_VALUES = 8, 1
_FEW_ROWS = 1_024


class LeafPick(NamedTuple):
    """The pages to read of one leaf in a row group; a dictionary page comes first.

    `ranges` are those of adjacent pages. `lengths` and `checksums` are those of each page, or of a whole chunk.
    """

    leaf: int
    ranges: list[tuple[int, int]]
    lengths: Sequence[int]
    checksums: Sequence[int]
    dictionary_bytes: int
    num_values: int | None


class _Place(NamedTuple):
    """Start and end of a chunk, the size of its dictionary, and its values."""

    start: int
    end: int
    dictionary_bytes: int
    num_values: int
    is_full: bool


class GroupRows(NamedTuple):
    """A row group, and its wanted rows by their numbers in the split; None for all."""

    group: int
    first_row: int
    num_rows: int
    wanted: memoryview[int] | None


class Pick(NamedTuple):
    """The part of a row group to read for a column.

    `num_rows` is the number of rows read. `kept` are the places of the wanted rows among them, or None if all rows of
    the group are read.
    """

    leaves: list[LeafPick]
    rows: GroupRows
    num_rows: int
    kept: list[int] | None

    @property
    def ranges(self) -> Sequence[tuple[int, int]]:
        if len(self.leaves) == 1:
            return self.leaves[0].ranges
        return [one for leaf in self.leaves for one in leaf.ranges]


class ColumnPicks(NamedTuple):
    """Parts of row groups to read for a column, and the bytes of their ranges."""

    column: ColumnReader
    picks: Sequence[Pick]
    stored: Sequence[Sequence[bytes]]


class ColumnReader:
    """Reads the column `field` of the split `key`; `leaves` are its file columns."""

    def __init__(
        self,
        key: str,
        metadata: pq.FileMetaData,
        table: PageTable,
        rows_end: int,
        field: pa.Field,
        leaves: range,
        elements: Sequence[SchemaElement],
    ) -> None:
        self.key = key
        self._metadata = metadata
        self._num_columns: int = metadata.num_columns
        self._table = table
        self._rows_end = rows_end
        self.field = field
        self.leaves = leaves
        self._elements = elements
        self._is_coded = False
        self._places: dict[tuple[int, int], _Place] = {}

    def coded(self) -> ColumnReader:
        """Return a reader that keeps repeated texts as a dictionary."""
        if self.dictionary_bytes() is None:
            return self
        reader = copy.copy(self)
        reader._is_coded = True
        return reader

    @lazy_property
    def num_pages(self) -> int:
        """Number of pages in all row groups."""
        num_chunks = self._metadata.num_row_groups * self._metadata.num_columns
        return sum(self._table.num_pages(range(leaf, num_chunks, self._metadata.num_columns)) for leaf in self.leaves)

    @lazy_property
    def page_bytes(self) -> int:
        """Approximate memory per row for reading a page that holds it."""
        num_bytes: int = sum(
            self._metadata.row_group(group).column(leaf).total_uncompressed_size
            for group in range(self._metadata.num_row_groups)
            for leaf in self.leaves
        )
        return num_bytes // max(1, self.num_pages)

    def dictionary_bytes(self) -> int | None:
        """Return the stored size of the largest dictionary; None if a chunk has none."""
        sizes = [self._whole(group, self.leaves[0]).dictionary_bytes for group in range(self._metadata.num_row_groups)]
        return max(sizes) if len(self.leaves) == 1 and sizes and all(sizes) else None

    def pick(self, rows: GroupRows) -> Pick:
        """Choose the pages of a row group for the wanted rows, in ascending order, or all."""
        if rows.wanted is not None and len(self.leaves) == 1:
            first, end = self._table.place_of(self._chunk_number(rows.group, self.leaves[0]))
            if len(rows.wanted) < end - first:
                return self._some(rows, rows.wanted, first, end)
        return Pick([self._whole(rows.group, leaf) for leaf in self.leaves], rows, rows.num_rows, None)

    def can_read_with_others(self, picks: Sequence[Pick]) -> bool:
        """Return whether the picks may be read in one file with those of other columns."""
        return len(self._elements) == 1 and self._is_flat and not self._joins(picks)

    def finish(self, found: pa.ChunkedArray, num_rows: int, places: pa.Array | None) -> pa.ChunkedArray:
        """Take the wanted rows of those read, in the type of the column."""
        if len(found) != num_rows:
            raise corrupt(self.key, f"{num_rows} rows were expected and {len(found)} were read")
        if places is not None and len(places) < num_rows:
            found = take_values(found, places)
        if self._is_coded and found.type.equals(pa.dictionary(pa.int32(), self.field.type)):
            return found
        return cast_values(found, self.field.type)

    def _chunk_number(self, group: int, leaf: int) -> int:
        return group * self._num_columns + leaf

    def _place(self, group: int, leaf: int) -> _Place:
        """Return the place of a chunk, which is kept for the next search."""
        known = self._places.get((group, leaf))
        if known is None:
            column = self._metadata.row_group(group).column(leaf)
            start = column.data_page_offset
            if column.has_dictionary_page and column.dictionary_page_offset is not None:
                start = min(start, column.dictionary_page_offset)
            end = start + column.total_compressed_size
            if not len(MAGIC) <= start < end <= self._rows_end:
                raise corrupt(self.key, "a part of its rows has an impossible offset")
            known = _Place(start, end, column.data_page_offset - start, column.num_values, _is_full(column))
            self._places[group, leaf] = known
        return known

    def _whole(self, group: int, leaf: int) -> LeafPick:
        start, end, dictionary_bytes, num_values, _ = self._place(group, leaf)
        checksum = self._table.checksum(self._chunk_number(group, leaf))
        return LeafPick(leaf, [(start, end)], [end - start], [checksum], dictionary_bytes, num_values)

    def _some(self, rows: GroupRows, wanted: memoryview[int], first: int, end: int) -> Pick:
        """Choose the pages that hold the rows, and the places of the rows in them.

        The pages `first` to `end` of the page table are those of the chunk.
        """
        (leaf,) = self.leaves
        start, stop, *_ = self._place(rows.group, leaf)
        first_rows, first_row = self._table.first_rows, rows.first_row
        has_dictionary = self._table.has_dictionary(self._chunk_number(rows.group, leaf))
        chosen = [first] if has_dictionary else []
        kept: list[int] = []
        page, page_end, held, shift = first, -1, 0, 0
        for row in wanted:
            if row >= page_end:
                page = bisect.bisect_right(first_rows, row - first_row, page, end) - 1
                page_end = first_row + (first_rows[page + 1] if page + 1 < end else rows.num_rows)
                chosen.append(page)
                shift = held - first_rows[page] - first_row
                held += page_end - first_rows[page] - first_row
            kept.append(row + shift)
        ranges, lengths = self._ranges(chosen, start, stop, end)
        checksums = [self._table.checksums[page] for page in chosen]
        dictionary_bytes = self._table.offsets[first + 1] if has_dictionary else 0
        num_values = held if self._is_flat else None
        return Pick([LeafPick(leaf, ranges, lengths, checksums, dictionary_bytes, num_values)], rows, held, kept)

    def _ranges(
        self, chosen: Sequence[int], start: int, stop: int, end: int
    ) -> tuple[list[tuple[int, int]], list[int]]:
        """Return the ranges of adjacent pages, and the lengths of all pages.

        The chunk is at `start` to `stop`, and its last page is before `end`.
        """
        offsets, limit = self._table.offsets, stop - start
        ranges: list[tuple[int, int]] = []
        lengths: list[int] = []
        low, high = 0, 0
        for page in chosen:
            offset = offsets[page]
            behind = offsets[page + 1] if page + 1 < end else limit
            if not high <= offset < behind <= limit:
                raise corrupt(self.key, "its pages have impossible offsets")
            lengths.append(behind - offset)
            if offset > high:
                if high > low:
                    ranges.append((start + low, start + high))
                low = offset
            high = behind
        ranges.append((start + low, start + high))
        return ranges, lengths

    @lazy_property
    def _is_flat(self) -> bool:
        return all(self._metadata.schema.column(leaf).max_repetition_level == 0 for leaf in self.leaves)

    def verify(self, pick: Pick, stored: Sequence[bytes]) -> None:
        """Verify each page of a pick."""
        left = iter(stored)
        for leaf in pick.leaves:
            pages = zip(leaf.lengths, leaf.checksums, strict=True)
            for _ in leaf.ranges:
                data: bytes | memoryview = next(left)
                while data:
                    length, checksum = next(pages, (0, 0))
                    if not length:
                        raise corrupt(self.key, "its pages have impossible lengths")
                    if length == len(data):
                        check_crc(data, checksum, self.key, "a page of its rows")
                        break
                    data = memoryview(data)
                    check_crc(data[:length], checksum, self.key, "a page of its rows")
                    data = data[length:]

    def looked_up_later(self, picks: Sequence[Pick]) -> list[str]:
        """Return the columns to read as dictionaries, if asked or if few rows are wanted.

        Then only the words of these rows are looked up.
        """
        column = self._metadata.schema.column(self.leaves[0])
        is_word = column.physical_type == "BYTE_ARRAY" and column.max_definition_level <= 1 and self._is_flat
        is_partial = self._is_coded or all(pick.rows.wanted is not None for pick in picks)
        if is_word and is_partial and all(pick.leaves[0].dictionary_bytes for pick in picks):
            return [column.path]
        return []

    def _joins(self, picks: Sequence[Pick]) -> bool:
        return self._can_join and not any(pick.leaves[0].dictionary_bytes for pick in picks)

    def joined_image(self, picks: Sequence[Pick], stored: Sequence[Sequence[bytes]]) -> pa.Buffer | None:
        """Build a Parquet file of few large pages; None if they cannot be joined."""
        if not self._joins(picks):
            return None
        is_optional = self._is_optional(picks)
        joined = join_pages((part for parts in stored for part in parts), is_optional=is_optional)
        if joined is None:
            return None
        num_rows = sum(pick.num_rows for pick in picks)
        if joined.num_values != num_rows:
            raise ValueError(f"its pages have {joined.num_values} values for {num_rows} rows")
        start, num_bytes = len(MAGIC), thrift.i64(joined.num_bytes)
        fields = {5: thrift.i64(num_rows), 6: num_bytes, 7: num_bytes, 9: thrift.i64(start)}
        chunk = thrift.struct({2: thrift.i64(start), 3: thrift.struct(fields, self._unpacked_head, 4)})
        group = _row_group([chunk], start + joined.num_bytes, num_rows)
        return joined.image(_tail([ColumnPicks(self, picks, stored)], [group], num_rows))

    def chunks(self, pick: Pick, stored: Sequence[bytes], offset: int) -> tuple[list[thrift.Encoded], int]:
        """Return the metadata of a pick's chunks from `offset` on, and their end."""
        chunks = []
        left = iter(stored)
        for leaf in pick.leaves:
            own = [next(left) for _ in leaf.ranges]
            num_bytes = sum(map(len, own))
            num_values = leaf.num_values if leaf.num_values is not None else _count_values(leaf.lengths, own)
            chunks.append(self._chunk(leaf, offset, num_bytes, num_values))
            offset += num_bytes
        return chunks, offset

    def _chunk(self, pick: LeafPick, offset: int, num_bytes: int, num_values: int) -> thrift.Encoded:
        length = thrift.i64(num_bytes)
        fields = {5: thrift.i64(num_values), 6: length, 7: length, 9: thrift.i64(offset + pick.dictionary_bytes)}
        if pick.dictionary_bytes:
            fields[11] = thrift.i64(offset)
        return thrift.struct({2: thrift.i64(offset), 3: thrift.struct(fields, self._chunk_heads[pick.leaf], 4)})

    @lazy_property
    def _chunk_heads(self) -> dict[int, bytes]:
        """The first bytes of every chunk's metadata in a footer, per leaf."""
        return {
            leaf: self._chunk_head(leaf, _CODECS[self._metadata.row_group(0).column(leaf).compression])
            for leaf in self.leaves
        }

    @lazy_property
    def _unpacked_head(self) -> bytes:
        """The first bytes of the metadata of a chunk that is not compressed."""
        return self._chunk_head(self.leaves[0], _CODECS["UNCOMPRESSED"])

    def _chunk_head(self, leaf: int, codec: int) -> bytes:
        path = thrift.list_of(thrift.binary(element.fields[_NAME]) for element in self._elements)
        kind = _TYPES.index(self._metadata.row_group(0).column(leaf).physical_type)
        return thrift.begin_struct(
            {1: thrift.i32(kind), 2: thrift.list_of([thrift.i32(0)]), 3: path, 4: thrift.i32(codec)}
        )

    @lazy_property
    def _can_join(self) -> bool:
        """Whether pages of plain values may become one page; flags share bytes."""
        if len(self.leaves) > 1 or not self._is_flat:
            return False
        column = self._metadata.schema.column(self.leaves[0])
        codec = self._metadata.row_group(0).column(self.leaves[0]).compression
        is_simple = column.max_definition_level <= 1 and column.physical_type != "BOOLEAN"
        is_plain = set(self._metadata.row_group(0).column(self.leaves[0]).encodings) <= {"PLAIN", "RLE"}
        return bool(is_simple and is_plain and codec in ("ZSTD", "UNCOMPRESSED"))

    def _is_optional(self, picks: Sequence[Pick]) -> bool:
        """Return whether the image must allow nulls; without them, Arrow decodes faster."""
        if self._metadata.schema.column(self.leaves[0]).max_definition_level == 0:
            return False
        return not (self._required and all(self._place(pick.rows.group, self.leaves[0]).is_full for pick in picks))

    def elements(self, picks: Sequence[Pick]) -> list[thrift.Encoded]:
        """Return the schema nodes for a file of the picks."""
        if self._required and not self._is_optional(picks):
            return [thrift.raw_struct(self._required)]
        return [thrift.raw_struct(element.data) for element in self._elements]

    @lazy_property
    def _required(self) -> bytes:
        """The schema node of the column without nulls; empty if it is nested."""
        if len(self._elements) > 1 or not self._is_flat:
            return b""
        return thrift.with_short_number(self._elements[0].data, _REPETITION, _REQUIRED) or b""


def decode_together(columns: Sequence[ColumnPicks], places: pa.Array | None) -> list[pa.ChunkedArray]:
    """Verify and decode columns as one file; the picks of all have the same rows.

    `places` are those of the wanted rows among the rows read; None for all.
    """
    for column, picks, stored in columns:
        for pick, parts in zip(picks, stored, strict=True):
            column.verify(pick, parts)
    key = columns[0].column.key
    num_rows = sum(pick.num_rows for pick in columns[0].picks)
    coded = [path for column, picks, _ in columns for path in column.looked_up_later(picks)]
    try:
        image = columns[0].column.joined_image(*columns[0][1:]) if len(columns) == 1 else None
        file = pq.ParquetFile(
            pa.BufferReader(_image(columns) if image is None else image),
            pre_buffer=False,
            read_dictionary=coded or None,
        )
        found = file.read(use_threads=False)
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError) as error:
        refuse_shortage(f"read the split `{key}`", error)
        raise corrupt(key, f"its rows cannot be decoded ({error})") from error
    return [one.column.finish(found.column(at), num_rows, places) for at, one in enumerate(columns)]


def _image(columns: Sequence[ColumnPicks]) -> bytes:
    """Build a Parquet file of the pages."""
    offset, groups, pages = len(MAGIC), [], [MAGIC]
    picks_of_first = columns[0].picks
    for at, pick in enumerate(picks_of_first):
        chunks: list[thrift.Encoded] = []
        for column, picks, stored in columns:
            own, offset = column.chunks(picks[at], stored[at], offset)
            chunks += own
            pages += stored[at]
        groups.append(_row_group(chunks, offset, pick.num_rows))
    return b"".join([*pages, _tail(columns, groups, sum(pick.num_rows for pick in picks_of_first))])


def _tail(columns: Sequence[ColumnPicks], groups: Sequence[thrift.Encoded], num_rows: int) -> bytes:
    """Return the footer of a file, and its end."""
    root = thrift.struct({_NAME: thrift.binary(b"schema"), _NUM_CHILDREN: thrift.i32(len(columns))})
    elements = [root, *(element for column, picks, _ in columns for element in column.elements(picks))]
    footer = thrift.struct(
        {
            1: thrift.i32(2),
            2: thrift.list_of(elements),
            3: thrift.i64(num_rows),
            4: thrift.list_of(groups),
            5: thrift.list_of([_arrow_schema(tuple(one.column.field for one in columns))]),
        }
    ).data
    return footer + struct.pack("<I", len(footer)) + MAGIC


@functools.lru_cache(1_024)
def _arrow_schema(fields: tuple[pa.Field, ...]) -> thrift.Encoded:
    text = base64.b64encode(pa.schema(fields).serialize().to_pybytes())
    return thrift.struct({1: thrift.binary(b"ARROW:schema"), 2: thrift.binary(text)})


class SchemaElement(NamedTuple):
    """A node of the file's schema, and its bytes."""

    fields: dict[int, Any]
    data: bytes


def schema_elements(footer: memoryview, key: str) -> list[list[SchemaElement]]:
    """Return the schema nodes of each column of a file, from its footer."""
    try:
        elements = iter([SchemaElement(*found) for found in thrift.read_list_spans(footer, _SCHEMA)[1:]])
    except ValueError as error:
        raise corrupt(key, f"its Parquet footer cannot be understood ({error})") from error
    columns = []
    for element in elements:
        column = [element]
        missing = element.fields.get(_NUM_CHILDREN, 0)
        while missing:
            child = next(elements, None)
            if child is None:
                raise corrupt(key, "its Parquet footer cannot be understood (a column lacks a child)")
            column.append(child)
            missing += child.fields.get(_NUM_CHILDREN, 0) - 1
        columns.append(column)
    return columns


def _is_full(column: pq.ColumnChunkMetaData) -> bool:
    """Return whether a chunk has no nulls, by its statistics."""
    stats = column.statistics
    return stats is not None and stats.has_null_count and stats.null_count == 0


def _row_group(chunks: Sequence[thrift.Encoded], num_bytes: int, num_rows: int) -> thrift.Encoded:
    return thrift.struct({1: thrift.list_of(chunks), 2: thrift.i64(num_bytes), 3: thrift.i64(num_rows)})


def places_of(picks: Sequence[Pick]) -> pa.Array | None:
    """Return the places of the wanted rows among the rows read; None for all."""
    few, before = array("q"), 0
    parts: list[pa.Array] = []
    for pick in picks:
        first_row, wanted = pick.rows.first_row, pick.rows.wanted
        if wanted is None:
            return None
        if pick.kept is not None:
            few.extend([row + before for row in pick.kept])
        elif len(wanted) <= _FEW_ROWS:
            few.extend([row - first_row + before for row in wanted])
        else:
            numbers = pa.Array.from_buffers(pa.int64(), len(wanted), [None, pa.py_buffer(wanted)])
            parts += [_numbers(few), pc.add(numbers, to_scalar(before - first_row, pa.int64()))]
            few = array("q")
        before += pick.num_rows
    return pa.concat_arrays([*parts, _numbers(few)]) if parts else _numbers(few)


def _numbers(values: array[int]) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def _count_values(lengths: Sequence[int], stored: Sequence[bytes]) -> int:
    """Count the values of a repeated column's pages; a dictionary page has none."""
    data, start, total = b"".join(stored), 0, 0
    for length in lengths:
        header, _ = thrift.read_struct(data, start)
        total += header[_V2_HEADER][_NUM_VALUES] if _V2_HEADER in header else 0
        start += length
    return total
