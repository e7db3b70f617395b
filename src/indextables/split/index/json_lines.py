"""Rows as JSON documents of the engine, made by Arrow kernels, many at once.

The engine parses such a line faster than Python fills a document field by field. A line stands for exactly the values
of `documents`, else there is none:

- A null is an empty list, which adds no value to a field.
- Quotes, backslashes and control characters of texts are escaped.
- The engine's parser rounds a decimal twice: its digits to a double, then their quotient by a power of ten. A float is
  a number with few digits, of which both are exact, or the same calculation returns it; else its row has no line.
- Nested values, addresses, bytes and decimals of more than 18 digits have no lines at all.
"""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar
from indextables.split.index.documents import ROW_FIELD, float_numbers, indexed_texts, integers, plain_column
from indextables.split.index.fields import FieldMap, IndexField, Kind, is_text, value_type

_WHOLE = (Kind.INT, Kind.UINT)
_TEXTS = (Kind.TEXT, Kind.STRING)
_NO_VALUE = "[]"
_FIRST_PRINTABLE = 0x20
_PLAIN_NUMBER = b"0123456789.-"
_SURE_LENGTH = 16
"""A point and fifteen digits: a whole number below 2**53, divided by at most 10**15."""
_MOST_DECIMALS = 30


def has_lines(schema: pa.Schema, fields: FieldMap) -> bool:
    """Return whether rows of a schema can have lines."""
    return all(field.nan_of is None and _is_plain(schema.field(field.column).type, field) for field in fields.fields)


def json_lines(batch: pa.RecordBatch, fields: FieldMap, first_row: int) -> list[str | None] | None:
    """Return the lines of rows, numbered from `first_row`; None for rows without one.

    Returns None if most rows have none, or if a value cannot be converted.
    """
    try:
        lines, unsure = _lines(batch, fields, first_row)
        if unsure is None:
            return list(lines.to_pylist())
        if pc.sum(unsure).as_py() * 2 > batch.num_rows:
            return None
        return list(pc.if_else(unsure, to_scalar(None, lines.type), lines).to_pylist())
    except (pa.ArrowException, UnicodeError):  # documents name the column and the reason
        return None


def _is_plain(type_: Any, field: IndexField) -> bool:
    if pa.types.is_null(type_) or field.kind in (*_WHOLE, Kind.FLOAT, Kind.BOOL):
        return True
    return field.kind in _TEXTS and is_text(value_type(type_))


def _lines(batch: pa.RecordBatch, fields: FieldMap, first_row: int) -> tuple[Any, Any]:
    """Return the lines, and a mask of rows whose line may not be exact, or None."""
    numbers = pa.arange(first_row, first_row + batch.num_rows)
    parts: list[Any] = [f'{{"{ROW_FIELD}":', pc.cast(numbers, pa.string())]
    masks = []
    for field in fields.fields:
        column = plain_column(batch.column(field.column))
        if pa.types.is_null(column.type):
            continue
        quote = '"' if field.kind in _TEXTS else ""
        texts, unsure = _texts(column, field)
        if unsure is not None:
            masks.append(unsure)
        if texts.null_count:
            quoted = _joined([quote, texts, quote]) if quote else texts
            texts, quote = pc.fill_null(quoted, to_scalar(_NO_VALUE, quoted.type)), ""
        parts += [f',"{field.name}":{quote}', texts, quote]
    return _joined([*parts, "}"]), functools.reduce(pc.or_, masks) if masks else None


def _texts(column: Any, field: IndexField) -> tuple[Any, Any]:
    """Return values as JSON, without quotes, and the mask of unsure ones, or None."""
    if field.kind in _TEXTS:
        texts = indexed_texts(column) if field.kind is Kind.STRING else column
        return _escaped(pc.cast(texts, pa.large_string()) if pa.types.is_string_view(texts.type) else texts), None
    if field.kind is Kind.FLOAT:
        return _floats(float_numbers(column))
    return pc.cast(integers(column) if field.kind is Kind.INT else column, pa.string()), None


