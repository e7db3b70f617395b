"""Any Python value for any column: it is refused, or it comes back as it was given."""

from __future__ import annotations

import datetime as dt
import decimal
import math

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.errors import SchemaError
from indextables.ingest.batches import incoming_batches, open_incoming

LEAVES = [
    pa.int8(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.binary(),
    pa.decimal128(10, 2),
    pa.decimal128(38, 0),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.null(),
]
KINDS = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        inner.map(lambda kind: pa.list_(pa.field("element", kind))),
        st.lists(inner, min_size=1, max_size=2).map(
            lambda kinds: pa.struct([(f"f{at}", kind) for at, kind in enumerate(kinds)])
        ),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
    ),
    max_leaves=3,
)
ZONES = st.sampled_from([None, dt.UTC, dt.timezone(dt.timedelta(hours=2))])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**66), 2**66),
    st.integers(-3, 3),
    st.floats(),
    st.sampled_from([0.0, -0.0, 1.0, 1.5, 2.0**60, 1e300]),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.decimals(allow_nan=False, allow_infinity=False, places=2),
    st.dates(),
    st.datetimes(timezones=ZONES),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["f0", "f1", "k"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def same(given: object, found: object, kind: pa.DataType) -> bool:
    """Whether a value came back by its meaning: equal, and of a class that means the same."""
    if given is None or found is None:
        return given is found
    if pa.types.is_struct(kind):
        return all(same(given.get(field.name), found[field.name], field.type) for field in kind)
    if pa.types.is_map(kind):
        pairs = list(given.items()) if isinstance(given, dict) else [tuple(pair) for pair in given]
        return [key for key, _ in pairs] == [key for key, _ in found] and all(
            same(one, other, kind.item_type) for (_, one), (_, other) in zip(pairs, found, strict=True)
        )
    if pa.types.is_list(kind):
        return len(given) == len(found) and all(
            same(one, other, kind.value_type) for one, other in zip(given, found, strict=True)
        )
    if isinstance(given, bool) != isinstance(found, bool) or isinstance(given, str) != isinstance(found, str):
        return False
    if isinstance(given, float) and math.isnan(given):
        return isinstance(found, float) and math.isnan(found)
    if pa.types.is_float32(kind):
        return math.isfinite(given) == math.isfinite(found) and math.isclose(given, found, rel_tol=1e-6, abs_tol=1e-37)
    if isinstance(given, dt.datetime):
        return isinstance(found, dt.datetime) and (given.tzinfo is None) == (found.tzinfo is None) and given == found
    return bool(given == found)


@settings(max_examples=150)
@given(kind=KINDS, values=st.lists(VALUES, min_size=1, max_size=2))
def test_a_value_is_refused_or_comes_back(kind, values) -> None:
    schema = pa.schema([("c", kind)])
    rows = [{"c": value} for value in values]
    try:
        found = [row["c"] for batch in incoming_batches(rows, schema) for row in batch.to_pylist()]
    except SchemaError:
        return
    assert len(found) == len(values)
    for value, other in zip(values, found, strict=True):
        assert same(value, other, kind), (value, other)


@settings(max_examples=100)
@given(values=st.lists(VALUES, min_size=1, max_size=2))
def test_guessed_types_change_no_value(values) -> None:
    try:
        taken = open_incoming([{"c": value} for value in values])
        found = [row["c"] for batch in taken.batches for row in batch.to_pylist()]
    except SchemaError:
        return
    kind = taken.schema.field("c").type
    for value, other in zip(values, found, strict=True):
        assert same(value, other, kind), (value, other)


def test_the_judge_can_say_no() -> None:
    assert not same(1, True, pa.int64())
    assert not same(1.5, 1, pa.int64())
    assert not same(5, dt.date(1970, 1, 6), pa.date32())
    assert not same(dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, tzinfo=dt.UTC), pa.timestamp("us", "UTC"))  # noqa: DTZ001
    assert not same([1], [2], pa.list_(pa.int64()))
    assert not same(decimal.Decimal(1), decimal.Decimal(2), pa.decimal128(3, 0))
