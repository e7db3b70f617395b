"""Turn a caller's data into Arrow batches with the table's schema.

Accepted are lists of dicts and dicts of lists; Arrow tables, batches, readers and datasets; and every object with
Arrow's C stream or array interface, as in pandas, Polars and DuckDB. A column is widened if no value can change, as
from 32 to 64 bits. Any other mismatch is an error that names the column. Strings of `CHAR(n)` and `VARCHAR(n)` columns
follow Spark's length rules.
"""

from __future__ import annotations

import functools
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar
from indextables.errors import SchemaError
from indextables.ingest.python_values import guessed_column, typed_column
from indextables.protocol.schema import text_length

_MOST_ROWS = 10_000
_NOTHING = object()
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_WIDENINGS: tuple[tuple[Any, Any], ...] = (
    (pa.types.is_signed_integer, pa.types.is_signed_integer),
    (pa.types.is_unsigned_integer, pa.types.is_integer),
    (pa.types.is_floating, pa.types.is_floating),
    (pa.types.is_integer, pa.types.is_decimal),
    (pa.types.is_decimal, pa.types.is_decimal),
    (pa.types.is_date, pa.types.is_date),
    (pa.types.is_timestamp, pa.types.is_timestamp),
    (pa.types.is_time, pa.types.is_time),
)


class Incoming(NamedTuple):
    """Data to be written: its batches, and its schema or None if there is no data."""

    schema: pa.Schema | None
    batches: Iterator[pa.RecordBatch]


def incoming_batches(data: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the data in batches with the table's schema, as they are read.

    Raises `SchemaError` if the data does not fit the schema.
    """
    for batch in open_incoming(data, schema).batches:
        if batch.num_rows:
            yield conform(batch, schema)


def open_incoming(data: Any, schema: pa.Schema | None = None) -> Incoming:
    """Open data as batches; Python values get the types of `schema` or inferred types."""
    if isinstance(data, pa.RecordBatch):
        return Incoming(data.schema, iter([data]))
    if isinstance(data, pa.Table):
        return Incoming(data.schema, iter(data.to_batches()))
    if isinstance(data, Mapping):
        return _columns(data, schema)
    streams = _streams(data)
    if streams is not None:
        return _joined(streams)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        return _listed(data, schema)
    raise _unknown(data)


def can_be_read_again(data: Any) -> bool:
    """Return whether data can be read twice: no part of it is a stream."""
    if isinstance(data, pa.RecordBatch | pa.Table) or _is_of(data, "pandas", "DataFrame"):
        return True
    if isinstance(data, list | tuple):
        return all(isinstance(part, dict | pa.RecordBatch | pa.Table) for part in data)
    return isinstance(data, dict) and all(isinstance(values, list | tuple | pa.Array) for values in data.values())


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the schema's columns in order; fill missing ones with null."""
    _check_known(batch.schema.names, schema)
    return pa.RecordBatch.from_arrays([_column(batch, field) for field in schema], schema=schema)


def may_widen(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values keep their meaning; the cast refuses values out of range."""
    if pa.types.is_null(given):
        return True
    if pa.types.is_dictionary(given):
        return given.value_type == wanted or may_widen(given.value_type, wanted)
    if (_is_text(given) and _is_text(wanted)) or (_is_binary(given) and _is_binary(wanted)):
        return True
    if pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted) and (given.tz is None) != (wanted.tz is None):
        return False
    if pa.types.is_nested(given) or pa.types.is_nested(wanted):
        return _may_widen_nested(given, wanted)
    return any(is_from(given) and is_to(wanted) for is_from, is_to in _WIDENINGS)


def _check_known(names: Sequence[str], schema: pa.Schema) -> None:
    """Refuse duplicate columns, and columns that the table does not have."""
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise SchemaError(f"cannot write the data because it has the column `{doubled}` twice")
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise SchemaError(
            f"cannot write the column `{unknown[0]}` because the table has no such column",
            hint=f"it has {', '.join(f'`{name}`' for name in schema.names)}",
        )


def _streams(data: Any) -> Iterator[pa.RecordBatchReader] | None:
    """Return the readers of Arrow data, in order; None for all other data."""
    if _is_of(data, "pyspark.sql", "DataFrame"):
        # Its own stream fails on timestamps.
        return iter([data.toArrow().to_reader()])
    if hasattr(data, "__arrow_c_stream__"):
        return iter([_stream(data)])
    if hasattr(data, "__arrow_c_array__"):
        return iter([_array(data)])
    if _is_of(data, "polars", "LazyFrame"):
        # The first frame carries the columns, even if there are no rows.
        frames = data.collect_batches() if hasattr(data, "collect_batches") else [data.collect()]
        return map(_stream, itertools.chain([data.head(0).collect()], frames))
    if _is_of(data, "pyarrow.dataset", "Dataset"):
        return iter([data.scanner().to_reader()])
    if _is_of(data, "pyarrow.dataset", "Scanner"):
        return iter([data.to_reader()])
    return None


def _is_of(data: Any, module: str, name: str) -> bool:
    """Return whether data is of a library's class, without importing the library."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(data, kind)


def _stream(data: Any) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(data)
    except pa.ArrowInvalid as error:  # a single column
        raise _unknown(data) from error


def _array(data: Any) -> pa.RecordBatchReader:
    try:
        batch = pa.record_batch(data)
    except (pa.ArrowInvalid, TypeError, ValueError) as error:  # a single column
        raise _unknown(data) from error
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])


