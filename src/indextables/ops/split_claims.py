"""What the log says of a split, held against its rows: statistics and partition values.

Bounds may be missing or wider than the values. Those of other writers may have been computed on text: they are wrong
only where pruning by them would lose rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.config import Config
from indextables.predicate.bound import BoundColumn, BoundValue, stored_type
from indextables.protocol.actions import Add
from indextables.protocol.file_table import AddedFile, files_table
from indextables.protocol.statistics import NAN_SHOWN, NAN_TAG, STATS_TAG, STATS_TYPED
from indextables.scan.bounds import ColumnBounds
from indextables.scan.intervals import Interval
from indextables.scan.statistics import DEFAULT_MAX_LENGTH, FileStatistics
from indextables.scan.texts import parse_texts
from indextables.split.statistics import ColumnStatistics, StatisticsCollector
from indextables.split.verifying import RowFacts

_NAN = float("nan")
_EXACTLY = Config.resolve(options={"stats.truncation.enabled": False, "dataSkippingNumIndexedCols": -1})


def exact_statistics(schema: pa.Schema) -> StatisticsCollector:
    """Statistics of all columns, nothing of them shortened."""
    return StatisticsCollector(schema, _EXACTLY)


def statistics_problems(add: Add, schema: pa.Schema, found: ColumnStatistics) -> Iterator[str]:
    """What is wrong with the statistics of an add, whose rows have those that were `found` exactly."""
    claimed = FileStatistics(files_table([AddedFile(add, 0, 0)]), schema.names, DEFAULT_MAX_LENGTH)
    announced = _announced_records(add.stats)
    if announced is not None and announced != found.num_records:
        yield f"its statistics announce {announced} rows and it has {found.num_records}"
    for name in schema.names:
        column = BoundColumn((name,), schema.field(name).type)
        num_nulls = claimed.null_counts(name)[0].as_py()
        if num_nulls is not None and num_nulls != found.null_counts[name]:
            yield f"`{name}` is null in {found.null_counts[name]} rows and the log says {num_nulls}"
        if column.kind != "other":
            yield from _bound_problems(add, column, claimed, found)


def partition_problems(add: Add, schema: pa.Schema, facts: RowFacts) -> Iterator[str]:
    """Where the rows are of another partition than the log says."""
    for name, values in facts.partition_values.items():
        claimed = add.partition_values.get(name)
        other = [value for value in values if not _is_same(value, claimed, schema.field(name).type)]
        if other:
            yield f"`{name}` is {_shown(other[0])} in its rows and the log says {_shown(claimed)}"


def _bound_problems(add: Add, column: BoundColumn, claimed: FileStatistics, found: ColumnStatistics) -> Iterator[str]:
    name, bounds = column.name, claimed.bounds(column.name)
    held = [text for text in (found.min_values.get(name), found.max_values.get(name)) if text is not None]
    num_values = found.num_records - found.null_counts[name]
    has_nan = column.kind == "float" and num_values > 0 and name not in found.max_values
    if (add.tags or {}).get(STATS_TAG) == STATS_TYPED:
        low, high = (parse_texts(texts, column.type) for texts in (bounds.low, bounds.high))
        values = parse_texts(pa.array(held, pa.string()), column.type)
        if pc.any(pc.less(values, low[0])).as_py():
            yield f"`{name}` holds {_shown(held[0])}, below the least value in the log, {_shown(bounds.low[0].as_py())}"
        if pc.any(pc.greater(values, high[0])).as_py():
            yield (
                f"`{name}` holds {_shown(held[-1])}, above the greatest value in the log, "
                f"{_shown(bounds.high[0].as_py())}"
            )
        shows_nan = (add.tags or {}).get(NAN_TAG) == NAN_SHOWN
        if has_nan and shows_nan and high[0].is_valid and high[0].as_py() == high[0].as_py():
            yield f"`{name}` holds NaN, above the greatest value in the log, {_shown(bounds.high[0].as_py())}"
        return
    rules = ColumnBounds(column, bounds)
    for value in (*_bound_values(held, column), *([_NAN] if has_nan else [])):
        if rules.exclude_interval(Interval(value, value))[0].as_py():
            yield f"`{name}` holds {_shown(str(value))}, which the bounds in the log rule out"


def _bound_values(texts: list[str], column: BoundColumn) -> list[BoundValue]:
    """Values as pruning compares them."""
    values: Any = parse_texts(pa.array(texts, pa.string()), column.type)
    if column.kind == "decimal":
        scale = stored_type(column.type).scale
        return [int(value.scaleb(scale)) for value in values.to_pylist() if value is not None]
    if column.kind == "date":
        values = pc.cast(values, pa.int32())
    elif column.kind == "timestamp":
        values = pc.cast(values, pa.int64())
    return [value for value in values.to_pylist() if value is not None]


def _is_same(found: str | None, claimed: str | None, type_: pa.DataType) -> bool:
    if found == claimed:
        return True
    if found is None or claimed is None:
        return False
    left, right = parse_texts(pa.array([found, claimed], pa.string()), type_)
    return bool(left.is_valid and left == right)


def _announced_records(stats: str | None) -> int | None:
    try:
        found: Any = msgspec.json.decode(stats or "null")
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    number = found.get("numRecords") if isinstance(found, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _shown(text: str | None) -> str:
    return "null" if text is None else f"`{text[:80]}`"
