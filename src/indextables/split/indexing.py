"""The index of a split, built from batches of rows in a local directory, and opened again.

Documents stand in the order of rows. The engine keeps that order in a segment, but where a writer makes eight segments
it merges them in any order. So an index is built in parts, each by a writer that is ended before it gets there; a part
that was merged all the same is indexed again in smaller ones. The segments of all parts stand under one `meta.json` at
the end, in the order of rows.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import tantivy

from indextables.errors import CorruptSplitError, IndexTablesError, SchemaError
from indextables.resources import local_error, local_errors, system_error
from indextables.scratch import remove_directory
from indextables.split.analyzers import analyzer_name, register
from indextables.split.documents import ROW_FIELD, documents
from indextables.split.fields import FieldMap, IndexField, Kind
from indextables.split.layout import Segment

logger = logging.getLogger(__name__)

META = "meta.json"

_MAX_SEGMENTS = 4
_ROWS_PER_LOOK = 1_000
_KILLED = "index writer was killed"
_ROWS_PER_CHECK = 10_000
_LEAST_HEAP_BYTES = 15_000_000
_MOST_HEAP_BYTES = (1 << 32) - 1 - 1_000_000
_NUMBERS: dict[Kind, Any] = {
    Kind.INT: tantivy.SchemaBuilder.add_integer_field,
    Kind.UINT: tantivy.SchemaBuilder.add_unsigned_field,
    Kind.FLOAT: tantivy.SchemaBuilder.add_float_field,
    Kind.BOOL: tantivy.SchemaBuilder.add_boolean_field,
    Kind.BYTES: tantivy.SchemaBuilder.add_bytes_field,
    Kind.IP: tantivy.SchemaBuilder.add_ip_addr_field,
}


class BuiltIndex(msgspec.Struct, frozen=True):
    """An index in a directory: its files by name, and its segments in the order of rows."""

    files: tuple[str, ...]
    segments: tuple[Segment, ...]
    num_rows: int


def make_schema(fields: FieldMap) -> tantivy.Schema:
    """The engine's schema, with the number of the row as `_row`."""
    builder = tantivy.SchemaBuilder()
    for field in fields.fields:
        _add_field(builder, field)
    builder.add_unsigned_field(ROW_FIELD, fast=True)
    return builder.build()


class IndexBuilder:
    """Builds the index of one split. `heap_bytes` bounds a segment in memory; rows that wait take about twice that."""

    def __init__(self, directory: str, fields: FieldMap, *, heap_bytes: int) -> None:
        self._directory = directory
        self._fields = fields
        self._heap_bytes = min(max(heap_bytes, _LEAST_HEAP_BYTES), _MOST_HEAP_BYTES)
        self._bytes_per_part = self._heap_bytes
        self._part: _Part | None = None
        self._num_parts = 0
        self._meta: dict[str, Any] = {}
        self._found: list[tuple[Segment, dict[str, Any]]] = []
        self._files: list[str] = []
        self._num_rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Index the rows of a batch behind those that were added before."""
        with local_errors("index rows"), engine_errors("index rows", SchemaError):
            self._add(batch)

    def finish(self) -> BuiltIndex:
        """Commit, and write the `meta.json` of all segments."""
        with local_errors("finish an index"), engine_errors("finish an index", SchemaError):
            if self._part is None and not self._meta:
                self._part = self._new_part()
            self._end_part()
            with open(os.path.join(self._directory, META), "wb") as file:
                file.write(msgspec.json.encode({**self._meta, "segments": [entry for _, entry in self._found]}))
            segments = tuple(segment for segment, _ in self._found)
            return BuiltIndex((META, *sorted(self._files)), segments, self._num_rows)

    def close(self) -> None:
        """End the writer; what was not finished is lost."""
        part, self._part = self._part, None
        if part is not None:
            part.abandon()

    def _add(self, batch: pa.RecordBatch) -> None:
        start = 0
        while start < batch.num_rows:
            step = self._bytes_per_part // _MAX_SEGMENTS * batch.num_rows // max(batch.nbytes, 1)
            rows = batch.slice(start, max(1, min(step, _ROWS_PER_LOOK)))
            if self._part is None:
                self._part = self._new_part()
            self._part.add(rows)
            start += rows.num_rows
            self._num_rows += rows.num_rows
            if self._part.num_bytes >= self._bytes_per_part or self._part.num_begun() > _MAX_SEGMENTS:
                self._end_part()

    def _new_part(self) -> _Part:
        self._num_parts += 1
        directory = os.path.join(self._directory, f"part{self._num_parts}")
        return _Part(directory, self._fields, self._heap_bytes, self._num_rows)

    def _end_part(self) -> None:
        if self._part is None:
            return
        part, self._part = self._part, None
        part.commit()
        found = part.segments()
        if found is None:
            self._redo(part)
            return
        if found:
            self._bytes_per_part = min(self._heap_bytes, part.num_bytes * _MAX_SEGMENTS // len(found) + 1)
        self._meta = _read_meta(part.directory)
        self._found += found
        self._files += _move_files(part.directory, self._directory, {segment.name for segment, _ in found})
        remove_directory(part.directory)

    def _redo(self, part: _Part) -> None:
        """Index the rows of a part that was merged again, in smaller parts."""
        remove_directory(part.directory)
        self._bytes_per_part = max(1, min(self._bytes_per_part, part.num_bytes) // _MAX_SEGMENTS)
        self._num_rows = part.first_row
        for batch in part.batches:
            self._add(batch)
        self._end_part()


class _Part:
    """What one writer makes. It keeps its rows until it is known that they stand in order."""

    def __init__(self, directory: str, fields: FieldMap, heap_bytes: int, first_row: int) -> None:
        self.directory = directory
        self.first_row = first_row
        self.batches: list[pa.RecordBatch] = []
        self.num_bytes = 0
        self._fields = fields
        self._num_rows = 0
        os.mkdir(directory)
        index = tantivy.Index(make_schema(fields), path=directory)
        register(index, fields)
        self._writer: Any = index.writer(heap_size=heap_bytes, num_threads=1)

    def add(self, batch: pa.RecordBatch) -> None:
        add = self._writer.add_document
        try:
            for document in documents(batch, self._fields, self.first_row + self._num_rows):
                add(document)
        except ValueError as error:
            if _KILLED in str(error):
                self._writer.commit()  # raises the error that ended the writer's thread
            raise
        self._num_rows += batch.num_rows
        self.num_bytes += batch.nbytes
        self.batches.append(batch)

    def num_begun(self) -> int:
        """Segments that were begun; the writer may be some thousand rows behind."""
        return sum(name.endswith(".term") for name in os.listdir(self.directory))

    def commit(self) -> None:
        self._writer.commit()
        self._writer.wait_merging_threads()
        self._writer = None

    def abandon(self) -> None:
        """End the writer's threads, which would otherwise write on as long as a traceback holds it."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        for end in (writer.rollback, writer.wait_merging_threads):
            try:
                end()
            except ValueError as error:  # the error that led here is the one to report
                logger.info("cannot end a writer of an index that is given up: %s", error)

    def segments(self) -> list[tuple[Segment, dict[str, Any]]] | None:
        """The segments in the order of rows, with what `meta.json` says of each; None if a merge broke that order."""
        found = sorted(_segments(self.directory, self._fields), key=lambda pair: pair[0].first_row)
        next_row = self.first_row
        for segment, _ in found:
            if segment.first_row != next_row:
                return None
            next_row += segment.num_rows
        return found if next_row == self.first_row + self._num_rows else None