def _joined(readers: Iterator[pa.RecordBatchReader]) -> Incoming:
    first = next(readers)
    index = _pandas_index(first.schema)
    batches = itertools.chain.from_iterable(itertools.chain([first], readers))
    if not index:
        return Incoming(first.schema, batches)
    kept = pa.schema([field for field in first.schema if field.name not in index])
    return Incoming(kept, (batch.drop_columns(index) for batch in batches))


def _listed(data: Iterable[Any], schema: pa.Schema | None) -> Incoming:
    """Open an iterable of rows, or of batches, tables and frames."""
    parts = iter(data)
    first = next(parts, _NOTHING)
    if first is _NOTHING:
        return Incoming(schema, iter(()))
    if isinstance(first, Mapping):
        return _rows(data if isinstance(data, Sequence) else itertools.chain([first], parts), schema)
    opened = _part(first)
    rest = itertools.chain.from_iterable(_part(part).batches for part in parts)
    return Incoming(opened.schema, itertools.chain(opened.batches, rest))


def _part(data: Any) -> Incoming:
    if not (isinstance(data, pa.RecordBatch | pa.Table) or hasattr(data, "__arrow_c_stream__")):
        raise _unknown([data])
    return open_incoming(data)


def _rows(rows: Iterable[Any], schema: pa.Schema | None) -> Incoming:
    """Convert dicts, some thousands at a time.

    Without a schema, types are inferred from a whole list, but only from the first share of other iterables.
    """
    if schema is None and isinstance(rows, Sequence):
        return _columns(_transposed(rows), None)
    shares = iter(functools.partial(_next_rows, iter(rows)), [])
    if schema is not None:
        return Incoming(schema, (_batch(_transposed(share), schema) for share in shares))
    first = _columns(_transposed(next(shares, [])), None)
    rest = (_batch(_transposed(share), first.schema) for share in shares)
    return Incoming(first.schema, itertools.chain(first.batches, rest))


def _next_rows(rows: Iterator[Any]) -> list[Any]:
    return list(itertools.islice(rows, _MOST_ROWS))


def _transposed(rows: Sequence[Any]) -> dict[str, list[Any]]:
    """Turn rows into columns; a missing value is null."""
    other = next((row for row in rows if not isinstance(row, Mapping)), None)
    if other is not None:
        raise SchemaError(f"cannot write a `{type(other).__name__}` among rows that are dicts")
    names = dict.fromkeys(itertools.chain.from_iterable(rows))
    if rows and not names:
        raise SchemaError("cannot write rows without a single column")
    return {name: [row.get(name) for row in rows] for name in names}


