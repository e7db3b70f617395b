"""Python values as rows: taken by what they mean, and refused where Arrow alone would change them."""

from __future__ import annotations

import datetime as dt
import decimal
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from indextables.errors import SchemaError
from indextables.ingest.batches import incoming_batches, open_incoming

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("b", pa.bool_()),
        ("s", pa.string()),
        ("y", pa.binary()),
        ("n", pa.decimal128(10, 2)),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("w", pa.timestamp("us")),
        ("st", pa.struct([("x", pa.int64()), ("z", pa.list_(pa.field("element", pa.string())))])),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("v", pa.null()),
    ]
)
NAIVE = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - without a zone on purpose
AWARE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ROW = {
    "i": 7,
    "f": 3,
    "g": 0.5,
    "b": True,
    "s": "x",
    "y": b"\xff",
    "n": decimal.Decimal("1.25"),
    "d": dt.date(2026, 1, 1),
    "t": AWARE,
    "w": NAIVE,
    "st": {"x": 1, "z": ["a", None]},
    "m": {"k": 1},
    "v": None,
}


def rows(data, schema: pa.Schema = SCHEMA) -> list[dict]:
    return [row for batch in incoming_batches(data, schema) for row in batch.to_pylist()]


def test_a_row_comes_back_as_it_was_given() -> None:
    assert rows([ROW]) == [{**ROW, "m": [("k", 1)]}]
    assert rows({name: [value] for name, value in ROW.items()}) == rows([ROW])
    assert rows([{}, ROW])[0] == dict.fromkeys(SCHEMA.names)


@pytest.mark.parametrize(
    "data",
    [
        [{"i": 1, "s": "a"}, {"s": "b", "i": 2}],
        ({"i": 1, "s": "a"}, {"i": 2, "s": "b"}),
        iter([{"i": 1, "s": "a"}, {"i": 2, "s": "b"}]),
        {"i": [1, 2], "s": ["a", "b"]},
        {"i": range(1, 3), "s": ("a", "b")},
        {"i": np.array([1, 2]), "s": ["a", "b"]},
        {"i": pa.array([1, 2]), "s": pa.chunked_array([["a"], ["b"]])},
        {"i": pl.Series([1, 2]), "s": pd.Series(["a", "b"])},
        pd.DataFrame({"i": [1, 2], "s": ["a", "b"]}),
        pl.DataFrame({"i": [1, 2], "s": ["a", "b"]}),
        pl.LazyFrame({"i": [1, 2], "s": ["a", "b"]}),
        pl.LazyFrame({"i": [0, 1, 2], "s": ["", "a", "b"]}).filter(pl.col("i") > 0),
        ds.dataset(pa.table({"i": [1, 2], "s": ["a", "b"]})),
        ds.dataset(pa.table({"i": [1, 2], "s": ["a", "b"]})).scanner(),
        pa.StructArray.from_arrays([pa.array([1, 2]), pa.array(["a", "b"])], ["i", "s"]),
        [pl.DataFrame({"i": [1], "s": ["a"]}), pa.table({"i": [2], "s": ["b"]})],
    ],
    ids=lambda data: type(data).__name__,
)
def test_plain_ways_to_give_two_rows(data) -> None:
    found = [{"i": row["i"], "s": row["s"]} for row in rows(data)]
    assert found == [{"i": 1, "s": "a"}, {"i": 2, "s": "b"}]


def test_a_relation_of_duckdb_is_taken() -> None:
    duckdb = pytest.importorskip("duckdb")
    assert rows(duckdb.sql("select 1 as i, 'a' as s"))[0]["s"] == "a"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("i", 1.5),
        ("i", 1.0),
        ("i", True),
        ("i", "1"),
        ("i", 2**31),
        ("i", 2**70),
        ("i", math.nan),
        ("f", "1"),
        ("f", True),
        ("f", 2**53 + 1),
        ("g", 1e300),
        ("b", 1),
        ("b", "true"),
        ("s", 1),
        ("s", b"x"),
        ("s", math.nan),
        ("y", "x"),
        ("n", 1.5),
        ("n", decimal.Decimal("1.255")),
        ("d", AWARE),
        ("d", 5),
        ("d", "2026-01-01"),
        ("t", NAIVE),
        ("t", 5),
        ("t", "2026-01-01"),
        ("w", AWARE),
        ("w", dt.date(2026, 1, 1)),
        ("st", {"x": 1, "other": 2}),
        ("st", {"x": 1.5}),
        ("st", {"z": "abc"}),
        ("st", {"z": [1]}),
        ("st", [1]),
        ("m", {1: 1}),
        ("m", {"k": "1"}),
        ("m", "abc"),
        ("m", 7),
        ("v", 1),
    ],
)
def test_a_value_of_another_meaning_is_refused_by_the_name_of_its_column(name, value) -> None:
    with pytest.raises(SchemaError, match=f"column `{name}") as refused:
        rows([{}, {name: value}] if name != "i" else [{name: value}])
    assert "\n" not in refused.value.message


