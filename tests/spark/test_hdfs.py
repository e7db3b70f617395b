"""Tables on HDFS: written and searched by Python's workers without a Java client, scanned by Spark with its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.servers.hdfs import RunningHdfs, missing, running_hdfs
from tests.spark.conftest import rows_of

import indextables as it

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory) -> Iterator[RunningHdfs]:
    if reason := missing():
        pytest.skip(reason)
    with running_hdfs(tmp_path_factory.mktemp("hdfs")) as server:
        yield server


def test_a_table_on_hdfs_is_written_searched_and_scanned(enabled, hdfs) -> None:
    for key, value in hdfs.options.items():
        enabled.conf.set(f"spark.indextables.{key}", str(value))
    url = f"{hdfs.url}/spark/logs"
    rows = enabled.range(90).selectExpr("id", "concat('word', id) AS message", "cast(id % 3 AS string) AS part")
    writer = rows.write.format("indextables").mode("append").partitionBy("part").option("indexing.message", "text")
    writer.save(url)
    writer.save(url)
    table = it.Table.open(url, options=hdfs.options)
    assert (table.version, table.num_records, table.partition_columns) == (2, 180, ("part",))

    scanned = enabled.read.format("indextables").load(url)
    plan = scanned.filter("part = '1'")._jdf.queryExecution().executedPlan().toString()
    assert "FileScan parquet" in plan
    assert f"of {url}" in plan
    assert scanned.filter("part = '1' AND id < 10").count() == 6
    expected = table.search("word77", columns=["id", "part"])
    for max_rows in ("0", "1000"):
        found = it.read(
            enabled, url, search="word77", columns=["id", "part"], options={"search.driver.maxRows": max_rows}
        )
        assert rows_of(found) == rows_of(expected) == [(77, "2"), (77, "2")]


def test_a_mount_table_of_the_session_is_understood(enabled, hdfs) -> None:
    enabled.conf.set("fs.viewfs.mounttable.tables.link./logs", f"{hdfs.url}/mounted")
    enabled.range(10).write.format("indextables").save("viewfs://tables/logs/numbers")
    assert enabled.read.format("indextables").load("viewfs://tables/logs/numbers").count() == 10
    assert it.Table.open(f"{hdfs.url}/mounted/numbers", options=hdfs.options).num_records == 10
