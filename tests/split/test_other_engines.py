"""Any engine reads a split as the Parquet file that it is, with filters pushed down; the index is not in its way."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from unittest import mock

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.spark.spark_sessions import spark_session

from indextables.config import Config
from indextables.split import combine
from indextables.split.combine import combine_splits
from indextables.split.writer import SplitWriter
from indextables.store import open_store

PAIR = pa.struct([("a", pa.int64()), ("b", pa.string())])
NOON = dt.datetime(2026, 1, 31, 12, 30, 15)  # noqa: DTZ001 - Arrow adds the zone
COLUMNS: dict[str, pa.Array] = {
    **{str(kind): pa.array([1, None, 100], kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(kind): pa.array([1, None, 200], kind) for kind in (pa.uint8(), pa.uint16(), pa.uint32())},
    "uint64": pa.array([1, None, 2**64 - 1], pa.uint64()),
    "float16": pa.array([1.5, None, -3.0], pa.float32()).cast(pa.float16()),
    "float": pa.array([1.5, None, float("inf")], pa.float32()),
    "double": pa.array([1.5, None, -0.1]),
    "bool": pa.array([True, None, False]),
    **{
        str(kind): pa.array(["", None, "ünï, long enough for no inline view"], kind)
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    },
    "dictionary": pa.array(["a", None, "a"]).dictionary_encode(),
    **{
        str(kind): pa.array([b"", None, b"\0\xff"], kind) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())
    },
    "fixed": pa.array([b"abc", None, b"\0\0\0"], pa.binary(3)),
    "date32": pa.array([NOON.date(), None, dt.date(1, 1, 1)], pa.date32()),
    "date64": pa.array([NOON.date(), None, dt.date(1999, 1, 1)], pa.date64()),
    **{f"timestamp {unit}": pa.array([NOON, None, NOON], pa.timestamp(unit)) for unit in ("s", "ms", "us")},
    **{f"zoned {unit}": pa.array([NOON, None, NOON], pa.timestamp(unit, "UTC")) for unit in ("s", "ms", "us")},
    "berlin": pa.array([NOON, None, NOON], pa.timestamp("us", "Europe/Berlin")),
    "timestamp ns": pa.array([1, None, -1], pa.timestamp("ns")),
    "zoned ns": pa.array([1, None, -1], pa.timestamp("ns", "UTC")),
    **{f"time {unit}": pa.array([5, None, 86_399], pa.time32(unit)) for unit in ("s", "ms")},
    **{f"time {unit}": pa.array([5, None, 86_399], pa.time64(unit)) for unit in ("us", "ns")},
    "decimal": pa.array([Decimal("1.20"), None, Decimal("-99999.99")], pa.decimal128(7, 2)),
    "wide decimal": pa.array([Decimal(10) ** 27, None, Decimal("0.1")], pa.decimal128(38, 10)),
    "decimal256": pa.array([Decimal("1.20"), None, Decimal(-1)], pa.decimal256(20, 2)),
    "huge decimal": pa.array([Decimal(10) ** 50 + 1, None, Decimal(-1)], pa.decimal256(60, 2)),
    "null": pa.nulls(3),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}], PAIR),
    "list": pa.array([[1, None], None, []], pa.list_(pa.int32())),
    "large list": pa.array([["a"], None, []], pa.large_list(pa.string())),
    "pair": pa.array([[1, 2], None, [3, None]], pa.list_(pa.int8(), 2)),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "deep": pa.array([[{"a": 1, "b": "x"}, None], None, []], pa.list_(PAIR)),
}
DUCKDB_CANNOT = {"huge decimal"}
"""More than 38 digits become a double."""
POLARS_CANNOT = {"huge decimal"}
SPARK_CANNOT = {"float16", "timestamp ns", "zoned ns", "time s", "time ms", "time us", "time ns", "huge decimal"}
"""Spark has no half floats, no nanoseconds and, unless it is switched on, no time of day."""

NUM_ROWS = 6_000
LEVELS = ["INFO", "ERROR", None, "WARN"]
ROWS = pa.table(
    {
        "id": pa.array(range(NUM_ROWS), pa.int64()),
        "level": pa.array([LEVELS[row % 4] for row in range(NUM_ROWS)]),
        "message": pa.array([f"request {row} ended after {row * 7919 % 1000} ms" for row in range(NUM_ROWS)]),
        "took": pa.array([None if row % 9 == 0 else row * 7919 % 1000 / 8 for row in range(NUM_ROWS)], pa.float64()),
        "at": pa.array([row * 1_000_003 for row in range(NUM_ROWS)], pa.timestamp("us", "UTC")),
        "who": pa.array([{"a": row % 10, "b": f"user {row % 10}"} for row in range(NUM_ROWS)], PAIR),
        "tags": pa.array([[f"t{row % 3}"] * (row % 3) for row in range(NUM_ROWS)], pa.list_(pa.string())),
        "a.b c-ü": pa.array([row % 100 for row in range(NUM_ROWS)], pa.int32()),
    }
)
WANTED = ROWS.filter((pc.field("id") > 2_000) & (pc.field("id") <= 4_500) & (pc.field("level") == "ERROR"))
FILTER = "id > 2000 AND id <= 4500 AND level = 'ERROR'"


class Splits:
    """Splits on local disk: one with a row of every type, and the same rows written at once and combined."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._config = Config.resolve(options={"indexing.typemap.message": "text"})
        self._store = open_store(root, self._config)
        pieces = [self._write(ROWS[start : start + 2_000]) for start in range(0, NUM_ROWS, 2_000)]
        with mock.patch.multiple(combine, ROWS_PER_SEGMENT=1_000):
            combined = combine_splits(self._store, pieces, ROWS.schema, self._config)
        indexed_again = combine_splits(self._store, pieces, ROWS.schema, self._config)
        self.paths = [os.path.join(root, add.path) for add in (self._write(ROWS), combined, indexed_again)]

    def of_types(self, names: set[str]) -> tuple[str, pa.Table]:
        table = pa.table({name: column for name, column in COLUMNS.items() if name in names})
        return os.path.join(self._root, self._write(table, Config.resolve()).path), table

    def _write(self, table: pa.Table, config: Config | None = None):
        with SplitWriter(self._store, table.schema, config or self._config) as writer:
            for batch in table.to_batches():
                writer.write(batch)
            (add,) = writer.finish()
        return add


