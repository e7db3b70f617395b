"""Local files as Arrow batches of a table's columns: CSV, JSON lines, Parquet and plain logs.

Files are read one after the other, a batch at a time. What is read can be watched: `InputFiles` counts bytes and rows.
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
from indextables.ops.bad_lines import BadLines, OnBadLine
from indextables.ops.csv_rows import guess_csv_schema, read_csv
from indextables.ops.incoming import conform
from indextables.ops.input_source import STDIN, InputSource, input_name, input_size
from indextables.ops.json_lines import guess_json_schema, read_json_lines
from indextables.ops.log_lines import LOG_SCHEMA, LogCounts, read_log_lines
from indextables.ops.unknown_columns import UnknownColumns
from indextables.protocol.schema import schema_from_json, schema_to_json
from indextables.resources import refuse_shortage


class InputFormat(enum.StrEnum):
    """What a file holds."""

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
    """How files are read. Without a format it is told by the name of a file, or by how it begins."""

    format: InputFormat | None = None
    delimiter: str | None = None
    on_bad_line: OnBadLine = OnBadLine.FAIL
    ignore_unknown: bool = False
    join_lines: bool = False


class InputFiles:
    """Files that are read into one table. Opening fails for a file that is not there, before anything is read."""

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
        """How many bytes of all files were read."""
        within = 0 if self._source is None else self._source.bytes_read
        return self._bytes_before + max(within, self._parquet_bytes)

    def guess_schema(self) -> pa.Schema:
        """The schema of the first file, by how it begins. It is the one of a table, with types that tables have."""
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
        """How columns of the first file are best indexed: the lines of a log as text."""
        return {"message": "text"} if self._format(self._open(self._paths[0])) is InputFormat.LOG else {}

    def batches(self, schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
        """The rows of all files, with a table's schema."""
        try:
            for path in self._paths:
                source = self._open(path)
                self.current = source.name
                for batch in self._rows(source, schema):
                    self.num_rows += batch.num_rows
                    yield _conformed(batch, schema, source)
                self.close()
        finally:
            self.close()

    def close(self) -> None:
        """Close the file that is open."""
        if self._source is not None:
            self._bytes_before += max(self._source.bytes_read, self._parquet_bytes)
            self._parquet_bytes = 0
            self._source.close()
            self._source = None

    def _open(self, path: str) -> InputSource:
        """The source of a path: the one that was opened to guess its schema, as a pipe can be read only once."""
        if self._source is None:
            self._source = InputSource(path)
        return self._source

    def _rows(self, source: InputSource, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        unknown = UnknownColumns(schema.names, ignored=self._options.ignore_unknown)
        kind = self._format(source)
        if kind is InputFormat.CSV:
            return read_csv(source, schema, self.bad, unknown, self._delimiter(source))
        if kind is InputFormat.JSONL:
            return read_json_lines(source, schema, self.bad, unknown)
        if kind is InputFormat.PARQUET:
            return self._parquet_rows(source, schema, unknown)
        return read_log_lines(
            source, schema, self.log_counts, join_lines=self._options.join_lines, now=_time_of(source)
        )

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
            f"cannot tell the format of {_quoted(source)} by its name or its beginning",
            hint="name it with `--format csv`, `jsonl`, `parquet` or `log`",
        )

    def _delimiter(self, source: InputSource) -> str:
        by_name = "\t" if _plain_name(source.path).lower().endswith(".tsv") else ","
        return self._options.delimiter or by_name


def _plain_name(path: str) -> str:
    """A name without what compression and rotation put behind it, as in `app.log.1.gz`."""
    stem, ending = os.path.splitext(path)
    return _ROTATED.sub("", stem if ending.lower() in _COMPRESSED else path)


def _quoted(source: InputSource) -> str:
    return input_name(source.path) if source.path == STDIN else f"`{source.name}`"


def _time_of(source: InputSource) -> datetime.datetime:
    """When a source was written last."""
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
