"""Arrow values of Python values: what pyarrow gives, without pandas."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.arrow_values import numbers_below, repeated, to_array, to_scalar, to_table

_LEAVES = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats(allow_nan=False) | st.integers(-(2**53), 2**53)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text(max_size=6)),
    (pa.binary(), st.binary(max_size=6)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", tz="UTC"), st.datetimes(timezones=st.just(datetime.UTC)) | st.datetimes()),
    (pa.timestamp("ms", tz="UTC"), st.integers(-(2**40), 2**40)),
    (pa.decimal128(9, 2), st.decimals(-9999999, 9999999, places=2) | st.integers(-9999999, 9999999)),
    (pa.null(), st.none()),
]


def _nested(leaf):
    kind, values = leaf
    values = st.none() | values
    pairs = st.dictionaries(st.text(max_size=3), values, max_size=3)
    return st.sampled_from(
        [
            (kind, values),
            (pa.list_(kind), st.none() | st.lists(values, max_size=3)),
            (pa.map_(pa.string(), kind), st.none() | pairs),
            (
                pa.struct([("a", kind), ("b", pa.list_(kind))]),
                st.none() | st.fixed_dictionaries({"a": values}, optional={"b": st.lists(values, max_size=2)}),
            ),
        ]
    )


_COLUMNS = (
    st.sampled_from(_LEAVES).flatmap(_nested).flatmap(lambda kind: st.tuples(st.just(kind[0]), st.lists(kind[1])))
)


def _as_pyarrow_takes(kind, values):
    """The same values as `pa.array` takes them: maps as pairs."""
    if not pa.types.is_map(kind):
        return values
    return [None if value is None else list(value.items()) for value in values]


@given(_COLUMNS)
def test_arrays_are_those_of_pyarrow(column):
    kind, values = column
    made = to_array(values, kind)
    made.validate(full=True)
    assert made.type == kind
    as_pairs = _as_pyarrow_takes(kind, values)
    assert made.equals(pa.array(as_pairs, kind))
    assert made.equals(to_array(as_pairs, kind))


@pytest.mark.parametrize(
    "values",
    [
        [],
        [None],
        [1, None],
        [True, False],
        [1.5],
        ["a", None, "ä"],
        [b"x"],
        [1, 2.5],
        [datetime.date(2026, 1, 1)],
        [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)],
        [{"a": 1}],
        [{"b": 1, "a": "x"}, None, {"b": 2, "a": None}],
        [{"a": 1}, {"b": 2}],
        [{}],
        [[1], None],
        [[], [None]],
        [[[1]], [[], [2]]],
        [[{"a": 1}]],
        [(1, 2)],
        [2**60, 1.5],
        [decimal.Decimal("1.5")],
        [2**63 - 1],
    ],
)
def test_the_type_of_values_is_the_one_that_pyarrow_finds(values):
    try:
        theirs = pa.array(values)
    except pa.ArrowException as error:
        with pytest.raises(type(error)):
            to_array(values)
        return
    assert to_array(values).equals(theirs)
    assert to_array(iter(values)).type == theirs.type


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([300], pa.int8()),
        (["1"], pa.int64()),
        ([2**70], pa.int64()),
        ([2**53 + 1], pa.float64()),
        (["\ud800"], pa.string()),
        ([decimal.Decimal("1.234")], pa.decimal128(9, 2)),
        ([decimal.Decimal("123456789")], pa.decimal128(9, 2)),
        ([decimal.Decimal("NaN")], pa.decimal128(9, 2)),
    ],
)
def test_values_that_do_not_fit_fail_as_in_pyarrow(values, kind):
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - whatever pyarrow raises
        pa.array(values, kind)
    with pytest.raises(theirs.type):
        to_array(values, kind)


def test_arrow_values_stay_as_they_are():
    assert to_array(np.array([1, 2], np.int32)).type == pa.int32()
    assert to_array(pa.chunked_array([[1], [2]])).to_pylist() == [1, 2]
    assert to_array(to_array([1, 2]), pa.int64()).to_pylist() == [1, 2]
    assert to_scalar(to_scalar(1)).as_py() == 1
    assert to_array([to_scalar(1), to_scalar(None, pa.int64())], pa.int64()).to_pylist() == [1, None]
    assert to_scalar(None, pa.string()) == pa.scalar(None, pa.string())


def test_rows_are_a_table():
    schema = pa.schema([("a", pa.int64()), ("tags", pa.map_(pa.string(), pa.string()))])
    rows = [{"a": 1, "tags": {"x": "y"}}, {"a": None}]
    assert to_table(rows, schema).to_pylist() == [{"a": 1, "tags": [("x", "y")]}, {"a": None, "tags": None}]
    assert to_table([], schema).schema == schema
    assert to_table([{"a": 1, "b": "x"}]).equals(pa.Table.from_pylist([{"a": 1, "b": "x"}]))


def test_pandas_is_not_imported():
    program = """
        import datetime, decimal, sys
        import pyarrow as pa
        from indextables.arrow_values import to_array, to_scalar
        to_array([1, None], pa.int64()), to_array(["a"]), to_array([], pa.string()), to_scalar(True), to_scalar(None)
        to_array([datetime.datetime.now(datetime.UTC)], pa.timestamp("us", tz="UTC"))
        to_array([decimal.Decimal(1)], pa.decimal128(5, 2)), to_array([[{}]], pa.list_(pa.struct([("a", pa.string())])))
        assert "pandas" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1_000])
def test_numbers_without_python_values(count) -> None:
    assert numbers_below(count).equals(pa.array(range(count), pa.uint64()))
    for value, kind in ((1.0, pa.float32()), (-3, pa.int32()), (2.5, pa.float64())):
        assert repeated(value, count, kind).equals(pa.array([value] * count, kind))