def _joined(parts: list[Any]) -> Any:
    """Join columns and texts row by row; a null makes a null."""
    merged: list[Any] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif not isinstance(part, str) or part:
            merged.append(part)
    arguments = [_scalar(part) if isinstance(part, str) else part for part in merged]
    return pc.binary_join_element_wise(*arguments, _scalar(""))


@functools.lru_cache(maxsize=4_096)
def _scalar(text: str) -> Any:
    return to_scalar(text, pa.string())


def _escaped(texts: Any) -> Any:
    """Escape what JSON strings may not hold, only where the column holds it."""
    data = _data(texts)
    if not data.size:
        return texts
    letters = pa.Array.from_buffers(pa.uint8(), data.size, [None, data])
    plain = data.to_pybytes()
    for letter in '\\"':
        if letter.encode() in plain:
            texts = pc.replace_substring(texts, letter, "\\" + letter)
    if pc.min(letters).as_py() < _FIRST_PRINTABLE:
        controls = pc.unique(letters.filter(pc.less(letters, to_scalar(_FIRST_PRINTABLE, pa.uint8()))))
        for control in controls.to_pylist():
            texts = pc.replace_substring(texts, chr(control), f"\\u{control:04x}")
    return texts


def _data(texts: Any) -> pa.Buffer:
    """Return the bytes of a column of texts, of its rows alone."""
    _, ends, data = texts.buffers()
    if data is None or not len(texts):
        return pa.py_buffer(b"")
    wide = pa.int64() if pa.types.is_large_string(texts.type) else pa.int32()
    places = pa.Array.from_buffers(wide, len(texts) + 1, [None, ends], offset=texts.offset)
    start = places[0].as_py()
    return data.slice(start, places[len(texts)].as_py() - start)


def _floats(numbers: Any) -> tuple[Any, Any]:
    texts = pc.cast(numbers, pa.string())
    is_long = pc.greater(pc.binary_length(texts), to_scalar(_SURE_LENGTH, pa.int32()))
    has_power = bool(_data(texts).to_pybytes().translate(None, _PLAIN_NUMBER))
    if has_power:
        is_long = functools.reduce(pc.or_, (pc.match_substring(texts, letter) for letter in "en"), is_long)
    is_long = pc.fill_null(is_long, to_scalar(value=False))
    if not pc.any(is_long).as_py():
        return texts, None
    places = pc.indices_nonzero(is_long)
    exact = _is_parsed_exactly(texts.take(places), numbers.take(places))
    unsure = pc.call_function(
        "scatter", [pc.invert(exact), pc.cast(places, pa.int64())], pc.ScatterOptions(max_index=len(texts) - 1)
    )
    return texts, pc.fill_null(unsure, to_scalar(value=False))


def _is_parsed_exactly(texts: Any, numbers: Any) -> Any:
    """Calculate as the engine's parser does, and compare."""
    is_plain = pc.invert(functools.reduce(pc.or_, (pc.match_substring(texts, letter) for letter in "en")))
    plain = pc.if_else(is_plain, texts, _scalar("0"))
    digits = pc.replace_substring(pc.replace_substring(plain, "-", ""), ".", "")
    point = pc.find_substring(plain, ".")
    behind = pc.subtract(pc.subtract(pc.binary_length(plain), point), to_scalar(1, pa.int32()))
    decimals = pc.if_else(pc.less(point, to_scalar(0, pa.int32())), to_scalar(0, pa.int32()), behind)
    if pc.max(decimals).as_py() > _MOST_DECIMALS:
        return pc.and_(is_plain, to_scalar(value=False))
    whole = pc.cast(pc.cast(digits, pa.uint64()), pa.float64(), safe=False)
    parsed = pc.divide(whole, _powers().take(decimals))
    return pc.and_(is_plain, pc.equal(parsed, pc.abs(numbers)))


@functools.cache
def _powers() -> Any:
    return to_array([float(f"1e{power}") for power in range(_MOST_DECIMALS + 1)], pa.float64())
