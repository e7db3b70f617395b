"""The rows of a split, read by ranges: only the columns that are asked for, and of few rows only the pages that hold
them.

Reads go by waves of row groups, to hold memory down. Columns are decoded side by side, by threads of ours: one of
Arrow's may let go of its bytes when Python has ended, which aborts the process.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from indextables.caching import lazy_property
from indextables.errors import SchemaError
from indextables.log.pools import SHARED_POOLS
from indextables.resources import refuse_shortage
from indextables.split.column_reader import ColumnReader, Pick, schema_elements
from indextables.split.layout import corrupt
from indextables.split.page_table import PageTable
from indextables.split.taking import cast_values, take_rows

ReadRanges = Callable[[Sequence[tuple[int, int]]], list[bytes]]

_PURPOSE = "row-decoding"
_WORKERS = min(8, os.cpu_count() or 1)
_WAVE_BYTES = 64 << 20
_LEAST_SHARE_BYTES = 1 << 20


class _Group(NamedTuple):
    """A row group, and which of its rows are wanted, or all."""

    number: int
    wanted: pa.Array | None


class _Work(NamedTuple):
    """A column in some row groups, to be decoded by itself."""

    column: ColumnReader
    picks: list[Pick]
    stored: list[list[bytes]]

    def decode(self) -> pa.ChunkedArray:
        return self.column.decode(self.picks, self.stored)


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
            raise corrupt(key, "its columns are not those that it was written with")
        if self._first_rows[-1] != metadata.num_rows:
            raise corrupt(key, "its row groups do not hold its rows")

    def rows(self, row_numbers: pa.Array | None, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The rows in the order of their numbers, or all; the columns in the order asked for, or all."""
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
            raise corrupt(self._key, f"row `{bounds['max']}` is asked for and it has {self._first_rows[-1]}")
        if _is_ascending(wanted):
            yield from self._scan(self._groups(wanted), names, schema)
            return
        distinct = pc.unique(wanted)
        distinct = distinct.take(pc.sort_indices(distinct))
        found = pa.Table.from_batches(self._scan(self._groups(distinct), names, schema), schema)
        yield from _in_order(found, pc.index_in(wanted, distinct), len(wanted))

    def _project(self, names: Sequence[str]) -> pa.Schema:
        unknown = [name for name in names if self._schema.get_field_index(name) < 0]
        if unknown:
            raise SchemaError(f"cannot read the column `{unknown[0]}` because the split `{self._key}` has none")
        if len(set(names)) != len(names):
            raise SchemaError(f"cannot read columns of the split `{self._key}` because one is named twice")
        return pa.schema([self._schema.field(name) for name in names], metadata=self._schema.metadata)

    def _all_groups(self) -> Iterator[_Group]:
        return (_Group(group, None) for group in range(self._metadata.num_row_groups))

    def _groups(self, wanted: pa.Array) -> Iterator[_Group]:
        """The row groups that hold rows, which ascend; in each they are numbered from its first."""
        numbers = memoryview(wanted.buffers()[1]).cast("Q")[wanted.offset : wanted.offset + len(wanted)]
        low = 0
        while low < len(numbers):
            group = bisect.bisect_right(self._first_rows, numbers[low]) - 1
            high = bisect.bisect_left(numbers, self._first_rows[group + 1], low)
            first = pa.scalar(self._first_rows[group], pa.int64())
            yield _Group(group, pc.subtract(wanted[low:high].cast(pa.int64()), first))
            low = high

    def _scan(self, groups: Iterator[_Group], names: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        readers = [self._columns[name] for name in names]
        for wave in self._waves(groups, readers):
            if not names:
                yield _no_columns(sum(self._num_rows(group) if rows is None else len(rows) for group, rows in wave))
                continue
            yield from pa.Table.from_arrays(self._decode(wave, readers), schema=schema).to_batches()

    def _waves(self, groups: Iterator[_Group], readers: Sequence[ColumnReader]) -> Iterator[list[_Group]]:
        """The row groups, as many together as may be held in memory."""
        wave: list[_Group] = []
        num_bytes = 0
        page_bytes = sum(reader.page_bytes for reader in readers)
        for group in groups:
            wave.append(group)
            whole = self._metadata.row_group(group.number).total_byte_size
            num_bytes += whole if group.wanted is None else min(whole, page_bytes * len(group.wanted))
            if num_bytes >= _WAVE_BYTES:
                yield wave
                wave, num_bytes = [], 0
        if wave:
            yield wave

    def _decode(self, wave: Sequence[_Group], readers: Sequence[ColumnReader]) -> list[pa.ChunkedArray]:
        """The wanted rows of each column."""
        picked = [
            [reader.pick(group.number, self._num_rows(group.number), group.wanted) for group in wave]
            for reader in readers
        ]
        runs = [(run.start, run.end) for picks in picked for pick in picks for run in pick.runs]
        stored = iter(self._read(runs))
        work = [
            _shares(reader, picks, [[next(stored) for _ in pick.runs] for pick in picks])
            for reader, picks in zip(readers, picked, strict=True)
        ]
        decoded = iter(SHARED_POOLS.map(_PURPOSE, _Work.decode, [one for own in work for one in own], workers=_WORKERS))
        return [_joined([next(decoded) for _ in own]) for own in work]

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


def _shares(reader: ColumnReader, picks: list[Pick], stored: list[list[bytes]]) -> list[_Work]:
    """A column's work in shares for all threads, where there is enough of it."""
    num_bytes = sum(len(part) for parts in stored for part in parts)
    count = min(_WORKERS, len(picks)) if num_bytes >= _LEAST_SHARE_BYTES else 1
    size = -(-len(picks) // count)
    return [_Work(reader, picks[at : at + size], stored[at : at + size]) for at in range(0, len(picks), size)]


def _joined(parts: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], type=parts[0].type)


def check_types(schema: pa.Schema) -> pq.ParquetSchema:
    """What the file's columns will be; refuses what could not be written, or not be read back as it was."""
    try:
        sink = pa.BufferOutputStream()
        pq.write_table(schema.empty_table(), sink)
        file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
        found = file.schema_arrow
        for stored, field in zip(found, schema, strict=True):
            cast_values(pa.chunked_array([pa.nulls(1, stored.type)]), field.type)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        refuse_shortage("write a split", error)
        raise SchemaError(f"cannot write a split because Parquet cannot hold its columns ({error})") from error
    return file.schema


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
