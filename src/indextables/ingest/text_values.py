"""Convert text to typed columns exactly: bad values are reported, never changed.

Numbers, booleans, dates and times may be surrounded by space. A time without a zone is UTC, and digits beyond
microseconds are dropped. Binary is base64.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar

_ZONE = r":\d\d([.]\d+)?\s*([zZ]|[+-]\d\d(:?\d\d)?)$"
_LEADING_ZERO = r"^[+-]?0\d"


class Typed(NamedTuple):
    """A column, and the positions of bad values, which are null in it."""

    column: pa.Array[Any]
    bad: list[int]


def from_text(texts: pa.Array[Any], kind: pa.DataType) -> Typed:
    """Convert strings or UTF-8 bytes to a column of a type that is not nested."""
    if not pa.types.is_string(texts.type):
        texts, bad = _converted(texts, lambda part: pc.cast(part, pa.string()))
    else:
        bad = []
    if pa.types.is_string(kind):
        return Typed(texts, bad)
    column, more = _converted(texts, _reader(kind))
    return Typed(column, sorted({*bad, *more}))


def guess_type(texts: pa.Array[Any]) -> pa.DataType:
    """Return the narrowest type that fits all strings.

    The type is a number, a boolean, a date, a timestamp or a string.
    """
    if texts.null_count == len(texts):
        return pa.string()
    if not pc.any(pc.match_substring_regex(texts, _LEADING_ZERO)).as_py():
        for kind in (pa.int64(), pa.float64()):
            if _fits(texts, kind):
                return kind
    return next((kind for kind in (pa.bool_(), *_TIMES) if _fits(texts, kind)), pa.string())


def guess_time(texts: pa.Array[Any]) -> pa.DataType:
    """Return date or timestamp if every string is one, else string."""
    if texts.null_count == len(texts):
        return pa.string()
    return next((kind for kind in _TIMES if _fits(texts, kind)), pa.string())


_TIMES = (pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"))


def _fits(texts: pa.Array[Any], kind: pa.DataType) -> bool:
    try:
        _reader(kind)(texts)
    except (pa.ArrowInvalid, ValueError):
        return False
    return True


def _converted(texts: pa.Array[Any], convert: Callable[[pa.Array[Any]], pa.Array[Any]]) -> Typed:
    """Convert all texts at once; after a failure bisect to find the bad values."""
    try:
        return Typed(convert(texts), [])
    except (pa.ArrowInvalid, ValueError):
        if len(texts) == 1:
            return Typed(convert(pa.nulls(1, texts.type)), [0])
    middle = len(texts) // 2
    left, right = _converted(texts[:middle], convert), _converted(texts[middle:], convert)
    column = pa.concat_arrays([left.column, right.column])
    return Typed(column, [*left.bad, *(middle + place for place in right.bad)])


def _reader(kind: pa.DataType) -> Callable[[pa.Array[Any]], pa.Array[Any]]:
    if pa.types.is_timestamp(kind):
        return lambda texts: pc.cast(_moments(_trimmed(texts), zoned=kind.tz is not None), kind)
    if pa.types.is_binary(kind):
        return _from_base64
    return lambda texts: pc.cast(_trimmed(texts), kind)


def _trimmed(texts: pa.Array[Any]) -> pa.Array[Any]:
    trimmed = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.equal(trimmed, to_scalar("")), to_scalar(None, pa.string()), trimmed)


def _moments(texts: pa.Array[Any], *, zoned: bool) -> pa.Array[Any]:
    """Normalize timestamps for Arrow.

    Arrow wants a point before the fraction, at most six digits, and no space before the zone.
    """
    texts = pc.replace_substring_regex(texts, r"(:\d\d),(\d)", r"\1.\2")
    texts = pc.replace_substring_regex(texts, r"([.]\d{6})\d+", r"\1")
    texts = pc.replace_substring_regex(texts, r"(:[\d.]+)\s+([zZ+-])", r"\1\2")
    if not zoned:
        return texts
    texts = pc.replace_substring_regex(texts, r"^(\d{4}-\d\d-\d\d)$", r"\1T00:00:00")
    return pc.if_else(
        pc.match_substring_regex(texts, _ZONE), texts, pc.binary_join_element_wise(texts, to_scalar("Z"), to_scalar(""))
    )


def _from_base64(texts: pa.Array[Any]) -> pa.Array[Any]:
    return to_array(_decoded(texts.to_pylist()), pa.binary())


def _decoded(texts: Iterable[str | None]) -> list[bytes | None]:
    try:
        return [None if text is None else base64.b64decode(text, validate=True) for text in texts]
    except binascii.Error as error:
        raise ValueError(str(error)) from error