def _columns(columns: Mapping[Any, Any], schema: pa.Schema | None) -> Incoming:
    """Open a dict of columns, which are Arrow arrays or lists of Python values."""
    taken = {_column_name(name): _column_values(name, values) for name, values in columns.items()}
    lengths = {name: len(values) for name, values in taken.items()}
    if len(set(lengths.values())) > 1:
        (name, length), (other, more) = min(lengths.items(), key=_second), max(lengths.items(), key=_second)
        raise SchemaError(
            f"cannot write the data because the column `{name}` has {length} values and the column `{other}` has {more}"
        )
    if schema is None:
        return _guessed(taken)
    num_rows = max(lengths.values(), default=0)
    starts = range(0, num_rows, _MOST_ROWS)
    return Incoming(schema, (_batch(_slice(taken, start), schema) for start in starts))


def _guessed(columns: Mapping[str, Any]) -> Incoming:
    arrays = {
        name: guessed_column(name, values) if isinstance(values, list) else values for name, values in columns.items()
    }
    table = pa.table(arrays)
    return Incoming(table.schema if arrays else None, iter(table.to_batches()))


def _slice(columns: Mapping[str, Any], start: int) -> dict[str, Any]:
    return {name: values[start : start + _MOST_ROWS] for name, values in columns.items()}


def _batch(columns: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """Convert some rows to the types of a table."""
    _check_known(list(columns), schema)
    arrays = [
        typed_column(name, values, schema.field(name).type) if isinstance(values, list) else _one_array(values)
        for name, values in columns.items()
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _one_array(values: Any) -> pa.Array[Any]:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _column_name(name: Any) -> str:
    if not isinstance(name, str):
        raise SchemaError(f"cannot write the column `{name!r}` because its name is a `{type(name).__name__}`")
    return name


def _column_values(name: str, values: Any) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray | list):
        return values
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values)
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_array__") or hasattr(values, "__array__"):
        return to_array(values)
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping):
        return list(values)
    raise SchemaError(
        f"cannot write the column `{name}` because it is a `{type(values).__name__}` and not a list of values",
        hint="write one row as a list of one dict: `[row]`",
    )


def _second(pair: tuple[str, int]) -> int:
    return pair[1]


def _pandas_index(schema: pa.Schema) -> list[str]:
    """Return the unnamed index that pandas sends along, for example after a filter.

    A named index is data. pandas sends a counting index only as metadata, so a named one would be lost: it is refused.
    """
    note = (schema.metadata or {}).get(b"pandas")
    if note is None:
        return []
    lost = [index["name"] for index in msgspec.json.decode(note)["index_columns"] if isinstance(index, dict)]
    if any(name is not None for name in lost):
        raise SchemaError(
            f"cannot write the index `{lost[0]}` of a pandas frame because it is not a column",
            hint="write `frame.reset_index()`",
        )
    return [name for name in schema.names if _PANDAS_INDEX.fullmatch(name)]


def _unknown(data: Any) -> SchemaError:
    is_list = isinstance(data, list | tuple) and data
    what = f"a list of `{type(data[0]).__name__}`" if is_list else f"a `{type(data).__name__}`"
    return SchemaError(
        f"cannot write {what}: expected a list of dicts, a dict of lists, an Arrow table, reader, batches or dataset, "
        "or a frame of pandas, Polars or DuckDB",
        hint='write rows as `[{"id": 1, "message": "x"}]`',
    )


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array[Any]:
    at = batch.schema.get_field_index(field.name)
    column = pa.nulls(batch.num_rows, field.type) if at < 0 else _decoded(batch.column(at))
    if column.null_count and not field.nullable:
        what = "is missing" if at < 0 else "holds a null"
        raise SchemaError(
            f"cannot write the column `{field.name}` because it {what}, and the table allows no null there"
        )
    if column.type == field.type:
        return _held_to_length(column, field)
    if not may_widen(column.type, field.type):
        raise _misfit(field, column.type)
    try:
        widened = pc.cast(column, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _misfit(field, column.type, f": {str(error).splitlines()[0]}") from error
    changed = _changed_number(column, widened)
    if changed is not None:
        raise _misfit(field, column.type, f": {changed} would become another number")
    return _held_to_length(widened, field)


def _decoded(column: Any) -> Any:
    """Decode a column; only the decoded values show every null."""
    if pa.types.is_run_end_encoded(column.type):
        return _decoded(pc.run_end_decode(column))
    if not pa.types.is_dictionary(column.type):
        return column
    values = _decoded(column.dictionary)
    if pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):  # Arrow cannot `take` from views.
        values = values.cast(pa.large_string() if pa.types.is_string_view(values.type) else pa.large_binary())
    return values.take(column.indices)


