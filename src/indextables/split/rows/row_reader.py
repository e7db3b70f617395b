"""Read rows of a split by ranges: only the wanted columns, and pages for few rows.

Row groups are read in waves, to limit memory. Columns are decoded in parallel by threads of this library: a thread of
Arrow's may release its bytes after Python has ended, which aborts the process.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from indextables.arrow_values import to_table
from indextables.errors import SchemaError
from indextables.predicate.decide import Extent
from indextables.runtime.caching import BoundedCache, lazy_property
from indextables.runtime.pools import SHARED_POOLS
from indextables.runtime.resources import refuse_shortage
from indextables.split.format.layout import corrupt
from indextables.split.format.page_table import PageTable
from indextables.split.rows.column_reader import (
    ColumnPicks,
    ColumnReader,
    GroupRows,
    cast_values,
    decode_together,
    places_of,
    schema_elements,
    take_rows,
)

ReadRanges = Callable[[Sequence[tuple[int, int]]], list[bytes]]

_PURPOSE = "row-decoding"
_WORKERS = min(8, os.cpu_count() or 1)
_WAVE_BYTES = 64 << 20
_LEAST_SHARE_BYTES = 1 << 20
_LEAST_BYTES_FOR_THREADS = 512 << 10
_checked: BoundedCache[bytes, pq.ParquetSchema] = BoundedCache(64)
_COLUMN_BYTES = 128 << 10  # decoded in the time that a column takes apart from its pages


class _Work(NamedTuple):
    """Columns in some row groups, to be decoded by one thread; all have the same rows."""

    columns: list[ColumnPicks]
    places: pa.Array | None

    def decode(self) -> list[pa.ChunkedArray]:
        return decode_together(self.columns, self.places)


class RowReader:
    """Reads rows of the split `key`."""

    def __init__(
        self,
        key: str,
        metadata: pq.FileMetaData,
        footer: memoryview,
        schema: pa.Schema,
        table: PageTable,
        rows_end: int,
        read: ReadRanges,
    ) -> None:
        self._key = key
        self._metadata = metadata
        self._footer = footer
        self._schema = schema
        self._table = table
        self._rows_end = rows_end
        self._read = read
        self._first_rows = [0]
        for group in range(metadata.num_row_groups):
            self._first_rows.append(self._first_rows[-1] + metadata.row_group(group).num_rows)
        num_leaves = sum(len(leaves) for leaves in leaf_ranges(schema))
        if num_leaves != metadata.num_columns or table.num_chunks != num_leaves * metadata.num_row_groups:
            raise corrupt(key, "its columns differ from the ones it was written with")
        if self._first_rows[-1] != metadata.num_rows:
            raise corrupt(key, "its row groups do not hold its rows")

    def rows(self, row_numbers: pa.Array | None, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the order of their numbers, or all, with the given columns."""
        names = self._schema.names if columns is None else list(columns)
        schema = self._project(names)
        if row_numbers is None:
            yield from self._scan(self._all_groups(), names, schema)
            return
        wanted = _as_numbers(row_numbers)
        if not len(wanted):
            return
        bounds = pc.min_max(wanted)
        if bounds["max"].as_py() >= self._first_rows[-1]:
            raise corrupt(self._key, f"row `{bounds['max']}` is requested and it has {self._first_rows[-1]}")
        if _is_ascending(wanted):
            yield from self._scan(self._groups(wanted), names, schema)
            return
        distinct = pc.unique(wanted)
        distinct = distinct.take(pc.sort_indices(distinct))
        found = pa.Table.from_batches(self._scan(self._groups(distinct), names, schema), schema)
        yield from _in_order(found, pc.index_in(wanted, distinct), len(wanted))

    @property
    def num_groups(self) -> int:
        return len(self._first_rows) - 1

    def place_of_group(self, group: int) -> tuple[int, int]:
        """Return the first row of a row group, and its number of rows."""
        return self._first_rows[group], self._num_rows(group)

    def coded_rows(self, columns: Sequence[str], groups: Sequence[int]) -> Iterator[tuple[int, pa.Table]]:
        """Yield all rows of some row groups, each part with the number of its first row.

        Repeated texts are dictionaries.
        """
        self._project(columns)
        readers = [self._columns[name].coded() for name in columns]
        for wave in self._waves(map(self._all_rows, groups), readers):
            found = pa.Table.from_arrays(self._decode(wave, readers), names=list(columns))
            start = 0
            for rows in wave:
                yield rows.first_row, found.slice(start, rows.num_rows)
                start += rows.num_rows

    def group_extents(self, column: str) -> list[Extent]:
        """Return the bounds of a column in each row group, if comparable with predicates."""
        groups = range(self._metadata.num_row_groups)
        field, leaves = self._schema.field(column), self._columns[column].leaves
        if len(leaves) != 1 or pa.types.is_nested(field.type) or isinstance(field.type, pa.BaseExtensionType):
            return [Extent(self._num_rows(group)) for group in groups]
        chunks = [self._metadata.row_group(group).column(leaves[0]) for group in groups]
        return [_extent(self._num_rows(group), chunk, field.type) for group, chunk in zip(groups, chunks, strict=True)]

    def dictionary_bytes(self, column: str) -> int | None:
        """Return the stored size of a column's largest dictionary; None if one is missing."""
        self._project([column])
        return self._columns[column].dictionary_bytes()

    def share_of_decoding(self, num_rows: int, columns: Sequence[str]) -> float:
        """Estimate the cost of reading scattered rows, as a share of decoding all."""
        readers = [self._columns[name] for name in columns if name in self._columns]
        cost = sum(min(num_rows, reader.num_pages) * reader.page_bytes + _COLUMN_BYTES for reader in readers)
        return cost / self._full_cost

    @lazy_property
    def _group_bytes(self) -> list[int]:
        """The sizes of all row groups, uncompressed."""
        groups = range(self._metadata.num_row_groups)
        return [self._metadata.row_group(group).total_byte_size for group in groups]

    @lazy_property
    def _full_cost(self) -> int:
        return sum(self._group_bytes) + len(self._schema) * _COLUMN_BYTES

    def _project(self, names: Sequence[str]) -> pa.Schema:
        unknown = [name for name in names if self._schema.get_field_index(name) < 0]
        if unknown:
            raise SchemaError(f"cannot read the column `{unknown[0]}` because the split `{self._key}` has none")
        if len(set(names)) != len(names):
            raise SchemaError(f"cannot read columns of the split `{self._key}` because one is named twice")
        return pa.schema([self._schema.field(name) for name in names], metadata=self._schema.metadata)

    def _all_groups(self) -> Iterator[GroupRows]:
        return map(self._all_rows, range(self._metadata.num_row_groups))

    def _all_rows(self, group: int) -> GroupRows:
        return GroupRows(group, self._first_rows[group], self._num_rows(group), None)

    def _groups(self, wanted: pa.Array) -> Iterator[GroupRows]:
        """Yield the row groups with wanted rows, which are in ascending order."""
        numbers = memoryview(wanted.buffers()[1]).cast("Q")[wanted.offset : wanted.offset + len(wanted)]
        low = 0
        while low < len(numbers):
            group = bisect.bisect_right(self._first_rows, numbers[low]) - 1
            high = bisect.bisect_left(numbers, self._first_rows[group + 1], low)
            yield self._all_rows(group)._replace(wanted=numbers[low:high])
            low = high

    def _scan(self, groups: Iterator[GroupRows], names: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        readers = [self._columns[name] for name in names]
        for wave in self._waves(groups, readers):
            if not names:
                yield _no_columns(sum(one.num_rows if one.wanted is None else len(one.wanted) for one in wave))
                continue
            yield from pa.Table.from_arrays(self._decode(wave, readers), schema=schema).to_batches()

    def _waves(self, groups: Iterator[GroupRows], readers: Sequence[ColumnReader]) -> Iterator[list[GroupRows]]:
        """Group the row groups into waves that fit into memory."""
        wave: list[GroupRows] = []
        num_bytes = 0
        page_bytes = sum(reader.page_bytes for reader in readers)
        for rows in groups:
            wave.append(rows)
            whole = self._group_bytes[rows.group]
            num_bytes += whole if rows.wanted is None else min(whole, page_bytes * len(rows.wanted))
            if num_bytes >= _WAVE_BYTES:
                yield wave
                wave, num_bytes = [], 0
        if wave:
            yield wave

    def _decode(self, wave: Sequence[GroupRows], readers: Sequence[ColumnReader]) -> list[pa.ChunkedArray]:
        """Decode the wanted rows of each column."""
        picked = [[reader.pick(rows) for rows in wave] for reader in readers]
        ranges = [one for picks in picked for pick in picks for one in pick.ranges]
        stored = iter(self._read(ranges))
        work: list[_Work] = []
        for reader, picks in zip(readers, picked, strict=True):
            own = ColumnPicks(reader, picks, [[next(stored) for _ in pick.ranges] for pick in picks])
            shares = _shares(own)
            other = _with_same_rows(work, own) if len(shares) == 1 else None
            if other is None:
                work += [_Work([share], places_of(share.picks)) for share in shares]
            else:
                other.columns.append(own)
        workers = _WORKERS if sum(end - start for start, end in ranges) >= _LEAST_BYTES_FOR_THREADS else 1
        decoded = SHARED_POOLS.map(_PURPOSE, _Work.decode, work, workers=workers)
        found: dict[ColumnReader, list[pa.ChunkedArray]] = {}
        for one, columns in zip(work, decoded, strict=True):
            for (reader, *_), column in zip(one.columns, columns, strict=True):
                found.setdefault(reader, []).append(column)
        return [_joined(found[reader]) for reader in readers]

    def _num_rows(self, group: int) -> int:
        return self._first_rows[group + 1] - self._first_rows[group]

    @lazy_property
    def _columns(self) -> dict[str, ColumnReader]:
        """The readers of all columns, by name."""
        elements = schema_elements(self._footer, self._key)
        return {
            field.name: ColumnReader(self._key, self._metadata, self._table, self._rows_end, field, leaves, nodes)
            for field, leaves, nodes in zip(self._schema, leaf_ranges(self._schema), elements, strict=True)
        }


def _extent(num_rows: int, chunk: pq.ColumnChunkMetaData, kind: pa.DataType) -> Extent:
    """Return the bounds of a chunk, if Parquet stores its values as they compare."""
    stats = chunk.statistics
    num_nulls = stats.null_count if stats is not None and stats.has_null_count else None
    if stats is None or not stats.has_min_max or not _is_stored_as_compared(kind):
        return Extent(num_rows, num_nulls)
    low, high = stats.min_raw, stats.max_raw
    if isinstance(low, bytes):
        low, high = low.decode(), high.decode()
    return Extent(num_rows, num_nulls, low, high)


def _is_stored_as_compared(kind: pa.DataType) -> bool:
    matching = (pa.types.is_signed_integer, pa.types.is_boolean, pa.types.is_date32, pa.types.is_string)
    is_ticks = pa.types.is_timestamp(kind) and kind.unit in {"us", "ns"}
    return is_ticks or any(matches(kind) for matches in matching)


def _shares(column: ColumnPicks) -> list[ColumnPicks]:
    """Split a column's work into shares for all threads if it is large enough."""
    reader, picks, stored = column
    num_bytes = sum(len(part) for parts in stored for part in parts)
    if num_bytes < _LEAST_SHARE_BYTES or len(picks) == 1:
        return [column]
    size = -(-len(picks) // min(_WORKERS, len(picks)))
    return [ColumnPicks(reader, picks[at : at + size], stored[at : at + size]) for at in range(0, len(picks), size)]


def _with_same_rows(work: Sequence[_Work], column: ColumnPicks) -> _Work | None:
    """Return work on the same rows that a column may join, if few are wanted."""
    reader, picks, _ = column
    if picks[0].rows.wanted is None or not reader.can_read_with_others(picks):
        return None
    rows = [(pick.num_rows, pick.kept) for pick in picks]
    for one in work:
        other, known, _ = one.columns[0]
        if other.can_read_with_others(known) and [(pick.num_rows, pick.kept) for pick in known] == rows:
            return one
    return None


def _joined(parts: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    if len(parts) == 1:
        return parts[0]
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], type=parts[0].type)


def check_types(schema: pa.Schema) -> pq.ParquetSchema:
    """Return the file's schema; refuse types that Parquet cannot store and read back."""
    key = schema.serialize().to_pybytes()
    found = _checked.get(key)
    if found is None:
        found = _check_types(schema)
        _checked.put(key, found)
    return found


def _check_types(schema: pa.Schema) -> pq.ParquetSchema:
    try:
        sink = pa.BufferOutputStream()
        pq.write_table(to_table([], schema), sink)
        file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
        found = file.schema_arrow
        for stored, field in zip(found, schema, strict=True):
            cast_values(pa.chunked_array([pa.nulls(1, stored.type)]), field.type)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        refuse_shortage("write a split", error)
        raise SchemaError(f"cannot write a split because Parquet cannot hold its columns ({error})") from error
    return file.schema


def leaf_ranges(schema: pa.Schema) -> list[range]:
    """Return the file's columns of each column of the schema.

    Names do not identify them, since names may contain dots.
    """
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
