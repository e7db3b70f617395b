"""Read JSON lines: each object becomes a row; blank lines are skipped.

JSON values become typed columns, including nested ones. Numbers keep their original digits.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar
from indextables.errors import SchemaError
from indextables.ingest.bad_lines import BadLines, LogCounts, UnknownColumns
from indextables.ingest.input_source import Block, InputSource
from indextables.ingest.text_values import Typed, from_text, guess_time

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Number(str):
    """A number with a fraction, in its original digits."""

    __slots__ = ()


DECODER = msgspec.json.Decoder(float_hook=Number)
_WHOLE = frozenset({int, type(None)})


def from_json(values: Sequence[Any], kind: pa.DataType) -> Typed:
    """Convert decoded values to a column; a string column takes any JSON as text.

    Null stays null.
    """
    if pa.types.is_struct(kind):
        return _structs(values, kind)
    if pa.types.is_map(kind):
        return _maps(values, kind)
    if pa.types.is_list(kind):
        return _lists(values, kind)
    if pa.types.is_integer(kind) and _WHOLE.issuperset(map(type, values)):
        with contextlib.suppress(pa.ArrowInvalid, OverflowError):  # too large for the column
            return Typed(to_array(values, kind), [])
    try:
        texts = to_array(values, pa.string())
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        texts = to_array(map(json_text, values), pa.string())
    return from_text(texts, kind)


def json_text(value: Any) -> str | None:
    """Return a string unchanged, and any other value as JSON."""
    if value is None or isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    return msgspec.json.encode(_exact(value)).decode()


def guess_json_type(values: Iterable[Any]) -> pa.DataType:
    """Return the narrowest type that holds all values; string if they differ."""
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
    return guess_time(to_array(values, pa.string())) if kinds == {str} else pa.string()


def _exact(value: Any) -> Any:
    """Restore the original digits of all numbers in a value."""
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
    mask = to_array([row is None for row in rows], pa.bool_())
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
    """Return the offset of each list among all items; a null offset makes a null list."""
    ends = list(itertools.accumulate((0 if row is None else len(row) for row in rows), initial=0))
    nulls = to_array([*(row is None for row in rows), False], pa.bool_())
    return pc.if_else(nulls, to_scalar(None, pa.int32()), to_array(ends, pa.int32()))


def _with_owners(bad: Iterable[int], bad_items: Sequence[int], rows: Sequence[Any]) -> list[int]:
    """Return the positions of bad lists and of lists with bad items."""
    if not bad_items:
        return sorted(bad)
    owners = [at for at, row in enumerate(rows) if row for _ in row]
    return sorted({*bad, *(owners[item] for item in bad_items)})


MOST_ROWS = 65_536


class JsonParser(NamedTuple):
    """Parser of JSON lines into batches of the table's schema."""

    source: str
    schema: pa.Schema
    unknown: UnknownColumns

    @property
    def is_slow(self) -> bool:
        return False

    def batches(self, block: Block, bad: BadLines, counts: LogCounts) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a block."""
        numbers: list[int] = []
        rows: list[dict[str, Any]] = []
        known = frozenset(self.schema.names)
        for number, text in block.lines():
            try:
                row = _row(self.source, number, text, bad)
            except SchemaError:
                self._batch(numbers, rows, bad)  # report bad values of earlier lines first
                raise
            if row is None:
                continue
            if not known.issuperset(row):
                self.unknown.check(row, f"line {number:,} of `{self.source}`")
            numbers.append(number)
            rows.append(row)
            if len(rows) >= MOST_ROWS:
                yield self._batch(numbers, rows, bad)
                numbers, rows = [], []
        if rows:
            yield self._batch(numbers, rows, bad)

    def _batch(self, numbers: Sequence[int], rows: Sequence[dict[str, Any]], bad: BadLines) -> pa.RecordBatch:
        columns = []
        misfits: dict[str, list[int]] = {}
        for field, values in zip(self.schema, _transposed(rows, self.schema.names), strict=True):
            typed = from_json(values, field.type)
            columns.append(typed.column)
            if typed.bad:
                misfits[field.name] = typed.bad
        return bad.misfits(
            pa.RecordBatch.from_arrays(columns, names=self.schema.names),
            misfits,
            lambda row: f"line {numbers[row]:,} of `{self.source}`",
            lambda name, row: json_text(rows[row].get(name)) or "",
        )


def _transposed(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> Sequence[Sequence[Any]]:
    """Return the values of each column; None if a row lacks it."""
    if rows and len(names) > 1:
        with contextlib.suppress(KeyError):
            return list(zip(*map(operator.itemgetter(*names), rows), strict=True))
    return [[row.get(name) for row in rows] for name in names]


def guess_json_schema(source: InputSource) -> pa.Schema:
    """Infer the schema from the objects in the sample; other lines are skipped."""
    rows = []
    for text in itertools.islice(source.sample().split(b"\n"), MOST_ROWS):
        try:
            row = DECODER.decode(text)
        except DECODE_ERRORS:
            continue
        rows += [row] if isinstance(row, dict) else []
    names = dict.fromkeys(itertools.chain.from_iterable(rows))
    if not names and not source.sample().strip():
        raise SchemaError(f"cannot infer the columns of `{source.name}` because it is empty")
    if not names:
        raise SchemaError(
            f"cannot infer the columns of `{source.name}` because it does not begin with JSON objects, one a line",
            hint=_HINT,
        )
    return pa.schema([(name, guess_json_type(row.get(name) for row in rows)) for name in names])


_HINT = "make JSON lines of a JSON array with `jq -c '.[]'`, or name another `--format`"


def _row(source: str, number: int, text: bytes, bad: BadLines) -> dict[str, Any] | None:
    try:
        row = DECODER.decode(text)
    except DECODE_ERRORS as error:
        if text.strip():
            bad.unreadable(f"line {number:,} of `{source}`", f"it is not JSON: {error}")
        return None
    if isinstance(row, dict):
        return row
    bad.unreadable(f"line {number:,} of `{source}`", "it is not a JSON object")
    return None
