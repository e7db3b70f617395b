"""Collect minimum, maximum and null counts of a split's columns for pruning.

Bounds are in the order of the column's type. A truncated minimum is a prefix; a truncated maximum is raised above
everything that starts with it, or left out. A column of doubles with NaN has no maximum. Values without a text that
every reader understands (a year beyond 9999, bytes, nested values) have no bounds.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.config import Config, settings
from indextables.predicate.bound import Kind, kind_of
from indextables.protocol.statistics_tags import NAN_SHOWN, NAN_TAG, STATS_TAG, STATS_TYPED
from indextables.split.index.fields import resolve_column, value_type

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the zone is written behind it
_TICKS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_FRACTION_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_LAST_CHARACTER = "\U0010ffff"
_BEFORE_SURROGATES, _AFTER_SURROGATES = "\ud7ff", "\ue000"


class ColumnStatistics(msgspec.Struct, frozen=True):
    """The statistics of a split for its add action."""

    min_values: dict[str, str]
    max_values: dict[str, str]
    null_counts: dict[str, int]
    num_records: int
    tags: dict[str, str]

    def stats_json(self) -> str:
        """Return the `stats` of the add action: the facts outside of the maps of bounds."""
        return msgspec.json.encode({"numRecords": self.num_records, "nullCount": self.null_counts}).decode()


class StatisticsCollector:
    """Collects the statistics of one split."""

    def __init__(self, schema: pa.Schema, config: Config, partition_columns: Sequence[str] = ()) -> None:
        length = config[settings.STATS_TRUNCATION_MAX_LENGTH] if config[settings.STATS_TRUNCATION_ENABLED] else None
        self._columns = {
            name: _Column(schema.field(name).type, None if name in partition_columns else length)
            for name in statistics_columns(schema, config)
        }
        self._num_records = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self._num_records += batch.num_rows
        for name, column in self._columns.items():
            column.add(batch.column(name))

    def finish(self) -> ColumnStatistics:
        return ColumnStatistics(
            min_values=_known({name: column.min_text() for name, column in self._columns.items()}),
            max_values=_known({name: column.max_text() for name, column in self._columns.items()}),
            null_counts={name: column.num_nulls for name, column in self._columns.items()},
            num_records=self._num_records,
            tags={STATS_TAG: STATS_TYPED, NAN_TAG: NAN_SHOWN},
        )


def statistics_columns(schema: pa.Schema, config: Config) -> list[str]:
    """Return the columns with statistics, in the order of the schema."""
    chosen = config[settings.DATA_SKIPPING_STATS_COLUMNS]
    if chosen is None:
        first = config[settings.DATA_SKIPPING_NUM_INDEXED_COLS]
        return list(schema.names if first < 0 else schema.names[:first])
    names = {resolve_column(schema, name, "dataSkippingStatsColumns") for name in chosen}
    return [name for name in schema.names if name in names]


def truncated_maximum(text: str, length: int) -> str | None:
    """Return a short text above everything that starts with `text`, or None."""
    if len(text) <= length:
        return text
    kept = text[:length].rstrip(_LAST_CHARACTER)
    if not kept:
        return None
    following = _AFTER_SURROGATES if kept[-1] == _BEFORE_SURROGATES else chr(ord(kept[-1]) + 1)
    return kept[:-1] + following


class _Column:
    """Bounds of one column so far, as comparable values; `max_length` limits texts."""

    def __init__(self, type_: Any, max_length: int | None) -> None:
        self._type = value_type(type_)
        self._kind: Kind = kind_of(type_)
        self._max_length = max_length if self._kind == "string" else None
        self._low: Any = None
        self._high: Any = None
        self._holds_nan = False
        self.num_nulls = 0

    def add(self, values: Any) -> None:
        # A dictionary or runs may hold nulls that the array itself does not count.
        self.num_nulls += pc.sum(pc.cast(pc.is_null(_decoded(values)), pa.int64())).as_py() or 0
        if self._kind == "other":
            return
        ends = pc.min_max(self._comparable(_decoded(values))).as_py()
        low, high = ends["min"], ends["max"]
        if low is not None:
            self._low = low if self._low is None else min(self._low, low)
            self._high = high if self._high is None else max(self._high, high)

    def min_text(self) -> str | None:
        text = None if self._low is None else _WRITERS[self._kind](self._low, self._type)
        return text if text is None or self._max_length is None else text[: self._max_length]

    def max_text(self) -> str | None:
        text = None if self._high is None or self._holds_nan else _WRITERS[self._kind](self._high, self._type)
        return text if text is None or self._max_length is None else truncated_maximum(text, self._max_length)

    def _comparable(self, values: Any) -> Any:
        """Convert values to a type with an order in Arrow that Python can hold."""
        if self._kind == "string":
            return pc.cast(values, pa.large_string())
        if self._kind == "date":
            return pc.cast(pc.cast(values, pa.date32()), pa.int32())
        if self._kind == "timestamp":
            return pc.cast(values, pa.int64())
        if self._kind != "float":
            return values
        numbers = pc.cast(values, pa.float64())
        nan = pc.is_nan(numbers)
        self._holds_nan = self._holds_nan or bool(pc.any(nan).as_py())
        return pc.filter(numbers, pc.invert(nan))


def _decoded(values: Any) -> Any:
    if pa.types.is_run_end_encoded(values.type):
        values = pc.run_end_decode(values)
    return pc.cast(values, value_type(values.type)) if pa.types.is_dictionary(values.type) else values


def _known(texts: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text for name, text in texts.items() if text is not None}


def _float_text(value: float, _type: Any) -> str:
    return repr(value).replace("inf", "Infinity")


def _decimal_text(value: Decimal, _type: Any) -> str:
    return f"{value:f}"


def _date_text(days: int, _type: Any) -> str | None:
    try:
        return (_EPOCH.date() + dt.timedelta(days=days)).isoformat()
    except OverflowError:
        return None


def _timestamp_text(ticks: int, type_: Any) -> str | None:
    seconds, rest = divmod(ticks, _TICKS_PER_SECOND[type_.unit])
    try:
        text = (_EPOCH + dt.timedelta(seconds=seconds)).isoformat()
    except OverflowError:
        return None
    digits = _FRACTION_DIGITS[type_.unit]
    fraction = f".{rest:0{digits}d}" if rest else ""
    return text + fraction + ("Z" if type_.tz is not None else "")


_WRITERS: dict[Kind, Callable[[Any, Any], str | None]] = {
    "integer": lambda value, _type: str(value),
    "decimal": _decimal_text,
    "float": _float_text,
    "string": lambda value, _type: str(value),
    "boolean": lambda value, _type: str(value).lower(),
    "date": _date_text,
    "timestamp": _timestamp_text,
}
