"""A few rows of many: of each column only the pages that hold one of them.

Arrow reads whole column chunks. So for each column the pages are put behind a footer made for them, as a small Parquet
file of one column, which Arrow then reads whole. Columns are decoded side by side.
"""

from __future__ import annotations

import base64
import bisect
import functools
import itertools
import os
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from indextables.log.pools import SHARED_POOLS
from indextables.split import thrift
from indextables.split.layout import MAGIC, check_crc, corrupt
from indextables.split.page_table import PageTable
from indextables.split.taking import take_values

FETCHING = "row-fetching"

WORKERS = min(8, os.cpu_count() or 1)
_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6, "LZ4": 7}
# Field numbers of Parquet's footer.
_SCHEMA, _NAME, _NUM_CHILDREN = 2, 4, 5
_V2_HEADER, _NUM_VALUES = 8, 1


class Place(NamedTuple):
    """Where a column chunk stands."""

    start: int
    end: int
    chunk: int


class _Page(NamedTuple):
    start: int
    end: int
    checksum: int
    num_rows: int


class _Pick(NamedTuple):
    """The pages of a column that are read, by row group, and where in their rows the wanted ones stand."""

    leaf: int
    groups: list[list[_Page]]
    picks: list[int]

    @property
    def pages(self) -> Iterator[_Page]:
        return itertools.chain.from_iterable(self.groups)


