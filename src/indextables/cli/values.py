"""Arrow rows as plain values, each of which JSON can hold exactly.

Moments and dates are ISO-8601 text, in UTC where they have a zone; decimals are text, binary is base64, maps are
objects, and the numbers that JSON lacks are `"NaN"`, `"Infinity"` and `"-Infinity"`.
"""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from indextables.clock import format_timestamp_ms

Row = dict[str, Any]

_ROWS_AT_ONCE = 1024
_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
_FIRST_DAY = datetime.date.fromisoformat("1970-01-01")
_PER_MILLISECOND = 1000

_Convert = Callable[[Any], Any]


def rows(table: pa.Table) -> Iterator[Row]:
    """The rows of an Arrow table as plain values, a few at a time."""
    converts: dict[str, _Convert] = {}
    for at, field in enumerate(table.schema):
        counted = _counted(field.type)
        if counted != field.type:
            table = table.set_column(at, field.name, table.column(at).cast(_in_units(field.type)).cast(counted))
        convert = _converter(field.type)
        if convert is not None:
            converts[field.name] = convert
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for row in batch.to_pylist():
            for name, convert in converts.items():
                if row[name] is not None:
                    row[name] = convert(row[name])
            yield row


def value_text(value: Any) -> str:
    """A plain value for people: text as it is, everything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _retyped(kind: Any, leaf: Callable[[Any], Any]) -> Any:
    """The type with other ones in place of its moments and dates, also in lists, maps and structs."""
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_retyped(kind.value_type, leaf)))
    if pa.types.is_map(kind):
        item = kind.item_field.with_type(_retyped(kind.item_type, leaf))
        return pa.map_(kind.key_field.with_type(_retyped(kind.key_type, leaf)), item)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_retyped(field.type, leaf)) for field in kind])
    return leaf(kind)


def _in_units(kind: Any) -> Any:
    """Moments in microseconds, or in milliseconds as the log has them."""
    return _retyped(kind, lambda leaf: pa.timestamp(_unit(leaf), tz=leaf.tz) if pa.types.is_timestamp(leaf) else leaf)


def _counted(kind: Any) -> Any:
    """Moments and dates as the numbers they are: of those that lie too far away there is no Python value."""

    def number(leaf: Any) -> Any:
        if pa.types.is_timestamp(leaf):
            return pa.int64()
        return pa.int32() if pa.types.is_date32(leaf) else leaf

    return _retyped(kind, number)


def _unit(kind: Any) -> str:
    return "ms" if kind.unit in {"s", "ms"} else "us"


def _converter(kind: Any) -> _Convert | None:
    """What makes a value plain; None where it is already."""
    for matches, make in _CONVERTERS:
        if matches(kind):
            return make(kind)
    return None


def _moment(kind: Any) -> _Convert:
    if _unit(kind) == "ms":
        return (
            format_timestamp_ms if kind.tz is not None else lambda number: format_timestamp_ms(number).removesuffix("Z")
        )
    zone = "Z" if kind.tz is not None else ""
    return lambda number: _moment_text(number, zone)


def _moment_text(microseconds: int, zone: str) -> str:
    try:
        moment = _EPOCH + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        return f"{microseconds} us since 1970"
    spec = "microseconds" if microseconds % _PER_MILLISECOND else "milliseconds"
    return moment.replace(tzinfo=None).isoformat(timespec=spec) + zone


def _date_text(days: int) -> str:
    try:
        return (_FIRST_DAY + datetime.timedelta(days=days)).isoformat()
    except OverflowError:
        return f"{days} days since 1970"


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _nullable(convert: _Convert) -> _Convert:
    return lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value


def _list(kind: Any) -> _Convert | None:
    item = _converter(kind.value_type)
    if item is None:
        return None
    convert = _nullable(item)
    return lambda values: [convert(value) for value in values]


def _map(kind: Any) -> _Convert:
    key, item = _converter(kind.key_type) or _same, _nullable(_converter(kind.item_type) or _same)
    return lambda pairs: {value_text(key(name)): item(value) for name, value in pairs}


def _struct(kind: Any) -> _Convert:
    converts = {field.name: _nullable(_converter(field.type) or _same) for field in kind}
    return lambda value: {name: convert(value[name]) for name, convert in converts.items()}


_CONVERTERS: tuple[tuple[Callable[[Any], bool], Callable[[Any], _Convert | None]], ...] = (
    (pa.types.is_timestamp, _moment),
    (pa.types.is_date32, lambda kind: _date_text),
    (pa.types.is_floating, lambda kind: _float),
    (pa.types.is_decimal, lambda kind: str),
    (pa.types.is_binary, lambda kind: lambda value: base64.b64encode(value).decode("ascii")),
    (pa.types.is_list, _list),
    (pa.types.is_map, _map),
    (pa.types.is_struct, _struct),
)
