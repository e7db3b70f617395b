"""Every type of Spark's that a table holds comes back as it was: to Arrow, and to Spark's own Parquet reader."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path

import pytest
from tests.spark.spark_rows import save

import indextables as it

SCHEMA = """
    id int, byte byte, short short, int int, long long, float float, double double, decimal decimal(38,18),
    small decimal(7,2), string string, binary binary, boolean boolean, date date, timestamp timestamp,
    ntz timestamp_ntz, nothing void, array array<int>, arrays array<array<string>>, map map<string,bigint>,
    maps map<int,array<struct<a:double>>>, struct struct<x:int,y:struct<z:string,w:struct<d:date,l:array<timestamp>>>>,
    `a.dotted name` int, `spaced out` string, `ünïcode ✓` string, `back``tick` int, `comma, "quoted"` int
"""
UTC = dt.UTC
MOMENT = dt.datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC)
FULL = {
    "id": 0,
    "byte": -128,
    "short": 32_767,
    "int": -(2**31),
    "long": 2**63 - 1,
    "float": math.inf,
    "double": -math.inf,
    "decimal": Decimal("12345678901234567890.123456789012345678"),
    "small": Decimal("-12345.67"),
    "string": "ünï \U0001f600 \x00 end",
    "binary": b"\x00\xff",
    "boolean": True,
    "date": dt.date(1, 1, 1),
    "timestamp": MOMENT,
    "ntz": dt.datetime(1, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001 - a timestamp without a zone
    "nothing": None,
    "array": [1, None, -3],
    "arrays": [["a", None], None, []],
    "map": {"k": 1, "n": None},
    "maps": {1: [{"a": 0.5}, None], 2: None, 3: []},
    "struct": {"x": 1, "y": {"z": "deep", "w": {"d": dt.date(9999, 12, 31), "l": [MOMENT, None]}}},
    "a.dotted name": 1,
    "spaced out": "",
    "ünïcode ✓": "✓",
    "back`tick": 3,
    'comma, "quoted"': 4,
}
NULLS = dict.fromkeys(FULL, None)
ROWS = [
    FULL,
    {**NULLS, "id": 1},
    {**NULLS, "id": 2, "array": [], "map": {}, "struct": {"x": None, "y": None}, "float": math.nan, "double": math.nan},
    {**NULLS, "id": 3, "struct": {"x": 2, "y": {"z": None, "w": None}}, "double": -0.0},
    {**NULLS, "id": 4, "struct": {"x": 2, "y": {"z": "", "w": {"d": None, "l": None}}}, "date": dt.date(1582, 10, 10)},
]


def frame(spark, rows=ROWS):
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(SCHEMA)
    return spark.createDataFrame([tuple(row[name] for name in schema.names) for row in rows], schema)


def plain(value):
    """A value that compares: maps as dictionaries, NaN as itself, moments in UTC, Spark's rows as dictionaries."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    if isinstance(value, list) and value and all(isinstance(pair, tuple) for pair in value):
        return {key: plain(item) for key, item in value}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if hasattr(value, "asDict"):
        value = value.asDict()
    return {key: plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def expected(row: dict) -> dict:
    return {name: plain(value) for name, value in row.items()}


def empty_maps(row: dict) -> dict:
    """Arrow gives a map as a list of pairs, and so an empty one as an empty list."""
    return {**row, "map": {} if row["map"] == [] else row["map"]}


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("large", ["false", "true"])
def test_every_type_comes_back(spark, tmp_path, zone, large) -> None:
    url = tmp_path / "table"
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", large)
    try:
        save(frame(spark), url)
        save(frame(spark, []), url)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
        spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "false")
    table = it.Table.open(url)
    assert table.num_records == len(ROWS)
    found = sorted(table.search().to_pylist(), key=lambda row: row["id"])
    assert [empty_maps(expected(row)) for row in found] == [expected(row) for row in ROWS]


def test_sparks_own_reader_gives_the_same_rows_and_schema(spark, tmp_path) -> None:
    url = tmp_path / "table"
    written = frame(spark)
    save(written, url)
    paths = [str(Path(url, path)) for path in it.Table.open(url).files()["path"].to_pylist()]
    read = spark.read.parquet(*paths)
    assert [(field.name, field.dataType) for field in read.schema if field.name != "nothing"] == [
        (field.name, field.dataType) for field in written.schema if field.name != "nothing"
    ]
    found = read.select("*").toArrow().to_pylist()
    assert [empty_maps(expected(row)) for row in sorted(found, key=lambda row: row["id"])] == list(map(expected, ROWS))


def test_what_is_char_or_varchar_in_a_catalog_is_text(spark, tmp_path) -> None:
    url = tmp_path / "table"
    spark.sql("create table chars (c char(3), v varchar(5)) using parquet")
    try:
        spark.sql("insert into chars values ('ab', 'cd')")
        save(spark.table("chars"), url)
    finally:
        spark.sql("drop table chars")
    assert it.Table.open(url).search().to_pylist() == [{"c": "ab ", "v": "cd"}]


@pytest.mark.parametrize(
    "kind", ["int", "long", "string", "boolean", "date", "timestamp", "timestamp_ntz", "double", "decimal(10,2)"]
)
def test_partition_values_of_every_type_that_has_a_text(spark, tmp_path, kind) -> None:
    texts = {"boolean": "id % 2 = 0", "string": "concat('a/b=', id % 2)", "date": "date'0001-01-01' + cast(id as int)"}
    texts["timestamp"] = "timestamp_micros(id)"
    texts["timestamp_ntz"] = "timestamp_ntz'2026-01-01 00:00:00'"
    value = texts.get(kind, f"cast(id % 2 as {kind})")
    rows = spark.range(0, 4, 1, 1).selectExpr("id", f"{value} as part")
    rows = rows.unionAll(spark.range(9, 10).selectExpr("id", f"cast(null as {kind}) as part"))
    save(rows, tmp_path / "table", partitionBy="part")
    save(rows, tmp_path / "table", "overwrite", partitionOverwriteMode="dynamic")
    found = it.Table.open(tmp_path / "table").search()
    assert sorted(found["id"].to_pylist()) == [0, 1, 2, 3, 9]
    expected = {row.id: row.part for row in rows.collect()}
    for row in found.to_pylist():
        got, want = row["part"], expected[row["id"]]
        assert (got.timestamp() if kind == "timestamp" and got else got) == (
            want.timestamp() if kind == "timestamp" and want else want
        )
