"""Aggregate a column from the index of one split or more if exact; else None.

| result | exact if |
|---|---|
| terms of keywords | no text was cut: each row has one term at most, and the dictionary knows the rows of each term |
| other terms | all values were counted: above 65,000 the engine gives up or drops some |
| histogram | all values, and the edges of their buckets, are below 2^53, since the engine divides doubles |
| minimum, maximum | they are below 2^53 |
| sum | the number of values times the greatest magnitude is below 2^53, since the engine adds doubles |

Floats are never taken from the index: it holds no NaN, and one zero for two. Neither are addresses, which it spells
differently, nor decimals of more than 18 digits, which it holds as text.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array
from indextables.split.index.fields import MAX_WHOLE_BYTES, IndexField, Kind, is_text
from indextables.split.query.tree import Node
from indextables.split.search.combined import Together
from indextables.split.search.searcher import SplitSearcher

Searcher: TypeAlias = SplitSearcher | Together

_MOST_TERMS = 65_000
_EXACT = 1 << 53


class WholeNumbers(NamedTuple):
    """Count, minimum, maximum and sum of values in index form.

    The values are integers, days, ticks or unscaled decimals.
    """

    number: int
    least: int
    greatest: int
    total: int


def terms_of(searcher: Searcher, tree: Node | None, text: str, column: pa.Field[Any]) -> pa.Table | None:
    """Return the distinct values of a column as `value`, and their counts as `count`."""
    words = _keywords(searcher, tree, text, column)
    if words is not None:
        return words
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
    return pa.table({"value": from_index(keys, column.type), "count": to_array(counts, pa.int64())})


def _keywords(searcher: Searcher, tree: Node | None, text: str, column: pa.Field[Any]) -> pa.Table | None:
    """Count keywords by the engine's dictionary of terms; return None if one was cut."""
    field = searcher.keyword_field(column.name, tree) if is_text(column.type) else None
    if field is None or field.type != str(column.type):
        return None
    found = searcher.keywords(tree, text, field)
    words, counts = [word for word, _ in found], [count for _, count in found]
    values = to_array(words, column.type)
    if (pc.max(pc.binary_length(values)).as_py() or 0) > MAX_WHOLE_BYTES:
        return None
    return pa.table({"value": values, "count": to_array(counts, pa.int64())})


def histogram_of(
    searcher: Searcher, tree: Node | None, text: str, column: pa.Field[Any], width: int, offset: int = 0
) -> dict[int, int] | None:
    """Count the values per bucket, by the bucket's number.

    Bucket 0 starts at `offset`, which is less than `width`, and each bucket is `width` long.
    """
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
    searcher: Searcher, tree: Node | None, text: str, column: pa.Field[Any], *, is_sum_wanted: bool = True
) -> WholeNumbers | None:
    """Return count, minimum, maximum and sum; an unwanted sum may be wrong."""
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
    """Convert values of the index to a column's type."""
    if pa.types.is_boolean(type_):
        return to_array([bool(value) for value in values], type_)
    if pa.types.is_decimal(type_):
        return to_array([Decimal(value).scaleb(-type_.scale) for value in values], type_)
    if pa.types.is_date32(type_):
        return to_array(values, pa.int32()).cast(type_)
    if pa.types.is_timestamp(type_):
        return to_array(values, pa.int64()).cast(type_)
    return to_array(values, type_)


def _field(searcher: Searcher, tree: Node | None, column: pa.Field[Any]) -> IndexField | None:
    field = searcher.fast_field(column.name, tree)
    return field if field is not None and field.type == str(column.type) else None


def _is_whole(field: IndexField) -> bool:
    """Return whether the index holds integers in the column's own unit.

    The index uses other units for some types.
    """
    is_time = field.type.startswith(("date", "time"))
    return field.kind is Kind.INT and (not is_time or field.type.startswith(("date32", "timestamp[us")))


def _is_plain_text(field: IndexField, type_: Any) -> bool:
    return field.kind is Kind.STRING and is_text(type_)


def _is_cut(key: Any) -> bool:
    return isinstance(key, str) and len(key.encode()) > MAX_WHOLE_BYTES