def open_index(directory: str, fields: FieldMap) -> tantivy.Index:
    """Open an index whose files lie in a directory that can be written to."""
    with engine_errors(f"open the index in `{directory}`", CorruptSplitError):
        index = tantivy.Index.open(directory)
        register(index, fields)
        return index


def _add_field(builder: tantivy.SchemaBuilder, field: IndexField) -> None:
    if field.kind in _NUMBERS:
        # A fast column finds numbers well enough, and terms of them would take a good part of the index.
        _NUMBERS[field.kind](builder, field.name, indexed=not field.is_fast_number, fast=field.fast)
        return
    add = builder.add_json_field if field.kind is Kind.JSON else builder.add_text_field
    add(field.name, fast=field.fast, tokenizer_name=analyzer_name(field), index_option=field.record)


def _segments(directory: str, fields: FieldMap) -> Iterator[tuple[Segment, dict[str, Any]]]:
    """Every segment; one whose rows are not in order has the first row -1."""
    searcher = open_index(directory, fields).searcher()
    for position, entry in enumerate(_read_meta(directory)["segments"]):
        num_rows = int(entry["max_doc"])
        name = str(entry["segment_id"]).replace("-", "")
        first_row = _first_row(searcher, position, num_rows)
        yield Segment(name=name, first_row=first_row, num_rows=num_rows), entry


def _first_row(searcher: tantivy.Searcher, segment: int, num_rows: int) -> int:
    """The row of a segment's first document; -1 if the others do not follow it in order."""
    place = tantivy.DocAddress
    first = int(searcher.fast_field_values(ROW_FIELD, [place(segment, 0)])[0] or 0)
    for start in range(0, num_rows, _ROWS_PER_CHECK):
        checked = range(start, min(start + _ROWS_PER_CHECK, num_rows))
        rows = searcher.fast_field_values(ROW_FIELD, [place(segment, document) for document in checked])
        if rows != list(range(first + checked.start, first + checked.stop)):
            return -1
    return first


def _read_meta(directory: str) -> dict[str, Any]:
    with open(os.path.join(directory, META), "rb") as file:
        return dict(msgspec.json.decode(file.read()))


def _move_files(part: str, directory: str, segments: set[str]) -> list[str]:
    names = [name for name in os.listdir(part) if name.partition(".")[0] in segments]
    for name in names:
        os.replace(os.path.join(part, name), os.path.join(directory, name))
    return names


@contextlib.contextmanager
def engine_errors(what: str, kind: type[IndexTablesError] = IndexTablesError) -> Iterator[None]:
    """Report failures of the engine as `kind`, and failures of the machine under it as `StorageError`.

    A panic of the engine is no `Exception`.
    """
    try:
        yield
    except (IndexTablesError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        if isinstance(error, ValueError | OverflowError) or type(error).__name__ == "PanicException":
            if system_error(error) is not None:  # it reads and writes local files only
                raise local_error(what, error) from error
            raise kind(f"cannot {what} because the engine failed: {str(error)[:300]}") from error
        raise
