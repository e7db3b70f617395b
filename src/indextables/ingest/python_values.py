"""Convert Python values to typed Arrow columns.

The class of a value must have the meaning of the column's type. Arrow alone would truncate 1.5 to 1, read 5 as five
microseconds after 1970, and treat a time without a zone as UTC; here all of these are errors. Floats are rounded to the
width of their column.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from indextables.arrow_values import to_array
from indextables.errors import SchemaError

_MAX_FLOAT = float.fromhex("0x1.ffffffp+127")
_MOST_SHOWN = 60


def typed_column(name: str, values: Sequence[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Convert values to a column of a type.

    Raises a `SchemaError` that names the column and the first value that does not fit.
    """
    _check(values, kind, name)
    try:
        return to_array(values, kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        raise SchemaError(
            f"cannot write the column `{name}` as `{kind}` because of its values: {str(error).splitlines()[0]}"
        ) from error


def guessed_column(name: str, values: Sequence[Any]) -> pa.Array[Any]:
    """Convert values to a column of their common type."""
    try:
        kind = to_array(values).type
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        raise SchemaError(
            f"cannot infer the type of the column `{name}` because its values have none in common: "
            f"{str(error).splitlines()[0]}",
            hint="create the table with `Table.create` and a schema",
        ) from error
    return typed_column(name, values, kind)


def _check(values: Iterable[Any], kind: Any, name: str) -> None:
    """Refuse values whose class does not have the meaning of the type, at any depth."""
    present = [value for value in values if value is not None]
    if pa.types.is_struct(kind):
        _check_structs(present, kind, name)
    elif pa.types.is_map(kind):
        _check_maps(present, kind, name)
    elif pa.types.is_nested(kind):
        _refuse_others(present, _is_sequence, kind, name)
        _check(itertools.chain.from_iterable(present), kind.value_type, f"{name}.element")
    else:
        accepts = _accepted(kind)
        if not all(map(accepts, set(map(type, present)))):
            _refuse_others(present, lambda value: accepts(type(value)), kind, name)
        limit = _limit(kind)
        if limit is not None:
            _refuse_others(present, limit, kind, name)


def _check_structs(values: Sequence[Any], kind: Any, name: str) -> None:
    _refuse_others(values, lambda value: isinstance(value, Mapping), kind, name)
    fields = [kind.field(number) for number in range(kind.num_fields)]
    known = frozenset(field.name for field in fields)
    for value in values:
        if not known.issuperset(value):
            unknown = next(key for key in value if key not in known)
            raise SchemaError(
                f"cannot write the column `{name}` because a value has the field `{unknown}`, and the table's is "
                f"`{kind}`"
            )
    for field in fields:
        _check((value.get(field.name) for value in values), field.type, f"{name}.{field.name}")


def _check_maps(values: Sequence[Any], kind: Any, name: str) -> None:
    pairs: list[tuple[Any, Any]] = []
    for value in values:
        try:
            pairs.extend((key, item) for key, item in (value.items() if isinstance(value, Mapping) else value))
        except (TypeError, ValueError):
            raise _misfit(value, kind, name) from None
    _check([key for key, _ in pairs], kind.key_type, f"{name}.key")
    _check([item for _, item in pairs], kind.item_type, f"{name}.value")


def _accepted(kind: Any) -> Callable[[type], bool]:
    """Return a test for the classes of values that a type accepts."""
    types = pa.types
    rules: tuple[tuple[Callable[[Any], bool], tuple[type, ...], tuple[type, ...]], ...] = (
        (types.is_boolean, (bool,), ()),
        (types.is_integer, (numbers.Integral,), (bool,)),
        (types.is_floating, (numbers.Real,), (bool,)),
        (types.is_decimal, (decimal.Decimal, numbers.Integral), (bool,)),
        (types.is_string, (str,), ()),
        (types.is_binary, (bytes, bytearray, memoryview), ()),
        (types.is_date, (datetime.date,), (datetime.datetime,)),
        (types.is_timestamp, (datetime.datetime,), ()),
        (types.is_null, (), ()),
    )
    for is_kind, taken, left in rules:
        if is_kind(kind):
            return lambda cls: issubclass(cls, taken) and not issubclass(cls, left)
    return lambda cls: True


def _limit(kind: Any) -> Callable[[Any], bool] | None:
    """Return a further test for each value; None for most types."""
    if pa.types.is_timestamp(kind):
        has_zone = kind.tz is not None
        return lambda value: (value.tzinfo is not None) == has_zone
    if pa.types.is_float32(kind):
        return lambda value: not math.isfinite(value) or abs(value) < _MAX_FLOAT
    return None


def _is_sequence(value: Any) -> bool:
    return hasattr(value, "__iter__") and hasattr(value, "__len__") and not isinstance(value, str | bytes | Mapping)


def _refuse_others(values: Iterable[Any], fits: Callable[[Any], bool], kind: Any, name: str) -> None:
    for value in values:
        if not fits(value):
            raise _misfit(value, kind, name)


def _misfit(value: Any, kind: Any, name: str) -> SchemaError:
    shown = repr(value)
    shown = shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}..."
    hint = None
    if isinstance(value, datetime.datetime) and pa.types.is_timestamp(kind):
        hint = (
            "give it a zone, as in `value.replace(tzinfo=datetime.UTC)`"
            if kind.tz is not None
            else "leave the zone out, as in `value.replace(tzinfo=None)`"
        )
    return SchemaError(
        f"cannot write the column `{name}` because it holds `{shown}`, a `{type(value).__name__}`, and its type is "
        f"`{kind}`",
        hint=hint,
    )
