"""Convert columns of text to typed Arrow arrays, leniently.

Unreadable or ambiguous text becomes null, meaning unknown: a bare number for a date or a timestamp could be days or
milliseconds. The formats of Spark, Java and Python are read: `true`, `2024-01-31`, `1.0E10`, `Infinity`, `2024-01-31
12:30:00.5`, `2024-01-31T12:30:00Z`. A timestamp without a zone is UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_scalar
from indextables.predicate.bound import kind_of, stored_type

_SAFE_DIGITS = {8: 2, 16: 4, 32: 9, 64: 18}
_FRACTION_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_FLOAT = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$|^(?i:nan|[+-]?inf(inity)?)$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_BOOLEAN = r"^(?i:true|false|0|1)$"


def parse_texts(texts: pa.Array[Any], type_: pa.DataType) -> pa.Array[Any]:
    """Convert texts to the type that `type_` is compared in; null if unreadable."""
    kind, stored = kind_of(type_), stored_type(type_)
    if kind == "string":
        return texts if stored == texts.type else pc.cast(texts, stored)
    if kind == "timestamp":
        return _timestamps(texts, stored)
    if kind == "float":
        first = pa.float32() if pa.types.is_float32(type_) else pa.float64()
        return pc.cast(_lenient(texts, _FLOAT, lambda some: pc.cast(some, first)), stored)
    if kind == "other":
        return pa.nulls(len(texts), stored)
    return _lenient(texts, _shape(kind, stored), lambda some: pc.cast(some, stored))


def lacks_utc(texts: pa.Array[Any]) -> pa.Array[Any]:
    """Return whether a timestamp's text does not name UTC."""
    return pc.invert(pc.match_substring_regex(texts, r"(Z|z|[+-]00:?00|UTC|GMT)$"))


def names_offset(texts: pa.Array[Any]) -> pa.Array[Any]:
    """Return whether a timestamp's text ends in an offset from UTC, zero included."""
    return pc.match_substring_regex(texts, r"[0-9]:[0-9.:]+ ?(Z|z|UTC|GMT|[+-][0-9:]+)$")


def _shape(kind: str, stored: Any) -> str:
    if kind == "boolean":
        return _BOOLEAN
    if kind == "date":
        return _DATE
    if kind == "decimal":
        whole, scale = stored.precision - stored.scale, stored.scale
        return rf"^[+-]?0*[0-9]{{1,{max(whole, 1)}}}(\.[0-9]{{0,{scale}}})?$"
    return rf"^-?[0-9]{{1,{_SAFE_DIGITS[stored.bit_width]}}}$"


def _lenient(texts: pa.Array[Any], shape: str, convert: Callable[[pa.Array[Any]], pa.Array[Any]]) -> pa.Array[Any]:
    """Convert all texts at once, else the ones of the right shape, else one by one."""
    try:
        return convert(texts)
    except pa.ArrowInvalid:
        pass
    likely = pc.if_else(pc.match_substring_regex(texts, shape), texts, to_scalar(None))
    try:
        return convert(likely)
    except pa.ArrowInvalid:
        return _one_by_one(likely, convert)


def _one_by_one(texts: pa.Array[Any], convert: Callable[[pa.Array[Any]], pa.Array[Any]]) -> pa.Array[Any]:
    encoded = texts.dictionary_encode()
    values = [_convert_one(encoded.dictionary.slice(i, 1), convert) for i in range(len(encoded.dictionary))]
    return pa.concat_arrays(values).take(encoded.indices)


def _convert_one(text: pa.Array[Any], convert: Callable[[pa.Array[Any]], pa.Array[Any]]) -> pa.Array[Any]:
    try:
        return convert(text)
    except pa.ArrowInvalid:
        return convert(pa.nulls(1, pa.string()))


def _timestamps(texts: pa.Array[Any], stored: Any) -> pa.Array[Any]:
    local, utc = pa.timestamp(stored.unit), pa.timestamp(stored.unit, tz="UTC")
    zoned = names_offset(texts)
    if not (pc.any(zoned).as_py() and pc.any(pc.invert(zoned)).as_py()):
        try:
            return _retype(pc.cast(texts, utc if pc.any(zoned).as_py() else local), stored)
        except pa.ArrowInvalid:
            pass
    return _retype(_lenient(_normalized(texts, stored.unit), r"^[0-9]", lambda some: pc.cast(some, utc)), stored)


def _normalized(texts: pa.Array[Any], unit: str) -> pa.Array[Any]:
    """Return the timestamps with an offset and no more digits than the unit holds."""
    digits = _FRACTION_DIGITS[unit]
    fraction = rf"\.[0-9]{{1,{digits}}}" if digits else r"\.0"
    parts = pc.extract_regex(
        texts,
        r"^(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
        rf"(?:[ T](?P<time>[0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:{fraction})?)?)0* ?"
        r"(?P<zone>Z|z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?)?)?$",
    )
    day, time, zone = (pc.struct_field(parts, name) for name in ("day", "time", "zone"))
    time = pc.if_else(
        pc.equal(time, to_scalar("")), to_scalar("00:00"), time if digits else pc.replace_substring(time, ".0", "")
    )
    zone = pc.if_else(pc.match_substring_regex(zone, r"^[+-]"), zone, to_scalar("Z"))
    return pc.binary_join_element_wise(pc.binary_join_element_wise(day, time, to_scalar("T")), zone, to_scalar(""))


def _retype(values: pa.Array[Any], stored: Any) -> pa.Array[Any]:
    # A cast between zoned and local timestamps would move the ticks; in UTC they are the same.
    return pc.cast(pc.cast(values, pa.int64()), stored)
