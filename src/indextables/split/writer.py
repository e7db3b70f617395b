"""Write rows into splits: Parquet, index and statistics, up to a target size each.

A split is built on local disk and put into the store whole. Nothing refers to it before its add action is committed, so
a writer that dies leaves an orphan, never half a table.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import pyarrow as pa

from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.config import Config, settings
from indextables.errors import SchemaError
from indextables.protocol.actions import Add
from indextables.protocol.paths import split_path
from indextables.protocol.statistics_tags import FOOTER_TAG
from indextables.runtime.pools import SHARED_POOLS
from indextables.runtime.resources import local_errors
from indextables.runtime.scratch import directory_in_memory, scratch_directory
from indextables.split.index.builder import BuiltIndex, IndexBuilder
from indextables.split.index.fields import FieldMap, map_fields
from indextables.split.index.term_filter import ROUGH, TermFilterBuilder
from indextables.split.index.term_hashes import encode_hashes
from indextables.split.index.terms import distinct_terms, filtered_fields
from indextables.split.split_file import SplitFileWriter
from indextables.split.statistics import StatisticsCollector
from indextables.store import ObjectStore

ENGINE = "tantivy"
ENGINE_VERSION = importlib.metadata.version(ENGINE)
# The engine's thread works on its queue while the other parts handle as many rows.
_ROWS_AT_ONCE = 8_192
_FINISHING = "split-finishing"
# An index takes about as much space as its rows.
_WITH_INDEX = 2
_FEW_BYTES = 512 << 10
_MEMORY_BYTES = 64 << 20


class SplitWriter:
    """Writes the rows of one partition; use it in a `with` block.

    An unfinished split leaves nothing on local disk. Every split in the store is in `adds`, even if a later one fails.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: pa.Schema,
        config: Config,
        *,
        partition_columns: Sequence[str] = (),
        partition_values: Mapping[str, str | None] | None = None,
        adds: list[Add] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._plan = SplitPlan.make(
            store, schema, config, partition_columns=partition_columns, partition_values=partition_values, clock=clock
        )
        self._target_bytes = config[settings.WRITE_TARGET_SPLIT_SIZE]
        self._open: NewSplit | None = None
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self.adds = [] if adds is None else adds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows with the table's schema; the first ones wait, as few may follow."""
        if not batch.schema.equals(self._plan.schema):
            raise SchemaError("cannot write rows into a split because their columns differ from the split")
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        if self._open is None and self._held_bytes <= min(_FEW_BYTES, self._target_bytes // _WITH_INDEX):
            return
        if self._write_held(is_small=False).num_bytes * _WITH_INDEX >= self._target_bytes:
            self._end_split()

    def _write_held(self, *, is_small: bool) -> NewSplit:
        """Write the rows that wait, if necessary into a new split."""
        if self._open is None:
            self._open = NewSplit(self._plan, self._plan.new_index, is_small=is_small)
        held, self._held, self._held_bytes = self._held, [], 0
        for batch in held:
            self._open.write(batch)
        return self._open

    def finish(self) -> list[Add]:
        """Put the last split, and return the add actions of all splits, in row order."""
        self._end_split()
        return self.adds

    def _end_split(self) -> None:
        if self._held:
            self._write_held(is_small=True)
        split, self._open = self._open, None
        if split is None:
            return
        with contextlib.closing(split):
            self.adds.append(split.put())


class SplitPlan(NamedTuple):
    """Common facts of the new splits of one partition."""

    store: ObjectStore
    schema: pa.Schema
    config: Config
    fields: FieldMap
    partition_columns: tuple[str, ...]
    partition_values: dict[str, str | None]
    clock: Clock

    @classmethod
    def make(
        cls,
        store: ObjectStore,
        schema: pa.Schema,
        config: Config,
        *,
        partition_columns: Sequence[str],
        partition_values: Mapping[str, str | None] | None,
        clock: Clock,
    ) -> SplitPlan:
        fields = map_fields(schema, config, partition_columns)
        return cls(store, schema, config, fields, tuple(partition_columns), dict(partition_values or {}), clock)

    def new_index(self, directory: str) -> IndexBuilder:
        """Return a builder that indexes the rows."""
        return IndexBuilder(directory, self.fields, heap_bytes=self.config[settings.INDEX_WRITER_HEAP_SIZE])


class Index(Protocol):
    """An index under construction; it receives every row, in order."""

    def add(self, batch: pa.RecordBatch) -> None: ...

    def finish(self) -> BuiltIndex: ...

    def close(self) -> None: ...


class NewSplit:
    """A split under construction in its own local directory, removed on close.

    The engine syncs every file of an index, which takes most of the time of a small one. So a small split is built in
    memory where the system has a directory for that, unless the settings name another.
    """

    def __init__(self, plan: SplitPlan, make_index: Callable[[str], Index], *, is_small: bool = False) -> None:
        self._plan = plan
        self._cleanup = contextlib.ExitStack()
        parent = plan.config[settings.INDEX_WRITER_TEMP_DIRECTORY_PATH]
        if parent is None and is_small:
            parent = directory_in_memory(_MEMORY_BYTES)
        directory = self._cleanup.enter_context(scratch_directory(parent))
        self._index_directory = os.path.join(directory, "index")
        self._path = os.path.join(directory, "new.split")
        with contextlib.ExitStack() as undo, local_errors("write a split"):
            undo.push(self._cleanup)
            os.mkdir(self._index_directory)
            texts = [field.column for field in plan.fields.text_fields()]
            self._file = self._cleanup.enter_context(
                SplitFileWriter(self._path, plan.schema, long_texts=texts, clock=plan.clock)
            )
            self._index = make_index(self._index_directory)
            self._cleanup.callback(self._index.close)
            self._terms = TermFilterBuilder()
            self._filtered = filtered_fields(plan.fields, plan.schema)
            self._statistics = StatisticsCollector(plan.schema, plan.config, plan.partition_columns)
            undo.pop_all()

    @property
    def num_bytes(self) -> int:
        """Approximate length of the rows as a file."""
        return self._file.num_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows with the table's schema."""
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            rows = batch.slice(start, _ROWS_AT_ONCE)
            with local_errors("write a split"):
                self._file.write(rows)
            self._index.add(rows)
            self._statistics.add(rows)
            for field in self._filtered:
                self._terms.add_terms(field.name, distinct_terms(rows.column(field.column), field))

    def put(self, *, num_merge_ops: int = 0, merged_from: Sequence[str] = ()) -> Add:
        """Finish the split, put it into the store with one put, and return its add action.

        `merged_from` are the ids of the splits that the rows come from.
        """
        plan = self._plan
        built, rough, fine = self._finish_all()
        with local_errors("write a split"):
            finished = self._file.finish(
                self._index_directory,
                built.files,
                engine=ENGINE,
                engine_version=ENGINE_VERSION,
                doc_mapping=plan.fields.to_json(),
                tokenizers={field.name: field.tokenizer for field in plan.fields.fields},
                segments=built.segments,
                term_filter=rough,
                fine_filter=fine,
                merged_from=merged_from,
            )
        path = split_path(plan.partition_columns, plan.partition_values, finished.split_id)
        plan.store.put_file(path, self._path)
        found = self._statistics.finish()
        return Add(
            path=path,
            partition_values={name: value for name, value in plan.partition_values.items() if value is not None},
            size=finished.num_bytes,
            modification_time=plan.clock.now_ms(),
            data_change=True,
            stats=found.stats_json(),
            tags={**(found.tags or {}), FOOTER_TAG: str(finished.footer_start_offset)},
            min_values=found.min_values,
            max_values=found.max_values,
            num_records=finished.num_rows,
            footer_start_offset=finished.footer_start_offset,
            footer_end_offset=finished.footer_end_offset,
            has_footer_offsets=True,
            num_merge_ops=num_merge_ops,
            doc_mapping_json=plan.fields.to_json(),
            uncompressed_size_bytes=finished.uncompressed_size_bytes,
        )

    def _finish_all(self) -> tuple[BuiltIndex, bytes, bytes]:
        """Finish the index, which the engine does, and its filters in parallel."""
        work: list[Callable[[], Any]] = [self._index.finish, self._filters]
        built, (rough, fine) = SHARED_POOLS.map(_FINISHING, lambda finish: finish(), work, workers=2)
        return built, rough, fine

    def _filters(self) -> tuple[bytes, bytes]:
        rough = self._terms.to_bytes(ROUGH, salt=int(self._file.split_id[:8], 16))
        return rough, encode_hashes(self._terms.distinct_crcs(), self._terms.fields)

    def close(self) -> None:
        """Remove everything from local disk."""
        self._cleanup.close()
