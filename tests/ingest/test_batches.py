"""What people give to be written: taken in every Arrow form, widened safely, and refused with the column's name."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pytest

from indextables.errors import SchemaError
from indextables.ingest.batches import conform, incoming_batches

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("message", pa.string()), ("at", pa.timestamp("us", "UTC"))]
)
MOMENT = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - without a zone on purpose
ROWS = [{"id": 1, "message": "a", "at": None}, {"id": 2, "message": None, "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}]


def table() -> pa.Table:
    return pa.Table.from_pylist(ROWS, schema=SCHEMA)


class Stream:
    """Something that only speaks Arrow's C stream."""

    def __arrow_c_stream__(self, requested_schema=None):
        return table().__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "make",
    [
        table,
        lambda: table().to_batches()[0],
        lambda: table().to_reader(),
        lambda: table().to_batches(max_chunksize=1),
        lambda: iter(table().to_batches(max_chunksize=1)),
        lambda: [table().slice(0, 1), table().slice(1)],
        Stream,
    ],
)
def test_every_arrow_form_is_taken(make) -> None:
    found = list(incoming_batches(make(), SCHEMA))
    assert all(batch.schema == SCHEMA for batch in found)
    assert [row for batch in found for row in batch.to_pylist()] == ROWS


@pytest.mark.parametrize("data", ["text", b"bytes", 7, None, [1, 2], [None], [(1, "x")], object(), pa.array([1])])
def test_other_things_are_refused(data) -> None:
    with pytest.raises(SchemaError, match="expected a list of dicts, a dict of lists, an Arrow table"):
        list(incoming_batches(data, SCHEMA))


def test_nothing_is_no_batch() -> None:
    assert list(incoming_batches([], SCHEMA)) == []
    assert list(incoming_batches(SCHEMA.empty_table(), SCHEMA)) == []


def test_columns_come_in_the_order_of_the_table_and_missing_ones_are_null() -> None:
    batch = pa.RecordBatch.from_pydict({"message": ["x"], "id": pa.array([1], pa.int64())})
    assert conform(batch, SCHEMA).to_pylist() == [{"id": 1, "message": "x", "at": None}]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": [1], "other": [1]}, "column `other` because the table has no such column"),
        ({"message": ["x"]}, "column `id` because it is missing"),
        ({"id": pa.array([1, None], pa.int64())}, "column `id` because it holds a null"),
        ({"id": ["1"]}, "column `id` because it is `string`, and the table's is `int64`"),
        ({"id": [1.0]}, "column `id` because it is `double`"),
        ({"id": pa.array([2**63], pa.uint64())}, "column `id` because it is `uint64`"),
        ({"id": [1], "at": pa.array([1], pa.timestamp("us"))}, "column `at` because it is `timestamp"),
        ({"id": [1], "message": [b"x"]}, "column `message` because it is `binary`"),
    ],
)
def test_what_does_not_fit_is_named(columns, message) -> None:
    with pytest.raises(SchemaError, match=message):
        conform(pa.RecordBatch.from_pydict(columns), SCHEMA)


def test_a_column_that_is_there_twice_is_refused() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    with pytest.raises(SchemaError, match="column `id` twice"):
        conform(batch, SCHEMA)


@pytest.mark.parametrize(
    ("given", "wanted", "value"),
    [
        (pa.int8(), pa.int64(), 7),
        (pa.uint32(), pa.int64(), 7),
        (pa.float32(), pa.float64(), 0.5),
        (pa.large_string(), pa.string(), "x"),
        (pa.string_view(), pa.string(), "x"),
        (pa.dictionary(pa.int8(), pa.string()), pa.string(), "x"),
        (pa.large_binary(), pa.binary(), b"x"),
        (pa.date64(), pa.date32(), dt.date(2026, 1, 1)),
        (pa.timestamp("s"), pa.timestamp("us"), MOMENT),
        (pa.decimal128(5, 1), pa.decimal128(10, 2), decimal.Decimal("1.5")),
        (pa.null(), pa.int64(), None),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), [1]),
        (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int64())]), {"a": 1}),
        (pa.map_(pa.string(), pa.int8()), pa.map_(pa.string(), pa.int64()), [("k", 1)]),
    ],
)
def test_columns_are_widened_where_no_value_changes(given, wanted, value) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([value], given)], names=["c"])
    found = conform(batch, pa.schema([("c", wanted)]))
    assert found.schema.field("c").type == wanted
    assert found.to_pylist() == [{"c": value}]


@pytest.mark.parametrize(
    ("given", "wanted", "value"),
    [
        (pa.int64(), pa.int8(), 300),
        (pa.timestamp("us"), pa.timestamp("s"), MOMENT.replace(microsecond=5)),
        (pa.decimal128(10, 3), pa.decimal128(10, 2), decimal.Decimal("1.555")),
        (pa.struct([("a", pa.int8())]), pa.struct([("b", pa.int8())]), {"a": 1}),
        (pa.list_(pa.string()), pa.list_(pa.int64()), ["x"]),
        (pa.int64(), pa.float64(), 1),
        (pa.bool_(), pa.int64(), True),
    ],
)
def test_nothing_is_changed_in_silence(given, wanted, value) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([value], given)], names=["c"])
    with pytest.raises(SchemaError, match="column `c`"):
        conform(batch, pa.schema([("c", wanted)]))


def test_the_index_of_a_frame_is_never_lost() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"a": ["x", "x", "z", "x"], "n": [1, 2, 3, 4]})
    schema = pa.schema([("a", pa.string()), ("n", pa.int64())])

    def written(data):
        return pa.Table.from_batches(incoming_batches(data, schema), schema).to_pylist()

    assert written(frame[frame.a == "x"]) == [{"a": "x", "n": 1}, {"a": "x", "n": 2}, {"a": "x", "n": 4}]
    assert written(frame.set_index(pandas.Index([5, 7, 8, 9], name="n"))[["a"]])[0] == {"a": "x", "n": 5}
    with pytest.raises(SchemaError, match="the index `n` of a pandas frame"):
        written(frame[["a"]].set_index(pandas.RangeIndex(1, 5, name="n")))


def test_a_single_column_is_refused() -> None:
    with pytest.raises(SchemaError, match="cannot write a `ChunkedArray`"):
        list(incoming_batches(pa.chunked_array([[1]]), pa.schema([("a", pa.int64())])))
