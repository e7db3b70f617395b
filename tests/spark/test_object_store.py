"""Tables on S3: written and read by Python's workers, which get their settings from the session."""

from __future__ import annotations

import pytest
from tests.spark.conftest import rows_of
from tests.store.store_servers import BUCKET, moto_server, s3_options

import indextables as it

pytestmark = pytest.mark.slow


def test_a_table_on_s3_is_written_and_read(enabled) -> None:
    with moto_server() as endpoint:
        options = s3_options(endpoint)
        for key, value in options.items():
            enabled.conf.set(f"spark.indextables.{key}", str(value).lower() if isinstance(value, bool) else str(value))
        url = f"s3://{BUCKET}/spark/logs"
        rows = enabled.range(90).selectExpr("id", "concat('word', id) AS message", "cast(id % 3 AS string) AS part")
        writer = rows.write.format("indextables").mode("append").partitionBy("part").option("indexing.message", "text")
        writer.save(url)
        writer.save(url)
        table = it.Table.open(url, options=options)
        assert (table.version, table.num_records, table.partition_columns) == (2, 180, ("part",))
        plain = enabled.read.format("indextables").load(url)
        assert plain.filter("part = '1' AND id < 10").count() == 6
        plan = plain.filter("part = '1'")._jdf.queryExecution().executedPlan().toString()
        assert "BatchScan indextables s3://" in plan
        assert "secret" not in plan.lower()
        expected = table.search("word77", columns=["id", "part"])
        for max_rows in ("0", "1000"):
            found = it.read(
                enabled, url, search="word77", columns=["id", "part"], options={"search.driver.maxRows": max_rows}
            )
            assert rows_of(found) == rows_of(expected) == [(77, "2"), (77, "2")]
