"""Build the index of a split from batches of rows, in a local directory; open it.

Documents are in row order. The engine keeps that order inside a segment, but a writer with eight segments merges them
in any order. So an index is built in parts, and each part's writer ends before its eighth segment. A part that was
merged nevertheless is indexed again in smaller parts. At the end the segments of all parts are listed in one
`meta.json`, in row order.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import logging
import os
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import tantivy

from indextables.arrow_values import to_array
from indextables.errors import CorruptSplitError, IndexTablesError, SchemaError
from indextables.runtime.resources import local_error, local_errors, system_error
from indextables.runtime.scratch import remove_directory
from indextables.split.format.layout import Segment
from indextables.split.index.analyzers import analyzer_name, register
from indextables.split.index.documents import ROW_FIELD, documents
from indextables.split.index.fields import FieldMap, IndexField, Kind
from indextables.split.index.json_lines import has_lines, json_lines

logger = logging.getLogger(__name__)

Lines = list[str | None]

META = "meta.json"

_MAX_SEGMENTS = 4
_ROWS_PER_LOOK = 1_000
_FEWEST_LINES = 32
_ROWS_PER_FEED = 8_192
_BYTES_PER_FEED = 16 << 20
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
    """An index in a directory: its file names, and its segments in row order."""

    files: tuple[str, ...]
    segments: tuple[Segment, ...]
    num_rows: int


def make_schema(fields: FieldMap) -> tantivy.Schema:
    """Return the engine's schema, with the row number as `_row`."""
    builder = tantivy.SchemaBuilder()
    for field in fields.fields:
        _add_field(builder, field)
    builder.add_unsigned_field(ROW_FIELD, fast=True)
    return builder.build()


