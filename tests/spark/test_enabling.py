"""Sessions that are enabled: which scan serves a load, that scans do not meet, and how saves behave."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from tests.spark.conftest import log_rows, make_logs, rows_of

import indextables as it
from indextables.errors import CommitConflictError, ConfigError, QueryError, TableExistsError, TableNotFoundError
from indextables.spark.jvm import gateway

OLD = [("day", pa.date32()), ("at", pa.timestamp("us", "UTC")), ("plain", pa.timestamp("us"))]
NATIVE, PYTHON, FOUND = "FileScan parquet", "BatchScan indextables", "found on the driver"


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def splits_of(frame: Any) -> tuple[int, int]:
    """How many splits EXPLAIN says are read, and how many there are."""
    text = frame._jdf.queryExecution().toString()
    found = re.findall(r"(\d+) of (\d+) splits", text)
    assert found, text
    return tuple(map(int, found[-1]))


def load(session: Any, table: it.Table, **options: Any) -> Any:
    return session.read.format("indextables").options(**options).load(table.url)


def test_a_plain_load_is_a_native_scan_where_a_session_is_enabled(spark, enabled, logs) -> None:
    assert NATIVE in plan_of(load(enabled, logs))
    assert PYTHON in plan_of(load(spark, logs))
    assert rows_of(load(enabled, logs)) == rows_of(load(spark, logs)) == rows_of(logs.search())
    assert splits_of(load(enabled, logs).filter("id < 10")) == (2, 6)
    assert splits_of(load(enabled, logs).filter("day = '2026-01-02'")) == (3, 6)


def test_a_search_that_finds_little_is_answered_by_the_driver(enabled, logs) -> None:
    frame = load(enabled, logs, search="timeout").filter("id > 70").select("id", "day")
    assert FOUND in plan_of(frame)
    assert splits_of(frame) == (4, 6)
    expected = logs.search("timeout", where="id > 70", columns=["id", "day"])
    assert rows_of(frame) == rows_of(expected)
    assert load(enabled, logs, search="nothing").collect() == []
    assert load(enabled, logs, search="timeout").count() == logs.count("timeout")


def test_a_search_that_finds_much_is_left_to_tasks(enabled, logs) -> None:
    enabled.conf.set("spark.indextables.search.driver.maxRows", "3")
    frame = load(enabled, logs, search="timeout").filter("day = '2026-01-01'").select("id")
    assert PYTHON in plan_of(frame)
    assert splits_of(frame) == (3, 6)
    assert rows_of(frame) == rows_of(logs.search("timeout", where="day = '2026-01-01'", columns=["id"]))
    assert FOUND in plan_of(load(enabled, logs, search="timeout", **{"search.driver.maxRows": "1000"}))


@pytest.mark.parametrize("max_rows", ["0", "1000"])
def test_all_options_of_a_load_hold(enabled, logs, max_rows) -> None:
    enabled.conf.set("spark.indextables.search.driver.maxRows", max_rows)
    scored = load(enabled, logs, search="timeout", score="true", snippet="message", columns="id,message")
    assert scored.columns == ["id", "message", "_snippet", "_score"]
    expected = logs.search("timeout", score=True, snippet="message", columns=["id", "message"])
    assert rows_of(scored) == rows_of(expected)
    assert rows_of(scored.select("_score", "id")) == rows_of(expected.select(["_score", "id"]))
    best = load(enabled, logs, search="timeout", limit=4, columns="id")
    assert best.count() == 4
    # The limit is the load's: filters that stand above it find what is left.
    assert rows_of(best.filter("id >= 0")) == rows_of(best)
    assert best.filter("id > 100000").count() == 0
    assert load(enabled, logs, where="id < 7").count() == 7
    assert load(enabled, logs, versionAsOf=1, search="timeout").count() == it.Table.open(logs.url, version=1).count(
        "timeout"
    )
    assert load(enabled, logs, versionAsOf=1).count() == 60


@pytest.mark.parametrize(
    "options", [{}, {"search": "timeout OR ok"}, {"where": "id >= 0"}], ids=["plain", "search", "where"]
)
def test_scans_of_one_load_do_not_meet(enabled, logs, options) -> None:
    frame = load(enabled, logs, **options)
    all_ids = {row.id for row in frame.collect()}
    one, other = frame.filter("id = 1"), frame.filter("id = 62")
    assert [row.id for row in one.collect()] == [1]
    assert {row.id for row in frame.collect()} == all_ids
    assert sorted(row.id for row in one.union(other).collect()) == [1, 62]
    assert one.crossJoin(other).count() == 1
    assert frame.join(frame.filter("id < 5").select("id"), "id").count() == frame.filter("id < 5").count()
    frame.createOrReplaceTempView("seen")
    texts = ["SELECT count(*) FROM seen", "SELECT count(*) FROM seen WHERE id = 1", "SELECT count(*) FROM seen"]
    assert [enabled.sql(text).first()[0] for text in texts] == [len(all_ids), 1, len(all_ids)]
    cached = frame.filter("id < 20").cache()
    assert cached.count() == frame.filter("id < 20").count()
    assert frame.count() == len(all_ids)
    cached.unpersist()


@pytest.mark.parametrize("max_rows", ["0", "1000"])
def test_filters_that_the_log_knows_nothing_of_are_sparks(enabled, logs, max_rows) -> None:
    enabled.conf.set("spark.indextables.search.driver.maxRows", max_rows)
    scored = load(enabled, logs, search="timeout", score="true", snippet="message")
    all_rows = scored.collect()
    middle = sorted(row._score for row in all_rows)[len(all_rows) // 2]
    above = [row.id for row in all_rows if row._score > middle and row.day == "2026-01-01"]
    frame = scored.filter(f"_score > cast('{middle!r}' AS float) AND day = '2026-01-01'")
    assert sorted(row.id for row in frame.collect()) == sorted(above)
    assert splits_of(frame)[0] <= 3  # what is known of the day still counts
    assert scored.filter("_snippet LIKE '%timeout%' AND size(tags) >= 0").count() > 0


@pytest.mark.parametrize("options", [{}, {"search": "*"}], ids=["plain", "search"])
def test_names_and_moments_that_need_care_rule_no_row_out(enabled, tmp_path, options) -> None:
    names = ["in", "null", "date", "case", "a.b", "a`c", "true"]
    table = it.Table.create(tmp_path / "words", pa.schema([(name, pa.int64()) for name in names] + OLD))
    for number in range(3):
        moment = dt.datetime(1000 + number * 400, 3, 1, 12, tzinfo=dt.UTC)
        row = {**dict.fromkeys(names, number), "day": moment.date(), "at": moment, "plain": moment.replace(tzinfo=None)}
        table.append(pa.Table.from_pylist([row], table.schema))
    frame = load(enabled, table, **options)
    for name in names:
        quoted = name.replace("`", "``")
        found = frame.filter(f"`{quoted}` = 1")
        assert found.count() == 1, name
        assert splits_of(found) == (1, 3), name
    for number in range(3):
        day = f"{1000 + number * 400}-03-01"
        for where in (
            f"day = date'{day}'",
            f"at = timestamp'{day} 12:00:00Z'",
            f"plain = timestamp_ntz'{day} 12:00:00'",
        ):
            assert [row["in"] for row in frame.filter(where).collect()] == [number], where


def test_a_load_stands_at_its_version_and_a_new_one_sees_more(enabled, tmp_path) -> None:
    table = make_logs(tmp_path / "moving")
    before = load(enabled, table)
    searched = load(enabled, table, search="timeout")
    table.append(log_rows(1_000))
    assert before.count() == 180
    assert before.join(before.select("id"), "id").count() == 180
    assert searched.count() == it.Table.open(table.url, version=3).count("timeout")
    assert load(enabled, table).count() == 240


def test_a_table_that_is_made_anew_is_not_mistaken_for_the_old_one(session, tmp_path) -> None:
    place = tmp_path / "anew"
    for number in range(3):
        table = it.Table.create(place, pa.schema([("id", pa.int64()), (f"of_{number}", pa.string())]))
        table.append(pa.table({"id": [number], f"of_{number}": ["word"]}))
        assert rows_of(it.read(session, place)) == [(number, "word")]
        assert rows_of(it.read(session, place, search=f"of_{number}:word", columns=["id"])) == [(number,)]
        shutil.rmtree(place)


def test_a_schema_that_somebody_gives_is_read_by_name(enabled, logs) -> None:
    frame = enabled.read.format("indextables").schema("day string, id bigint").load(logs.url)
    assert frame.columns == ["day", "id"]
    assert rows_of(frame.filter("id < 5")) == rows_of(logs.search(where="id < 5", columns=["day", "id"]))


def test_errors_are_those_of_the_library(enabled, logs, tmp_path) -> None:
    with pytest.raises(TableNotFoundError, match="No transaction log found"):
        enabled.read.format("indextables").load(str(tmp_path / "nothing"))
    with pytest.raises(QueryError):
        load(enabled, logs, search="(unclosed")
    with pytest.raises(ConfigError, match="did you mean `search`"):
        load(enabled, logs, serach="x")


def test_a_table_that_is_gone_when_a_query_runs_is_said(enabled, tmp_path) -> None:
    from pyspark.errors import IllegalArgumentException

    table = make_logs(tmp_path / "gone")
    plain, searched = load(enabled, table), load(enabled, table, search="timeout")
    shutil.rmtree(table.url)
    for frame in (plain, searched):
        with pytest.raises(IllegalArgumentException, match="No transaction log found"):
            frame.count()


def test_a_relative_path_means_the_working_directory(enabled, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    enabled.range(5).write.format("indextables").mode("append").save("here")
    assert it.Table.open(tmp_path / "here").num_records == 5
    assert enabled.read.format("indextables").load("here").count() == 5


def test_saves_know_all_modes_and_partitions(enabled, tmp_path) -> None:
    place = str(tmp_path / "saved")
    rows = enabled.createDataFrame([(1, "a"), (2, "b")], "id bigint, part string")
    rows.write.format("indextables").partitionBy("part").save(place)
    assert it.Table.open(place).partition_columns == ("part",)
    with pytest.raises(TableExistsError, match="there is one already"):
        rows.write.format("indextables").partitionBy("part").save(place)
    rows.write.format("indextables").mode("ignore").save(place)
    assert it.Table.open(place).version == 1
    rows.write.format("indextables").mode("append").partitionBy("part").save(place)
    assert it.Table.open(place).num_records == 4
    enabled.createDataFrame([(3, "a")], "id bigint, part string").write.format("indextables").mode("overwrite").option(
        "replaceWhere", "part = 'a'"
    ).save(place)
    assert rows_of(load(enabled, it.Table.open(place))) == [(2, "b"), (2, "b"), (3, "a")]
    enabled.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    enabled.createDataFrame([(4, "b")], "id bigint, part string").write.save(
        place, format="indextables", mode="overwrite", partitionBy="part"
    )
    assert rows_of(load(enabled, it.Table.open(place))) == [(3, "a"), (4, "b")]


@pytest.mark.parametrize(("mode", "fails"), [("error", True), ("ignore", False)])
def test_a_table_that_is_made_meanwhile_is_noticed(enabled, tmp_path, mode, fails) -> None:
    place = tmp_path / "raced"
    made = make_logs(place)
    rows = enabled.createDataFrame([(7, "x")], "id bigint, message string")
    with mock.patch("indextables.spark.sessions.saving._head", return_value=None):
        if fails:
            with pytest.raises(TableExistsError):
                rows.write.format("indextables").mode(mode).save(str(place))
        else:
            rows.write.format("indextables").mode(mode).save(str(place))
    assert made.refresh().num_records == 180
    assert made.version == 3
    assert len(list(place.rglob("*.split"))) == made.num_files


def test_what_a_table_cannot_be_is_refused(enabled, tmp_path) -> None:
    rows = enabled.range(3)
    with pytest.raises(ConfigError, match="buckets"):
        rows.write.format("indextables").bucketBy(2, "id").save(str(tmp_path / "bucketed"))
    with pytest.raises(ConfigError, match="differ"):
        rows.write.format("indextables").option("partitionBy", "other").partitionBy("id").save(str(tmp_path / "both"))
    assert not any(tmp_path.iterdir())


def test_a_shuffle_before_writing_keeps_partitions_whole(enabled, tmp_path) -> None:
    rows = enabled.range(4_000).selectExpr("id", "cast(id % 4 as string) AS part").repartition(6)
    writer = rows.write.format("indextables").mode("append").partitionBy("part")
    writer.save(str(tmp_path / "shattered"))
    writer.option("write.optimizeWrite.enabled", "true").save(str(tmp_path / "whole"))
    assert it.Table.open(tmp_path / "shattered").num_files == 24
    assert it.Table.open(tmp_path / "whole").num_files == 4
    assert it.Table.open(tmp_path / "whole").num_records == 4_000


def test_an_unknown_spark_is_served_safely(spark, logs) -> None:
    session = spark.newSession()
    with (
        mock.patch.object(gateway, "KNOWN_SPARK", ("9.",)),
        pytest.warns(UserWarning, match="is not one that native scans"),
    ):
        it.enable(session)
    assert PYTHON in plan_of(load(session, logs))
    assert load(session, logs).filter("id < 5").count() == 5


def test_connect_is_served_safely(connect, logs) -> None:
    with pytest.warns(UserWarning, match="cannot be enabled"):
        assert it.enable(connect) is connect
    assert load(connect, logs).count() == 180


def test_a_session_may_be_enabled_twice_and_late(spark, logs) -> None:
    session = spark.newSession()
    frame = load(session, logs)
    assert PYTHON in plan_of(frame)
    assert it.enable(it.enable(session)) is session
    assert NATIVE in plan_of(frame.filter("id % 7 > 3"))
    assert frame.count() == 180


def test_another_writer_wins_where_it_changed_the_table(enabled, tmp_path) -> None:
    place = str(tmp_path / "moved")
    enabled.range(3).write.format("indextables").mode("append").save(place)
    with pytest.raises(CommitConflictError):
        enabled.range(3).write.format("indextables").mode("overwrite").option("ifVersion", "0").save(place)
    assert it.Table.open(place).num_records == 3
