"""The statistics of a file table as columns of text, and how far they can be trusted.

A file that carries the tag `indextables.stats=typed` has bounds in the order of the column's type, a maximum that was
raised where it was truncated, and no more than that; the tag `indextables.stats.nan=shown` adds that a column of
doubles that holds NaN has no maximum, or the maximum `NaN`. The bounds of all other files may have been computed in the
order of their text, truncated, and blind to NaN.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.caching import lazy_property
from indextables.protocol.statistics import NAN_SHOWN, NAN_TAG, STATS_TAG, STATS_TYPED
from indextables.scan.masks import surely
from indextables.scan.stats_json import JsonStatistics

DEFAULT_MAX_LENGTH = 32
"""The default of `stats.truncation.maxLength`."""


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The least and greatest value of a column in each file, as text, null where unknown.

    `typed` says where the order is the type's, `nan_shown` where NaN would show. A text of `max_length` bytes or more
    may be truncated where `typed` is false; none is where `max_length` is None.
    """

    low: pa.Array[Any]
    high: pa.Array[Any]
    typed: pa.Array[Any]
    nan_shown: pa.Array[Any]
    max_length: int | None


class FileStatistics:
    """The statistics of the columns `names` in a file table; what nobody asks for is not read."""

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
        """`texts`, and where they are missing what the stats JSON says."""
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
        return surely(pc.equal(lookup(self._files["tags"], key), value))


def lookup(maps: pa.ChunkedArray[Any], key: str) -> pa.Array[Any]:
    """The value of a key in each map, null where the map or the key is missing."""
    return _flat(pc.map_lookup(maps, pa.scalar(key), "last"))


def _flat(values: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