def test_every_row_counts_in_the_check() -> None:
    with pytest.raises(SchemaError, match=r"column `t` because it holds `datetime.*, and its type is"):
        rows([{"t": AWARE}, {"t": NAIVE}])
    with pytest.raises(SchemaError, match="column `other` because the table has no such column"):
        rows([{"i": 1}, {"i": 2, "other": 3}])


def test_mistakes_of_shape_say_what_to_write() -> None:
    with pytest.raises(SchemaError, match="column `i` because it is a `int` and not a list") as refused:
        rows({"i": 1, "s": "x"})
    assert "[row]" in refused.value.hint
    with pytest.raises(SchemaError, match="column `i` has 1 values and the column `s` has 2"):
        rows({"i": [1], "s": ["a", "b"]})
    with pytest.raises(SchemaError, match="cannot write a `int` among rows"):
        rows([{"i": 1}, 2])
    with pytest.raises(SchemaError, match="without a single column"):
        rows([{}])
    with pytest.raises(SchemaError, match="its name is a `int`"):
        rows({1: [1]})
    with pytest.raises(SchemaError, match="cannot write a list of `tuple`"):
        rows([(1, "a")])


def test_rows_are_taken_some_thousands_at_a_time() -> None:
    pulled = []

    def many():
        for number in range(25_000):
            pulled.append(number)
            yield {"i": number}

    batches = incoming_batches(many(), SCHEMA)
    assert next(batches).num_rows == 10_000
    assert len(pulled) <= 10_001
    assert sum(batch.num_rows for batch in batches) == 15_000


def test_types_are_guessed_from_values() -> None:
    found = open_incoming([{"i": 1}, {"i": None, "s": "x", "t": AWARE, "st": {"x": [1.5]}}])
    assert found.schema == pa.schema(
        [
            ("i", pa.int64()),
            ("s", pa.string()),
            ("t", pa.timestamp("us", "UTC")),
            ("st", pa.struct([("x", pa.list_(pa.float64()))])),
        ]
    )
    assert [row["i"] for batch in found.batches for row in batch.to_pylist()] == [1, None]


@pytest.mark.parametrize(
    "values",
    [[1, "x"], [dt.date(2026, 1, 1), NAIVE], [NAIVE, AWARE], [1, True], [2**70], [object()]],
    ids=["number and text", "date and time", "zones", "number and bool", "huge", "object"],
)
def test_values_that_have_no_type_in_common_are_refused(values) -> None:
    with pytest.raises(SchemaError, match="the column `c`"):
        open_incoming([{"c": value} for value in values])


@pytest.mark.parametrize("data", [[], (), iter(()), {}])
def test_nothing_tells_no_columns(data) -> None:
    found = open_incoming(data)
    assert found.schema is None
    assert list(found.batches) == []


def test_frames_without_rows_tell_their_columns() -> None:
    for frame in (pl.LazyFrame({"i": [1]}).filter(pl.lit(False)), pl.DataFrame(schema={"i": pl.Int64})):
        assert open_incoming(frame).schema.names == ["i"]
        assert rows(frame) == []


def test_the_index_of_pandas_is_no_column() -> None:
    frame = pd.DataFrame({"i": [1, 2, 3]})
    assert open_incoming(frame[frame.i > 1]).schema.names == ["i"]
    with pytest.raises(SchemaError, match="index `k`"):
        open_incoming(frame.rename_axis("k"))
