"""How many rows lie in each stretch of time: from the index where that is exact, else from that column."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import ConfigError, SchemaError
from indextables.ops.aggregate import COUNT, column_to_aggregate
from indextables.ops.intervals import DAY, Interval, parse_interval
from indextables.ops.questions import Question, Split
from indextables.split.aggregations import from_index, histogram_of


def date_histogram(question: Question, column: str, *, interval: str) -> pa.Table:
    """A row per bucket that holds rows, in order: where it starts, and its count."""
    wanted = parse_interval(interval)
    field = column_to_aggregate(question.schema, column)
    width = _pieces(field, wanted, interval)

    def count_in(split: Split) -> dict[int, int]:
        if question.where is None:
            found = histogram_of(question.searcher(split), question.tree, question.text, field, width)
            if found is not None:
                return found
        return _count_pieces(question.rows(split, [column])[column], width)

    buckets: Counter[int] = Counter()
    for _, pieces in question.ask(count_in):
        for piece, count in pieces.items():
            buckets[wanted.start(piece) // _unit(field)] += count
    question.warn()
    starts = sorted(buckets)
    counts = pa.array([buckets[start] for start in starts], pa.int64())
    return pa.Table.from_arrays(
        [from_index(starts, field.type), counts], schema=pa.schema([field, (COUNT, pa.int64())])
    )


def _pieces(field: pa.Field[Any], wanted: Interval, interval: str) -> int:
    """How long a piece of an interval is, in what the column counts."""
    if not pa.types.is_date32(field.type) and not pa.types.is_timestamp(field.type):
        raise SchemaError(
            f"cannot make a date histogram of the column `{field.name}` because its type is `{field.type}`",
            hint="it takes dates and timestamps",
        )
    if wanted.width % _unit(field):
        raise ConfigError(
            f"cannot use the interval `{interval}` for the dates of `{field.name}`: it has to be whole days"
        )
    return wanted.width // _unit(field)


def _unit(field: pa.Field[Any]) -> int:
    return DAY if pa.types.is_date32(field.type) else 1


def _count_pieces(values: pa.ChunkedArray[Any], width: int) -> dict[int, int]:
    plain = pc.cast(values.drop_null(), pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    counts = pc.cast(plain, pa.int64())
    quotients = pc.divide(counts, width)
    # Arrow divides towards zero, and what is before 1970 belongs to the piece below.
    is_above = pc.less(counts, pc.multiply(quotients, width))
    counted = pc.value_counts(pc.subtract(quotients, pc.cast(is_above, pa.int64())))
    return dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))
