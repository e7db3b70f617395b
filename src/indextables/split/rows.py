"""The rows of a split, read by ranges: only the columns that are asked for, and of few rows only the pages that hold
them. Each page is verified.

Where most pages are needed, whole column chunks are laid out in memory at the offsets that they have in the file, in a
mapping that takes no memory where nothing stands, so that Arrow decodes them without a copy and without a call back.
Reads go by waves of row groups, or by some hundred rows, to hold memory down.
"""

from __future__ import annotations

import bisect
import mmap
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from indextables.errors import SchemaError
from indextables.log.pools import SHARED_POOLS
from indextables.split.layout import MAGIC, check_crc, corrupt
from indextables.split.page_table import PageTable
from indextables.split.sparse_rows import FETCHING, WORKERS, Place, SparseReader
from indextables.split.taking import take_rows

ReadRanges = Callable[[Sequence[tuple[int, int]]], list[bytes]]

_WAVE_BYTES = 32 << 20
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)


class _Wave(NamedTuple):
    """Row groups that are read together, and which of their rows are wanted: numbers within the wave, or all."""

    groups: list[int]
    picks: pa.Array | None


class RowReader:
    """Reads rows of the split `key`."""

    def __init__(
        self,
        key: str,
        metadata: pq.FileMetaData,
        footer: memoryview,
        schema: pa.Schema,
        pages: PageTable,
        rows_end: int,
        read: ReadRanges,
    ) -> None:
        self._key = key
        self._metadata = metadata
        self._schema = schema
        self._pages = pages
        self._rows_end = rows_end
        self._read = read
        self._leaves = leaf_ranges(schema)
        self._first_rows = [0]
        for group in range(metadata.num_row_groups):
            self._first_rows.append(self._first_rows[-1] + metadata.row_group(group).num_rows)
        leaves = sum(len(leaves) for leaves in self._leaves)
        if leaves != metadata.num_columns or pages.num_chunks != leaves * metadata.num_row_groups:
            raise corrupt(key, "its columns are not those that it was written with")
        if self._first_rows[-1] != metadata.num_rows:
            raise corrupt(key, "its row groups do not hold its rows")
        self._sparse = SparseReader(key, metadata, footer, pages, self._first_rows)

    def rows(self, row_numbers: pa.Array | None, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The rows in the order of their numbers, or all; the columns in the order asked for, or all."""
        names = self._schema.names if columns is None else list(columns)
        schema = self._project(names)
        if row_numbers is None:
            yield from self._scan(self._all_waves(), names, schema)
            return
        wanted = _as_numbers(row_numbers)
        if not len(wanted):
            return
        bounds = pc.min_max(wanted)
        if bounds["max"].as_py() >= self._first_rows[-1]:
            raise corrupt(self._key, f"row `{bounds['max']}` is asked for and it has {self._first_rows[-1]}")
        if _is_ascending(wanted):
            yield from self._some(wanted, names, schema)
            return
        distinct = pc.unique(wanted)
        distinct = distinct.take(pc.sort_indices(distinct))
        found = pa.Table.from_batches(self._some(distinct, names, schema), schema)
        yield from _in_order(found, pc.index_in(wanted, distinct), len(wanted))

    def _some(self, wanted: pa.Array, names: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Rows that ascend: by pages where many pages hold none of them, else by row groups."""
        paged = [name for name in names if len(self._leaves_of(name)) == 1]
        if len(wanted) >= max((self._num_pages(name) for name in paged), default=0):
            yield from self._scan(self._waves(wanted), names, schema)
            return
        rows = self._rows_at_once(paged)
        for start in range(0, len(wanted), rows):
            block = wanted[start : start + rows]
            columns = dict(zip(paged, self._by_page(block.to_pylist(), paged), strict=True))
            others = [name for name in names if name not in columns]
            if others:
                scanned = self._scan(self._waves(block), others, self._project(others))
                columns.update(zip(others, pa.Table.from_batches(scanned, self._project(others)).columns, strict=True))
            table = pa.Table.from_arrays([columns[name] for name in names], names=list(names))
            yield from _as_written(table, schema).to_batches()

    def _by_page(self, wanted: Sequence[int], names: Sequence[str]) -> list[pa.ChunkedArray]:
        groups = sorted({bisect.bisect_right(self._first_rows, row) - 1 for row in wanted})
        picks = []
        for name in names:
            (leaf,) = self._leaves_of(name)
            places = {group: next(self._chunks(group, [leaf])) for group in groups}
            picks.append(self._sparse.pick(wanted, leaf, places))
        parts = self._read([(page.start, page.end) for pick in picks for page in pick.pages])
        return self._sparse.decode(picks, parts, [self._schema.field(name) for name in names])

    def _leaves_of(self, name: str) -> range:
        position: int = self._schema.get_field_index(name)
        return self._leaves[position]

    def _num_pages(self, name: str) -> int:
        columns = self._metadata.num_columns
        (leaf,) = self._leaves_of(name)
        return self._pages.num_pages(range(leaf, self._metadata.num_row_groups * columns, columns))

    def _rows_at_once(self, names: Sequence[str]) -> int:
        """How many rows' pages may be fetched together, if each is in a page of its own."""
        num_bytes = 0
        for name in names:
            (leaf,) = self._leaves_of(name)
            groups = range(self._metadata.num_row_groups)
            stored = sum(self._metadata.row_group(group).column(leaf).total_uncompressed_size for group in groups)
            num_bytes += stored // max(1, self._num_pages(name)) + 1
        return max(1, 2 * _WAVE_BYTES // num_bytes)

    def _project(self, names: Sequence[str]) -> pa.Schema:
        unknown = [name for name in names if self._schema.get_field_index(name) < 0]
        if unknown:
            raise SchemaError(f"cannot read the column `{unknown[0]}` because the split `{self._key}` has none")
        if len(set(names)) != len(names):
            raise SchemaError(f"cannot read columns of the split `{self._key}` because one is named twice")
        return pa.schema([self._schema.field(name) for name in names], metadata=self._schema.metadata)

    def _all_waves(self) -> Iterator[_Wave]:
        groups: list[int] = []
        num_bytes = 0
        for group in range(self._metadata.num_row_groups):
            groups.append(group)
            num_bytes += self._metadata.row_group(group).total_byte_size
            if num_bytes >= _WAVE_BYTES:
                yield _Wave(groups, None)
                groups, num_bytes = [], 0
        if groups:
            yield _Wave(groups, None)

    def _waves(self, wanted: pa.Array) -> Iterator[_Wave]:
        """The row groups that hold the rows, which ascend."""
        numbers = memoryview(wanted.buffers()[1]).cast("Q")[wanted.offset : wanted.offset + len(wanted)]
        groups: list[int] = []
        parts: list[pa.Array] = []
        num_bytes, num_rows, low = 0, 0, 0
        while low < len(numbers):
            group = bisect.bisect_right(self._first_rows, numbers[low]) - 1
            high = bisect.bisect_left(numbers, self._first_rows[group + 1], low)
            shift = pa.scalar(self._first_rows[group] - num_rows, pa.int64())
            parts.append(pc.subtract(wanted[low:high].cast(pa.int64()), shift))
            groups.append(group)
            num_rows += self._first_rows[group + 1] - self._first_rows[group]
            num_bytes += self._metadata.row_group(group).total_byte_size
            low = high
            if num_bytes >= _WAVE_BYTES or low == len(numbers):
                yield _Wave(groups, pa.concat_arrays(parts))
                groups, parts, num_bytes, num_rows = [], [], 0, 0

    def _scan(self, waves: Iterator[_Wave], names: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for wave in waves:
            num_rows = sum(self._first_rows[group + 1] - self._first_rows[group] for group in wave.groups)
            if not names:
                yield _no_columns(num_rows if wave.picks is None else len(wave.picks))
                continue
            table = self._decode(wave.groups, names)
            if table.num_rows != num_rows:
                raise corrupt(self._key, f"{num_rows} rows were to be read and {table.num_rows} came")
            if wave.picks is not None and len(wave.picks) != num_rows:
                table = take_rows(table, wave.picks)
            yield from _as_written(table, schema).to_batches()

    def _decode(self, groups: list[int], names: Sequence[str]) -> pa.Table:
        indices = sorted(leaf for name in names for leaf in self._leaves_of(name))
        image = self._image(groups, indices)
        # By threads of ours: one of Arrow's may let go of the image when Python has ended, which aborts the process.
        shares = [[*self._leaves_of(name)] for name in names]
        parts = SHARED_POOLS.map(FETCHING, lambda own: self._decode_leaves(image, groups, own), shares, workers=WORKERS)
        return pa.Table.from_arrays([part.column(0) for part in parts], names=list(names))

    def _decode_leaves(self, image: pa.Buffer, groups: list[int], leaves: list[int]) -> pa.Table:
        try:
            file = pq.ParquetFile(pa.BufferReader(image), metadata=self._metadata, pre_buffer=False)
            return file.reader.read_row_groups(groups, column_indices=leaves, use_threads=False)
        except pa.ArrowMemoryError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise corrupt(self._key, f"its rows cannot be decoded ({error})") from error

    def _image(self, groups: Sequence[int], indices: Sequence[int]) -> pa.Buffer:
        """The chunks at their places in a file that is otherwise empty."""
        chunks = [chunk for group in groups for chunk in self._chunks(group, indices)]
        runs = _runs(chunks)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
        image = mmap.mmap(-1, max(chunk.end for chunk in chunks), flags=flags)
        for run, stored in zip(runs, self._read([(run[0].start, run[-1].end) for run in runs]), strict=True):
            view = memoryview(stored)
            start = run[0].start
            for chunk in run:
                self._check(chunk, view[chunk.start - start : chunk.end - start])
            image[start : start + len(view)] = view
        return pa.py_buffer(image)

    def _check(self, chunk: Place, stored: memoryview) -> None:
        pages = self._pages.pages(chunk.chunk)
        for start, end, checksum in zip(pages.offsets, [*pages.offsets[1:], len(stored)], pages.checksums, strict=True):
            check_crc(stored[start:end], checksum, self._key, "a page of its rows")

    def _chunks(self, group: int, indices: Sequence[int]) -> Iterator[Place]:
        for start, end, index in chunk_places(self._metadata, group, indices):
            if not len(MAGIC) <= start <= end <= self._rows_end:
                raise corrupt(self._key, "a part of its rows stands where no row can")
            yield Place(start, end, group * self._metadata.num_columns + index)


def chunk_places(metadata: pq.FileMetaData, group: int, indices: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Start and end of column chunks, with their column's index."""
    row_group = metadata.row_group(group)
    for index in indices:
        column = row_group.column(index)
        start = column.data_page_offset
        if column.has_dictionary_page and column.dictionary_page_offset is not None:
            start = min(start, column.dictionary_page_offset)
        yield start, start + column.total_compressed_size, index


def check_types(schema: pa.Schema) -> pq.ParquetSchema:
    """What the file's columns will be; refuses what could not be written, or not be read back as it was."""
    try:
        sink = pa.BufferOutputStream()
        pq.write_table(schema.empty_table(), sink)
        file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
        found = file.schema_arrow
        _as_written(pa.Table.from_arrays([pa.nulls(1, field.type) for field in found], names=found.names), schema)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise SchemaError(f"cannot write a split because Parquet cannot hold its columns ({error})") from error
    return file.schema


def repeated_columns(sample: pa.Table) -> set[str]:
    """The columns whose values come back so often that a dictionary of them pays, in row groups as small as ours.

    With one for every column, as Arrow would have it, files were an eighth larger and took a fifth longer to decode.
    """
    repeated = set()
    for field, column in zip(sample.schema, sample.columns, strict=True):
        try:
            if pc.count_distinct(column).as_py() * 2 <= len(column) - column.null_count:
                repeated.add(field.name)
        except pa.ArrowNotImplementedError:
            repeated.add(field.name)
    return repeated


def leaf_ranges(schema: pa.Schema) -> list[range]:
    """Which of the file's columns belong to each column of the schema; names don't say, as they may have dots."""
    ranges, start = [], 0
    for field in schema:
        end = start + _num_leaves(field.type)
        ranges.append(range(start, end))
        start = end
    return ranges


def _num_leaves(kind: pa.DataType) -> int:
    if isinstance(kind, pa.BaseExtensionType):
        return _num_leaves(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _num_leaves(kind.value_type)
    return sum(_num_leaves(kind.field(index).type) for index in range(kind.num_fields)) if kind.num_fields else 1


def _runs(chunks: Sequence[Place]) -> list[list[Place]]:
    """Chunks that stand one behind the other, together."""
    runs: list[list[Place]] = []
    for chunk in sorted(chunks):
        if runs and runs[-1][-1].end == chunk.start:
            runs[-1].append(chunk)
        else:
            runs.append([chunk])
    return runs


def _as_numbers(row_numbers: pa.Array) -> pa.Array:
    if isinstance(row_numbers, pa.ChunkedArray):
        row_numbers = row_numbers.combine_chunks()
    return row_numbers.cast(pa.uint64())


def _is_ascending(numbers: pa.Array) -> bool:
    return bool(pc.all(pc.less(numbers[:-1], numbers[1:]), min_count=0).as_py())


def _in_order(table: pa.Table, picks: pa.Array, num_rows: int) -> Iterator[pa.RecordBatch]:
    if not table.num_columns:
        yield _no_columns(num_rows)
        return
    yield from take_rows(table, picks).to_batches()


def _no_columns(num_rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.nulls(num_rows, pa.struct([])))


def _as_written(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows in the types that they were written with; Parquet knows fewer."""
    columns = [_cast(column, field.type) for column, field in zip(table.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    if not pa.types.is_dictionary(kind) or pa.types.is_dictionary(column.type):
        return column.cast(kind)
    encoded = _cast(column, kind.value_type).combine_chunks().dictionary_encode()
    indices = encoded.indices.cast(kind.index_type)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(indices, encoded.dictionary, ordered=kind.ordered)])