class IndexBuilder:
    """Builds the index of one split.

    `heap_bytes` limits a segment in memory; waiting rows take about twice as much.
    """

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
        self._as_lines = True

    def add(self, batch: pa.RecordBatch) -> None:
        """Index the rows of a batch after the earlier ones."""
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
        """End the writer and drop unfinished work."""
        part, self._part = self._part, None
        if part is not None:
            part.abandon()

    def _add(self, batch: pa.RecordBatch) -> None:
        rows_at_once = max(1, min(_ROWS_PER_FEED, _BYTES_PER_FEED * batch.num_rows // max(batch.nbytes, 1)))
        for start in range(0, batch.num_rows, rows_at_once):
            rows = batch.slice(start, rows_at_once)
            self._add_rows(rows, self._lines(rows))

    def _add_rows(self, batch: pa.RecordBatch, lines: Lines | None) -> None:
        start = 0
        while start < batch.num_rows:
            step = self._bytes_per_part // _MAX_SEGMENTS * batch.num_rows // max(batch.nbytes, 1)
            rows = batch.slice(start, max(1, min(step, _ROWS_PER_LOOK)))
            if self._part is None:
                self._part = self._new_part()
            self._part.add(rows, None if lines is None else lines[start : start + rows.num_rows])
            start += rows.num_rows
            self._num_rows += rows.num_rows
            if self._part.num_bytes >= self._bytes_per_part or self._part.num_begun() > _MAX_SEGMENTS:
                self._end_part()

    def _lines(self, rows: pa.RecordBatch) -> Lines | None:
        """Return the rows as lines; after rows of few lines, the rest is not tried."""
        if not self._as_lines or rows.num_rows < _FEWEST_LINES:
            return None
        lines = json_lines(rows, self._fields, self._num_rows) if has_lines(rows.schema, self._fields) else None
        self._as_lines = lines is not None
        return lines

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
        """Index the rows of a merged part again, in smaller parts."""
        remove_directory(part.directory)
        self._bytes_per_part = max(1, min(self._bytes_per_part, part.num_bytes) // _MAX_SEGMENTS)
        self._num_rows = part.first_row
        for batch in part.batches:
            self._add(batch)
        self._end_part()


class _Part:
    """The segments of one writer, with their rows until their order is verified."""

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

    def add(self, batch: pa.RecordBatch, lines: Lines | None = None) -> None:
        """Index rows, by their lines where they have one."""
        try:
            if lines is None:
                self._add_documents(batch, None)
            elif None not in lines:
                collections.deque(map(self._writer.add_json, lines), maxlen=0)
            else:
                self._add_documents(batch, lines)
        except ValueError as error:
            if _KILLED in str(error):
                self._writer.commit()  # raises the error that ended the writer's thread
            raise
        self._num_rows += batch.num_rows
        self.num_bytes += batch.nbytes
        self.batches.append(batch)

    def _add_documents(self, batch: pa.RecordBatch, lines: Lines | None) -> None:
        first = self.first_row + self._num_rows
        add, add_json = self._writer.add_document, self._writer.add_json
        if lines is None:
            for document in documents(batch, self._fields, itertools.count(first)):
                add(document)
            return
        places = [place for place, line in enumerate(lines) if line is None]
        missing = documents(batch.take(to_array(places)), self._fields, [first + place for place in places])
        for line in lines:
            if line is None:
                add(next(missing))
            else:
                add_json(line)

    def num_begun(self) -> int:
        """Number of segments begun; the writer may be some thousand rows behind."""
        return sum(name.endswith(".term") for name in os.listdir(self.directory))

    def commit(self) -> None:
        self._writer.commit()
        self._writer.wait_merging_threads()
        self._writer = None

    def abandon(self) -> None:
        """End the writer's threads; they would run on while a traceback holds the writer."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        for end in (writer.rollback, writer.wait_merging_threads):
            try:
                end()
            except ValueError as error:  # the error that led here is the one to report
                logger.info("cannot end the writer of an abandoned index: %s", error)

    def segments(self) -> list[tuple[Segment, dict[str, Any]]] | None:
        """Return the segments in row order with their `meta.json` entries.

        Returns None if a merge broke the order.
        """
        found = sorted(_segments(self.directory, self._fields), key=lambda pair: pair[0].first_row)
        next_row = self.first_row
        for segment, _ in found:
            if segment.first_row != next_row:
                return None
            next_row += segment.num_rows
        return found if next_row == self.first_row + self._num_rows else None


def open_index(directory: str, fields: FieldMap) -> tantivy.Index:
    """Open an index in a writable directory."""
    with engine_errors(f"open the index in `{directory}`", CorruptSplitError):
        index = tantivy.Index.open(directory)
        register(index, fields)
        return index


def _add_field(builder: tantivy.SchemaBuilder, field: IndexField) -> None:
    if field.kind in _NUMBERS:
        # A fast column finds numbers fast enough, and their terms would take much of the index.
        _NUMBERS[field.kind](builder, field.name, indexed=not field.is_fast_number, fast=field.fast)
        return
    add = builder.add_json_field if field.kind is Kind.JSON else builder.add_text_field
    add(field.name, fast=field.fast, tokenizer_name=analyzer_name(field), index_option=field.record)


def _segments(directory: str, fields: FieldMap) -> Iterator[tuple[Segment, dict[str, Any]]]:
    """Yield every segment; one with rows out of order has the first row -1."""
    searcher = open_index(directory, fields).searcher()
    for position, entry in enumerate(_read_meta(directory)["segments"]):
        num_rows = int(entry["max_doc"])
        name = str(entry["segment_id"]).replace("-", "")
        first_row = _first_row(searcher, position, num_rows)
        yield Segment(name=name, first_row=first_row, num_rows=num_rows), entry


def _first_row(searcher: tantivy.Searcher, segment: int, num_rows: int) -> int:
    """Return the row of a segment's first document; -1 if the rows are out of order."""
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
    """Report engine failures as `kind`, and failures of the machine as `StorageError`.

    A panic of the engine is not an `Exception`.
    """
    try:
        yield
    except (IndexTablesError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        if isinstance(error, ValueError | OverflowError) or type(error).__name__ == "PanicException":
            if system_error(error) is not None:  # the engine accesses local files only
                raise local_error(what, error) from error
            raise kind(f"cannot {what} because the engine failed: {str(error)[:300]}") from error
        raise
