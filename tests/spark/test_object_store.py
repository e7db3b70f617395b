"""Tables on object stores, end to end: written, searched and looked after by Spark, on every server that is there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.servers import KINDS, Running, missing, running
from tests.spark.conftest import rows_of

import indextables as it


@pytest.fixture(params=KINDS)
def server(request, tmp_path) -> Iterator[Running]:
    if reason := missing(request.param):
        pytest.skip(reason)
    with running(request.param, tmp_path) as server:
        yield server


@pytest.fixture
def session(enabled, server):
    """A session whose workers get the way to the server, and the credentials, from its settings."""
    for key, value in server.options.items():
        enabled.conf.set(f"spark.indextables.{key}", str(value).lower() if isinstance(value, bool) else str(value))
    return enabled


def test_a_table_is_written_searched_and_looked_after(session, server) -> None:
    url = f"{server.url}/spark/logs"
    rows = session.range(90).selectExpr("id", "concat('word', id) AS message", "cast(id % 3 AS string) AS part")
    writer = rows.write.format("indextables").mode("append").partitionBy("part").option("indexing.message", "text")
    writer.save(url)
    writer.save(url)
    table = it.Table.open(url, options=server.options)
    assert (table.version, table.num_records, table.partition_columns) == (2, 180, ("part",))
    _check_reads(session, table)
    merged = session.sql(f"MERGE SPLITS '{url}' TARGET SIZE 100M").collect()
    assert len(merged) == 1
    table = table.refresh()
    assert table.num_files < 6
    _check_reads(session, table)
    rows.where("part = '0'").write.format("indextables").mode("overwrite").option("replaceWhere", "part = '0'").save(
        url
    )
    assert table.refresh().num_records == 150
    assert not table.fsck().num_rows


def _check_reads(session, table: it.Table) -> None:
    plain = session.read.format("indextables").load(table.url)
    assert plain.filter("part = '1' AND id < 10").count() == 6
    plan = plain.filter("part = '1'")._jdf.queryExecution().executedPlan().toString()
    assert f"BatchScan indextables {table.url.partition('://')[0]}://" in plan
    assert "secret" not in plan.lower()
    expected = table.search("word77", columns=["id", "part"])
    for max_rows in ("0", "1000"):
        found = it.read(
            session, table.url, search="word77", columns=["id", "part"], options={"search.driver.maxRows": max_rows}
        )
        assert rows_of(found) == rows_of(expected) == [(77, "2"), (77, "2")]
