"""JSON lines: an object a line becomes a row. Blank lines are passed over."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from indextables.errors import SchemaError
from indextables.ops.bad_lines import BadLines
from indextables.ops.input_source import InputSource
from indextables.ops.json_values import DECODE_ERRORS, DECODER, from_json, guess_json_type, json_text
from indextables.ops.unknown_columns import UnknownColumns

MOST_ROWS = 65_536
MOST_BYTES = 16 << 20


class _Line(NamedTuple):
    number: int
    row: dict[str, Any]


def read_json_lines(
    source: InputSource, schema: pa.Schema, bad: BadLines, unknown: UnknownColumns
) -> Iterator[pa.RecordBatch]:
    """The rows of a source in batches of a table's schema."""
    lines: list[_Line] = []
    num_bytes = 0
    known = frozenset(schema.names)
    for number, text in enumerate(source.lines(), 1):
        try:
            row = _row(source, number, text, bad)
        except SchemaError:
            _batch(source, lines, schema, bad)  # a bad value in a line before this one is named first
            raise
        if row is None:
            continue
        if not known.issuperset(row):
            unknown.check(row, f"line {number:,} of `{source.name}`")
        lines.append(_Line(number, row))
        num_bytes += len(text)
        if len(lines) >= MOST_ROWS or num_bytes >= MOST_BYTES:
            yield _batch(source, lines, schema, bad)
            lines, num_bytes = [], 0
    if lines:
        yield _batch(source, lines, schema, bad)


def guess_json_schema(source: InputSource) -> pa.Schema:
    """The schema of the objects at the beginning of a source; lines that are none are passed over."""
    rows = []
    for text in itertools.islice(source.sample().split(b"\n"), MOST_ROWS):
        try:
            row = DECODER.decode(text)
        except DECODE_ERRORS:
            continue
        rows += [row] if isinstance(row, dict) else []
    names = dict.fromkeys(itertools.chain.from_iterable(rows))
    if not names and not source.sample().strip():
        raise SchemaError(f"cannot tell the columns of `{source.name}` because it is empty")
    if not names:
        raise SchemaError(
            f"cannot tell the columns of `{source.name}` because it does not begin with JSON objects, one a line",
            hint=_HINT,
        )
    return pa.schema([(name, guess_json_type(row.get(name) for row in rows)) for name in names])


_HINT = "make JSON lines of a JSON array with `jq -c '.[]'`, or name another `--format`"


def _row(source: InputSource, number: int, text: bytes, bad: BadLines) -> dict[str, Any] | None:
    if not text.strip():
        return None
    try:
        row = DECODER.decode(text)
    except DECODE_ERRORS as error:
        bad.unreadable(f"line {number:,} of `{source.name}`", f"it is not JSON: {error}")
        return None
    if isinstance(row, dict):
        return row
    bad.unreadable(f"line {number:,} of `{source.name}`", "it is not a JSON object")
    return None


def _batch(source: InputSource, lines: list[_Line], schema: pa.Schema, bad: BadLines) -> pa.RecordBatch:
    columns = []
    misfits: dict[str, list[int]] = {}
    for field in schema:
        typed = from_json([line.row.get(field.name) for line in lines], field.type)
        columns.append(typed.column)
        if typed.bad:
            misfits[field.name] = typed.bad
    return bad.misfits(
        pa.RecordBatch.from_arrays(columns, names=schema.names),
        misfits,
        lambda row: f"line {lines[row].number:,} of `{source.name}`",
        lambda name, row: json_text(lines[row].row.get(name)) or "",
    )