class SparseReader:
    """Reads pages of the split `key`. `places` says where the chunk of a leaf in a row group stands."""

    def __init__(
        self,
        key: str,
        metadata: pq.FileMetaData,
        footer: memoryview,
        table: PageTable,
        first_rows: Sequence[int],
    ) -> None:
        self._key = key
        self._metadata = metadata
        self._footer = footer
        self._table = table
        self._first_rows = first_rows

    def pick(self, wanted: Sequence[int], leaf: int, places: dict[int, Place]) -> _Pick:
        """The pages of a leaf that hold rows, which ascend; `places` are those of its chunks, by row group."""
        pick = _Pick(leaf, [], [])
        low, num_rows = 0, 0
        while low < len(wanted):
            group = bisect.bisect_right(self._first_rows, wanted[low]) - 1
            high = bisect.bisect_left(wanted, self._first_rows[group + 1], low)
            num_rows = self._pick_in(group, wanted[low:high], places[group], pick, num_rows)
            low = high
        return pick

    def _pick_in(self, group: int, wanted: Sequence[int], place: Place, pick: _Pick, num_rows: int) -> int:
        """The pages of one row group. `num_rows` rows are read before them."""
        first = self._first_rows[group]
        pages = self._table.pages(place.chunk)
        starts = [*pages.offsets, place.end - place.start]
        rows = [*pages.first_rows, self._first_rows[group + 1] - first]
        found = []
        if pages.has_dictionary:
            found.append(_Page(place.start, place.start + starts[1], pages.checksums[0], 0))
        page, end = 0, -1
        for row in wanted:
            if row - first >= end:
                page = bisect.bisect_right(rows, row - first, lo=page) - 1
                end = rows[page + 1]
                if not 0 <= starts[page] < starts[page + 1] <= starts[-1]:
                    raise corrupt(self._key, "its pages stand where no page can")
                bounds = (place.start + starts[page], place.start + starts[page + 1])
                found.append(_Page(*bounds, pages.checksums[page], end - rows[page]))
                shift = num_rows - rows[page] - first
                num_rows += end - rows[page]
            pick.picks.append(row + shift)
        pick.groups.append(found)
        return num_rows

    def decode(self, picks: Sequence[_Pick], parts: Sequence[bytes], fields: Sequence[pa.Field]) -> list[Any]:
        """The wanted rows of each column, from the bytes of all pages in their order."""
        stored = iter(parts)
        work = [
            (pick, list(itertools.islice(stored, sum(map(len, pick.groups)))), field)
            for pick, field in zip(picks, fields, strict=True)
        ]
        return SHARED_POOLS.map(FETCHING, lambda item: self._decode_column(*item), work, workers=WORKERS)

    def _decode_column(self, pick: _Pick, parts: Sequence[bytes], field: pa.Field) -> Any:
        for page, part in zip(pick.pages, parts, strict=True):
            check_crc(part, page.checksum, self._key, "a page of its rows")
        column = self._metadata.schema.column(pick.leaf)
        is_flat = column.max_repetition_level == 0
        has_words = is_flat and column.max_definition_level <= 1 and column.physical_type == "BYTE_ARRAY"
        is_encoded = has_words and all(pages[0].num_rows == 0 for pages in pick.groups)
        try:
            image = self._image(pick, parts, field, is_flat=is_flat)
            # Values that come from a dictionary are looked up after the rows are picked.
            file = pq.ParquetFile(image, pre_buffer=False, read_dictionary=[column.path] if is_encoded else None)
            found = file.read(use_threads=False).column(0)
        except pa.ArrowMemoryError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise corrupt(self._key, f"its rows cannot be decoded ({error})") from error
        if len(found) != sum(page.num_rows for page in pick.pages):
            raise corrupt(self._key, "its pages do not hold their rows")
        taken = take_values(found, pa.array(pick.picks, pa.int64()))
        to_decode = pa.types.is_dictionary(taken.type) and not pa.types.is_dictionary(field.type)
        return taken.cast(taken.type.value_type) if to_decode else taken

    def _image(self, pick: _Pick, parts: Sequence[bytes], field: pa.Field, *, is_flat: bool) -> pa.BufferReader:
        """A Parquet file of the pages."""
        stored = iter(parts)
        offset = len(MAGIC)
        groups = []
        for pages in pick.groups:
            own = list(itertools.islice(stored, len(pages)))
            num_bytes = sum(map(len, own))
            num_rows = sum(page.num_rows for page in pages)
            num_values = num_rows if is_flat else sum(map(_num_values, own))
            dictionary_bytes = 0 if pages[0].num_rows else len(own[0])
            chunk = self._chunk(pick.leaf, offset, dictionary_bytes, num_bytes, num_values)
            groups.append(
                thrift.struct({1: thrift.list_of([chunk]), 2: thrift.i64(num_bytes), 3: thrift.i64(num_rows)})
            )
            offset += num_bytes
        arrow_schema = base64.b64encode(pa.schema([field]).serialize().to_pybytes())
        footer = thrift.struct(
            {
                1: thrift.i32(2),
                2: thrift.list_of(self._schema_of(pick.leaf)),
                3: thrift.i64(sum(page.num_rows for page in pick.pages)),
                4: thrift.list_of(groups),
                5: thrift.list_of([thrift.struct({1: thrift.binary(b"ARROW:schema"), 2: thrift.binary(arrow_schema)})]),
            }
        ).data
        image = b"".join([MAGIC, *parts, footer, struct.pack("<I", len(footer)), MAGIC])
        return pa.BufferReader(image)

    def _chunk(self, leaf: int, offset: int, dictionary_bytes: int, num_bytes: int, num_values: int) -> thrift.Encoded:
        column = self._metadata.row_group(0).column(leaf)
        fields = {
            1: thrift.i32(_TYPES.index(column.physical_type)),
            2: thrift.list_of([thrift.i32(0)]),
            3: thrift.list_of(thrift.binary(name) for name in self._names_of(leaf)),
            4: thrift.i32(_CODECS[column.compression]),
            5: thrift.i64(num_values),
            6: thrift.i64(num_bytes),
            7: thrift.i64(num_bytes),
            9: thrift.i64(offset + dictionary_bytes),
        }
        if dictionary_bytes:
            fields[11] = thrift.i64(offset)
        return thrift.struct({2: thrift.i64(offset), 3: thrift.struct(fields)})

    def _schema_of(self, leaf: int) -> list[thrift.Encoded]:
        root = thrift.struct({_NAME: thrift.binary(b"schema"), _NUM_CHILDREN: thrift.i32(1)})
        return [root, *(thrift.raw_struct(data) for _, data in self._elements[leaf])]

    def _names_of(self, leaf: int) -> list[bytes]:
        return [element[_NAME] for element, _ in self._elements[leaf]]

    @functools.cached_property
    def _elements(self) -> dict[int, list[tuple[dict[int, Any], bytes]]]:
        """The part of the footer's schema that says what a leaf is, for each leaf that is a column by itself."""
        found: dict[int, list[tuple[dict[int, Any], bytes]]] = {}
        leaf = 0
        elements = iter(_schema_elements(self._footer, self._key)[1:])
        for element in elements:
            column = [element]
            missing = element[0].get(_NUM_CHILDREN, 0)
            num_leaves = 0 if missing else 1
            while missing:
                column.append(next(elements))
                children = column[-1][0].get(_NUM_CHILDREN, 0)
                missing += children - 1
                num_leaves += not children
            if num_leaves == 1:
                found[leaf] = column
            leaf += num_leaves
        return found


def _schema_elements(footer: memoryview, key: str) -> list[tuple[dict[int, Any], bytes]]:
    try:
        return thrift.read_list_spans(footer, _SCHEMA)
    except ValueError as error:
        raise corrupt(key, f"its Parquet footer cannot be understood ({error})") from error


def _num_values(page: bytes) -> int:
    """How many values the page of a repeated column holds; a dictionary page holds none of the rows."""
    header, _ = thrift.read_struct(page)
    return int(header[_V2_HEADER][_NUM_VALUES]) if _V2_HEADER in header else 0
