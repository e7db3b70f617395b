"""Native scans: what the log rules out, what Spark pushes down, and that nothing is listed."""

from __future__ import annotations

import datetime as dt
import os
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import indextables as it
from indextables.errors import ConfigError, QueryError, SchemaError
from indextables.protocol.statistics_tags import STATS_TAG, STATS_TYPED

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.date32()),
        ("zone", pa.string()),
        ("message", pa.string()),
        ("took", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
DAYS = [dt.date(2026, 1, 1), dt.date(2026, 1, 2), None]
ZONES = ["a b", None, "50%: ü/x"]


def rows(first: int, count: int = 30) -> pa.Table:
    made = [
        {
            "id": number,
            "day": DAYS[number // 10 % 3],
            "zone": ZONES[number % 3],
            "message": f"request {number}",
            "took": float("nan") if number % 7 == 0 else number / 4,
            "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=number),
        }
        for number in range(first, first + count)
    ]
    return pa.Table.from_pylist(made, SCHEMA)


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> it.Table:
    """Nine partitions, two splits each, at a place whose name needs care."""
    place = tmp_path_factory.mktemp("native") / "log s%20 ü"
    table = it.Table.create(place, SCHEMA, partition_by=("day", "zone"), indexing={"message": "text"})
    for first in (0, 30):
        table.append(rows(first))
    return table


def rows_of(frame: Any) -> list[str]:
    """The rows of a Spark DataFrame or an Arrow table, whatever their order; NaN is equal to itself."""
    found = [tuple(row.values()) for row in frame.to_pylist()] if isinstance(frame, pa.Table) else frame.collect()
    return sorted(repr(tuple(map(_without_zone, row))) for row in found)


def _without_zone(value: Any) -> Any:
    """Spark gives moments in the time zone of the session, which is UTC, without saying so."""
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def splits_in_plan(frame: Any) -> tuple[int, int]:
    """How many splits the plan says are read, and how many there are."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    found = re.findall(r"(\d+) of (\d+) splits", plan)
    assert found, plan
    return tuple(map(int, found[0]))


def test_all_rows_come_in_the_order_of_the_columns(spark, table) -> None:
    frame = table.to_spark(spark)
    assert frame.columns == SCHEMA.names
    assert rows_of(frame) == rows_of(table.search())
    assert frame.count() == 60


@pytest.mark.parametrize(
    ("where", "num_splits"),
    [
        ("day = date'2026-01-01'", 6),
        ("day IS NULL", 6),
        ("day IS NULL AND zone IS NULL", 2),
        ("zone = '50%: ü/x'", 6),
        ("zone IN ('a b', 'nothing') AND day > date'2026-01-01'", 2),
        ("id = 31", 2),
        ("id < 5", 3),
        ("message = 'request 12'", None),
        ("message LIKE 'request 12%'", None),
        ("at >= timestamp'2026-01-01 00:45:00Z'", None),
        ("id = 31 OR id = 2", 5),
        ("NOT (id < 30)", 9),
        ("took > 14", None),
        ("took = double('NaN')", None),
        ("id = 31 AND rand() >= 0", 2),
        ("abs(id) = 31", 18),
        ("id = 1000", 0),
    ],
)
def test_filters_rule_splits_out_and_decide_on_rows(spark, table, tmp_path, where, num_splits) -> None:
    # With statistics, which leave NaN out, Spark would lose rows of the copy.
    pq.write_table(pa.concat_tables([rows(0), rows(30)]), tmp_path / "copy.parquet", write_statistics=False)
    frame = it.Table.open(table.url, options={"scan.mode": "native"}).to_spark(spark).filter(where)
    assert rows_of(frame) == rows_of(spark.read.parquet(str(tmp_path / "copy.parquet")).filter(where))
    assert rows_of(table.to_spark(spark).filter(where)) == rows_of(frame)
    left, live = splits_in_plan(frame)
    assert live == 18
    assert num_splits is None or left == num_splits


def test_two_filters_of_one_frame_do_not_meet(spark, table) -> None:
    frame = table.to_spark(spark)
    one, other = frame.filter("id = 1"), frame.filter("id = 31")
    assert [row.id for row in one.union(other).orderBy("id").collect()] == [1, 31]
    assert one.crossJoin(other).count() == 1
    assert frame.count() == 60
    assert [row.id for row in one.collect()] == [1]


def test_a_predicate_has_the_meaning_that_it_has_without_spark(spark, table) -> None:
    for where in (
        "id BETWEEN 5 AND 7",
        "zone LIKE '%: _/x' AND at >= TIMESTAMP '2026-01-01T00:20:00Z'",
        "took > 14 OR day <=> NULL",
        "took = 'NaN'",
        "day IN (DATE '2026-01-02') AND NOT zone = 'a b'",
        "message NOT LIKE 'request 1%'",
    ):
        assert rows_of(table.to_spark(spark, where=where)) == rows_of(table.search(where=where)), where


def test_columns_and_bad_arguments(spark, table) -> None:
    assert table.to_spark(spark, columns=["zone", "id"]).columns == ["zone", "id"]
    with pytest.raises(SchemaError, match="no such column"):
        table.to_spark(spark, columns=["nothing"])
    with pytest.raises(QueryError):
        table.to_spark(spark, where="nothing = 1")


def test_time_travel_reads_what_stood_then(spark, table) -> None:
    then = it.Table.open(table.url, version=1)
    assert then.to_spark(spark).count() == 30
    assert rows_of(then.to_spark(spark)) == rows_of(rows(0))


def test_only_needed_columns_are_read_and_filters_reach_parquet(spark, table) -> None:
    native = it.Table.open(table.url, options={"scan.mode": "native"})
    plan = native.to_spark(spark).filter("id > 7 AND day = date'2026-01-01'").select("message")
    text = plan._jdf.queryExecution().executedPlan().toString()
    assert "ReadSchema: struct<id:bigint,message:string>" in text
    assert "GreaterThan(id,7)" in text
    assert "PartitionFilters: [isnotnull(day" in text


def test_a_join_on_a_partition_column_prunes_while_it_runs(spark, table) -> None:
    days = spark.createDataFrame([(dt.date(2026, 1, 2), "x")], "day date, note string").filter("note = 'x'")
    joined = table.to_spark(spark).join(days.hint("broadcast"), "day")
    assert joined.count() == 20
    assert "dynamicpruning" in joined._jdf.queryExecution().executedPlan().toString()


def test_empty_tables_and_types(spark, tmp_path) -> None:
    schema = pa.schema(
        [
            ("b", pa.int8()),
            ("amount", pa.decimal128(20, 3)),
            ("at", pa.timestamp("us")),
            ("ok", pa.bool_()),
            ("f", pa.float32()),
            ("kept", pa.struct([("a", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.float64()))])),
            ("old", pa.date32()),
        ]
    )
    partitions = ("b", "amount", "at", "ok", "f")
    table = it.Table.create(tmp_path / "types", schema, partition_by=partitions)
    assert table.to_spark(spark).collect() == []
    made = [
        {
            "b": -3,
            "amount": Decimal("-12.500"),
            "at": dt.datetime(2026, 1, 1, 12, 30, 15, 250),  # noqa: DTZ001 - a time without a zone
            "ok": True,
            "f": 1.5,
            "kept": {"a": [1, None], "m": [("k", 2.5)]},
            "old": dt.date(1, 1, 1),
        },
        dict.fromkeys(schema.names),
    ]
    table.append(pa.Table.from_pylist(made, schema))
    found = table.to_spark(spark)
    names = ["b", "amount", "at", "ok", "f", "old"]
    assert rows_of(found.select(*names)) == rows_of(pa.Table.from_pylist(made, schema).select(names))
    assert found.filter("kept.a[0] = 1 AND kept.m['k'] = 2.5").count() == 1
    for where in ("b = -3", "amount < 0", "at = timestamp_ntz'2026-01-01 12:30:15.00025'", "ok", "f = 1.5"):
        assert found.filter(where).count() == 1, where


def test_spark_reads_no_more_of_a_damaged_split_than_python(spark, tmp_path) -> None:
    table = it.Table.create(tmp_path / "damaged", pa.schema([("id", pa.int64()), ("word", pa.string())]))
    table.append(pa.table({"id": range(5_000), "word": [f"word {number * 7919 % 5_000}" for number in range(5_000)]}))
    (path,) = (os.path.join(table.url, path) for path in table.files()["path"].to_pylist())
    with open(path, "r+b") as file:
        file.seek(9_000)
        kept = file.read(1)
        file.seek(9_000)
        file.write(bytes([kept[0] ^ 0x10]))
    with pytest.raises(Exception, match=r"(?i)crc|checksum|corrupt"):
        table.to_spark(spark).collect()


def test_credentials_that_spark_does_not_have_are_said(spark, table) -> None:
    given = it.Table.open(table.url, options={"aws.accessKey": "key", "aws.secretKey": "secret"})
    with pytest.raises(ConfigError, match="not to Spark"):
        given.to_spark(spark)


def test_a_place_that_spark_cannot_read_is_said(spark) -> None:
    table = it.Table.create("memory://native/table", pa.schema([("id", pa.int64())]))
    with pytest.raises(ConfigError, match=r"cannot scan .* natively"):
        table.to_spark(spark)


def test_thousands_of_splits_are_planned_without_a_listing(spark, tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "many")
    log.initialize(SCHEMA, partition_columns=("day", "zone"))
    adds = [
        it.actions.Add(
            path=f"day=2026-01-01/zone=z{number % 10}/splits/split-{number:036d}.split",
            partition_values={"day": "2026-01-01", "zone": f"z{number % 10}"},
            size=1_000,
            modification_time=1,
            data_change=True,
            num_records=10,
            tags={STATS_TAG: STATS_TYPED},
            min_values={"id": str(100_000 + number * 10)},
            max_values={"id": str(100_009 + number * 10)},
        )
        for number in range(5_000)
    ]
    log.add_files(adds)
    frame = it.Table.open(log.url).to_spark(spark)
    assert len(frame.inputFiles()) == 5_000
    assert splits_in_plan(frame.filter("zone = 'z3'")) == (500, 5_000)
    assert splits_in_plan(frame.filter("zone = 'z3' AND id > 149000")) == (10, 5_000)
