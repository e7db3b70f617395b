"""A split as a file: written to local disk, read from an object store by ranges.

    with SplitFileWriter(path, schema) as writer:
        writer.write(batch)
        writer.finish(index_directory, names, ...)

    split = SplitFile.open(store, key, size=..., footer_start_offset=..., footer_end_offset=...)

Opening takes one ranged read, which fetches all of a small split from a remote store. Every byte is verified before it
is used: the footer by its seal, each page and each member by a CRC.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import logging
import struct
from collections.abc import Collection, Iterator, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

from indextables.clock import SYSTEM_CLOCK, Clock, timed_uuid
from indextables.errors import ObjectNotFoundError, SchemaError, StorageError
from indextables.predicate.decide import Extent
from indextables.protocol.paths import named_split_id
from indextables.runtime.resources import local_errors, open_file, refuse_shortage
from indextables.split.format import layout
from indextables.split.format.layout import Directory, Member, Segment, corrupt
from indextables.split.format.members import ReadRanges, extract_members, write_bytes, write_members
from indextables.split.format.page_table import PageTable, encode_page_table, find_pages
from indextables.split.index.term_filter import TermFilter
from indextables.split.index.term_hashes import TermHashes, read_filter
from indextables.split.partial.packing import IndexFiles, extract_pieces
from indextables.split.partial.piece_table import PieceTable
from indextables.split.rows.encoding import writer_options
from indextables.split.rows.row_reader import RowReader, check_types, leaf_ranges
from indextables.store import ObjectStore

logger = logging.getLogger(__name__)

_FIRST_GROUP_BYTES = 2 << 20
_PAGED_GROUP_BYTES = 16 << 20
_GROUP_BYTES = 512 << 10
_LEAST_CHUNK_BYTES = 16 << 10
_MOST_GROUP_BYTES = 64 << 20
_LEAST_GROUP_ROWS = 2_048
_MOST_GROUP_ROWS = 131_072
_EARLY_CHUNKS = 16_384
_EARLY_GROUPS = (16, 256)
_PACKED_GUESS = 0.4
_TAIL_BYTES = 512 << 10
_SMALL_BYTES = 64 << 10
_SMALL_INDEX_BYTES = 4 << 20
_TRAILER = struct.Struct("<I4s")
_ARROW_SCHEMA = b"ARROW:schema"


class FinishedSplit(NamedTuple):
    """Facts of a split for its add action; `uncompressed_size_bytes` counts rows only."""

    split_id: str
    num_bytes: int
    num_rows: int
    footer_start_offset: int
    footer_end_offset: int
    uncompressed_size_bytes: int


class SplitFileWriter:
    """Writes one split to a local file, with the memory of one row group."""

    def __init__(
        self, path: str, schema: pa.Schema, *, long_texts: Collection[str] = (), clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """Open the file.

        `long_texts` are columns with useless bounds, which would fill the footer.
        """
        if not schema.names:
            raise SchemaError("cannot write a split because it has no columns")
        if len(set(schema.names)) != len(schema.names):
            raise SchemaError("cannot write a split because two of its columns have one name")
        self.split_id = timed_uuid(clock)
        self.num_rows = 0
        self._path = path
        self._schema = schema
        self._long_texts = long_texts
        self._leaf_counts = [len(leaves) for leaves in leaf_ranges(schema)]
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._arrow_bytes = 0
        self._group_sizes: list[int] = []
        self._written_rows = 0
        self._columns = check_types(schema)
        self._sink = pa.OSFile(path, "wb")
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._writer is not None:
            with contextlib.suppress(pa.ArrowException, OSError):
                self._writer.close()
        self._sink.close()

    @property
    def num_bytes(self) -> int:
        """Approximate length of the file so far, without an index."""
        written = int(self._sink.tell())
        done = self._arrow_bytes - self._pending_bytes
        return written + int(self._pending_bytes * (written / done if done else _PACKED_GUESS))

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        if not batch.schema.equals(self._schema):
            raise SchemaError("cannot write rows into a split because their columns differ from the split")
        num_bytes = batch.nbytes
        self.num_rows += batch.num_rows
        self._arrow_bytes += num_bytes
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        self._pending_bytes += num_bytes
        if self._pending_rows >= self._group_rows():
            self._flush(last=False)

    def finish(
        self,
        index_directory: str,
        index_files: Sequence[str],
        *,
        engine: str,
        engine_version: str,
        doc_mapping: str,
        tokenizers: dict[str, Any],
        segments: Sequence[Segment],
        term_filter: bytes | None,
        fine_filter: bytes | None = None,
        merged_from: Sequence[str] = (),
    ) -> FinishedSplit:
        """Append the index, the filter and the footer, and seal the file."""
        writer = self._flush(last=True)
        pages = find_pages(self._path, int(self._sink.tell()), self._group_sizes, self._leaf_counts)
        members, pieces = _write_index(self._sink, index_directory, index_files)
        fine = None if fine_filter is None else write_bytes(self._sink, "fine-filter", fine_filter)
        footer_start = int(self._sink.tell())
        self._sink.write(bytes(layout.SEAL_BYTES))
        page_table = write_bytes(self._sink, "page-table", encode_page_table(pages))
        stored = None if term_filter is None else write_bytes(self._sink, "term-filter", term_filter)
        directory = Directory(
            layout_version=layout.LAYOUT_VERSION if pieces is None else layout.PIECES_VERSION,
            split_id=self.split_id,
            num_rows=self.num_rows,
            footer_start_offset=footer_start,
            engine=engine,
            engine_version=engine_version,
            doc_mapping=doc_mapping,
            tokenizers=tokenizers,
            segments=list(segments),
            members=members,
            page_table=page_table,
            pieces=pieces,
            term_filter=stored,
            fine_filter=fine,
            merged_from=list(merged_from),
        )
        text = layout.encode_directory(directory)
        layout.decode_directory(text, self._path)  # refuse a directory that could not be read back
        writer.add_key_value_metadata({layout.KEY: text})
        writer.close()
        self._sink.close()
        return self._seal(footer_start)

    def _flush(self, *, last: bool) -> pq.ParquetWriter:
        """Write the full row groups, and at the end the rest."""
        table = pa.Table.from_batches(self._pending, self._schema)
        if self._writer is None:
            self._writer = self._open_writer(table)
        while table.num_rows:
            rows = self._group_rows()
            if table.num_rows < rows and not last:
                break
            self._writer.write_table(table.slice(0, rows), row_group_size=rows)
            self._group_sizes.append(min(rows, table.num_rows))
            self._written_rows += self._group_sizes[-1]
            table = table.slice(rows)
        self._pending = table.to_batches()
        self._pending_rows = table.num_rows
        self._pending_bytes = sum(batch.nbytes for batch in self._pending)
        return self._writer

    def _open_writer(self, first_rows: pa.Table) -> pq.ParquetWriter:
        sample = first_rows.slice(0, _LEAST_GROUP_ROWS)
        return pq.ParquetWriter(self._sink, self._schema, **writer_options(sample, self._columns, self._long_texts))

    def _group_rows(self) -> int:
        """Return the number of rows of the next group.

        It is small if some chunks can only be read whole. But each group takes space in the footer, so groups grow with
        the number of columns, and with the file once it has many groups.
        """
        row_bytes = max(1.0, self._arrow_bytes / max(1, self.num_rows))
        num_leaves = sum(self._leaf_counts)
        least, most = _EARLY_GROUPS
        early = min(most, max(least, _EARLY_CHUNKS // num_leaves))
        is_paged = num_leaves == len(self._leaf_counts)
        written = int(self._written_rows * row_bytes)
        usual = min(max(written, _FIRST_GROUP_BYTES), _PAGED_GROUP_BYTES) if is_paged else _GROUP_BYTES
        aim = max(usual, num_leaves * _LEAST_CHUNK_BYTES, written // early)
        rows = min(max(int(aim / row_bytes), _LEAST_GROUP_ROWS), _MOST_GROUP_ROWS)
        return max(1, min(rows, int(_MOST_GROUP_BYTES / row_bytes)))

    def _seal(self, footer_start: int) -> FinishedSplit:
        with open(self._path, "r+b", opener=open_file) as file:
            metadata = pq.read_metadata(file)
            file.seek(footer_start + layout.SEAL_BYTES)
            behind = file.read()
            size = file.tell()
            file.seek(footer_start)
            file.write(layout.make_seal(self.split_id, size, behind))
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        uncompressed = sum(group.total_byte_size for group in groups)
        return FinishedSplit(self.split_id, size, self.num_rows, footer_start, size, uncompressed)


class SplitFile:
    """A split in a store."""

    def __init__(self, read: ReadRanges, key: str, size: int, footer_start: int, tail: bytes) -> None:
        """Parse the bytes of the footer's range, which are not trusted yet."""
        self.key = key
        self.size = size
        self._read = read
        self._tail = tail
        self._tail_start = footer_start
        split_id = _check_seal(tail, key, size)
        metadata = _parse_footer(tail, key)
        self.directory: Directory = _directory_of(metadata, key)
        if self.directory.split_id != split_id or self.directory.footer_start_offset != footer_start:
            raise corrupt(key, "its directory belongs to another file")
        if metadata.num_rows != self.directory.num_rows:
            raise corrupt(key, f"it has {metadata.num_rows} rows and its directory says {self.directory.num_rows}")
        self.num_rows: int = metadata.num_rows
        self.schema: pa.Schema = _schema_of(metadata, key)
        rows_end = self.directory.index_range[0]
        footer = memoryview(tail)[-_TRAILER.size - _footer_length(tail, key) : -_TRAILER.size]
        self._rows = RowReader(key, metadata, footer, self.schema, self._page_table(), rows_end, self._read)

    @classmethod
    def open(
        cls,
        store: ObjectStore,
        key: str,
        *,
        size: int | None = None,
        footer_start_offset: int | None = None,
        footer_end_offset: int | None = None,
        num_records: int | None = None,
    ) -> SplitFile:
        """Open a split by one ranged read, or by two or three if the offsets are unknown.

        `num_records` is the number of rows in the log.
        """
        split = cls._open(store, key, size, footer_start_offset, footer_end_offset)
        if num_records not in (None, split.num_rows):
            raise corrupt(key, f"it has {split.num_rows} rows and the log says {num_records}")
        return split

    @classmethod
    def _open(
        cls,
        store: ObjectStore,
        key: str,
        size: int | None,
        footer_start_offset: int | None,
        footer_end_offset: int | None,
    ) -> SplitFile:
        if size is None:
            size = store.head(key).size
        if footer_start_offset is None or footer_end_offset is None:
            read = _reader(store, key, size)
            return cls(read, key, size, *_find_tail(read, key, size))
        _check_offsets(key, size, footer_start_offset, footer_end_offset)
        read = _reader(store, key, size)
        (tail,) = read([(footer_start_offset, footer_end_offset)])
        return cls(read, key, size, footer_start_offset, tail)

    def term_filter(self) -> TermFilter | TermHashes | None:
        """Return the rough filter of terms; None if there is none."""
        member = self.directory.term_filter
        return None if member is None else self._filter(self._from_tail(member))

    def fine_filter(self) -> TermFilter | TermHashes | None:
        """Read the fine filter, which has fewer false positives, with another request."""
        member = self.directory.fine_filter
        if member is None:
            return None
        (stored,) = self._read([(member.offset, member.end)])
        return self._filter(self._verified(member, stored))

    def _filter(self, data: bytes | memoryview) -> TermFilter | TermHashes | None:
        try:
            return read_filter(data)
        except ValueError as error:
            raise corrupt(self.key, str(error)) from error

    def extract_index(self, into: str) -> None:
        """Extract the verified files of the index into an empty directory."""
        with local_errors(f"extract the index of the split `{self.key}`"):
            if self.directory.pieces is None:
                extract_members(self.directory.members, into, self.key, self._read)
            else:
                read = self._read_index()
                extract_pieces(self._piece_table(read)[0], into, self.key, read)

    def _read_index(self) -> ReadRanges:
        """Return a function that reads the index; fetch a small one with one request."""
        start, end = self.directory.index_range
        if end - start > _SMALL_INDEX_BYTES:
            return self._read
        (whole,) = self._read([(start, end)])
        return functools.partial(_cut_ranges, whole, self.key, first=start)

    def piece_table(self) -> tuple[PieceTable, bytes]:
        """Read the table of pieces with one request, and return it with the stored tails."""
        return self._piece_table(self._read)

    def _piece_table(self, read: ReadRanges) -> tuple[PieceTable, bytes]:
        pieces = self.directory.pieces
        if pieces is None:
            raise ValueError(f"the index of the split `{self.key}` is not in pieces")
        (stored,) = read([(pieces.tails_offset, pieces.table.end)])
        tails_length = pieces.table.offset - pieces.tails_offset
        data = self._verified(pieces.table, memoryview(stored)[tails_length:])
        try:
            table = PieceTable.from_bytes(data, offset=pieces.offset)
        except ValueError as error:
            raise corrupt(self.key, f"its table of pieces cannot be understood ({error})") from error
        if (table.tails_offset, table.end) != (pieces.tails_offset, pieces.table.offset):
            raise corrupt(self.key, "its table of pieces does not fit its directory")
        return table, stored[:tails_length]

    @property
    def read_ranges(self) -> ReadRanges:
        """The function that reads ranges of this split."""
        return self._read

    def check_start(self) -> None:
        """Refuse a file that does not start like Parquet.

        This library does not need those bytes, but other readers do.
        """
        (start,) = self._read([(0, len(layout.MAGIC))])
        if start != layout.MAGIC:
            raise corrupt(self.key, "it does not start like a Parquet file")

    def rows(
        self, row_numbers: pa.Array | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of rows, in the order of the given numbers."""
        return self._rows.rows(row_numbers, columns)

    @property
    def num_groups(self) -> int:
        """Number of row groups."""
        return self._rows.num_groups

    def place_of_group(self, group: int) -> tuple[int, int]:
        """Return the first row of a row group, and its number of rows."""
        return self._rows.place_of_group(group)

    def coded_rows(self, columns: Sequence[str], groups: Sequence[int]) -> Iterator[tuple[int, pa.Table]]:
        """Yield all rows of some row groups with their first number; texts may be codes."""
        return self._rows.coded_rows(columns, groups)

    def group_extents(self, column: str) -> list[Extent]:
        """Return the bounds of a column in each row group."""
        return self._rows.group_extents(column)

    def dictionary_bytes(self, column: str) -> int | None:
        """Return the stored size of a column's largest dictionary; None if one is missing."""
        return self._rows.dictionary_bytes(column)

    def share_of_decoding(self, num_rows: int, columns: Sequence[str]) -> float:
        """Estimate the cost of reading scattered rows, as a share of decoding the split."""
        return self._rows.share_of_decoding(num_rows, columns)

    def read_bytes(self, start: int, end: int) -> bytes:
        """Return bytes of the file for plain Parquet readers; the footer is in memory."""
        if start >= self._tail_start:
            return self._tail[start - self._tail_start : end - self._tail_start]
        (stored,) = self._read([(start, min(end, self._tail_start))])
        return stored + self._tail[: end - self._tail_start] if end > self._tail_start else stored

    def _page_table(self) -> PageTable:
        try:
            return PageTable(self._from_tail(self.directory.page_table))
        except ValueError as error:
            raise corrupt(self.key, f"its page table cannot be understood ({error})") from error

    def _from_tail(self, member: Member) -> memoryview:
        start, end = member.offset - self._tail_start, member.end - self._tail_start
        if not 0 <= start <= end <= len(self._tail) or end - start != member.raw_length:
            raise corrupt(self.key, "a part of its footer is outside of it")
        return self._verified(member, memoryview(self._tail)[start:end])

    def _verified(self, member: Member, stored: bytes | memoryview) -> memoryview:
        layout.check_crc(stored, member.raw_crc32, self.key, f"its {member.name.replace('-', ' ')}")
        return memoryview(stored)


def verify_seal(
    store: ObjectStore, key: str, *, size: int, footer_start_offset: int | None, footer_end_offset: int | None
) -> None:
    """Verify a split's footer and name with one ranged read, without opening it."""
    if footer_start_offset is None or footer_end_offset is None:
        SplitFile.open(store, key, size=size)
        return
    _check_offsets(key, size, footer_start_offset, footer_end_offset)
    (tail,) = _read_ranges(store, key, size, [(footer_start_offset, footer_end_offset)])
    _check_seal(tail, key, size)


def _check_seal(tail: bytes, key: str, size: int) -> str:
    """Return the id in the seal of a footer; refuse a name with another id."""
    split_id = layout.check_seal(tail, key, size=size)
    if named_split_id(key) not in (None, split_id):
        raise corrupt(key, f"it is the split `{split_id}`, put in the place of another")
    return split_id


def _write_index(
    sink: pa.NativeFile, directory: str, names: Sequence[str]
) -> tuple[list[Member], layout.Pieces | None]:
    """Append the files of an index, in pieces if their form is known."""
    try:
        files = IndexFiles(directory, names)
    except ValueError as error:
        logger.info("writing the files of an index whole because %s", error)
        return write_members(sink, directory, names), None
    table = files.write(sink)
    stored = write_bytes(sink, "piece-table", table.to_bytes())
    return [], layout.Pieces(offset=table.offset, tails_offset=table.tails_offset, table=stored)


def _check_offsets(key: str, size: int, start: int, end: int) -> None:
    if not 0 <= start <= end or end != size:
        raise corrupt(key, f"its footer cannot be at {start} to {end} of {size} bytes")


def _reader(store: ObjectStore, key: str, size: int) -> ReadRanges:
    """Return a reader of ranges; a small remote split is read whole and kept."""
    read = functools.partial(_read_ranges, store, key, size)
    if size > _SMALL_BYTES or not store.is_remote:
        return read
    (whole,) = read([(0, size)])
    return functools.partial(_cut_ranges, whole, key)


def _cut_ranges(whole: bytes, key: str, ranges: Sequence[tuple[int, int]], first: int = 0) -> list[bytes]:
    """Cut ranges out of bytes that start at the place `first` of the file."""
    if any(not first <= start <= end <= first + len(whole) for start, end in ranges):
        raise corrupt(key, "a part of it is outside of it")
    return [whole[start - first : end - first] for start, end in ranges]


def _read_ranges(store: ObjectStore, key: str, size: int, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    try:
        found = store.get_ranges(key, ranges)
    except ObjectNotFoundError:
        raise
    except StorageError:
        there = store.head(key).size
        if there < size:
            raise corrupt(key, f"it has {there} bytes of {size}") from None
        raise
    if any(len(part) != end - start for part, (start, end) in zip(found, ranges, strict=True)):
        raise corrupt(key, "it is shorter than it should be")
    return found


def _find_tail(read: ReadRanges, key: str, size: int) -> tuple[int, bytes]:
    """Find the footer's range from the end of the file; return its start and bytes."""
    start = max(0, size - _TAIL_BYTES)
    (tail,) = read([(start, size)])
    footer_start = size - _TRAILER.size - _footer_length(tail, key)
    if footer_start < start:
        start = max(0, footer_start)
        (tail,) = read([(start, size)])
    directory = _directory_of(_parse_footer(tail, key), key)
    wanted = directory.footer_start_offset
    if wanted >= size:
        raise corrupt(key, "its footer starts behind its end")
    if wanted < start:
        (before,) = read([(wanted, start)])
        return wanted, before + tail
    return wanted, tail[wanted - start :]


def _footer_length(tail: bytes, key: str) -> int:
    if len(tail) < _TRAILER.size:
        raise corrupt(key, "it is too short for a Parquet file")
    length, magic = _TRAILER.unpack_from(tail, len(tail) - _TRAILER.size)
    if magic != layout.MAGIC:
        raise corrupt(key, "it does not end like a Parquet file")
    return int(length)


def _parse_footer(tail: bytes, key: str) -> pq.FileMetaData:
    if _footer_length(tail, key) + _TRAILER.size > len(tail):
        raise corrupt(key, "its Parquet footer is longer than it can be")
    try:
        return pq.read_metadata(pa.BufferReader(tail))
    except (pa.ArrowException, OSError, ValueError) as error:
        refuse_shortage(f"read the split `{key}`", error)
        raise corrupt(key, f"its Parquet footer cannot be understood ({error})") from error


def _directory_of(metadata: pq.FileMetaData, key: str) -> Directory:
    text = (metadata.metadata or {}).get(layout.KEY.encode())
    if text is None:
        raise corrupt(key, f"its Parquet footer has no `{layout.KEY}`")
    return layout.decode_directory(text, key)


def _schema_of(metadata: pq.FileMetaData, key: str) -> pa.Schema:
    """Return the schema that was written; Parquet's own has fewer types."""
    try:
        text = (metadata.metadata or {}).get(_ARROW_SCHEMA)
        if text is None:
            return metadata.schema.to_arrow_schema()
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
    except (pa.ArrowException, OSError, ValueError, binascii.Error) as error:
        refuse_shortage(f"read the split `{key}`", error)
        raise corrupt(key, f"its schema cannot be understood ({error})") from error