def _changed_number(given: Any, cast: Any) -> float | None:
    """Return a float that the narrower type cannot hold, at any depth of nesting."""
    if given.type == cast.type or not len(given):
        return None
    if pa.types.is_dictionary(given.type):
        return _changed_number(given.dictionary_decode(), cast)
    if pa.types.is_floating(given.type) and given.type.bit_width > cast.type.bit_width:
        differs = pc.and_(pc.not_equal(pc.cast(cast, given.type), given), pc.invert(pc.is_nan(given)))
        found = given.filter(differs)
        return found[0].as_py() if len(found) else None
    parts = zip(_parts(given), _parts(cast), strict=True) if pa.types.is_nested(given.type) else ()
    return next((changed for part, other in parts if (changed := _changed_number(part, other)) is not None), None)


def _parts(column: Any) -> list[Any]:
    """Return the columns inside a nested column, without nulls."""
    if pa.types.is_struct(column.type):
        return list(column.flatten())
    if pa.types.is_map(column.type):
        column = column.drop_null()
        entries = column.cast(pa.list_(pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])))
        return list(entries.flatten().flatten())
    return [column.flatten()]


def _held_to_length(column: Any, field: pa.Field) -> Any:
    """Apply the limit of a `char` or `varchar` column: pad a `char`, refuse long text."""
    limit = text_length(field)
    if limit is None or not _is_text(column.type):
        return column
    kind, length = limit
    is_long = pc.greater(pc.utf8_length(column), to_scalar(length))
    if pc.any(is_long).as_py():
        # As in SQL, trailing blanks do not count.
        shorter = pc.utf8_slice_codeunits(column, 0, length)
        kept = pc.equal(pc.utf8_rtrim(column, " "), pc.utf8_rtrim(shorter, " "))
        lost = column.filter(pc.invert(kept))
        if len(lost):
            raise SchemaError(
                f"cannot write the column `{field.name}` because `{lost[0].as_py()[:100]}` has more than {length} "
                f"characters, and the table's is `{kind}({length})`"
            )
        column = pc.if_else(is_long, shorter, column)
    return pc.utf8_rpad(column, length, " ") if kind == "char" else column


def _may_widen_nested(given: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        same_names = [field.name for field in given] == [field.name for field in wanted]
        return same_names and all(_fits(one.type, other.type) for one, other in zip(given, wanted, strict=True))
    if pa.types.is_map(given) and pa.types.is_map(wanted):
        return _fits(given.key_type, wanted.key_type) and _fits(given.item_type, wanted.item_type)
    if _is_list(given) and _is_list(wanted):
        return _fits(given.value_type, wanted.value_type)
    return False


def _fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    return given == wanted or may_widen(given, wanted)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    types = pa.types
    kinds = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(is_kind(kind) for is_kind in kinds)


def _is_list(kind: pa.DataType) -> bool:
    """Return whether a type is a list; views are excluded.

    Arrow casts list views to invalid arrays.
    """
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _misfit(field: pa.Field, given: pa.DataType, why: str = "") -> SchemaError:
    return SchemaError(
        f"cannot write the column `{field.name}` because it is `{given}`, and the table's is `{field.type}`{why}"
    )
