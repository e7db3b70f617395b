"""Statistics of a file table as text columns, and their trustworthiness.

The tag `indextables.stats=typed` marks a file with bounds in the order of the column's type and a maximum that was
raised if it was truncated, and promises nothing else. The tag `indextables.stats.nan=shown` promises that a column of
doubles with NaN has no maximum, or the maximum `NaN`. The bounds of all other files may be in text order, truncated,
and blind to NaN.

The `stats` JSON of a file holds `numRecords`, and `minValues`, `maxValues` and `nullCount` per column. Other writers
store there the values that are missing in the maps `minValues` and `maxValues`. It is read row by row, so only if the
maps lack a value. Unreadable JSON counts as absent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar
from indextables.protocol.statistics_tags import NAN_SHOWN, NAN_TAG, STATS_TAG, STATS_TYPED
from indextables.prune.masks import surely
from indextables.runtime.caching import lazy_property

_SECTIONS = ("minValues", "maxValues", "nullCount")


class JsonStatistics:
    """The stats JSON of each file; a column is converted on demand."""

    def __init__(self, stats: pa.Array[Any], names: Sequence[str]) -> None:
        decoder = msgspec.json.Decoder(_stats_type(names))
        self._decoded = [_decode(decoder, text) for text in stats.to_pylist()]
        self._fields = {name: f"c{i}" for i, name in enumerate(names)}

    def texts(self, section: str, name: str) -> pa.Array[Any]:
        """Return the values of `minValues` or `maxValues` as text; null if unknown."""
        return to_array([_text(raw) for raw in self._raw(section, name)], pa.string())

    def counts(self, name: str) -> pa.Array[Any]:
        """Return the null counts of a column; null if unknown."""
        return to_array([_count(raw) for raw in self._raw("nullCount", name)], pa.int64())

    def _raw(self, section: str, name: str) -> Iterator[bytes]:
        field = self._fields[name]
        for decoded in self._decoded:
            values = getattr(decoded, section, None)
            yield b"" if values is None else bytes(getattr(values, field))


def _stats_type(names: Sequence[str]) -> Any:
    """Return a type that decodes only these columns."""
    absent = msgspec.Raw()
    fields = [(f"c{i}", msgspec.Raw, msgspec.field(default=absent, name=name)) for i, name in enumerate(names)]
    section = msgspec.defstruct("Section", fields, gc=False)
    return msgspec.defstruct("Stats", [(name, section | None, None) for name in _SECTIONS], gc=False)


def _decode(decoder: Any, text: str | None) -> Any:
    if not text:
        return None
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def _text(raw: bytes) -> str | None:
    """Return the text of a JSON string, or the original digits of a number."""
    if raw[:1] in (b"", b"{", b"[", b"n"):
        return None
    try:
        return str(msgspec.json.decode(raw)) if raw[:1] == b'"' else raw.decode()
    except (msgspec.DecodeError, UnicodeError):
        return None


def _count(raw: bytes) -> int | None:
    return int(raw) if raw.isdigit() and len(raw) <= 18 else None


DEFAULT_MAX_LENGTH = 32
"""The default of `stats.truncation.maxLength`."""


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Minimum and maximum of a column in each file, as text; null if unknown.

    `typed` is true if the order is the type's, and `nan_shown` if NaN would show. A text of `max_length` bytes or more
    may be truncated if `typed` is false; none is truncated if `max_length` is None.
    """

    low: pa.Array[Any]
    high: pa.Array[Any]
    typed: pa.Array[Any]
    nan_shown: pa.Array[Any]
    max_length: int | None


class FileStatistics:
    """The statistics of the columns `names` in a file table, read on demand."""

    def __init__(self, files: pa.Table, names: Sequence[str], max_length: int) -> None:
        self._files = files
        self._names = tuple(names)
        self._max_length = max_length

    @property
    def num_files(self) -> int:
        return int(self._files.num_rows)

    def bounds(self, name: str) -> Bounds:
        low = self._served("minValues", lookup(self._files["min_values"], name), name)
        high = self._served("maxValues", lookup(self._files["max_values"], name), name)
        return Bounds(low, high, self._typed, self._nan_shown, self._max_length)

    def null_counts(self, name: str) -> pa.Array[Any]:
        return self._json.counts(name)

    @lazy_property
    def num_records(self) -> pa.Array[Any]:
        return _flat(self._files["num_records"])

    def _served(self, section: str, texts: pa.Array[Any], name: str) -> pa.Array[Any]:
        """Fill missing texts from the stats JSON."""
        if texts.null_count == 0 or self._stats.null_count == len(self._stats):
            return texts
        asked = pc.and_(pc.is_null(texts), surely(pc.match_substring(self._stats, f'"{section}"')))
        return pc.if_else(asked, self._json.texts(section, name), texts) if pc.any(asked).as_py() else texts

    @lazy_property
    def _json(self) -> JsonStatistics:
        return JsonStatistics(self._stats, self._names)

    @lazy_property
    def _stats(self) -> pa.Array[Any]:
        return _flat(self._files["stats"])

    @lazy_property
    def _typed(self) -> pa.Array[Any]:
        return self._tagged(STATS_TAG, STATS_TYPED)

    @lazy_property
    def _nan_shown(self) -> pa.Array[Any]:
        return pc.and_(self._typed, self._tagged(NAN_TAG, NAN_SHOWN))

    def _tagged(self, key: str, value: str) -> pa.Array[Any]:
        return surely(pc.equal(lookup(self._files["tags"], key), to_scalar(value)))


def lookup(maps: pa.ChunkedArray[Any], key: str) -> pa.Array[Any]:
    """Return the value of a key in each map; null if map or key is missing."""
    return _flat(pc.map_lookup(maps, to_scalar(key), "last"))


def _flat(values: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
