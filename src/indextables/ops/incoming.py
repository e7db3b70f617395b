"""What people give to be written, as Arrow batches of the table's own schema.

Taken are Arrow tables, batches and readers, lists of batches, and everything that speaks Arrow's C stream, as Polars,
DuckDB and pandas do. A column is widened where no value can change, as from 32 to 64 bits; everything else that does
not fit is an error that names the column. Texts of `CHAR(n)` and `VARCHAR(n)` are held to their length as Spark does.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import SchemaError
from indextables.protocol.schema import text_length

_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_WIDENINGS: tuple[tuple[Any, Any], ...] = (
    (pa.types.is_signed_integer, pa.types.is_signed_integer),
    (pa.types.is_unsigned_integer, pa.types.is_integer),
    (pa.types.is_floating, pa.types.is_floating),
    (pa.types.is_decimal, pa.types.is_decimal),
    (pa.types.is_date, pa.types.is_date),
    (pa.types.is_timestamp, pa.types.is_timestamp),
    (pa.types.is_time, pa.types.is_time),
)


def incoming_batches(data: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The data in batches that have a table's schema, as they are read. `SchemaError` where they cannot have it."""
    for batch in _batches(data):
        if batch.num_rows:
            yield conform(batch, schema)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the columns of a schema, in their order; a column that is missing and may be null is null."""
    names = batch.schema.names
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise SchemaError(f"cannot write the data because it has the column `{doubled}` twice")
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise SchemaError(
            f"cannot write the column `{unknown[0]}` because the table has no such column",
            hint=f"it has {', '.join(f'`{name}`' for name in schema.names)}",
        )
    return pa.RecordBatch.from_arrays([_column(batch, field) for field in schema], schema=schema)


def _batches(data: Any) -> Iterator[pa.RecordBatch]:
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.Table):
        yield from data.to_batches()
    elif hasattr(data, "__arrow_c_stream__"):
        yield from map(_without_index, _stream(data))
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes | dict):
        yield from itertools.chain.from_iterable(map(_part, data))
    else:
        raise _unknown(data)


def _part(data: Any) -> Iterator[pa.RecordBatch]:
    if not (isinstance(data, pa.RecordBatch | pa.Table) or hasattr(data, "__arrow_c_stream__")):
        raise _unknown(data)
    return _batches(data)


def _stream(data: Any) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(data)
    except pa.ArrowInvalid as error:  # a single column
        raise _unknown(data) from error


def _without_index(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch less the unnamed index that pandas sends along, as of a frame that was filtered.

    A named index is data. pandas sends one that just counts not as a column but as a note, so it would be lost.
    """
    note = (batch.schema.metadata or {}).get(b"pandas")
    if note is None:
        return batch
    lost = [index["name"] for index in msgspec.json.decode(note)["index_columns"] if isinstance(index, dict)]
    if any(name is not None for name in lost):
        raise SchemaError(
            f"cannot write the index `{lost[0]}` of a pandas frame because it is no column",
            hint="write `frame.reset_index()`",
        )
    return batch.drop_columns([name for name in batch.schema.names if _PANDAS_INDEX.fullmatch(name)])


def _unknown(data: Any) -> SchemaError:
    return SchemaError(
        f"cannot write a `{type(data).__name__}`: expected an Arrow table, reader or batches, or a frame of Polars, "
        "DuckDB or pandas",
        hint="make a table of Python values with `pyarrow.Table.from_pylist(rows, schema=table.schema)`",
    )


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array[Any]:
    at = batch.schema.get_field_index(field.name)
    column = pa.nulls(batch.num_rows, field.type) if at < 0 else batch.column(at)
    if column.null_count and not field.nullable:
        what = "is missing" if at < 0 else "holds a null"
        raise SchemaError(
            f"cannot write the column `{field.name}` because it {what}, and the table allows no null there"
        )
    if column.type == field.type:
        return _held_to_length(column, field)
    if not _may_widen(column.type, field.type):
        raise _misfit(field, column.type)
    try:
        widened = pc.cast(column, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _misfit(field, column.type, f": {str(error).splitlines()[0]}") from error
    changed = _changed_number(column, widened)
    if changed is not None:
        raise _misfit(field, column.type, f": {changed} would become another number")
    return _held_to_length(widened, field)


def _changed_number(given: Any, cast: Any) -> float | None:
    """A number of more bits that one of fewer bits does not hold, in a column or anywhere inside of it."""
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
    """The columns inside of a nested one, without what is null there."""
    if pa.types.is_struct(column.type):
        return list(column.flatten())
    if pa.types.is_map(column.type):
        column = column.drop_null()
        entries = column.cast(pa.list_(pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])))
        return list(entries.flatten().flatten())
    return [column.flatten()]


def _held_to_length(column: Any, field: pa.Field) -> Any:
    """Texts as a column of limited ones holds them: a `char` is filled up with blanks, and no text is too long."""
    limit = text_length(field)
    if limit is None or not _is_text(column.type):
        return column
    kind, length = limit
    is_long = pc.greater(pc.utf8_length(column), length)
    if pc.any(is_long).as_py():
        # As in SQL, blanks at the end do not count.
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


def _may_widen(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values keep their meaning. The cast itself refuses those that do not fit."""
    if pa.types.is_null(given):
        return True
    if pa.types.is_dictionary(given):
        return given.value_type == wanted or _may_widen(given.value_type, wanted)
    if (_is_text(given) and _is_text(wanted)) or (_is_binary(given) and _is_binary(wanted)):
        return True
    if pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted) and (given.tz is None) != (wanted.tz is None):
        return False
    if pa.types.is_nested(given) or pa.types.is_nested(wanted):
        return _may_widen_nested(given, wanted)
    return any(is_from(given) and is_to(wanted) for is_from, is_to in _WIDENINGS)


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
    return given == wanted or _may_widen(given, wanted)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _misfit(field: pa.Field, given: pa.DataType, why: str = "") -> SchemaError:
    return SchemaError(
        f"cannot write the column `{field.name}` because it is `{given}`, and the table's is `{field.type}`{why}"
    )
