"""Turn rows into documents of the index: convert columns once, then walk the rows.

Each value has the form of `literals.index_value`.
"""

from __future__ import annotations

import datetime as dt
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import tantivy

from indextables.arrow_values import to_array, to_scalar
from indextables.errors import SchemaError
from indextables.split.index.fields import MAX_TERM_BYTES, FieldMap, IndexField, Kind, is_text, value_type
from indextables.split.index.literals import JSON_ROOT, counts_nanoseconds, json_text, normal_ip, wide_decimal

ROW_FIELD = "_row"

_MAX_JSON_DEPTH = 100
_JSON_INTEGERS = range(-(1 << 63), 1 << 64)
_ADDERS: dict[Kind, Any] = {
    Kind.TEXT: tantivy.Document.add_text,
    Kind.STRING: tantivy.Document.add_text,
    Kind.JSON: tantivy.Document.add_json,
    Kind.INT: tantivy.Document.add_integer,
    Kind.UINT: tantivy.Document.add_unsigned,
    Kind.FLOAT: tantivy.Document.add_float,
    Kind.BOOL: tantivy.Document.add_boolean,
    Kind.BYTES: tantivy.Document.add_bytes,
    Kind.IP: tantivy.Document.add_ip_addr,
}


def documents(
    batch: pa.RecordBatch, fields: FieldMap, numbers: Iterable[int] | None = None
) -> Iterator[tantivy.Document]:
    """Yield a document per row, in order, with these row numbers, else from 0."""
    columns = [_column(batch, field) for field in fields.fields]
    plan = [(_ADDERS[field.kind], field.name) for field in fields.fields]
    make, number = tantivy.Document, tantivy.Document.add_unsigned
    for row, values in zip(itertools.count() if numbers is None else numbers, zip(*columns, strict=True)):  # noqa: B905
        document = make()
        number(document, ROW_FIELD, row)
        for (add, name), value in zip(plan, values):  # noqa: B905 - of equal length, and this loop is hot
            if value is not None:
                add(document, name, value)
        yield document


def _column(batch: pa.RecordBatch, field: IndexField) -> list[Any]:
    if field.nan_of is None:
        return column_values(batch.column(field.column), field)
    mask = nan_mask(batch.column(field.nan_of))
    return list(pc.if_else(mask, mask, to_scalar(None)).to_pylist())


def nan_mask(column: Any) -> Any:
    """Return a mask of NaN in a column of floats of any encoding."""
    return pc.is_nan(pc.cast(column, pa.float64()))


def column_values(column: Any, field: IndexField) -> list[Any]:
    """Return the values of a column in index form; None if a value is not indexed."""
    try:
        return _values(plain_column(column), field)
    except (pa.ArrowException, OverflowError, ValueError, RecursionError) as error:
        raise SchemaError(f"cannot index column `{field.column}` of type `{field.type}` because {error}") from error


def indexed_texts(texts: pa.Array[Any]) -> pa.Array[Any]:
    """Cut texts that are too long for a term, between characters."""
    if pa.types.is_string_view(texts.type):
        texts = pc.cast(texts, pa.large_string())
    longest = pc.max(pc.binary_length(texts)).as_py()
    if longest is None or longest <= MAX_TERM_BYTES:
        return texts
    return to_array([None if text is None else _cut(text) for text in texts.to_pylist()], texts.type)


def _cut(text: str) -> str:
    return text.encode()[:MAX_TERM_BYTES].decode(errors="ignore")


def plain_column(column: Any) -> Any:
    """Return the column without encoding, in one chunk."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    return column if value_type(column.type) == column.type else pc.cast(column, value_type(column.type))


def _values(column: Any, field: IndexField) -> list[Any]:
    if pa.types.is_null(column.type):
        return [None] * len(column)
    match field.kind:
        case Kind.INT:
            return list(integers(column).to_pylist())
        case Kind.FLOAT:
            return list(float_numbers(column).to_pylist())
        case Kind.IP:
            return _mapped(column, normal_ip)
        case Kind.JSON:
            convert = _from_json_text if is_text(column.type) else json_object
            return [None if value is None else convert(value) for value in _nested(column)]
    if pa.types.is_decimal(column.type):
        digits = functools.partial(wide_decimal, precision=column.type.precision)
        return [None if value is None else digits(int(value)) for value in _unscaled(column).to_pylist()]
    return list((indexed_texts(column) if field.kind is Kind.STRING else column).to_pylist())


def _mapped(column: Any, convert: Callable[[str], Any]) -> list[Any]:
    """Convert each distinct text once."""
    encoded = pc.cast(column, pa.string()).dictionary_encode()
    values = [convert(text) for text in encoded.dictionary.to_pylist()]
    return [None if index is None else values[index] for index in encoded.indices.to_pylist()]


def float_numbers(column: Any) -> Any:
    """Return floats as doubles; -0.0 is 0.0, and NaN is null."""
    numbers = pc.add(pc.cast(column, pa.float64()), to_scalar(0.0))
    return pc.if_else(pc.is_nan(numbers), to_scalar(None), numbers)


def integers(column: Any) -> Any:
    """Return integers, days, ticks and unscaled decimals as 64-bit integers."""
    type_ = column.type
    if pa.types.is_decimal(type_):
        return pc.cast(_unscaled(column), pa.int64())
    if pa.types.is_date(type_):
        return pc.cast(pc.cast(column, pa.date32()), pa.int32())
    if pa.types.is_timestamp(type_) and not counts_nanoseconds(str(type_)):
        column = pc.cast(column, pa.timestamp("us", tz=type_.tz))
    elif pa.types.is_time(type_) and not counts_nanoseconds(str(type_)):
        column = pc.cast(column, pa.time64("us"))
    return pc.cast(column, pa.int64())


def _unscaled(column: Any) -> Any:
    """Return decimals as integers without their point: the same bytes with scale 0."""
    wide = pa.types.is_decimal256(column.type)
    if not wide and not pa.types.is_decimal128(column.type):
        column = pc.cast(column, pa.decimal128(column.type.precision, column.type.scale))
    type_ = pa.decimal256(76, 0) if wide else pa.decimal128(38, 0)
    return pa.Array.from_buffers(type_, len(column), column.buffers(), column.null_count, column.offset)


def _nested(column: Any) -> list[Any]:
    return list(column.to_pylist() if is_text(column.type) else column.to_pylist(maps_as_pydicts="lossy"))


def _from_json_text(text: str) -> dict[str, Any] | None:
    """Decode JSON text; index invalid or too deeply nested JSON as text."""
    try:
        return json_object(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return json_object(text)


def json_object(value: Any) -> dict[str, Any] | None:
    """Return the JSON object to index; any other value is stored under `$`."""
    plain = _json_value(value)
    if plain is None:
        return None
    return plain if isinstance(plain, dict) else {JSON_ROOT: plain}


def _json_value(value: Any, depth: int = 0) -> Any:
    if depth > _MAX_JSON_DEPTH:
        raise RecursionError(f"it is nested more than {_MAX_JSON_DEPTH} levels deep")
    if isinstance(value, str):
        return json_text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, dict):
        return {_json_key(key): _json_value(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item, depth + 1) for item in value]
    if isinstance(value, int):
        return value if value in _JSON_INTEGERS else float(value)
    if isinstance(value, float | Decimal):
        number = float(value) + 0.0
        return None if number != number else number
    return json_text(_text(value))


def _json_key(key: Any) -> str:
    return key if isinstance(key, str) else _text(key)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else str(value)
