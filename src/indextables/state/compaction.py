"""When a state is written anew instead of added to, and how its files are laid out then.

Files are laid out in the order of their partitions, so that a manifest holds few of them. Memory holds a few manifests
at a time: the files are gone through twice, first for their partition values alone, and wait on local disk, each with
those of its manifest, until all are there.
"""

from __future__ import annotations

import collections
import contextlib
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.config import Config, settings
from indextables.errors import CheckpointWriteError
from indextables.protocol.file_table import FILES_SCHEMA
from indextables.protocol.state_manifest import StateManifest
from indextables.state.changes import Changes

ReadFiles = Callable[[Sequence[str] | None], Iterator[pa.Table]]
"""Goes through the same files in the same order each time: these columns of them, or all."""

# Fewer rows at a time would leave on disk very many pieces of a row or two.
_MANY_ROWS = 10_000
_RANK = "rank"
_SPILLED_SCHEMA = FILES_SCHEMA.append(pa.field(_RANK, pa.uint64()))
_TEXTS = pa.dictionary(pa.int32(), pa.string())


def needs_compaction(state: StateManifest, changes: Changes, config: Config) -> bool:
    """Whether a state has gathered too many tombstones or manifests, lost too many files at once, or saw a merge."""
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
    """Whether compacting a state would change nothing."""
    return not state.tombstones and len(state.manifests) <= _num_needed(state, config)


def laid_out(read: ReadFiles, partition_types: Mapping[str, pa.DataType], size: int) -> Iterator[pa.Table]:
    """The files in the order of their partitions, in chunks of a size. Files of one partition keep their order."""
    if not partition_types:
        yield from _chunks(read(None), size)
        return
    ranks = _ranks(read(["partition_values"]), partition_types)
    with _Spill(size) as spill:
        start = 0
        for table in _chunks(read(None), max(size, _MANY_ROWS)):
            spill.add(table, ranks.slice(start, table.num_rows))
            start += table.num_rows
        yield from spill.chunks()


def _num_needed(state: StateManifest, config: Config) -> int:
    return math.ceil(state.num_files / config[settings.STATE_ENTRIES_PER_MANIFEST])


def _chunks(tables: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """The rows of all tables in their order, in chunks that have a size, but for the last."""
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


def _ranks(tables: Iterable[pa.Table], partition_types: Mapping[str, pa.DataType]) -> pa.Array[Any]:
    """The place of each file in the order of partitions."""
    texts: dict[str, list[pa.Array[Any]]] = {name: [] for name in partition_types}
    for table in tables:
        for name, chunks in texts.items():
            found = pc.map_lookup(table["partition_values"], pa.scalar(name), "last")
            chunks += found.dictionary_encode().chunks
    keys = {f"k{at}": _sort_keys(texts[name], type_) for at, (name, type_) in enumerate(partition_types.items())}
    order = pc.sort_indices(pa.table(keys), sort_keys=[(key, "ascending") for key in keys])
    return pc.sort_indices(order)


def _sort_keys(chunks: Sequence[pa.Array[Any]], type_: pa.DataType) -> pa.ChunkedArray[Any]:
    """Numbers in the order of the values that texts stand for."""
    unified = pa.chunked_array(chunks, _TEXTS).unify_dictionaries()
    if not unified.num_chunks:
        return pa.chunked_array([], pa.uint64())
    places = pc.sort_indices(pc.sort_indices(_typed(unified.chunk(0).dictionary, type_)))
    return pa.chunked_array([places.take(chunk.indices) for chunk in unified.chunks])


def _typed(texts: pa.Array[Any], type_: pa.DataType) -> pa.Array[Any]:
    """The values that texts stand for; the texts themselves where one of them cannot be read."""
    try:
        return pc.cast(texts, type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return texts


class _Spill(contextlib.AbstractContextManager["_Spill"]):
    """Files on local disk by the chunk that they belong to, in a file without a name, which no crash leaves behind."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._places: dict[int, list[tuple[int, int]]] = collections.defaultdict(list)
        with _disk_errors():
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the exit

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, files: pa.Table, ranks: pa.Array[Any]) -> None:
        """Put files aside, each in the chunk into which its rank falls."""
        ordered = files.append_column(_SPILLED_SCHEMA.field(_RANK), ranks).take(pc.sort_indices(ranks)).combine_chunks()
        runs = pc.run_end_encode(pc.divide(ordered[_RANK].combine_chunks(), self._size))
        start = 0
        for end, chunk in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
            for batch in ordered.slice(start, end - start).to_batches():
                self._places[chunk].append(self._append(batch.serialize()))
            start = end

    def chunks(self) -> Iterator[pa.Table]:
        """The chunks one after the other, each in the order of its ranks."""
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
