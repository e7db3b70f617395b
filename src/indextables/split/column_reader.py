"""The values of one column in some row groups: which bytes they need, and their decoding.

Arrow reads whole column chunks of whole files. So the pages that are needed are put behind a footer made for them, as a
small Parquet file of one column, which Arrow then reads whole. Of few rows that are only the pages that hold one. Each
page is verified before it is decoded.
"""

from __future__ import annotations

import base64
import bisect
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from indextables.caching import lazy_property
from indextables.protocol import thrift
from indextables.resources import refuse_shortage
from indextables.split.layout import MAGIC, check_crc, corrupt
from indextables.split.page_table import Pages, PageTable
from indextables.split.taking import cast_values, take_values

_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6}
# Field numbers of Parquet's headers.
_SCHEMA, _NAME, _NUM_CHILDREN = 2, 4, 5
_V2_HEADER, _NUM_VALUES = 8, 1


class Run(NamedTuple):
    """Pages of one chunk that stand one behind the other, and the length and checksum of each; or a whole chunk."""

    start: int
    end: int
    lengths: Sequence[int]
    checksums: Sequence[int]


class LeafPick(NamedTuple):
    """The pages of one leaf in a row group that are read. A dictionary page comes first."""

    leaf: int
    runs: list[Run]
    dictionary_bytes: int
    num_values: int | None


class Pick(NamedTuple):
    """What is read of a column in one row group: how many rows that are, and which of them are wanted, or all."""

    leaves: list[LeafPick]
    num_rows: int
    wanted: pa.Array | list[int] | None

    @property
    def runs(self) -> Iterator[Run]:
        return (run for leaf in self.leaves for run in leaf.runs)


class ColumnReader:
    """Reads the column `field` of the split `key`, whose leaves in the file are `leaves`."""

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
        self._leaves = leaves
        self._elements = elements

    @lazy_property
    def page_bytes(self) -> int:
        """About how much a row takes in memory while a page that holds it is read."""
        groups = range(self._metadata.num_row_groups)
        columns = self._metadata.num_columns
        num_bytes: int = sum(
            self._metadata.row_group(group).column(leaf).total_uncompressed_size
            for group in groups
            for leaf in self._leaves
        )
        num_pages = sum(self._table.num_pages(range(leaf, len(groups) * columns, columns)) for leaf in self._leaves)
        return num_bytes // max(1, num_pages)

    def pick(self, group: int, num_rows: int, wanted: pa.Array | None) -> Pick:
        """What to read of a row group of so many rows for those that are wanted, which ascend, or for all."""
        if wanted is not None and len(self._leaves) == 1:
            (leaf,) = self._leaves
            pages = self._pages(group, leaf)
            if len(wanted) < len(pages.offsets):
                return self._some(group, num_rows, wanted, pages)
        return Pick([self._whole(group, leaf) for leaf in self._leaves], num_rows, wanted)

    def decode(self, picks: Sequence[Pick], stored: Sequence[Sequence[bytes]]) -> pa.ChunkedArray:
        """The wanted rows, from the bytes of all runs of each pick."""
        for pick, parts in zip(picks, stored, strict=True):
            for run, part in zip(pick.runs, parts, strict=True):
                self._check(run, part)
        num_rows = sum(pick.num_rows for pick in picks)
        found = self._read(picks, stored)
        if len(found) != num_rows:
            raise corrupt(self._key, f"{num_rows} rows were to be read and {len(found)} came")
        wanted = _all_wanted(picks)
        if wanted is not None and len(wanted) < num_rows:
            found = take_values(found, wanted)
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
            raise corrupt(self._key, "a part of its rows stands where no row can")
        return start, end

    def _whole(self, group: int, leaf: int) -> LeafPick:
        start, end = self._place(group, leaf)
        run = Run(start, end, [end - start], [self._table.checksum(group * self._metadata.num_columns + leaf)])
        column = self._metadata.row_group(group).column(leaf)
        dictionary_bytes = column.data_page_offset - start
        return LeafPick(leaf, [run], dictionary_bytes, column.num_values)

    def _some(self, group: int, num_rows: int, wanted: pa.Array, pages: Pages) -> Pick:
        """The pages that hold rows, and where in them the rows stand."""
        (leaf,) = self._leaves
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
            raise corrupt(self._key, "its pages stand where no page can")
        dictionary_bytes = offsets[1] if pages.has_dictionary else 0
        num_values = held if self._is_flat else None
        return Pick([LeafPick(leaf, runs, dictionary_bytes, num_values)], held, picks)

    @lazy_property
    def _is_flat(self) -> bool:
        return all(self._metadata.schema.column(leaf).max_repetition_level == 0 for leaf in self._leaves)

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
        """A column of words from a dictionary, where few rows are wanted: only theirs are looked up then."""
        column = self._metadata.schema.column(self._leaves[0])
        is_word = column.physical_type == "BYTE_ARRAY" and column.max_definition_level <= 1 and self._is_flat
        if is_word and all(pick.wanted is not None and pick.leaves[0].dictionary_bytes for pick in picks):
            return [column.path]
        return None

    def _image(self, picks: Sequence[Pick], stored: Sequence[Sequence[bytes]]) -> pa.BufferReader:
        """A Parquet file of the pages."""
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
        """What every chunk of a leaf begins with in a footer."""
        path = thrift.list_of(thrift.binary(element.fields[_NAME]) for element in self._elements)
        heads = {}
        for leaf in self._leaves:
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
    """A node of the file's schema, and the bytes that it stands in."""

    fields: dict[int, Any]
    data: bytes


def schema_elements(footer: memoryview, key: str) -> list[list[SchemaElement]]:
    """The nodes of each column of a file, from its footer."""
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
    """Pages that ascend, those together that stand one behind the other."""
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
    """Where the wanted rows stand in those of all picks together."""
    if picks[0].wanted is None:
        return None
    few: list[int] = []
    parts, before = [], 0
    for pick in picks:
        if isinstance(pick.wanted, list):
            few += [row + before for row in pick.wanted]
        else:
            parts += [pa.array(few, pa.int64()), pc.add(pick.wanted, pa.scalar(before, pa.int64()))]
            few = []
        before += pick.num_rows
    return pa.concat_arrays([*parts, pa.array(few, pa.int64())])


def _count_values(runs: Sequence[Run], stored: Sequence[bytes]) -> int:
    """How many values the pages of a repeated column hold; a dictionary page holds none of the rows."""
    total = 0
    for run, part in zip(runs, stored, strict=True):
        start = 0
        for length in run.lengths:
            header, _ = thrift.read_struct(part, start)
            total += header[_V2_HEADER][_NUM_VALUES] if _V2_HEADER in header else 0
            start += length
    return total
