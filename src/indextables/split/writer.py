"""Writing rows into splits: Parquet and index side by side, statistics on the way, a new split at the target size.

A split is built on local disk and put into the store whole. Nothing refers to it before its add action is committed, so
a writer that dies leaves an orphan, never half a table.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import pyarrow as pa

from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.config import Config, settings
from indextables.protocol.actions import Add
from indextables.protocol.paths import split_path
from indextables.split.fields import FieldMap, map_fields
from indextables.split.indexing import IndexBuilder
from indextables.split.split_file import FinishedSplit, SplitFileWriter
from indextables.split.statistics import StatisticsCollector
from indextables.split.term_filter import TermFilterBuilder
from indextables.split.terms import distinct_terms, filtered_fields
from indextables.store import ObjectStore

ENGINE = "tantivy"
# An index takes about as much room as its rows.
_WITH_INDEX = 2


class SplitWriter:
    """Writes the rows of one partition. Use it in a `with`: what is not finished leaves nothing on local disk. Every
    split that stands in the store is in `adds`, also where a later one fails."""

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
        self._store = store
        self._schema = schema
        self._config = config
        self._clock = clock
        self._partition_columns = tuple(partition_columns)
        self._partition_values = dict(partition_values or {})
        self._fields = map_fields(schema, config, partition_columns)
        self._target_bytes = config[settings.WRITE_TARGET_SPLIT_SIZE]
        self._open: _OpenSplit | None = None
        self.adds = [] if adds is None else adds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._open is not None:
            self._open.discard()
            self._open = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows, which have the table's schema."""
        if self._open is None:
            self._open = _OpenSplit(self._schema, self._fields, self._config, self._partition_columns, self._clock)
        self._open.write(batch)
        if self._open.num_bytes * _WITH_INDEX >= self._target_bytes:
            self._end_split()

    def finish(self) -> list[Add]:
        """Put what is left, and the add actions of all splits, in the order of their rows."""
        self._end_split()
        return self.adds

    def _end_split(self) -> None:
        split, self._open = self._open, None
        if split is None:
            return
        try:
            self.adds.append(self._put(split))
        finally:
            split.discard()

    def _put(self, split: _OpenSplit) -> Add:
        finished = split.finish()
        path = split_path(self._partition_columns, self._partition_values, finished.split_id)
        self._store.put_file(path, split.path)
        found = split.statistics.finish()
        return Add(
            path=path,
            partition_values={name: value for name, value in self._partition_values.items() if value is not None},
            size=finished.num_bytes,
            modification_time=self._clock.now_ms(),
            data_change=True,
            stats=found.stats_json(),
            tags=found.tags,
            min_values=found.min_values,
            max_values=found.max_values,
            num_records=finished.num_rows,
            footer_start_offset=finished.footer_start_offset,
            footer_end_offset=finished.footer_end_offset,
            has_footer_offsets=True,
            num_merge_ops=0,
            doc_mapping_json=self._fields.to_json(),
            uncompressed_size_bytes=finished.uncompressed_size_bytes,
        )


class _OpenSplit:
    """A split that is being built in a local directory of its own."""

    def __init__(
        self, schema: pa.Schema, fields: FieldMap, config: Config, partition_columns: Sequence[str], clock: Clock
    ) -> None:
        place = config[settings.INDEX_WRITER_TEMP_DIRECTORY_PATH]
        self._directory = tempfile.mkdtemp(prefix="indextables-", dir=place)
        self._fields = fields
        self._index_directory = os.path.join(self._directory, "index")
        os.mkdir(self._index_directory)
        self.path = os.path.join(self._directory, "new.split")
        self._cleanup = contextlib.ExitStack()
        self._cleanup.callback(shutil.rmtree, self._directory, ignore_errors=True)
        with contextlib.ExitStack() as undo:
            undo.push(self._cleanup)
            texts = [field.column for field in fields.text_fields()]
            self._file = self._cleanup.enter_context(SplitFileWriter(self.path, schema, long_texts=texts, clock=clock))
            heap_bytes = config[settings.INDEX_WRITER_HEAP_SIZE]
            self._index = IndexBuilder(self._index_directory, fields, heap_bytes=heap_bytes)
            self._cleanup.callback(self._index.close)
            self._terms = TermFilterBuilder()
            self._filtered = filtered_fields(fields, schema)
            self.statistics = StatisticsCollector(schema, config, partition_columns)
            undo.pop_all()

    @property
    def num_bytes(self) -> int:
        """About how long the rows would be as a file now."""
        return self._file.num_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        self._file.write(batch)
        self._index.add(batch)
        self.statistics.add(batch)
        for field in self._filtered:
            self._terms.add_terms(field.name, distinct_terms(batch.column(field.column), field))

    def finish(self) -> FinishedSplit:
        built = self._index.finish()
        return self._file.finish(
            self._index_directory,
            built.files,
            engine=ENGINE,
            engine_version=importlib.metadata.version(ENGINE),
            doc_mapping=self._fields.to_json(),
            tokenizers={field.name: field.tokenizer for field in self._fields.fields},
            segments=built.segments,
            term_filter=self._terms.to_bytes(),
        )

    def discard(self) -> None:
        """Take everything away that is on local disk."""
        self._cleanup.close()
