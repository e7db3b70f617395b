"""Saves into tables that look after themselves: by the process that saves where its session is enabled, otherwise by
the commit, before the save returns."""

from __future__ import annotations

import pytest
from tests.spark.conftest import log_rows, make_logs, rows_of

import indextables as it
from indextables.runtime.background import BACKGROUND
from indextables.spark.workers import SparkWorkers

MERGE = {"spark.indextables.mergeOnWrite.enabled": "true"}
NUM_MORE = 9
LONG = 60


@pytest.fixture
def table(tmp_path) -> it.Table:
    """A table of many small splits in two partitions."""
    table = make_logs(tmp_path / "table")
    for number in range(NUM_MORE):
        table.append(log_rows(1000 + 60 * number))
    return table


def frame_of(spark, first: int = 9000, count: int = 10):
    """Rows that fit the table, as a DataFrame."""
    schema = "id long not null, message string, level string, took double, tags array<string>, day string"
    rows = [tuple(row.values()) for row in log_rows(first, count).to_pylist()]
    return spark.createDataFrame(rows, schema).coalesce(1)


def save(spark, table: it.Table, **options) -> None:
    frame_of(spark).write.format("indextables").mode("append").options(**options).save(table.url)


def check_merged(table: it.Table, num_rows: int = 60 * (3 + NUM_MORE) + 10) -> None:
    assert BACKGROUND.wait(table.url, LONG)
    before = table.num_files
    assert table.refresh().num_files < before
    assert table.history()["operation"].to_pylist().count("MERGE") >= 1
    assert len(set(table.search(columns=["id"])["id"].to_pylist())) == table.num_records == num_rows


def jobs_of(table: it.Table) -> list[dict]:
    return [job for job in table.merge_jobs().to_pylist() if job["table_path"] == table.url]


@pytest.mark.parametrize("kind", ["spark", "connect"])
def test_the_commit_looks_after_the_table_in_other_sessions(request, table, kind):
    save(request.getfixturevalue(kind), table, **MERGE)
    assert jobs_of(table) == []
    check_merged(table)


def test_a_save_of_an_enabled_session_merges_in_its_background(enabled, table, monkeypatch):
    given, run = [], SparkWorkers.run

    def watched(self, work, items, **limits):
        given.append((self.spark, len(items), limits))
        return run(self, work, items, **limits)

    monkeypatch.setattr(SparkWorkers, "run", watched)
    save(enabled, table, **MERGE)
    check_merged(table)
    (job,) = jobs_of(table)
    assert (job["status"], job["total_groups"]) == ("SUCCESS", 2)
    assert (enabled, 2, {"at_once": 3}) in given


def test_a_save_waits_for_its_merge_where_that_is_asked_for(enabled, table):
    save(enabled, table, **MERGE, **{"mergeOnWrite.async.enabled": "false"})
    (job,) = jobs_of(table)
    assert job["status"] == "SUCCESS"
    check_merged(table)


@pytest.mark.parametrize("kind", ["spark", "enabled"])
def test_table_properties_ask_for_it(request, table, kind):
    table.set_properties(MERGE)
    save(request.getfixturevalue(kind), table)
    check_merged(table)


def test_settings_of_the_session_ask_for_it(enabled, table):
    enabled.conf.set("spark.indextables.mergeOnWrite.enabled", "true")
    save(enabled, table)
    check_merged(table)


def test_a_save_that_makes_the_table_and_those_after_it(enabled, tmp_path):
    url = str(tmp_path / "new")
    for number in range(12):
        frame = frame_of(enabled, 10 * number)
        frame.write.format("indextables").mode("append").options(**MERGE).save(url)
        assert BACKGROUND.wait(url, LONG)
    table = it.Table.open(url)
    assert table.num_files < 12
    assert sorted(table.search(columns=["id"])["id"].to_pylist()) == list(range(120))


@pytest.mark.parametrize("kind", ["spark", "enabled"])
def test_a_failing_merge_does_not_fail_the_save(request, table, kind):
    damaged = [f"{table.url}/{path}" for path in table.files()["path"].to_pylist()[:2]]
    for path in damaged:
        with open(path, "r+b") as file:
            file.write(bytes(1000))
    version = table.version
    save(request.getfixturevalue(kind), table, **MERGE)
    assert BACKGROUND.wait(table.url, LONG)
    assert table.refresh().version > version
    assert table.num_records == 60 * (3 + NUM_MORE) + 10
    if kind == "enabled":
        (job,) = jobs_of(table)
        assert job["status"] in ("FAILED", "PARTIAL")
        assert job["error_message"]


@pytest.mark.parametrize("way", ["insertInto", "writeTo", "sql", "saveAsTable"])
def test_writes_by_name(enabled, table, way):
    table.set_properties(MERGE)
    name = f"looked_after_{way}"
    enabled.sql(f"CREATE TABLE {name} USING indextables LOCATION '{table.url}'")
    try:
        frame = frame_of(enabled)
        if way == "insertInto":
            frame.write.insertInto(name)
        elif way == "writeTo":
            frame.writeTo(name).append()
        elif way == "saveAsTable":
            frame.write.format("indextables").mode("append").saveAsTable(name)
        else:
            frame.createOrReplaceTempView("more")
            enabled.sql(f"INSERT INTO {name} SELECT * FROM more")
        check_merged(table)
        assert len(rows_of(enabled.table(name))) == table.num_records
    finally:
        enabled.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("kind", ["spark", "enabled"])
def test_a_stream(request, table, tmp_path, kind):
    spark = request.getfixturevalue(kind)
    frame_of(spark).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(frame_of(spark).schema).parquet(str(tmp_path / "in"))
    writer = stream.writeStream.format("indextables").options(**MERGE)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    query.start(table.url).awaitTermination()
    check_merged(table)
