"""Statistics against plain Python, and against the pruning that reads them."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import make_add
from tests.predicate.predicate_oracle import POOLS, SCHEMA, evaluate, predicates, random_predicate, random_row
from tests.split.split_columns import SCALARS, TEXTS, is_nan

from indextables.config import Config
from indextables.errors import SchemaError
from indextables.predicate import Column, Comparison, IsNull, Not, bind
from indextables.protocol.file_table import AddedFile, files_table
from indextables.prune import NAN_SHOWN, NAN_TAG, STATS_TAG, STATS_TYPED, may_match
from indextables.prune.lenient_text import parse_texts
from indextables.split.statistics import ColumnStatistics, StatisticsCollector, truncated_maximum


def collect(table: pa.Table, partition_columns=(), rows_per_batch: int = 2, **options: object) -> ColumnStatistics:
    collector = StatisticsCollector(table.schema, Config.resolve(options=options), partition_columns)
    for batch in table.to_batches(max_chunksize=rows_per_batch):
        collector.add(batch)
    return collector.finish()


def one_column(values: list[Any], type_: Any, **options: object) -> tuple[str | None, str | None]:
    found = collect(pa.table({"c": pa.array(values, type_)}), **options)
    return found.min_values.get("c"), found.max_values.get("c")


def file_of(found: ColumnStatistics) -> pa.Table:
    add = make_add(
        "a.split",
        min_values=found.min_values,
        max_values=found.max_values,
        num_records=found.num_records,
        stats=found.stats_json(),
        tags=found.tags,
    )
    return files_table([AddedFile(add, 0, 0)])


def kept(found: ColumnStatistics, predicate, schema: pa.Schema) -> bool:
    return may_match(file_of(found), bind(predicate, schema), ())[0].as_py()


TYPES = [type_ for type_ in SCALARS if not pa.types.is_binary(type_) and not pa.types.is_time(type_)]


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_bounds_are_the_least_and_the_greatest_value(type_):
    @given(st.lists(st.none() | SCALARS[type_], max_size=7))
    def check(values):
        known = [value for value in values if value is not None and not is_nan(value)]
        low, high = one_column(values, type_, **{"stats.truncation.enabled": "false"})
        assert (low is None) == (not known)
        assert (high is None) == (not known or any(map(is_nan, values)))
        plain = type_.value_type if pa.types.is_dictionary(type_) else type_
        for text, choose in ((low, min), (high, max)):
            if text is not None:
                read = parse_texts(pa.array([text]), type_)
                assert read[0].is_valid
                assert read.cast(plain).equals(pa.array([choose(known)], plain)) or float(text) == choose(known)

    check()


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_a_file_is_kept_for_every_value_that_it_holds(type_):
    schema = pa.schema([("c", type_)])

    @settings(max_examples=40)
    @given(st.lists(st.none() | SCALARS[type_], min_size=1, max_size=7), st.integers(1, 9))
    def check(values, length):
        found = collect(pa.table({"c": pa.array(values, type_)}), **{"stats.truncation.maxLength": length})
        for value in values:
            if value is None:
                assert kept(found, IsNull(Column("c")), schema)
                continue
            for operator in ("=", "<=", ">="):
                assert kept(found, Comparison(Column("c"), operator, value), schema), (values, operator, value)
            assert kept(found, Not(IsNull(Column("c"))), schema)

    check()


@settings(max_examples=150)
@given(st.randoms(use_true_random=False), st.integers(1, 5), st.integers(1, 9), predicates(tuple(POOLS)))
def test_no_matching_file_is_pruned(rng, num_rows, length, predicate):
    check_pruning(rng, tuple(POOLS), num_rows, length, predicate)


@pytest.mark.parametrize("name", POOLS)
def test_no_matching_file_is_pruned_by_one_column(name):
    rng = Random(name)
    for _ in range(400):
        check_pruning(rng, (name,), rng.choice([1, 1, 2, 4]), rng.choice([1, 4, 8]), random_predicate(rng, (name,)))


def check_pruning(rng: Random, names: tuple[str, ...], num_rows: int, length: int, predicate) -> None:
    rows = [random_row(rng, names) for _ in range(num_rows)]
    schema = pa.schema([SCHEMA.field(name) for name in names])
    found = collect(pa.Table.from_pylist(rows, schema), **{"stats.truncation.maxLength": length})
    mask = may_match(file_of(found), bind(predicate, schema), (), max_length=length)
    if any(evaluate(predicate, row) is True for row in rows):
        assert mask[0].as_py(), (predicate, rows, found)


def test_what_lies_outside_is_pruned():
    schema = pa.schema([("n", pa.int64()), ("s", pa.string()), ("t", pa.timestamp("us", tz="UTC"))])
    moment = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    found = collect(pa.table({"n": [9, 100], "s": ["b" * 40, "b"], "t": [moment, moment]}, schema=schema))
    step = dt.timedelta(microseconds=1)
    outside = [("n", "<", 9), ("n", ">", 100), ("s", ">", "c"), ("s", "<", "b"), ("t", "<", moment), ("t", ">", moment)]
    outside += [("t", "=", moment + step), ("n", "<>", None)]
    for name, operator, value in outside:
        assert not kept(found, Comparison(Column(name), operator, value), schema), (name, operator, value)
    assert not kept(found, IsNull(Column("n")), schema)


@given(TEXTS, st.integers(1, 4), TEXTS)
def test_a_raised_maximum_is_above_all_that_starts_like_it(text, length, rest):
    raised = truncated_maximum(text, length)
    if raised is None:
        assert set(text[:length]) == {"\U0010ffff"}
        return
    assert len(raised) <= length
    assert raised.encode() >= text.encode()
    if len(text) > length:
        assert raised.encode() > (text[:length] + rest).encode()


def test_truncation():
    assert one_column(["a" * 40, "b" * 40], pa.string()) == ("a" * 32, "b" * 31 + "c")
    assert one_column(["\ud7ff" * 40], pa.string())[1] == "\ud7ff" * 31 + "\ue000"
    assert one_column(["\U0010ffff" * 40], pa.string())[1] is None
    assert one_column(["é" * 40], pa.string(), **{"stats.truncation.enabled": "false"}) == ("é" * 40, "é" * 40)
    assert one_column([Decimal(10) ** 37], pa.decimal128(38, 0))[1] == "1" + "0" * 37
    table = pa.table({"p": ["x" * 40], "c": ["x" * 40]})
    found = collect(table, ("p",))
    assert found.max_values == {"p": "x" * 40, "c": "x" * 31 + "y"}


def test_nan():
    assert one_column([math.nan, 1.0], pa.float64()) == ("1.0", None)
    assert one_column([1.0, 2.0, math.nan], pa.float32()) == ("1.0", None)
    assert one_column([math.nan], pa.float64()) == (None, None)
    assert one_column([math.inf, -math.inf], pa.float64()) == ("-Infinity", "Infinity")
    assert collect(pa.table({"c": [1]})).tags == {STATS_TAG: STATS_TYPED, NAN_TAG: NAN_SHOWN}


def test_what_has_no_text_has_no_bounds():
    assert one_column([10**9], pa.date32()) == (None, None)
    assert one_column([2**62], pa.timestamp("s")) == (None, None)
    assert one_column([b"a"], pa.binary()) == (None, None)
    assert one_column([[1]], pa.list_(pa.int64())) == (None, None)
    assert one_column([None], pa.null()) == (None, None)
    nanos = pa.array([1_123_456_789], pa.timestamp("ns", tz="UTC"))
    assert one_column(nanos, nanos.type)[0] == "1970-01-01T00:00:01.123456789Z"


def test_null_counts():
    table = pa.table(
        {
            "a": [1, None, None],
            "d": pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["x", None])),
            "l": [[1], None, []],
            "n": pa.nulls(3),
            'o.d"d': ["x", "y", "z"],
        }
    )
    found = collect(table)
    assert found.null_counts == {"a": 2, "d": 2, "l": 1, "n": 3, 'o.d"d': 0}
    assert json.loads(found.stats_json()) == {"numRecords": 3, "nullCount": found.null_counts}


def test_no_rows():
    found = collect(pa.table({"a": pa.array([], pa.int64())}))
    assert (found.min_values, found.max_values, found.null_counts, found.num_records) == ({}, {}, {"a": 0}, 0)


def test_columns_with_statistics():
    table = pa.table({f"c{i}": [i] for i in range(500)})
    assert len(collect(table).min_values) == 32
    assert len(collect(table, dataSkippingNumIndexedCols=-1).min_values) == 500
    assert collect(table, dataSkippingNumIndexedCols=0).null_counts == {}
    assert list(collect(table, dataSkippingStatsColumns="c300,C7").min_values) == ["c7", "c300"]
    with pytest.raises(SchemaError, match="cannot use `dataSkippingStatsColumns` because the schema has no column `x`"):
        collect(table, dataSkippingStatsColumns="x")


def test_runs():
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", None]))
    found = collect(pa.table({"r": runs}), rows_per_batch=10)
    assert (found.min_values, found.max_values, found.null_counts) == ({"r": "a"}, {"r": "a"}, {"r": 1})
