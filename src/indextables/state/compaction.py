"""Decision to compact a state, and the layout of a compacted state.

Files are sorted by partition, so that a manifest has few partitions. Only a few manifests are in memory: the files are
read twice, first only their partition values, to count the files of each partition, and then spilled to local disk by
manifest until all are there.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar
from indextables.config import Config, settings
from indextables.errors import CheckpointWriteError
from indextables.protocol.avro.state_manifest import StateManifest
from indextables.protocol.file_table import FILES_SCHEMA
from indextables.state.changes import Changes

ReadFiles = Callable[[Sequence[str] | None], Iterator[pa.Table]]
"""Function that reads some or all columns of the same files in the same order."""

# With fewer rows at a time, the disk would hold very many pieces of a row or two.
_MANY_ROWS = 10_000
_RANK = "rank"
_SPILLED_SCHEMA = FILES_SCHEMA.append(pa.field(_RANK, pa.int64()))


def needs_compaction(state: StateManifest, changes: Changes, config: Config) -> bool:
    """Return True if a state must be compacted.

    It has too many tombstones or manifests, lost too many files in one commit, or had a merge.
    """
    num_entries = sum(info.num_entries for info in state.manifests)
    if num_entries and len(state.tombstones) / num_entries > config[settings.STATE_COMPACTION_TOMBSTONE_THRESHOLD]:
        return True
    large = config[settings.STATE_COMPACTION_LARGE_REMOVE_THRESHOLD]
    if large is not None and changes.most_removed_at_once > large:
        return True
    if changes.has_merge and config[settings.STATE_COMPACTION_AFTER_MERGE]:
        return True
    return len(state.manifests) - _num_needed(state, config) > config[settings.STATE_COMPACTION_MAX_MANIFESTS]


def is_compact(state: StateManifest, config: Config) -> bool:
    """Return True if compaction would not change a state."""
    return not state.tombstones and len(state.manifests) <= _num_needed(state, config)


def laid_out(read: ReadFiles, partition_types: Mapping[str, pa.DataType], size: int) -> Iterator[pa.Table]:
    """Yield the files sorted by partition, in chunks of `size`; the sort is stable."""
    if not partition_types:
        yield from _chunks(read(None), size)
        return
    places = _Places(read(["partition_values"]), partition_types)
    with _Spill(size) as spill:
        for table in _chunks(read(None), max(size, _MANY_ROWS)):
            spill.add(*places.sort(table))
        yield from spill.chunks()


def _num_needed(state: StateManifest, config: Config) -> int:
    return math.ceil(state.num_files / config[settings.STATE_ENTRIES_PER_MANIFEST])


def _chunks(tables: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """Yield the rows of all tables in order, in chunks of `size`.

    The last may be smaller.
    """
    held: list[pa.Table] = []
    missing = size
    for table in tables:
        while table.num_rows:
            held.append(table.slice(0, missing))
            table = table.slice(missing)
            missing -= held[-1].num_rows
            if not missing:
                yield pa.concat_tables(held)
                held, missing = [], size
    if held:
        yield pa.concat_tables(held)


class _Places:
    """Places of files in the order of partitions.

    The partitions are in memory, and not the files.
    """

    def __init__(self, tables: Iterable[pa.Table], partition_types: Mapping[str, pa.DataType]) -> None:
        """Count the files of each partition."""
        self._names = list(partition_types)
        counts: dict[str | None, int] = collections.defaultdict(int)
        texts: dict[str | None, tuple[str | None, ...]] = {}
        for table in tables:
            columns = self._texts(table)
            keys = _one(_keys(columns))
            for item in pc.value_counts(keys).to_pylist():
                counts[item["values"]] += item["counts"]
            new = to_array([key for key in pc.unique(keys).to_pylist() if key not in texts], pa.string())
            rows = [column.take(pc.index_in(new, value_set=keys)).to_pylist() for column in columns]
            texts.update(zip(new.to_pylist(), zip(*rows, strict=True), strict=True))
        columns = [to_array(column, pa.string()) for column in zip(*texts.values(), strict=True)]
        order = _order(columns, list(partition_types.values()))
        self._partitions = to_array(texts.keys(), pa.string()).take(order)
        sizes = (counts[key] for key in self._partitions.to_pylist())
        self._next = list(itertools.accumulate(sizes, initial=0))

    def sort(self, files: pa.Table) -> tuple[pa.Table, pa.Array[Any]]:
        """Return files in the order of their places, and the places.

        Call it for all files in turn.
        """
        partitions = _one(pc.index_in(_keys(self._texts(files)), value_set=self._partitions))
        order = pc.sort_indices(partitions)
        ordered = partitions.take(order)
        runs = pc.run_end_encode(ordered)
        start, shifts = 0, []
        for partition, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            shifts.append(self._next[partition] - start)
            self._next[partition] += end - start
            start = end
        shift = to_array(shifts, pa.int64()).take(pc.index_in(ordered, value_set=runs.values))
        return files.take(order), pc.add(shift, to_array(range(files.num_rows), pa.int64()))

    def _texts(self, files: pa.Table) -> list[Any]:
        return [pc.map_lookup(files["partition_values"], to_scalar(name), "last") for name in self._names]


def _keys(columns: Sequence[Any]) -> Any:
    """Return one text for the values of all columns, each after its length."""
    if len(columns) == 1:
        return columns[0]
    parts = []
    for column in columns:
        length = pc.cast(pc.binary_length(column), pa.string())
        parts.append(pc.binary_join_element_wise(length, column, to_scalar(":")))
    return pc.binary_join_element_wise(*parts, to_scalar(","), null_handling="replace", null_replacement="-")


def _order(columns: Sequence[pa.Array[Any]], types: Sequence[pa.DataType]) -> Any:
    """Return the order of partitions: by typed values, then by first appearance."""
    if not columns:
        return to_array([], pa.uint64())
    keys: dict[str, Any] = {}
    for at, (column, type_) in enumerate(zip(columns, types, strict=True)):
        values = pc.unique(column)
        places = pc.sort_indices(pc.sort_indices(_typed(values, type_)))
        found = places.take(pc.index_in(column, value_set=values))
        keys[f"k{at}"] = pc.if_else(pc.is_valid(column), found, to_scalar(None, found.type))
    table = pa.Table.from_arrays(list(keys.values()), names=list(keys))
    return pc.sort_indices(table, sort_keys=[(key, "ascending") for key in keys])


def _one(column: Any) -> pa.Array[Any]:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _typed(texts: pa.Array[Any], type_: pa.DataType) -> pa.Array[Any]:
    """Return the values of texts; the texts themselves if one of them is not valid."""
    try:
        return pc.cast(texts, type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return texts


class _Spill(contextlib.AbstractContextManager["_Spill"]):
    """Files on local disk by chunk, in an unnamed file that no crash leaves behind."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._places: dict[int, list[tuple[int, int]]] = collections.defaultdict(list)
        with _disk_errors():
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the exit

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, files: pa.Table, ranks: pa.Array[Any]) -> None:
        """Store files in the order of their ranks, each in the chunk of its rank."""
        ordered = files.append_column(_SPILLED_SCHEMA.field(_RANK), ranks).combine_chunks()
        runs = pc.run_end_encode(pc.divide(ordered[_RANK].combine_chunks(), to_scalar(self._size)))
        start = 0
        for end, chunk in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
            for batch in ordered.slice(start, end - start).to_batches():
                self._places[chunk].append(self._append(batch.serialize()))
            start = end

    def chunks(self) -> Iterator[pa.Table]:
        """Yield the chunks in order, each sorted by rank."""
        for chunk in sorted(self._places):
            batches = [pa.ipc.read_record_batch(self._read(*place), _SPILLED_SCHEMA) for place in self._places[chunk]]
            table = pa.Table.from_batches(batches)
            yield table.take(pc.sort_indices(table[_RANK])).drop_columns([_RANK])

    def _append(self, data: pa.Buffer) -> tuple[int, int]:
        with _disk_errors():
            place = self._file.tell(), data.size
            self._file.write(data)
        return place

    def _read(self, start: int, size: int) -> pa.Buffer:
        with _disk_errors():
            self._file.seek(start)
            return pa.py_buffer(self._file.read(size))


@contextlib.contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CheckpointWriteError(f"cannot sort the files of a state on local disk: {error}") from error
