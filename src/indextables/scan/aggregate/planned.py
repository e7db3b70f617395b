"""Answer an aggregation by the log or the indexes at hand, if they decide it.

| measure | exact if |
|---|---|
| count of rows | the log counts the rows of every split, or the indexes decide the query and the predicate |
| count, minimum, maximum, sum and mean of a column | it holds whole numbers, dates or timestamps in a fast field |
| count of rows by a column | it holds keywords with few values, or in a fast field any of the above or booleans |

The sum is one of 64 bits, and the mean is the quotient of doubles; both are left out if additions of doubles or of 64
bits could round or overflow on the way. None means that rows have to be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array
from indextables.scan.aggregate.stats import stats
from indextables.scan.aggregate.terms import COUNT, aggregate
from indextables.scan.filter_plan import FilterLimits, bytes_allowed, index_part
from indextables.scan.search import count
from indextables.scan.split_scan import Split, TableScan
from indextables.split.query.tree import All

# Rows of a split on local disk whose values are counted as quickly as by an index.
_FEW_ROWS = 2_000
_EXACT_DOUBLE = 1 << 53
_INT64 = 1 << 63


class Measure(NamedTuple):
    """A function of the rows of a group: `count`, `min`, `max`, `sum` or `avg`.

    Without a column it counts rows.
    """

    function: str
    column: str | None = None


def planned_answer(
    scan: TableScan, group: str | None, measures: Sequence[Measure], limits: FilterLimits
) -> pa.Table | None:
    """Return the values of a group, if there is one, then one column a measure."""
    if not _can_decide(scan, group, measures, limits):
        return None
    if group is not None:
        return _by_group(scan, group, len(measures))
    columns = [_measured(scan, measure) for measure in measures]
    if any(column is None for column in columns):
        return None
    return pa.Table.from_arrays(columns, names=[str(number) for number in range(len(columns))])


def _can_decide(scan: TableScan, group: str | None, measures: Sequence[Measure], limits: FilterLimits) -> bool:
    columns = {measure.column for measure in measures if measure.column is not None}
    if not all(_is_whole(scan.schema.field(name).type) for name in columns):
        return False
    if group is not None and (columns or not _can_group(scan.schema.field(group).type)):
        return False
    is_by_log = scan.tree is None and scan.where is None and group is None and not columns
    if is_by_log:
        return not scan.counted_by_log()[1]
    if scan.num_splits > limits.max_splits or not _is_at_hand(scan, limits, is_whole=bool(group or columns)):
        return False
    decided = scan.ask(lambda split: _is_decided(scan, split, group, columns))
    return all(is_decided for _, is_decided in decided)


def _is_at_hand(scan: TableScan, limits: FilterLimits, *, is_whole: bool) -> bool:
    """Return whether the indexes are on local disk, after fetching what is allowed."""
    node = index_part(scan)
    if node is None and scan.where is not None:
        return False
    if scan.where is None and not is_whole and node is not None:
        opened = scan.ask(scan.searcher)
        return sum(searcher.bytes_to_fetch(node) for _, searcher in opened) <= bytes_allowed(scan, limits)
    searchers = [searcher for _, searcher in scan.ask(scan.searcher)]
    if sum(searcher.bytes_to_fetch(All()) for searcher in searchers) > bytes_allowed(scan, limits):
        return False
    scan.ask(lambda split: scan.searcher(split).fetch_whole())
    return True


def _is_decided(scan: TableScan, split: Split, group: str | None, columns: set[str]) -> bool:
    """Return whether the index of a split decides the rows and the measures."""
    tree, where = scan.asked(split)
    if where is not None:
        return False
    searcher = scan.searcher(split)
    if any(searcher.fast_field(name, tree) is None for name in columns):
        return False
    if group is None or searcher.keyword_field(group, tree) is not None:
        return True
    if not scan.is_remote and searcher.split.num_rows <= _FEW_ROWS:
        return True
    return not _is_text(scan.schema.field(group).type) and searcher.fast_field(group, tree) is not None


def _by_group(scan: TableScan, group: str, num_measures: int) -> pa.Table:
    """Count the rows of each value; NULL is a group of its own."""
    counted = aggregate(scan, group)
    left = count(scan) - int(pc.sum(counted[COUNT], min_count=0).as_py())
    values, counts = counted[group], counted[COUNT]
    if left:
        values = pa.chunked_array([*values.chunks, pa.nulls(1, values.type)])
        counts = pa.chunked_array([*counts.chunks, to_array([left], pa.int64())])
    names = [group, *(str(number) for number in range(num_measures))]
    return pa.Table.from_arrays([values, *([counts] * num_measures)], names=names)


def _measured(scan: TableScan, measure: Measure) -> pa.Array[Any] | None:
    if measure.column is None:
        return to_array([count(scan)], pa.int64())
    found = stats(scan, measure.column)
    if measure.function == "count":
        return found["count"].combine_chunks()
    if measure.function in {"min", "max"}:
        return found[measure.function].combine_chunks()
    number, total = found["count"][0].as_py(), found["sum"][0].as_py()
    if not number:
        return pa.nulls(1, pa.float64() if measure.function == "avg" else pa.int64())
    largest = number * max(abs(found["min"][0].as_py()), abs(found["max"][0].as_py()))
    if total is None or largest >= (_EXACT_DOUBLE if measure.function == "avg" else _INT64):
        return None
    if measure.function == "avg":
        return to_array([float(total) / float(number)], pa.float64())
    return to_array([total], pa.int64())


def _is_whole(type_: Any) -> bool:
    return bool(pa.types.is_signed_integer(type_) or pa.types.is_date32(type_) or _is_moment(type_))


def _is_moment(type_: Any) -> bool:
    return bool(pa.types.is_timestamp(type_) and type_.unit == "us")


def _is_text(type_: Any) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _can_group(type_: Any) -> bool:
    return _is_whole(type_) or _is_text(type_) or pa.types.is_boolean(type_)
