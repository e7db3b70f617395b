"""Read one column in some row groups: choose the bytes, and decode them.

Arrow reads whole column chunks of whole files. So the needed pages are put before a footer made for them, as a small
Parquet file of one column, and Arrow reads that file whole. For few rows only their pages are read. Each page is
verified before it is decoded.

Also takes and casts Arrow columns of types that Arrow itself does not support.
"""

from __future__ import annotations

import base64
import bisect
import copy
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from indextables.arrow_values import to_array, to_scalar
from indextables.protocol import thrift
from indextables.runtime.caching import lazy_property
from indextables.runtime.resources import refuse_shortage
from indextables.split.format.layout import MAGIC, check_crc, corrupt
from indextables.split.format.page_table import Pages, PageTable


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
_SCHEMA, _NAME, _NUM_CHILDREN = 2, 4, 5
_V2_HEADER, _NUM_VALUES = 8, 1


class Run(NamedTuple):
    """Adjacent pages of one chunk with length and checksum of each, or a whole chunk."""

    start: int
    end: int
    lengths: Sequence[int]
    checksums: Sequence[int]


class LeafPick(NamedTuple):
    """The pages to read of one leaf in a row group; a dictionary page comes first."""

    leaf: int
    runs: list[Run]
    dictionary_bytes: int
    num_values: int | None


class Pick(NamedTuple):
    """The part of a row group to read for a column.

    `num_rows` is the number of rows read, `wanted` the rows to keep, or None for all.
    """

    leaves: list[LeafPick]
    num_rows: int
    wanted: pa.Array | list[int] | None

    @property
    def runs(self) -> Iterator[Run]:
        return (run for leaf in self.leaves for run in leaf.runs)


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
        self._key = key
        self._metadata = metadata
        self._table = table
        self._rows_end = rows_end
        self._field = field
        self.leaves = leaves
        self._elements = elements
        self._is_coded = False

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

    def pick(self, group: int, num_rows: int, wanted: pa.Array | None) -> Pick:
        """Choose the pages of a row group for the wanted rows, in ascending order, or all."""
        if wanted is not None and len(self.leaves) == 1:
            (leaf,) = self.leaves
            pages = self._pages(group, leaf)
            if len(wanted) < len(pages.offsets):
                return self._some(group, num_rows, wanted, pages)
        return Pick([self._whole(group, leaf) for leaf in self.leaves], num_rows, wanted)

    def decode(self, picks: Sequence[Pick], stored: Sequence[Sequence[bytes]]) -> pa.ChunkedArray:
        """Decode the wanted rows from the bytes of all runs of each pick."""
        for pick, parts in zip(picks, stored, strict=True):
            for run, part in zip(pick.runs, parts, strict=True):
                self._check(run, part)
        num_rows = sum(pick.num_rows for pick in picks)
        found = self._read(picks, stored)
        if len(found) != num_rows:
            raise corrupt(self._key, f"{num_rows} rows were expected and {len(found)} were read")
        wanted = _all_wanted(picks)
        if wanted is not None and len(wanted) < num_rows:
            found = take_values(found, wanted)
        if self._is_coded and found.type.equals(pa.dictionary(pa.int32(), self._field.type)):
            return found
        return cast_values(found, self._field.type)

    def _pages(self, group: int, leaf: int) -> Pages:
        return self._table.pages(group * self._metadata.num_columns + leaf)

    def _place(self, group: int, leaf: int) -> tuple[int, int]:
        column = self._metadata.row_group(group).column(leaf)
        start = column.data_page_offset
        if column.has_dictionary_page and column.dictionary_page_offset is not None:
            start = min(start, column.dictionary_page_offset)
        end = start + column.total_compressed_size
        if not len(MAGIC) <= start < end <= self._rows_end:
            raise corrupt(self._key, "a part of its rows has an impossible offset")
        return start, end

    def _whole(self, group: int, leaf: int) -> LeafPick:
        start, end = self._place(group, leaf)
        run = Run(start, end, [end - start], [self._table.checksum(group * self._metadata.num_columns + leaf)])
        column = self._metadata.row_group(group).column(leaf)
        dictionary_bytes = column.data_page_offset - start
        return LeafPick(leaf, [run], dictionary_bytes, column.num_values)

    def _some(self, group: int, num_rows: int, wanted: pa.Array, pages: Pages) -> Pick:
        """Choose the pages that hold the rows, and the positions of the rows in them."""
        (leaf,) = self.leaves
        start, end = self._place(group, leaf)
        offsets, rows = [*pages.offsets, end - start], [*pages.first_rows, num_rows]
        chosen = [0] if pages.has_dictionary else []
        picks, page_end, held, shift = [], -1, 0, 0
        page = 0
        for row in wanted.to_pylist():
            if row >= page_end:
                page = bisect.bisect_right(rows, row, lo=page) - 1
                page_end = rows[page + 1]
                chosen.append(page)
                shift = held - rows[page]
                held += page_end - rows[page]
            picks.append(row + shift)
        runs = list(_runs(chosen, start, offsets, pages.checksums))
        if not all(start <= run.start < run.end <= end for run in runs):
            raise corrupt(self._key, "its pages have impossible offsets")
        dictionary_bytes = offsets[1] if pages.has_dictionary else 0
        num_values = held if self._is_flat else None
        return Pick([LeafPick(leaf, runs, dictionary_bytes, num_values)], held, picks)

    @lazy_property
    def _is_flat(self) -> bool:
        return all(self._metadata.schema.column(leaf).max_repetition_level == 0 for leaf in self.leaves)

    def _check(self, run: Run, stored: bytes) -> None:
        view, start = memoryview(stored), 0
        for length, checksum in zip(run.lengths, run.checksums, strict=True):
            check_crc(view[start : start + length], checksum, self._key, "a page of its rows")
            start += length

    def _read(self, picks: Sequence[Pick], stored: Sequence[Sequence[bytes]]) -> pa.ChunkedArray:
        try:
            file = pq.ParquetFile(
                self._image(picks, stored), pre_buffer=False, read_dictionary=self._looked_up_later(picks)
            )
            return file.read(use_threads=False).column(0)
        except (pa.ArrowException, OSError, ValueError, LookupError, TypeError) as error:
            refuse_shortage(f"read the split `{self._key}`", error)
            raise corrupt(self._key, f"its rows cannot be decoded ({error})") from error

    def _looked_up_later(self, picks: Sequence[Pick]) -> list[str] | None:
        """Return the columns to read as dictionaries, if asked or if few rows are wanted.

        Then only the words of these rows are looked up.
        """
        column = self._metadata.schema.column(self.leaves[0])
        is_word = column.physical_type == "BYTE_ARRAY" and column.max_definition_level <= 1 and self._is_flat
        is_partial = self._is_coded or all(pick.wanted is not None for pick in picks)
        if is_word and is_partial and all(pick.leaves[0].dictionary_bytes for pick in picks):
            return [column.path]
        return None

    def _image(self, picks: Sequence[Pick], stored: Sequence[Sequence[bytes]]) -> pa.BufferReader:
        """Build a Parquet file of the pages."""
        offset = len(MAGIC)
        groups = []
        for pick, parts in zip(picks, stored, strict=True):
            chunks = []
            left = iter(parts)
            for leaf in pick.leaves:
                own = [next(left) for _ in leaf.runs]
                num_bytes = sum(map(len, own))
                num_values = leaf.num_values if leaf.num_values is not None else _count_values(leaf.runs, own)
                chunks.append(self._chunk(leaf, offset, num_bytes, num_values))
                offset += num_bytes
            groups.append(
                thrift.struct({1: thrift.list_of(chunks), 2: thrift.i64(offset), 3: thrift.i64(pick.num_rows)})
            )
        footer = thrift.struct(
            {
                1: thrift.i32(2),
                2: thrift.list_of(self._schema),
                3: thrift.i64(sum(pick.num_rows for pick in picks)),
                4: thrift.list_of(groups),
                5: thrift.list_of([self._arrow_schema]),
            }
        ).data
        pages = (part for parts in stored for part in parts)
        return pa.BufferReader(b"".join([MAGIC, *pages, footer, struct.pack("<I", len(footer)), MAGIC]))

    def _chunk(self, pick: LeafPick, offset: int, num_bytes: int, num_values: int) -> thrift.Encoded:
        length = thrift.i64(num_bytes)
        fields = {5: thrift.i64(num_values), 6: length, 7: length, 9: thrift.i64(offset + pick.dictionary_bytes)}
        if pick.dictionary_bytes:
            fields[11] = thrift.i64(offset)
        return thrift.struct({2: thrift.i64(offset), 3: thrift.struct(fields, self._chunk_heads[pick.leaf], 4)})

    @lazy_property
    def _chunk_heads(self) -> dict[int, bytes]:
        """The first bytes of every chunk's metadata in a footer, per leaf."""
        path = thrift.list_of(thrift.binary(element.fields[_NAME]) for element in self._elements)
        heads = {}
        for leaf in self.leaves:
            column = self._metadata.row_group(0).column(leaf)
            fields = {
                1: thrift.i32(_TYPES.index(column.physical_type)),
                2: thrift.list_of([thrift.i32(0)]),
                3: path,
                4: thrift.i32(_CODECS[column.compression]),
            }
            heads[leaf] = thrift.begin_struct(fields)
        return heads

    @lazy_property
    def _schema(self) -> list[thrift.Encoded]:
        root = thrift.struct({_NAME: thrift.binary(b"schema"), _NUM_CHILDREN: thrift.i32(1)})
        return [root, *(thrift.raw_struct(element.data) for element in self._elements)]

    @lazy_property
    def _arrow_schema(self) -> thrift.Encoded:
        text = base64.b64encode(pa.schema([self._field]).serialize().to_pybytes())
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


