"""CSV with a header: names choose columns, values follow the table's types.

An empty value without quotes is null, and `""` is an empty string. Nested values stand as JSON. A value in quotes may
hold line breaks. Blank lines are passed over.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as arrow_csv

from indextables.errors import SchemaError
from indextables.ops.bad_lines import BadLines, OnBadLine
from indextables.ops.input_source import MOST_LINE_BYTES, InputSource
from indextables.ops.json_values import DECODE_ERRORS, DECODER, from_json
from indextables.ops.text_values import Typed, from_text, guess_type
from indextables.ops.unknown_columns import UnknownColumns

_BLOCK_BYTES = 4 << 20
_MOST_ROWS = 65_536


class _Header(NamedTuple):
    """The names of the columns, and how many lines they take."""

    names: list[str]
    num_lines: int


class _Block(NamedTuple):
    """Whole rows of a file, and the number of the line on which they begin."""

    data: bytes
    first_line: int


def read_csv(
    source: InputSource, schema: pa.Schema, bad: BadLines, unknown: UnknownColumns, delimiter: str
) -> Iterator[pa.RecordBatch]:
    """The rows of a source in batches of the table's columns that it has."""
    header = _header(source, delimiter)
    if header is None:
        return
    unknown.check(header.names, f"the header of `{source.name}`")
    wanted = [field for field in schema if field.name in header.names]
    for block in _blocks(source, header.num_lines, delimiter):
        yield from _Rows(source, block, header.names, bad, delimiter).typed(wanted)


def guess_csv_schema(source: InputSource, delimiter: str) -> pa.Schema:
    """The names of the header, and the narrowest types that hold the values at the beginning."""
    header = _header(source, delimiter)
    if header is None:
        raise SchemaError(f"cannot tell the columns of `{source.name}` because it is empty")
    rest = source.sample().split(b"\n", header.num_lines)[header.num_lines :]
    rows = _Rows(source, _Block(b"".join(rest), 0), header.names, BadLines(OnBadLine.SKIP), delimiter).texts
    columns = (from_text(rows[name].combine_chunks(), pa.string()).column for name in header.names)
    return pa.schema([(name, guess_type(column)) for name, column in zip(header.names, columns, strict=True)])


def _header(source: InputSource, delimiter: str) -> _Header | None:
    """The first line that is not blank; None where there is nothing at all."""
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


def _blocks(source: InputSource, num_header_lines: int, delimiter: str) -> Iterator[_Block]:
    """The rows behind the header, in blocks that end between rows. The source is read here and not by Arrow, whose
    threads cannot be interrupted while they wait for a pipe."""
    quoted = _quoted_value(delimiter)
    line = 1
    rest = b""
    while part := source.read(_BLOCK_BYTES):
        rest += part
        if line <= num_header_lines:
            *head, rest = rest.split(b"\n", num_header_lines)
            line += len(head)
            if line <= num_header_lines:
                continue
        end = rest.rfind(b"\n", 0, quoted(rest)) + 1
        if end:
            yield _Block(rest[:end], line)
            line += rest.count(b"\n", 0, end)
            rest = rest[end:]
        if len(rest) > MOST_LINE_BYTES:
            raise _open_quote(source, line)
    if line <= num_header_lines:
        return
    opened = quoted(rest)
    if opened < len(rest):
        raise _open_quote(source, line + rest.count(b"\n", 0, opened))
    if rest:
        yield _Block(rest, line)


def _quoted_value(delimiter: str) -> Callable[[bytes], int]:
    """A function that says where a quote begins that is not closed in some rows; their length where there is none."""
    start = rb"(?:^|(?<=[\n" + re.escape(delimiter.encode()) + rb']))"'
    whole = re.compile(start + rb'(?:[^"]+|"")*+"')
    open_ = re.compile(start)

    def opened(data: bytes) -> int:
        if b'"' not in data:
            return len(data)
        end = 0
        for match in whole.finditer(data):
            end = match.end()
        found = open_.search(data, end)
        return len(data) if found is None else found.start()

    return opened


def _open_quote(source: InputSource, line: int) -> SchemaError:
    return SchemaError(
        f"cannot read line {line:,} of `{source.name}` because a quote is opened there and not closed",
        hint="mend the quotes; nothing was written",
    )


class _Rows:
    """The rows of a block: as bytes first, so that a value of another type can be named with its line."""

    def __init__(
        self, source: InputSource, block: _Block, header: Sequence[str], bad: BadLines, delimiter: str
    ) -> None:
        self._source = source
        self._block = block
        self._bad = bad
        self._delimiter = delimiter
        self._misshapen: list[int] = []
        self._error: SchemaError | None = None
        self.texts = self._read(header)

    def typed(self, wanted: Sequence[pa.Field[Any]]) -> Iterator[pa.RecordBatch]:
        """The rows as the table's types, with the bad ones dealt with."""
        before = 0
        for texts in self.texts.to_batches(max_chunksize=_MOST_ROWS):
            yield self._typed(texts, wanted, before)
            before += texts.num_rows

    def _read(self, header: Sequence[str]) -> pa.Table:
        schema = pa.schema([(name, pa.binary()) for name in header])
        if not self._block.data.strip():
            return schema.empty_table()
        try:
            self._block.data.decode()
        except UnicodeDecodeError:
            # Arrow cannot hand over a misshapen row that is not UTF-8, so every byte is made a character of its own.
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
                f"cannot read `{self._source.name}` because {str(error).splitlines()[0]}",
                hint="check its quotes, or name another `--format`",
            ) from error

    def _on_misshapen(self, row: arrow_csv.InvalidRow) -> str:
        """A row with too few or too many values."""
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
        """The number of a good row among all rows of the block."""
        for bad in self._misshapen:
            number += bad <= number
        return number

    def _where(self, number: int) -> str:
        """A row of the block by the line on which it begins."""
        reader = csv.reader(
            io.StringIO(self._block.data.decode(errors="replace"), newline=""), delimiter=self._delimiter
        )
        line = begins = 0
        for row in reader:
            number -= bool(row)
            begins, line = line, reader.line_num
            if number < 0:
                break
        return f"line {self._block.first_line + begins:,} of `{self._source.name}`"


def _latin_bytes(values: Iterable[bytes | None]) -> pa.Array[Any]:
    """Bytes that were made characters, as bytes again."""
    return pa.array([None if value is None else value.decode().encode("latin-1") for value in values], pa.binary())


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
