"""`format("indextables")` reads what `Table.search` finds, every type exactly, at one version, in packed tasks."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from tests.spark.conftest import SCHEMA, log_rows, make_logs, rows_of

import indextables as it
from indextables.spark.scan.reading import read
from indextables.spark.source.source import IndexTablesSource

NOON = dt.datetime(2026, 1, 31, 12, 30, 15, 123456, tzinfo=dt.UTC)
EARLY = dt.datetime(1900, 1, 1, tzinfo=dt.UTC)


def sure(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


INNER = pa.struct([pa.field("x", pa.int32()), sure("y", pa.string())])
DEEP = pa.struct(
    [
        pa.field("list", pa.list_(pa.field("element", INNER))),
        pa.field("map", pa.map_(pa.string(), pa.field("value", pa.list_(sure("element", pa.int64()))))),
    ]
)
TYPES: dict[str, pa.Array] = {
    "byte": pa.array([1, None, -128], pa.int8()),
    "short": pa.array([1, None, -(2**15)], pa.int16()),
    "integer": pa.array([1, None, -(2**31)], pa.int32()),
    "long": pa.array([1, None, -(2**63)], pa.int64()),
    "float": pa.array([1.5, None, float("-inf")], pa.float32()),
    "double": pa.array([1.5, None, -0.1], pa.float64()),
    "boolean": pa.array([True, None, False]),
    "decimal": pa.array([Decimal("1.20"), None, Decimal("-99999.99")], pa.decimal128(7, 2)),
    "wide": pa.array([Decimal(10) ** 27, None, Decimal("0.0000000001")], pa.decimal128(38, 10)),
    "string": pa.array(["", None, "ünï\0 \U0001f600"]),
    "binary": pa.array([b"", None, b"\0\xff"], pa.binary()),
    "date": pa.array([NOON.date(), None, dt.date(1, 1, 1)], pa.date32()),
    "timestamp": pa.array([NOON, None, EARLY], pa.timestamp("us", "UTC")),
    "timestamp_ntz": pa.array([NOON.replace(tzinfo=None), None, EARLY.replace(tzinfo=None)], pa.timestamp("us")),
    "void": pa.nulls(3),
    "array": pa.array([[1, None], None, []], pa.list_(pa.field("element", pa.int32()))),
    "full": pa.array([[1, 2], None, []], pa.list_(sure("element", pa.int32()))),
    "map": pa.array([[("k", 1), ("l", None)], None, []], pa.map_(pa.string(), pa.int64())),
    "struct": pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": ""}], INNER),
    "deep": pa.array(
        [
            {"list": [{"x": 1, "y": "a"}, None], "map": [("k", [1, 2]), ("l", None), ("m", [])]},
            None,
            {"list": None, "map": []},
        ],
        DEEP,
    ),
    "deeper": pa.array([[[None]], None, [None, []]], pa.list_(pa.field("element", pa.list_(DEEP)))),
}

# `toArrow` of PySpark 4.3 fails for a null struct with a field that may not be null.
NESTED: dict[str, list[Any]] = {
    "struct": TYPES["struct"].to_pylist(),
    "deep": [
        {"list": [{"x": 1, "y": "a"}, None], "map": {"k": [1, 2], "l": None, "m": []}},
        None,
        {"list": None, "map": {}},
    ],
    "deeper": TYPES["deeper"].to_pylist(),
}


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        (None, {}),
        ("timeout", {}),
        (None, {"where": "took > 5 AND day = '2026-01-02'"}),
        ("error OR level:ERROR", {"where": "id > 30", "columns": ["message", "id"]}),
        ("error", {"score": True, "columns": ["id"]}),
        ("timeout", {"snippet": "message", "score": True, "columns": ["id", "tags"]}),
        (None, {"limit": 7}),
        ("ok", {"where": "id > 20", "limit": 70, "columns": ["id"]}),
        ("error", {"where": "id > 20", "limit": 4, "score": True, "snippet": "message", "columns": ["id"]}),
        (None, {"columns": ["took"]}),
        ("nowhere", {}),
    ],
)
def test_options_give_what_a_search_gives(spark, logs, query, asked) -> None:
    assert rows_of(read(spark, logs.url, search=query, **asked)) == rows_of(logs.search(query, **asked))


def test_options_of_a_plain_load_do_the_same(spark, logs) -> None:
    options = {"search": "error", "where": "id > 30", "columns": "ID,Message", "score": "true", "limit": "5"}
    loaded = spark.read.format("indextables").options(**options).load(logs.url)
    assert loaded.columns == ["id", "message", "_score"]
    assert rows_of(loaded) == rows_of(
        logs.search("error", where="id > 30", columns=["id", "message"], score=True, limit=5)
    )


def test_a_schema_keeps_what_may_be_null(spark, logs) -> None:
    schema = read(spark, logs.url, score=True, snippet="message").schema
    assert [(field.name, field.dataType.simpleString(), field.nullable) for field in schema] == [
        ("id", "bigint", False),
        ("message", "string", True),
        ("level", "string", True),
        ("took", "double", True),
        ("tags", "array<string>", True),
        ("day", "string", True),
        ("_snippet", "string", True),
        ("_score", "float", True),
    ]
    assert not any(field.metadata for field in schema)


def test_counts_and_constants_read_no_more_than_they_need(spark, logs) -> None:
    from pyspark.sql.functions import lit

    frame = read(spark, logs.url)
    assert frame.count() == 180
    assert [tuple(row) for row in frame.select(lit(1)).collect()] == [(1,)] * 180
    assert frame.filter("id < 0").count() == 0


def test_every_type_reads_exactly(spark, tmp_path) -> None:
    rows = pa.table({"row": pa.array([0, 1, 2], pa.int64()), **TYPES})
    fields = [sure("row", pa.int64()), *(pa.field(name, column.type) for name, column in TYPES.items())]
    table = it.Table.create(tmp_path / "t", pa.schema(fields))
    table.append(rows.cast(table.schema))
    table.append(rows.cast(table.schema).slice(1))
    expected = table.search().sort_by("row")
    frame = read(spark, table.url)
    found = frame.drop(*NESTED).toArrow().sort_by("row")
    assert found.schema.names == [name for name in expected.schema.names if name not in NESTED]
    for name in found.schema.names:
        assert found[name].to_pylist() == expected[name].to_pylist(), name
    nested = [row.asDict(recursive=True) for row in frame.sort("row").select("row", *NESTED).collect()]
    for row in nested:
        number = row.pop("row")
        assert row == {name: values[number] for name, values in NESTED.items()}
    assert len(nested) == 5
    for name in ("deep", "map", "timestamp_ntz"):
        assert read(spark, table.url, columns=[name]).filter(f"{name} IS NULL").count() == 2


def test_a_given_schema_may_allow_nulls_where_the_table_has_none(spark, tmp_path) -> None:
    table = it.Table.create(tmp_path / "t", pa.schema([("struct", INNER), ("full", TYPES["full"].type)]))
    table.append(pa.table({name: TYPES[name] for name in table.schema.names}))
    schema = "struct struct<x: int, y: string>, full array<int>"
    rows = spark.read.format("indextables").schema(schema).load(table.url).collect()
    assert [row.asDict(recursive=True) for row in rows] == table.search().to_pylist()


def test_a_table_without_rows(spark, tmp_path) -> None:
    table = it.Table.create(tmp_path / "t", SCHEMA, partition_by=("day",), indexing={"message": "text"})
    for asked in [{}, {"search": "error"}, {"limit": 3}, {"where": "id = 1"}, {"columns": ["id"], "score": True}]:
        assert rows_of(read(spark, table.url, **asked)) == []
    assert read(spark, table.url).count() == 0
    table.append(log_rows(0))
    table.overwrite(log_rows(0).slice(0, 0))
    assert table.num_files == 0
    assert read(spark, table.url).count() == 0


def test_a_frame_stays_at_its_version(spark, tmp_path) -> None:
    table = make_logs(tmp_path / "table")
    by_load, by_read = spark.read.format("indextables").load(table.url), read(spark, table.url)
    given = spark.read.format("indextables").schema("id long, day string").load(table.url)
    assert given.count() == 180
    table.append(log_rows(180))
    for frame in (by_load, by_read, given):
        assert frame.count() == 180
        assert frame.alias("a").join(frame.alias("b"), "id").count() == 180
    assert spark.read.format("indextables").load(table.url).count() == 240
    assert read(spark, table.url).count() == 240


def test_a_given_schema_is_read_by_name(spark, logs) -> None:
    loaded = spark.read.format("indextables").schema("Tags array<string>, ID long").load(logs.url)
    assert loaded.columns == ["Tags", "ID"]
    assert rows_of(loaded) == rows_of(logs.search(columns=["tags", "id"]))
    scored = spark.read.format("indextables").schema("_score float, id long").option("score", "true")
    found = scored.option("search", "error").load(logs.url)
    assert rows_of(found) == rows_of(logs.search("error", score=True, columns=["id"]).select(["_score", "id"]))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("id long, nosuch string", "cannot read the column `nosuch` of the given schema"),
        ("id int", "cannot read the column `id` as `int32` because it is `int64 not null`"),
        ("tags array<int>", "cannot read the column `tags` as"),
        ("message string NOT NULL", "cannot read the column `message` as `string not null` because it is `string`"),
        ("_score float", "cannot read the column `_score`"),
    ],
)
def test_a_given_schema_that_does_not_fit_is_refused(spark, logs, schema, message) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException) as refused:
        spark.read.format("indextables").schema(schema).load(logs.url).collect()
    assert message in str(refused.value)


def test_a_reader_takes_no_filter_from_spark(logs) -> None:
    source = IndexTablesSource({"path": logs.url})
    reader: Any = source.reader(source.schema())
    from pyspark.sql.datasource import DataSourceReader

    assert type(reader).pushFilters is DataSourceReader.pushFilters
    assert source.asked.version == 3


def test_a_damaged_and_a_missing_split_fail_the_query(spark, tmp_path) -> None:
    from pyspark.errors import PySparkException

    table = make_logs(tmp_path / "table")
    first, second = table.files()["path"].to_pylist()[:2]
    path = tmp_path / "table" / first
    whole = path.read_bytes()
    path.write_bytes(whole[:-20] + bytes(20))
    with pytest.raises(PySparkException, match=r"indextables\.errors\.CorruptSplitError: cannot") as damaged:
        read(spark, table.url).collect()
    assert first in str(damaged.value)
    path.write_bytes(whole)
    os.remove(tmp_path / "table" / second)
    with pytest.raises(PySparkException, match=r"indextables\.errors\.ObjectNotFoundError: cannot") as missing:
        read(spark, table.url).collect()
    assert second in str(missing.value)


@pytest.mark.slow
def test_thousands_of_splits_are_packed_into_few_tasks(spark, tmp_path) -> None:
    table = it.Table.create(tmp_path / "t", SCHEMA, indexing={"message": "text"})
    table.append(log_rows(0, 10))
    (add,) = [action for action in table.log.read_version(1) if isinstance(action, it.actions.Add)]
    copies = []
    for number in range(1_999):
        copies.append(msgspec.structs.replace(add, path=f"copy-{number}.split"))
        shutil.copyfile(tmp_path / "t" / add.path, tmp_path / "t" / copies[-1].path)
    table.log.add_files(copies)
    table.append(pa.Table.from_pylist([{"id": 10, "message": "a unicorn"}], SCHEMA))
    frame = read(spark, table.url)
    assert 8 <= frame.rdd.getNumPartitions() <= 32
    assert rows_of(frame.groupBy("id").count()) == sorted([(10, 1), *((id_, 2_000) for id_ in range(10))], key=repr)
    assert rows_of(read(spark, table.url, search="unicorn", columns=["id"])) == [(10,)]
    assert read(spark, table.url, columns=["id"], limit=15_000).count() == 15_000
