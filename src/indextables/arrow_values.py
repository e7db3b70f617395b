"""Arrow arrays, scalars and tables of Python values, made without pandas.

`pa.array`, `pa.scalar` and kernels with Python literals import pandas if it is installed, which takes longer than most
commands. The functions here lay out the buffers of an array themselves. Their results equal pyarrow's: an
unknown value, such as a subclass of `datetime`, is passed to pyarrow, as is a value that does not fit its type.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import operator
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_Values = Sequence[Any]
_Make = Callable[[_Values, Any], Any]
_NONE = type(None)
_MAX_OFFSET = (1 << 31) - 1
_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_FIRST_DAY = datetime.date.fromisoformat("1970-01-01").toordinal()
_CODES = {
    pa.int8(): "b",
    pa.uint8(): "B",
    pa.int16(): "h",
    pa.uint16(): "H",
    pa.int32(): "i",
    pa.uint32(): "I",
    pa.int64(): "q",
    pa.uint64(): "Q",
    pa.float32(): "f",
    pa.float64(): "d",
}
_COLUMNAR = ("__array__", "__arrow_array__", "__arrow_c_array__", "__arrow_c_stream__")
_EXACT = {pa.float32(): 1 << 24, pa.float64(): 1 << 53}
"""The greatest whole number up to which floats are exact."""


class _UnknownError(Exception):
    """Values that pyarrow has to convert."""


def to_array(values: Iterable[Any], kind: Any = None) -> Any:
    """Make an Arrow array of Python values, as `pa.array` does; infer a missing type."""
    if any(hasattr(values, name) for name in _COLUMNAR):
        return pa.array(values, kind)
    values = values if isinstance(values, list | tuple) else list(values)
    try:
        return _make(values, _kind_of(values) if kind is None else kind)
    except (_UnknownError, OverflowError, UnicodeEncodeError):
        return pa.array(values, kind)


def to_scalar(value: Any, kind: Any = None) -> Any:
    """Make an Arrow scalar of a Python value, as `pa.scalar` does."""
    return value if isinstance(value, pa.Scalar) and kind is None else to_array([value], kind)[0]


def numbers_below(count: int) -> Any:
    """Make an array of the numbers from 0, without a Python value for each."""
    every = pa.py_buffer(b"\xff" * (count // 8 + 1))
    return pc.indices_nonzero(pa.Array.from_buffers(pa.bool_(), count, [None, every]))


def repeated(value: float, count: int, kind: Any) -> Any:
    """Make an array of one number, many times."""
    one = bytes(to_array([value], kind).buffers()[1])[: kind.bit_width // 8]
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(one * count)])


def to_table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema | None = None) -> pa.Table:
    """Make an Arrow table of rows, as `pa.Table.from_pylist` does.

    Without a schema, the columns of the first row are used.
    """
    if schema is None:
        return pa.table({name: to_array([row.get(name) for row in rows]) for name in (rows[0] if rows else ())})
    columns = [to_array([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _kind_of(values: _Values) -> Any:
    """Find the common type that pyarrow finds."""
    kinds = set(map(type, values)) - {_NONE}
    if not kinds:
        return pa.null()
    if kinds == {int, float}:
        return pa.float64()
    kind = kinds.pop()
    if kinds:
        raise _UnknownError
    if kind in _KINDS:
        return _KINDS[kind]
    present = [value for value in values if value is not None]
    if kind is list:
        return pa.list_(_kind_of(list(itertools.chain.from_iterable(present))))
    if kind is dict:
        return _struct_of(present)
    if kind is datetime.datetime and {value.tzinfo for value in present} == {datetime.UTC}:
        return pa.timestamp("us", tz="UTC")
    raise _UnknownError


def _struct_of(rows: Sequence[Mapping[Any, Any]]) -> Any:
    names = list(rows[0])
    if not names or not all(type(name) is str for name in names) or any(list(row) != names for row in rows):
        raise _UnknownError
    return pa.struct([(name, _kind_of([row[name] for row in rows])) for name in names])


def _make(values: _Values, kind: Any) -> Any:
    if values and isinstance(values[0], pa.Scalar):
        return _scalars(values, kind)
    if kind in _CODES:
        return _floats(values, kind) if kind in _EXACT else _numbers(values, kind, {int})
    make = next((make for matches, make in _MAKERS if matches(kind)), None)
    if make is None:
        raise _UnknownError
    return make(values, kind)


def _check(values: _Values, known: set[type]) -> bool:
    """Return whether values of known types include nulls; refuse other values."""
    kinds = set(map(type, values))
    if not kinds <= {*known, _NONE}:
        raise _UnknownError
    return _NONE in kinds


def _bits(flags: Iterable[bool]) -> Any:
    """Pack flags of one byte each into an array of booleans."""
    data = bytes(flags)
    return pa.Array.from_buffers(pa.uint8(), len(data), [None, pa.py_buffer(data)]).cast(pa.bool_())


def _validity(values: _Values) -> Any:
    return _bits(map(operator.is_not, values, itertools.repeat(None))).buffers()[1] if values else None


def _fixed(values: _Values, kind: Any, code: str, validity: Any) -> Any:
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(array(code, values))])


def _numbers(values: _Values, kind: Any, known: set[type]) -> Any:
    validity = None
    if _check(values, known):
        validity = _validity(values)
        values = [0 if value is None else value for value in values]
    return _fixed(values, kind, _CODES[kind], validity)


def _floats(values: _Values, kind: Any) -> Any:
    """Floats; whole numbers among them only if each is exact."""
    if any(type(value) is int and abs(value) > _EXACT[kind] for value in values):
        raise _UnknownError
    return _numbers(values, kind, {float, int})


def _scalars(values: _Values, kind: Any) -> Any:
    if not all(isinstance(value, pa.Scalar) and value.type == kind for value in values):
        raise _UnknownError
    return pa.concat_arrays([pa.repeat(value, 1) for value in values])


def _nulls(values: _Values, kind: Any) -> Any:
    _check(values, set())
    return pa.nulls(len(values))


def _booleans(values: _Values, kind: Any) -> Any:
    has_nulls = _check(values, {bool})
    bits = _bits([value is True for value in values] if has_nulls else values)
    return pa.Array.from_buffers(kind, len(values), [_validity(values), bits.buffers()[1]]) if has_nulls else bits


def _strings(values: _Values, kind: Any) -> Any:
    validity = None
    if _check(values, {str}):
        validity = _validity(values)
        values = [value or "" for value in values]
    text = "".join(values)
    if text.isascii():
        return _joined(values, text.encode(), kind, validity)
    encoded = [value.encode() for value in values]
    return _joined(encoded, b"".join(encoded), kind, validity)


def _binaries(values: _Values, kind: Any) -> Any:
    validity = None
    if _check(values, {bytes}):
        validity = _validity(values)
        values = [value or b"" for value in values]
    return _joined(values, b"".join(values), kind, validity)


def _joined(values: _Values, data: bytes, kind: Any, validity: Any) -> Any:
    buffers = [validity, _offsets(map(len, values), len(data)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(values), buffers)


def _offsets(lengths: Iterable[int], total: int) -> Any:
    if total > _MAX_OFFSET:
        raise _UnknownError
    return pa.py_buffer(array("i", itertools.accumulate(lengths, initial=0)))


def _moments(values: _Values, kind: Any) -> Any:
    validity = _validity(values) if _check(values, {int, datetime.datetime}) else None
    return _fixed([_moment(value, kind) for value in values], kind, "q", validity)


def _moment(value: Any, kind: Any) -> int:
    if type(value) is not datetime.datetime:
        return value or 0
    if kind.unit != "us":  # pyarrow knows when a finer moment is refused
        raise _UnknownError
    return ((value if value.tzinfo else value.replace(tzinfo=datetime.UTC)) - _EPOCH) // _MICROSECOND


def _dates(values: _Values, kind: Any) -> Any:
    validity = _validity(values) if _check(values, {int, datetime.date}) else None
    days = [value.toordinal() - _FIRST_DAY if type(value) is datetime.date else value or 0 for value in values]
    return _fixed(days, kind, "i", validity)


def _decimals(values: _Values, kind: Any) -> Any:
    _check(values, {decimal.Decimal, int})
    texts = [None if value is None else _digits(decimal.Decimal(value), kind) for value in values]
    return _strings(texts, pa.string()).cast(kind)


def _digits(value: decimal.Decimal, kind: Any) -> str:
    """Return a decimal in plain digits; leave others to pyarrow.

    Others are not finite, or do not fit.
    """
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent < -kind.scale or len(digits) + exponent > kind.precision - kind.scale:
        raise _UnknownError
    return format(value, "f")


def _lists(values: _Values, kind: Any) -> Any:
    validity = _validity(values) if _check(values, {list, tuple}) else None
    lists = [value or () for value in values]
    items = list(itertools.chain.from_iterable(lists))
    buffers = [validity, _offsets(map(len, lists), len(items))]
    return pa.Array.from_buffers(kind, len(values), buffers, children=[_make(items, kind.value_type)])


def _maps(values: _Values, kind: Any) -> Any:
    """Maps of dictionaries, or of lists of pairs."""
    validity = _validity(values) if _check(values, {dict, list}) else None
    maps = [list(value.items()) if type(value) is dict else value or [] for value in values]
    pairs = list(itertools.chain.from_iterable(maps))
    if not all(type(pair) is tuple and len(pair) == 2 and pair[0] is not None for pair in pairs):
        raise _UnknownError
    keys, items = ([pair[at] for pair in pairs] for at in (0, 1))
    entries = pa.Array.from_buffers(
        pa.struct([kind.key_field, kind.item_field]),
        len(pairs),
        [None],
        children=[_make(keys, kind.key_type), _make(items, kind.item_type)],
    )
    buffers = [validity, _offsets(map(len, maps), len(pairs))]
    return pa.Array.from_buffers(kind, len(values), buffers, children=[entries])


def _structs(values: _Values, kind: Any) -> Any:
    validity = _validity(values) if _check(values, {dict}) else None
    rows = [value or {} for value in values]
    children = [_make([row.get(field.name) for row in rows], field.type) for field in kind]
    return pa.Array.from_buffers(kind, len(values), [validity], children=children)


_KINDS: dict[type, Any] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    datetime.date: pa.date32(),
}
_MAKERS: tuple[tuple[Callable[[Any], bool], _Make], ...] = (
    (pa.types.is_string, _strings),
    (pa.types.is_boolean, _booleans),
    (pa.types.is_binary, _binaries),
    (pa.types.is_timestamp, _moments),
    (pa.types.is_date32, _dates),
    (pa.types.is_decimal128, _decimals),
    (pa.types.is_map, _maps),
    (pa.types.is_list, _lists),
    (pa.types.is_struct, _structs),
    (pa.types.is_null, _nulls),
)
