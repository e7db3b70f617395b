"""Read CSV with a header: names choose columns, values follow the table's types.

An empty value without quotes is null, and `""` is an empty string. Nested values are JSON. A quoted value may contain
line breaks. Blank lines are skipped.
"""

from __future__ import annotations

import collections
import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as arrow_csv

from indextables.arrow_values import to_array, to_table
from indextables.errors import SchemaError
from indextables.ingest.bad_lines import BadLines, LogCounts, OnBadLine, UnknownColumns
from indextables.ingest.input_source import MOST_LINE_BYTES, Block, InputSource
from indextables.ingest.json_rows import DECODE_ERRORS, DECODER, from_json
from indextables.ingest.text_values import Typed, from_text, guess_type

_BLOCK_BYTES = 4 << 20
_MOST_ROWS = 65_536
_VALUES_LOOKED_AT = 10_000


class _Header(NamedTuple):
    """Column names, and the number of lines in the header."""

    names: list[str]
    num_lines: int


class CsvParser(NamedTuple):
    """Parser of the rows behind a header, into the columns that file and table share."""

    source: str
    names: list[str]
    schema: pa.Schema
    delimiter: str

    @property
    def is_slow(self) -> bool:
        return False

    def batches(self, block: Block, bad: BadLines, counts: LogCounts) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a block."""
        wanted = [field for field in self.schema if field.name in self.names]
        return _Rows(self.source, block, self.names, bad, self.delimiter).typed(wanted)


def open_csv(
    source: InputSource, schema: pa.Schema, unknown: UnknownColumns, delimiter: str
) -> tuple[CsvParser, Iterator[Block]]:
    """Read the header; return the parser of the rows, and the rows in blocks."""
    header = _header(source, delimiter)
    if header is None:
        return CsvParser(source.name, [], schema, delimiter), iter(())
    unknown.check(header.names, f"the header of `{source.name}`")
    return CsvParser(source.name, header.names, schema, delimiter), _blocks(source, header.num_lines, delimiter)


def guess_csv_schema(source: InputSource, delimiter: str) -> pa.Schema:
    """Return the header's names with the narrowest types that fit the sample."""
    header = _header(source, delimiter)
    if header is None:
        raise SchemaError(f"cannot infer the columns of `{source.name}` because it is empty")
    rest = source.sample().split(b"\n", header.num_lines)[header.num_lines :]
    rows = _Rows(source.name, Block(b"".join(rest), 0), header.names, BadLines(OnBadLine.SKIP), delimiter).texts
    columns = (from_text(rows[name].combine_chunks(), pa.string()).column for name in header.names)
    return pa.schema([(name, guess_type(column)) for name, column in zip(header.names, columns, strict=True)])


def _header(source: InputSource, delimiter: str) -> _Header | None:
    """Read the first line that is not blank; None if the source is empty."""
    text = source.sample().decode(errors="replace")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    names = next((row for row in reader if row), None)
    if names is None:
        return None
    double = next((name for name in names if names.count(name) > 1), None)
    if double or not all(names):
        why = f"the column `{double}` is in it twice" if double else "a column in it has no name"
        raise SchemaError(
            f"cannot read the header of `{source.name}` because {why}",
            hint="the first line has to name the columns, each once",
        )
    return _Header(names, reader.line_num)


def _blocks(source: InputSource, num_header_lines: int, delimiter: str) -> Iterator[Block]:
    """Yield the rows behind the header in blocks that end between rows.

    Python reads the source, since Arrow's threads cannot be interrupted while they wait for a pipe.
    """
    quotes = _Quotes(delimiter)
    line = 1
    rest = b""
    while part := source.read(_BLOCK_BYTES):
        rest += part
        if line <= num_header_lines:
            *head, rest = rest.split(b"\n", num_header_lines)
            line += len(head)
            if line <= num_header_lines:
                continue
        end = quotes.row_end(rest)
        if end:
            yield Block(rest[:end], line)
            line += rest.count(b"\n", 0, end)
            rest = rest[end:]
        if len(rest) > MOST_LINE_BYTES:
            raise _open_quote(source, line)
    if line <= num_header_lines:
        return
    opened = quotes.opened(rest)
    if opened < len(rest):
        raise _open_quote(source, line + rest.count(b"\n", 0, opened))
    if rest:
        yield Block(rest, line)


class _Quotes:
    """Finds the ends of rows; a quoted value may hold line breaks."""

    def __init__(self, delimiter: str) -> None:
        start = rb"(?:^|(?<=[\n" + re.escape(delimiter.encode()) + rb']))"'
        self._whole = re.compile(start + rb'(?:[^"]+|"")*+"')
        self._open = re.compile(start)

    def opened(self, data: bytes) -> int:
        """Return the place of the first unclosed quote, or the length of the data."""
        return self._outside(data)[0][1] if b'"' in data else len(data)

    def row_end(self, data: bytes) -> int:
        """Return the end of the last whole row; 0 if there is none or it is far back."""
        if b'"' not in data:
            return data.rfind(b"\n") + 1
        for start, end in self._outside(data):
            found = data.rfind(b"\n", start, end)
            if found >= 0:
                return found + 1
        return 0

    def _outside(self, data: bytes) -> list[tuple[int, int]]:
        """Return the last spans outside of quoted values, from the end."""
        values = [match.span() for match in collections.deque(self._whole.finditer(data), maxlen=_VALUES_LOOKED_AT)]
        last = values[-1][1] if values else 0
        found = self._open.search(data, last)
        ends = [*(start for start, _ in values), len(data) if found is None else found.start()]
        # Before the first of many values, the data was not looked at.
        starts = [values[0][0] if len(values) == _VALUES_LOOKED_AT else 0, *(end for _, end in values)]
        return list(zip(starts, ends, strict=True))[::-1]


