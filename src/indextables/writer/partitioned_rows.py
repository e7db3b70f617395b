"""Group rows by partition, and spill the rows of waiting partitions to disk.

Each group has the partition values in the form of the log. Spilled rows have one file per partition. At most one file
is open at a time, and memory is bounded for any number of partitions. The directory is created with the first spilled
rows and removed on close.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar
from indextables.errors import SchemaError, StorageError
from indextables.runtime.resources import local_error
from indextables.runtime.scratch import scratch_directory

PartitionValues = Mapping[str, str | None]


def by_partition(
    batch: pa.RecordBatch, partition_columns: Sequence[str]
) -> Iterator[tuple[PartitionValues, pa.RecordBatch]]:
    """Yield the rows of each partition, in their original order."""
    if not partition_columns:
        yield {}, batch
        return
    texts = {name: _texts(batch, name).dictionary_encode() for name in partition_columns}
    codes = _codes(list(texts.values()))
    order = pc.sort_indices(codes)
    ordered = batch.take(order)
    runs = pc.run_end_encode(codes.take(order))
    start = 0
    for end in runs.run_ends.to_pylist():
        row = order[start].as_py()
        yield {name: column[row].as_py() for name, column in texts.items()}, ordered.slice(start, end - start)
        start = end


def _texts(batch: pa.RecordBatch, name: str) -> pa.Array[Any]:
    column = batch.column(name)
    try:
        return pc.cast(column, pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"cannot partition by the column `{name}` because its values of type `{column.type}` have no text"
        ) from error


def _codes(columns: Sequence[pa.Array[Any]]) -> pa.Array[Any]:
    """Number the combinations of values."""
    codes = to_array([0] * len(columns[0]), pa.int64())
    for column in columns:
        size = len(column.dictionary) + 1
        places = pc.fill_null(pc.cast(column.indices, pa.int64()), to_scalar(size - 1))
        codes = pc.add(pc.multiply(codes, to_scalar(size)), places)
        codes = codes.dictionary_encode().indices.cast(pa.int64())
    return codes


_MOST_BYTES_IN_MEMORY = 32_000_000
_ROWS_AT_ONCE = 8_192
_BYTES_AT_ONCE = 16_000_000


class SpilledRows:
    """The rows of many partitions; use it in a `with` block.

    All rows have one schema, without dictionaries.
    """

    def __init__(self, schema: pa.Schema, directory: str | None) -> None:
        self._schema = schema
        self._parent = directory
        self._directory: str | None = None
        self._cleanup = contextlib.ExitStack()
        self._waiting: dict[tuple[str | None, ...], _Waiting] = {}
        self._num_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._cleanup.close()

    def add(self, values: PartitionValues, rows: pa.RecordBatch) -> None:
        """Keep rows of a partition."""
        key = tuple(values.values())
        if key not in self._waiting:
            self._waiting[key] = _Waiting(values, str(len(self._waiting)))
        # A slice keeps its whole parent in memory, and a nested slice also serializes it whole.
        message = rows.take(pa.arange(0, rows.num_rows)).serialize()
        self._waiting[key].messages.append(message)
        self._waiting[key].num_rows += rows.num_rows
        self._num_bytes += message.size
        if self._num_bytes >= _MOST_BYTES_IN_MEMORY:
            self._empty_memory()

    def drain(self) -> Iterator[tuple[PartitionValues, Iterator[pa.RecordBatch]]]:
        """Yield the partitions in order of arrival, each with its rows in order."""
        while self._waiting:
            waiting = self._waiting.pop(next(iter(self._waiting)))
            yield waiting.values, _larger(self._rows(waiting))

    def _rows(self, waiting: _Waiting) -> Iterator[pa.RecordBatch]:
        num_rows = 0
        with _local_disk("read"):
            for message in self._messages(waiting):
                batch = pa.ipc.read_record_batch(message, self._schema)
                num_rows += batch.num_rows
                yield batch
        if num_rows != waiting.num_rows:
            raise StorageError(
                f"cannot read rows that wait on local disk: {num_rows} of {waiting.num_rows} rows are left of a file"
            )

    def _messages(self, waiting: _Waiting) -> Iterator[pa.Message]:
        if waiting.is_on_disk:
            with pa.OSFile(self._path(waiting)) as file:
                yield from pa.ipc.MessageReader.open_stream(file)
            os.unlink(self._path(waiting))
        yield from map(pa.ipc.read_message, waiting.messages)

    def _empty_memory(self) -> None:
        with _local_disk("write"):
            if self._directory is None:
                self._directory = self._cleanup.enter_context(scratch_directory(self._parent))
            for waiting in self._waiting.values():
                if waiting.messages:
                    with open(self._path(waiting), "ab") as file:
                        file.writelines(waiting.messages)
                    waiting.messages.clear()
                    waiting.is_on_disk = True
        self._num_bytes = 0

    def _path(self, waiting: _Waiting) -> str:
        assert self._directory is not None  # noqa: S101 - the directory exists once a file is on disk
        return os.path.join(self._directory, waiting.name)


class _Waiting:
    """The waiting rows of one partition: rows in its file, then rows in memory."""

    def __init__(self, values: PartitionValues, name: str) -> None:
        self.values = values
        self.name = name
        self.num_rows = 0
        self.messages: list[pa.Buffer] = []
        self.is_on_disk = False


def _larger(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Combine small batches into larger ones."""
    held: list[pa.RecordBatch] = []
    num_rows = num_bytes = 0
    for batch in batches:
        held.append(batch)
        num_rows += batch.num_rows
        num_bytes += batch.nbytes
        if num_rows >= _ROWS_AT_ONCE or num_bytes >= _BYTES_AT_ONCE:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held, num_rows, num_bytes = [], 0, 0
    if held:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


@contextlib.contextmanager
def _local_disk(verb: str) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise local_error(f"{verb} rows that wait on local disk", error) from error
