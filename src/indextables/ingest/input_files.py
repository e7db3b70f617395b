"""Read local files as Arrow batches: CSV, JSON lines, Parquet and plain logs.

Files are read one after the other, a block at a time; other processes parse the blocks of large ones. `InputFiles`
counts bytes and rows for progress bars.
"""

from __future__ import annotations

import datetime
import enum
import os
import re
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from indextables.clock import SYSTEM_CLOCK
from indextables.errors import ConfigError, SchemaError
from indextables.ingest.bad_lines import BadLines, LogCounts, OnBadLine, UnknownColumns
from indextables.ingest.batches import conform
from indextables.ingest.block_parsing import BlockParsing
from indextables.ingest.csv_rows import guess_csv_schema, open_csv
from indextables.ingest.input_source import STDIN, Block, InputSource, input_name, input_size
from indextables.ingest.json_rows import JsonParser, guess_json_schema
from indextables.ingest.log_lines import LOG_SCHEMA, EntryBlocks, LogParser, open_log
from indextables.protocol.schema import schema_from_json, schema_to_json
from indextables.runtime.resources import refuse_shortage


class InputFormat(enum.StrEnum):
    """Format of a file."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    LOG = "log"


_BY_ENDING = {
    ".csv": InputFormat.CSV,
    ".tsv": InputFormat.CSV,
    ".jsonl": InputFormat.JSONL,
    ".ndjson": InputFormat.JSONL,
    ".json": InputFormat.JSONL,
    ".parquet": InputFormat.PARQUET,
    ".pq": InputFormat.PARQUET,
    ".log": InputFormat.LOG,
    ".txt": InputFormat.LOG,
    ".out": InputFormat.LOG,
    ".err": InputFormat.LOG,
}
_COMPRESSED = (".gz", ".zst", ".bz2")
_ROTATED = re.compile(r"[.-]\d[\d-]*$")
_PARQUET_MAGIC = b"PAR1"
_MOST_ROWS = 65_536
_MOST_BYTES = 16 << 20


class InputOptions(NamedTuple):
    """How to read files; without a format, the name or the first bytes decide."""

    format: InputFormat | None = None
    delimiter: str | None = None
    on_bad_line: OnBadLine = OnBadLine.FAIL
    ignore_unknown: bool = False
    join_lines: bool = False
    workers: int | None = None


class InputFiles:
    """Files to read into one table; a missing file fails before any is read."""

    def __init__(self, paths: Sequence[str], options: InputOptions | None = None) -> None:
        self._options = InputOptions() if options is None else options
        self._paths = list(paths)
        sizes = [input_size(path) for path in self._paths]
        self.num_bytes = None if None in sizes else sum(size for size in sizes if size is not None)
        self.bad = BadLines(self._options.on_bad_line)
        self.log_counts = LogCounts()
        self.num_rows = 0
        self.current = input_name(self._paths[0])
        self._bytes_before = 0
        self._source: InputSource | None = None
        self._parquet_bytes = 0

    @property
    def num_files(self) -> int:
        return len(self._paths)

    @property
    def bytes_read(self) -> int:
        """Number of bytes read from all files."""
        within = 0 if self._source is None else self._source.bytes_read
        return self._bytes_before + max(within, self._parquet_bytes)

    def guess_schema(self) -> pa.Schema:
        """Infer the schema from the beginning of the first file, in types of a table."""
        source = self._open(self._paths[0])
        kind = self._format(source)
        if kind is InputFormat.PARQUET:
            guessed = _parquet_file(source).schema_arrow
        elif kind is InputFormat.CSV:
            guessed = guess_csv_schema(source, self._delimiter(source))
        else:
            guessed = LOG_SCHEMA if kind is InputFormat.LOG else guess_json_schema(source)
        return schema_from_json(schema_to_json(guessed.remove_metadata()))

    def guess_indexing(self) -> dict[str, str]:
        """Suggest the indexing for the first file: the lines of a log as text."""
        return {"message": "text"} if self._format(self._open(self._paths[0])) is InputFormat.LOG else {}

    def batches(self, schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of all files with the table's schema."""
        try:
            with BlockParsing(self.bad, self.log_counts, self._options.workers) as parsing:
                for path in self._paths:
                    source = self._open(path)
                    self.current = source.name
                    for batch in self._rows(source, schema, parsing):
                        self.num_rows += batch.num_rows
                        yield _conformed(batch, schema, source)
                    self.close()
        finally:
            self.close()

    def close(self) -> None:
        """Close the open file."""
        if self._source is not None:
            self._bytes_before += max(self._source.bytes_read, self._parquet_bytes)
            self._parquet_bytes = 0
            self._source.close()
            self._source = None

    def _open(self, path: str) -> InputSource:
        """Return the source of a path; reuse the one that schema inference opened.

        A pipe can be read only once.
        """
        if self._source is None:
            self._source = InputSource(path)
        return self._source

    def _rows(self, source: InputSource, schema: pa.Schema, parsing: BlockParsing) -> Iterator[pa.RecordBatch]:
        unknown = UnknownColumns(schema.names, ignored=self._options.ignore_unknown)
        kind = self._format(source)
        if kind is InputFormat.CSV:
            return parsing.batches(*open_csv(source, schema, unknown, self._delimiter(source)))
        if kind is InputFormat.JSONL:
            return parsing.batches(JsonParser(source.name, schema, unknown), source.blocks())
        if kind is InputFormat.PARQUET:
            return self._parquet_rows(source, schema, unknown)
        parser, blocks = open_log(source, schema, join_lines=self._options.join_lines, now=_time_of(source))
        return self._joined_rows(parser, blocks, parsing) if parser.join_lines else parsing.batches(parser, blocks)

    def _joined_rows(
        self, parser: LogParser, blocks: Iterator[Block], parsing: BlockParsing
    ) -> Iterator[pa.RecordBatch]:
        """Yield entries of several lines; if an end is unclear, parse the rest here."""
        ended = EntryBlocks(blocks, parser.now)
        yield from parsing.batches(parser, ended)
        yield from parser.entries(ended.rest, self.log_counts)

    def _parquet_rows(
        self, source: InputSource, schema: pa.Schema, unknown: UnknownColumns
    ) -> Iterator[pa.RecordBatch]:
        with _parquet_file(source) as file:
            unknown.check(file.schema_arrow.names, f"`{source.name}`")
            wanted = [name for name in file.schema_arrow.names if name in schema.names]
            num_rows = max(1, file.metadata.num_rows)
            sizes = (file.metadata.row_group(group).total_byte_size for group in range(file.metadata.num_row_groups))
            at_once = max(1, min(_MOST_ROWS, _MOST_BYTES * num_rows // max(1, sum(sizes))))
            read = 0
            try:
                for batch in file.iter_batches(batch_size=at_once, columns=wanted):
                    read += batch.num_rows
                    self._parquet_bytes = (source.size or 0) * read // num_rows
                    yield batch
            except (pa.ArrowException, OSError) as error:
                raise _no_parquet(source, error) from error

    def _format(self, source: InputSource) -> InputFormat:
        if self._options.format is not None:
            return self._options.format
        ending = os.path.splitext(_plain_name(source.path))[1].lower()
        by_name = None if source.path == STDIN else _BY_ENDING.get(ending)
        if by_name is not None:
            return by_name
        begins = source.begins_with(len(_PARQUET_MAGIC))
        if begins == _PARQUET_MAGIC:
            return InputFormat.PARQUET
        if begins.lstrip().startswith(b"{"):
            return InputFormat.JSONL
        raise ConfigError(
            f"cannot infer the format of {_quoted(source)} from its name or its first bytes",
            hint="name it with `--format csv`, `jsonl`, `parquet` or `log`",
        )

    def _delimiter(self, source: InputSource) -> str:
        by_name = "\t" if _plain_name(source.path).lower().endswith(".tsv") else ","
        return self._options.delimiter or by_name


def _plain_name(path: str) -> str:
    """Strip the suffixes of compression and rotation, as in `app.log.1.gz`."""
    stem, ending = os.path.splitext(path)
    return _ROTATED.sub("", stem if ending.lower() in _COMPRESSED else path)


def _quoted(source: InputSource) -> str:
    return input_name(source.path) if source.path == STDIN else f"`{source.name}`"


def _time_of(source: InputSource) -> datetime.datetime:
    """Return the last modification time of a source."""
    seconds = SYSTEM_CLOCK.now_ms() / 1000 if source.size is None else os.stat(source.path).st_mtime
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def _parquet_file(source: InputSource) -> pq.ParquetFile:
    if source.seekable_path is None:
        raise ConfigError(
            f"cannot read {_quoted(source)} as Parquet because Parquet is read from both ends",
            hint="give an uncompressed file on local disk",
        )
    try:
        return pq.ParquetFile(source.path)
    except (pa.ArrowException, OSError) as error:
        raise _no_parquet(source, error) from error


def _no_parquet(source: InputSource, error: Exception) -> SchemaError:
    refuse_shortage(f"read `{source.name}`", error)
    return SchemaError(
        f"cannot read `{source.name}` as Parquet because {str(error).splitlines()[0]}",
        hint="check the file, or name another `--format`; nothing was written",
    )


def _conformed(batch: pa.RecordBatch, schema: pa.Schema, source: InputSource) -> pa.RecordBatch:
    try:
        return conform(batch, schema)
    except SchemaError as error:
        raise SchemaError(f"cannot read `{source.name}`: {error.message}", hint=error.hint) from error
