"""Values of JSON as typed columns, also nested ones. Numbers keep the digits that were written."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.ops.text_values import Typed, from_text, guess_time

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Number(str):
    """A number with a fraction, as it was written."""

    __slots__ = ()


DECODER = msgspec.json.Decoder(float_hook=Number)


def from_json(values: Sequence[Any], kind: pa.DataType) -> Typed:
    """Decoded values as a column of a type. Into strings goes everything but null: what is none as its JSON text."""
    if pa.types.is_struct(kind):
        return _structs(values, kind)
    if pa.types.is_map(kind):
        return _maps(values, kind)
    if pa.types.is_list(kind):
        return _lists(values, kind)
    try:
        texts = pa.array(values, pa.string())
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        texts = pa.array(map(json_text, values), pa.string())
    return from_text(texts, kind)


def json_text(value: Any) -> str | None:
    """A string as it is, and everything else as JSON."""
    if value is None or isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    return msgspec.json.encode(_exact(value)).decode()


def guess_json_type(values: Iterable[Any]) -> pa.DataType:
    """The type that holds all of some decoded values; text where they have nothing in common."""
    values = [value for value in values if value is not None]
    kinds = set(map(type, values))
    if kinds == {dict}:
        names = dict.fromkeys(itertools.chain.from_iterable(values))
        fields = [(name, guess_json_type(value.get(name) for value in values)) for name in names]
        lower = {name.lower() for name in names}
        return pa.struct(fields) if fields and len(lower) == len(fields) and "" not in lower else pa.string()
    if kinds == {list}:
        return pa.list_(pa.field("element", guess_json_type(itertools.chain.from_iterable(values))))
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in values):
        return pa.int64()
    if kinds and kinds <= {int, Number}:
        return pa.float64()
    return guess_time(pa.array(values, pa.string())) if kinds == {str} else pa.string()


def _exact(value: Any) -> Any:
    """The value with its numbers as they were written."""
    if isinstance(value, Number):
        return msgspec.Raw(value.encode())
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    return [_exact(item) for item in value] if isinstance(value, list) else value


def _structs(values: Sequence[Any], kind: Any) -> Typed:
    names = [field.name for field in kind]
    known = frozenset(names)
    bad = [at for at, value in enumerate(values) if value is not None and not _is_struct(value, known)]
    rows = _without(values, bad)
    found: set[int] = set(bad)
    children = []
    for field in kind:
        child = from_json([None if row is None else row.get(field.name) for row in rows], field.type)
        children.append(child.column)
        found.update(child.bad)
    mask = pa.array([row is None for row in rows], pa.bool_())
    return Typed(pa.StructArray.from_arrays(children, fields=list(kind), mask=mask), sorted(found))


def _is_struct(value: Any, known: frozenset[str]) -> bool:
    return isinstance(value, dict) and known.issuperset(value)


def _lists(values: Sequence[Any], kind: Any) -> Typed:
    bad = [at for at, value in enumerate(values) if value is not None and not isinstance(value, list)]
    rows = _without(values, bad)
    child = from_json([item for row in rows if row for item in row], kind.value_type)
    column = pa.ListArray.from_arrays(_offsets(rows), child.column, type=kind)
    return Typed(column, _with_owners(bad, child.bad, rows))


def _maps(values: Sequence[Any], kind: Any) -> Typed:
    bad = [at for at, value in enumerate(values) if value is not None and not isinstance(value, dict)]
    rows = _without(values, bad)
    keys = from_json([key for row in rows if row for key in row], kind.key_type)
    if keys.bad:
        owners = _with_owners(bad, keys.bad, rows)
        return Typed(_maps(_without(rows, owners), kind).column, owners)
    items = from_json([item for row in rows if row for item in row.values()], kind.item_type)
    column = pa.MapArray.from_arrays(_offsets(rows), keys.column, items.column, type=kind)
    return Typed(column, _with_owners(bad, items.bad, rows))


def _without(values: Sequence[Any], bad: Iterable[int]) -> list[Any]:
    kept = list(values)
    for at in bad:
        kept[at] = None
    return kept


def _offsets(rows: Sequence[Any]) -> pa.Array[Any]:
    """Where each list begins among all items. A null at its beginning makes a list null."""
    ends = list(itertools.accumulate((0 if row is None else len(row) for row in rows), initial=0))
    nulls = pa.array([*(row is None for row in rows), False], pa.bool_())
    return pc.if_else(nulls, pa.scalar(None, pa.int32()), pa.array(ends, pa.int32()))


def _with_owners(bad: Iterable[int], bad_items: Sequence[int], rows: Sequence[Any]) -> list[int]:
    """The places of bad lists, and of the lists that hold bad items."""
    if not bad_items:
        return sorted(bad)
    owners = [at for at, row in enumerate(rows) if row for _ in row]
    return sorted({*bad, *(owners[item] for item in bad_items)})
