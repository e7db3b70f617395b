"""What the index of one split says of a column's values, where that is exact; None where the rows have to be read.

| what | exact where |
|---|---|
| terms | all values were counted: the engine gives up, or says less, above 65,000; and no text was cut |
| histogram | all values, and the edges of their buckets, are below 2^53, since the engine divides doubles |
| least, greatest | they are below 2^53 |
| sum | that of as many values of the greatest magnitude is below 2^53, since the engine adds doubles |

Floats are never taken from the index: it holds no NaN, and one zero for two. Neither are addresses, which it spells in
its own way, nor decimals of more than 18 digits, which it holds as text.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from indextables.split.fields import MAX_WHOLE_BYTES, IndexField, Kind, is_text
from indextables.split.query.tree import Node
from indextables.split.searcher import SplitSearcher

_MOST_TERMS = 65_000
_EXACT = 1 << 53


class WholeNumbers(NamedTuple):
    """Number, least, greatest and sum of values as the index holds them: whole numbers, days, ticks, digits."""

    number: int
    least: int
    greatest: int
    total: int


def terms_of(searcher: SplitSearcher, tree: Node | None, text: str, column: pa.Field[Any]) -> pa.Table | None:
    """The distinct values of a column as `value`, and how many rows have each as `count`."""
    field = _field(searcher, tree, column)
    if field is None or not (_is_whole(field) or field.kind is Kind.BOOL or _is_plain_text(field, column.type)):
        return None
    wanted = {
        "terms": {"terms": {"field": field.name, "size": _MOST_TERMS}},
        "count": {"value_count": {"field": field.name}},
    }
    found = searcher.aggregate(tree, text, wanted)
    if found is None:
        return None
    keys = [bucket["key"] for bucket in found["terms"]["buckets"]]
    counts = [int(bucket["doc_count"]) for bucket in found["terms"]["buckets"]]
    if sum(counts) != int(found["count"]["value"]) or any(_is_cut(key) for key in keys):
        return None
    return pa.table({"value": from_index(keys, column.type), "count": pa.array(counts, pa.int64())})


def histogram_of(
    searcher: SplitSearcher, tree: Node | None, text: str, column: pa.Field[Any], width: int, offset: int = 0
) -> dict[int, int] | None:
    """How many values lie in each bucket, by the bucket's number: 0 from `offset`, which is less than `width`, to less
    than `width` above it."""
    known = numbers_of(searcher, tree, text, column, is_sum_wanted=False)
    field = _field(searcher, tree, column)
    if known is None or field is None:
        return None
    if max(abs(known.least), abs(known.greatest)) + 2 * width >= _EXACT:
        return None
    histogram = {"field": field.name, "interval": float(width), "offset": float(offset), "min_doc_count": 1}
    found = searcher.aggregate(tree, text, {"buckets": {"histogram": histogram}})
    if found is None:
        return None
    buckets = {
        (int(bucket["key"]) - offset) // width: int(bucket["doc_count"]) for bucket in found["buckets"]["buckets"]
    }
    return buckets if sum(buckets.values()) == known.number else None


def numbers_of(
    searcher: SplitSearcher, tree: Node | None, text: str, column: pa.Field[Any], *, is_sum_wanted: bool = True
) -> WholeNumbers | None:
    """Count, least, greatest and sum; where the sum is not wanted it may be wrong."""
    field = _field(searcher, tree, column)
    if field is None or not _is_whole(field):
        return None
    found = searcher.aggregate(tree, text, {"stats": {"stats": {"field": field.name}}})
    if found is None:
        return None
    stats = found["stats"]
    count = int(stats["count"])
    if not count:
        return WholeNumbers(0, 0, 0, 0)
    least, greatest = int(stats["min"]), int(stats["max"])
    if max(abs(least), abs(greatest)) * (count if is_sum_wanted else 1) >= _EXACT:
        return None
    return WholeNumbers(count, least, greatest, int(stats["sum"]))


def from_index(values: list[Any], type_: Any) -> pa.Array[Any]:
    """Values of the index as those of a column."""
    if pa.types.is_boolean(type_):
        return pa.array([bool(value) for value in values], type_)
    if pa.types.is_decimal(type_):
        return pa.array([Decimal(value).scaleb(-type_.scale) for value in values], type_)
    if pa.types.is_date32(type_):
        return pa.array(values, pa.int32()).cast(type_)
    if pa.types.is_timestamp(type_):
        return pa.array(values, pa.int64()).cast(type_)
    return pa.array(values, type_)


def _field(searcher: SplitSearcher, tree: Node | None, column: pa.Field[Any]) -> IndexField | None:
    field = searcher.fast_field(column.name, tree)
    return field if field is not None and field.type == str(column.type) else None


def _is_whole(field: IndexField) -> bool:
    """Whole numbers in the column's own unit: the index counts some types in other ones."""
    is_time = field.type.startswith(("date", "time"))
    return field.kind is Kind.INT and (not is_time or field.type.startswith(("date32", "timestamp[us")))


def _is_plain_text(field: IndexField, type_: Any) -> bool:
    return field.kind is Kind.STRING and is_text(type_)


def _is_cut(key: Any) -> bool:
    return isinstance(key, str) and len(key.encode()) > MAX_WHOLE_BYTES