def _open_quote(source: InputSource, line: int) -> SchemaError:
    return SchemaError(
        f"cannot read line {line:,} of `{source.name}` because a quote is opened there and not closed",
        hint="correct the quotes; nothing was written",
    )


class _Rows:
    """The rows of a block; kept as bytes first, to report a bad value with its line."""

    def __init__(self, source: str, block: Block, header: Sequence[str], bad: BadLines, delimiter: str) -> None:
        self._source = source
        self._block = block
        self._bad = bad
        self._delimiter = delimiter
        self._misshapen: list[int] = []
        self._error: SchemaError | None = None
        self.texts = self._read(header)

    def typed(self, wanted: Sequence[pa.Field[Any]]) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the table's types, with bad rows handled."""
        before = 0
        for texts in self.texts.to_batches(max_chunksize=_MOST_ROWS):
            yield self._typed(texts, wanted, before)
            before += texts.num_rows

    def _read(self, header: Sequence[str]) -> pa.Table:
        schema = pa.schema([(name, pa.binary()) for name in header])
        if not self._block.data.strip():
            return to_table([], schema)
        try:
            self._block.data.decode()
        except UnicodeDecodeError:
            # Arrow cannot report a misshapen row that is not UTF-8, so each byte becomes one character.
            texts = self._parsed(self._block.data.decode("latin-1").encode(), schema)
            columns = [_latin_bytes(column.to_pylist()) for column in texts.columns]
            return pa.Table.from_arrays(columns, schema=schema)
        return self._parsed(self._block.data, schema)

    def _parsed(self, data: bytes, schema: pa.Schema) -> pa.Table:
        try:
            return arrow_csv.read_csv(
                pa.BufferReader(data),
                read_options=arrow_csv.ReadOptions(
                    use_threads=False, block_size=len(data) + 1, column_names=schema.names
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=self._on_misshapen
                ),
                convert_options=arrow_csv.ConvertOptions(
                    check_utf8=False,
                    column_types=schema,
                    strings_can_be_null=True,
                    null_values=[""],
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            raise self._error or SchemaError(
                f"cannot read `{self._source}` because {str(error).splitlines()[0]}",
                hint="check its quotes, or name another `--format`",
            ) from error

    def _on_misshapen(self, row: arrow_csv.InvalidRow) -> str:
        """Handle a row with too few or too many values."""
        self._misshapen.append(row.number - 1)
        why = f"it has {row.actual_columns} values, and the header has {row.expected_columns} columns"
        try:
            self._bad.unreadable(self._where(row.number - 1), why)
        except SchemaError as error:
            self._error = error
            return "error"
        return "skip"

    def _typed(self, texts: pa.RecordBatch, wanted: Sequence[pa.Field[Any]], before: int) -> pa.RecordBatch:
        columns = []
        misfits: dict[str, list[int]] = {}
        for field in wanted:
            typed = _typed(texts.column(field.name), field.type)
            columns.append(typed.column)
            if typed.bad:
                misfits[field.name] = typed.bad
        return self._bad.misfits(
            pa.RecordBatch.from_arrays(columns, schema=pa.schema(list(wanted))),
            misfits,
            lambda row: self._where(self._with_misshapen(before + row)),
            lambda name, row: (texts.column(name)[row].as_py() or b"").decode(errors="backslashreplace"),
        )

    def _with_misshapen(self, number: int) -> int:
        """Return the number of a good row among all rows of the block."""
        for bad in self._misshapen:
            number += bad <= number
        return number

    def _where(self, number: int) -> str:
        """Name a row of the block by its first line."""
        reader = csv.reader(
            io.StringIO(self._block.data.decode(errors="replace"), newline=""), delimiter=self._delimiter
        )
        line = begins = 0
        for row in reader:
            number -= bool(row)
            begins, line = line, reader.line_num
            if number < 0:
                break
        return f"line {self._block.first_line + begins:,} of `{self._source}`"


def _latin_bytes(values: Iterable[bytes | None]) -> pa.Array[Any]:
    """Turn Latin-1 characters back into bytes."""
    return to_array([None if value is None else value.decode().encode("latin-1") for value in values], pa.binary())


def _typed(texts: pa.Array[Any], kind: pa.DataType) -> Typed:
    if not pa.types.is_nested(kind):
        return from_text(texts, kind)
    values: list[Any] = []
    bad = []
    for at, text in enumerate(texts.to_pylist()):
        try:
            values.append(DECODER.decode(text) if text else None)
        except DECODE_ERRORS:
            values.append(None)
            bad.append(at)
    typed = from_json(values, kind)
    return Typed(typed.column, sorted({*bad, *typed.bad}))