def _runs(chosen: Sequence[int], start: int, offsets: Sequence[int], checksums: Sequence[int]) -> Iterator[Run]:
    """Group adjacent pages; the pages are in ascending order."""
    at = 0
    while at < len(chosen):
        first = chosen[at]
        end = at + 1
        while end < len(chosen) and chosen[end] == first + end - at:
            end += 1
        last = first + end - at
        lengths = [offsets[page + 1] - offsets[page] for page in range(first, last)]
        yield Run(start + offsets[first], start + offsets[last], lengths, checksums[first:last])
        at = end


def _all_wanted(picks: Sequence[Pick]) -> pa.Array | None:
    """Return the positions of the wanted rows among the rows of all picks."""
    if picks[0].wanted is None:
        return None
    few: list[int] = []
    parts, before = [], 0
    for pick in picks:
        if isinstance(pick.wanted, list):
            few += [row + before for row in pick.wanted]
        else:
            parts += [to_array(few, pa.int64()), pc.add(pick.wanted, to_scalar(before, pa.int64()))]
            few = []
        before += pick.num_rows
    return pa.concat_arrays([*parts, to_array(few, pa.int64())])


def _count_values(runs: Sequence[Run], stored: Sequence[bytes]) -> int:
    """Count the values of a repeated column's pages; a dictionary page has none."""
    total = 0
    for run, part in zip(runs, stored, strict=True):
        start = 0
        for length in run.lengths:
            header, _ = thrift.read_struct(part, start)
            total += header[_V2_HEADER][_NUM_VALUES] if _V2_HEADER in header else 0
            start += length
    return total
