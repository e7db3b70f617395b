"""Queries by chance give on tables what they give on a plain Parquet copy, whichever way the tables are read."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.random_queries import Queries

import indextables as it

pytestmark = pytest.mark.slow

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("amount", pa.decimal128(9, 2)),
        ("name", pa.string()),
        ("ok", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("zone", pa.string()),
    ]
)
NUM_ROWS = 200


def rows() -> list[dict[str, Any]]:
    chance = random.Random(5)

    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.15 else value

    return [
        {
            "id": number,
            "n": maybe(chance.randint(-5, 10)),
            "x": maybe(chance.choice([0.0, -0.0, -1.5, 2.5, math.nan, math.inf, 1e9])),
            "amount": maybe(Decimal(chance.randint(-1000, 10_000)) / 100),
            "name": maybe(chance.choice(["a", "ab", "", "O'Hara", "müller", "zz", "50%", "abc"])),
            "ok": maybe(chance.random() < 0.5),
            "at": maybe(
                dt.datetime(2026, 1, chance.randint(1, 5), chance.randint(0, 23), 30, 0, 500_000, tzinfo=dt.UTC)
            ),
            "day": maybe(dt.date(2026, 1, chance.randint(1, 4))),
            "zone": maybe(chance.choice(["eu", "us", "a b", "ünï/%"])),
        }
        for number in range(NUM_ROWS)
    ]


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory) -> Any:
    """Sessions with one table under several names: plain Parquet, a native scan, a private one, one that the driver
    answers, and by Python in a session that is not enabled."""
    place = tmp_path_factory.mktemp("random")
    data = pa.Table.from_pylist(rows(), SCHEMA)
    # With statistics, which leave NaN out, Spark would lose rows of the copy.
    pq.write_table(data, place / "plain.parquet", write_statistics=False)
    table = it.Table.create(place / "table", SCHEMA, partition_by=("day", "zone"))
    for start in range(0, NUM_ROWS, 50):
        table.append(data.slice(start, 50))
    enabled = it.enable(spark.newSession())
    enabled.read.parquet(str(place / "plain.parquet")).createOrReplaceTempView("plain")
    enabled.read.format("indextables").load(table.url).createOrReplaceTempView("native")
    it.read(enabled, table.url, search="*", options={"search.driver.maxRows": 0}).createOrReplaceTempView("private")
    it.read(enabled, table.url, search="*", options={"search.driver.maxSplits": 1000}).createOrReplaceTempView("found")
    spark.read.parquet(str(place / "plain.parquet")).createOrReplaceTempView("plain")
    spark.read.format("indextables").load(table.url).createOrReplaceTempView("python")
    assert "BatchScan" in plan_of(enabled.table("private"))
    assert "found on the driver" in plan_of(enabled.table("found"))
    assert "FileScan" in plan_of(enabled.table("native"))
    return {"native": enabled, "private": enabled, "found": enabled, "python": spark}


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


@pytest.mark.parametrize(("name", "num_queries"), [("native", 40), ("private", 20), ("found", 20), ("python", 20)])
def test_queries_by_chance_give_what_plain_parquet_gives(tables, name, num_queries) -> None:
    session = tables[name]
    queries = Queries(11)
    for _ in range(num_queries):
        text = queries.next()
        expected = answer(session, text.format(t="plain"))
        assert answer(session, text.format(t=name)) == expected, text


def answer(session: Any, text: str) -> list[str]:
    return sorted(repr(tuple(row)) for row in session.sql(text).collect())
