"""Queries by chance give on tables what they give on a plain Parquet copy, whichever way the tables are read."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.spark.random_queries import Queries
from tests.spark.random_rows import SCHEMA, random_rows, read_plain, texts_of, write_plain

import indextables as it

NUM_ROWS = 200
SCANS = {
    "native": {"scan.mode": "native"},
    "indexed": {"scan.mode": "index"},
    "by_tasks": {"scan.mode": "index", "search.driver.maxRows": "0"},
}
NUM_QUERIES = {"auto": 40, "native": 20, "indexed": 40, "by_tasks": 10, "private": 12, "found": 20, "python": 12}


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory) -> Any:
    """Sessions with one table under several names.

    Plain Parquet; loads whose filters go to the index where that is cheaper, always, always by tasks, or never; a
    private scan; one that the driver answers; and one by Python in a session that is not enabled.
    """
    place = tmp_path_factory.mktemp("random")
    data = random_rows(random.Random(5), 0, NUM_ROWS)
    write_plain(data, place / "plain.parquet")
    table = it.Table.create(place / "table", SCHEMA, partition_by=("day", "zone"))
    for start in range(0, NUM_ROWS, 50):
        table.append(data.slice(start, 50))
    enabled = it.enable(spark.newSession())
    for session in (enabled, spark):
        read_plain(session, place / "plain.parquet").createOrReplaceTempView("plain")
    enabled.read.format("indextables").load(table.url).createOrReplaceTempView("auto")
    for name, settings in SCANS.items():
        enabled.read.format("indextables").options(**settings).load(table.url).createOrReplaceTempView(name)
    it.read(enabled, table.url, search="*", options={"search.driver.maxRows": 0}).createOrReplaceTempView("private")
    it.read(enabled, table.url, search="*", options={"search.driver.maxSplits": 1000}).createOrReplaceTempView("found")
    spark.read.format("indextables").load(table.url).createOrReplaceTempView("python")
    assert "BatchScan" in plan_of(enabled.table("private"))
    assert "found on the driver" in plan_of(enabled.table("found"))
    assert "FileScan" in plan_of(enabled.table("native").filter("name = 'a'"))
    assert "found on the driver" in plan_of(enabled.table("indexed").filter("name = 'a'"))
    assert "BatchScan" in plan_of(enabled.table("by_tasks").filter("name = 'a'"))
    return {"python": spark, **dict.fromkeys(["auto", *SCANS, "private", "found"], enabled)}


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


@pytest.mark.parametrize(("name", "num_queries"), NUM_QUERIES.items())
def test_queries_by_chance_give_what_plain_parquet_gives(tables, name, num_queries, one_seed, is_full_run) -> None:
    session = tables[name]
    queries = Queries(one_seed)
    for _ in range(num_queries if is_full_run else num_queries // 4):
        text = queries.next()
        expected = answer(session, text.format(t="plain"))
        assert answer(session, text.format(t=name)) == expected, f"{text}\nwith --all --seed {one_seed}"


def answer(session: Any, text: str) -> list[str]:
    return texts_of(session.sql(text).collect())