@pytest.fixture(scope="module")
def splits(tmp_path_factory) -> Splits:
    return Splits(str(tmp_path_factory.mktemp("splits")))


@pytest.fixture(scope="module")
def spark(tmp_path_factory) -> Iterator[Any]:
    """A local Spark, whose Java process ends with the tests."""
    with spark_session(str(tmp_path_factory.mktemp("spark"))) as session:
        yield session


def test_splits_have_row_groups_and_segments_to_try(splits) -> None:
    assert all(pq.read_metadata(path).num_row_groups > 1 for path in splits.paths)


def test_duckdb_reads_every_split(splits) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for path in splits.paths:
            rows = f"FROM read_parquet('{path}')"
            assert_same(connection.sql(rows).to_arrow_table(), ROWS)
            found = f"{rows} WHERE {FILTER}"
            assert_same(connection.sql(found).to_arrow_table(), WANTED)
            plan = connection.sql(f"EXPLAIN {found}").fetchall()[0][1]
            assert "Filters" in plan
            assert "FILTER" not in plan
            assert connection.sql(f"SELECT who.b, count(*) {rows} WHERE who.a = 3 GROUP BY ALL").fetchall() == [
                ("user 3", NUM_ROWS // 10)
            ]


def test_polars_reads_every_split(splits) -> None:
    for path in splits.paths:
        assert_same(polars.read_parquet(path).to_arrow(), ROWS)
        query = polars.scan_parquet(path).filter(
            (polars.col("id") > 2_000) & (polars.col("id") <= 4_500) & (polars.col("level") == "ERROR")
        )
        assert "SELECTION" in query.explain()
        assert_same(query.collect().to_arrow(), WANTED)


def test_duckdb_reads_every_type(splits) -> None:
    path, table = splits.of_types(set(COLUMNS) - DUCKDB_CANNOT)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        assert_same(connection.sql(f"FROM read_parquet('{path}')").to_arrow_table(), table)
        for name in DUCKDB_CANNOT:
            lossy = connection.sql(f"FROM read_parquet('{splits.of_types({name})[0]}')").to_arrow_table()
            assert lossy.schema.field(name).type == pa.float64()


def test_polars_reads_every_type(splits) -> None:
    path, table = splits.of_types(set(COLUMNS) - POLARS_CANNOT)
    assert_same(polars.read_parquet(path).to_arrow(), table)
    for name in POLARS_CANNOT:
        with pytest.raises(polars.exceptions.PolarsError):
            polars.read_parquet(splits.of_types({name})[0])


@pytest.mark.slow
def test_spark_reads_every_split_and_type(splits, spark) -> None:
    for path in splits.paths[:2]:
        assert_same(spark.read.parquet(path).toArrow(), ROWS)
        found = spark.read.parquet(path).filter(FILTER)
        assert_same(found.toArrow(), WANTED)
        plan = found._jdf.queryExecution().executedPlan().toString()
        assert "GreaterThan(id,2000)" in plan.partition("PushedFilters")[2]
    path, table = splits.of_types(set(COLUMNS) - SPARK_CANNOT)
    assert_same(spark.read.parquet(path).toArrow(), table)
    for name in SPARK_CANNOT:
        _assert_spark_refuses(spark, splits.of_types({name})[0])


def _assert_spark_refuses(spark, path: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException):
        spark.read.parquet(path).toArrow()


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    assert found.schema.names == expected.schema.names
    for field in expected.schema:
        assert _values(found[field.name], field.type) == _values(expected[field.name], field.type), field.name


def _values(column: pa.ChunkedArray, type_: pa.DataType) -> list[Any]:
    """Values that compare whatever type an engine gives them; nanoseconds are counted, as Python has none."""
    if str(type_).startswith(("timestamp[ns", "time64[ns")):
        return column.cast(type_).cast(pa.int64()).to_pylist()
    return (column.cast(pa.date32()) if pa.types.is_date(type_) else column).to_pylist()
