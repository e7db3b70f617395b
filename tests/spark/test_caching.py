"""What Spark has cached of a table is computed anew with every change through a session, as with Spark's own tables."""

from __future__ import annotations

from typing import Any

import pytest
from tests.spark.conftest import log_rows, make_logs

import indextables as it

SMALL = "SELECT id, concat('word ', id) AS message, id % 2 AS day FROM range(10)"


@pytest.fixture
def session(enabled) -> Any:
    enabled.sql("CREATE DATABASE cached_tables")
    enabled.sql("USE cached_tables")
    yield enabled
    enabled.sql("CLEAR CACHE")
    enabled.sql("DROP DATABASE cached_tables CASCADE")


@pytest.fixture(params=["indextables", "parquet"])
def form(request) -> str:
    """A format: ours is to do as Spark's own does."""
    return request.param


@pytest.fixture
def t(session, form, tmp_path) -> str:
    """The place of a table `t` with ten rows, five a day."""
    session.sql(f"CREATE TABLE t USING {form} PARTITIONED BY (day) LOCATION '{tmp_path / 't'}' AS {SMALL}")
    return str(tmp_path / "t")


def count(session: Any, text: str = "SELECT count(*) FROM t") -> int:
    return int(session.sql(text).first()[0])


def append(session: Any, form: str, place: str, rows: int = 2) -> None:
    """By path."""
    frame = session.range(100, 100 + rows).selectExpr("id", "'more' AS message", "id % 2 AS day")
    frame.write.format(form).mode("append").partitionBy("day").save(place)


def refresh(session: Any, form: str) -> None:
    """Make Spark look for files that were written by path beside one of its own tables."""
    if form == "parquet":
        session.sql("REFRESH TABLE t")


@pytest.mark.slow
def test_inserts_reach_cached_tables_views_and_frames(session, t) -> None:
    session.sql("CACHE TABLE t")
    session.sql("CREATE VIEW v AS SELECT * FROM t WHERE id < 1000")
    session.sql("CACHE TABLE v")
    frame = session.table("t").filter("day = 1").cache()
    assert (count(session), count(session, "SELECT count(*) FROM v"), frame.count()) == (10, 10, 5)
    session.sql("INSERT INTO t VALUES (50, 'x', 1)")
    assert (count(session), count(session, "SELECT count(*) FROM v"), frame.count()) == (11, 11, 6)
    session.sql("INSERT OVERWRITE t PARTITION (day = 1) VALUES (51, 'y')")
    assert count(session) == session.table("t").count() == count(session, "SELECT count(*) FROM v")
    assert session.catalog.isCached("t")


def test_saves_by_path_reach_cached_tables_and_frames(session, form, t) -> None:
    session.sql("CACHE TABLE t")
    named = session.table("t").filter("id < 1000").cache()
    by_path = session.read.format(form).load(t).cache()
    session.read.format(form).load(t).createOrReplaceTempView("viewed")
    session.sql("CACHE TABLE viewed")
    assert (count(session), named.count(), by_path.count(), session.table("viewed").count()) == (10,) * 4
    append(session, form, t)
    refresh(session, form)
    assert (count(session), named.count(), by_path.count(), session.table("viewed").count()) == (12,) * 4
    append(session, form, t, rows=3)
    assert (by_path.count(), session.table("viewed").count()) == (15, 15)
    session.catalog.dropTempView("viewed")


def test_a_frame_that_is_given_up_hides_nothing(session, form, t) -> None:
    frame = session.table("t").cache()
    assert frame.count() == 10
    session.sql("INSERT INTO t VALUES (50, 'x', 1)")
    assert frame.count() == 11
    frame.unpersist()
    assert session._jsparkSession.sharedState().cacheManager().isEmpty()
    append(session, form, t)
    refresh(session, form)
    assert (count(session), session.table("t").count()) == (13, 13)


def test_a_frame_that_is_cached_late_hides_nothing(session, t) -> None:
    frame = session.table("t")
    assert len(frame.collect()) == 10
    session.sql("INSERT INTO t VALUES (50, 'x', 1)")
    frame.persist()
    assert (count(session), session.table("t").count()) == (11, 11)
    frame.unpersist()
    assert session._jsparkSession.sharedState().cacheManager().isEmpty()


def test_what_a_statement_answers_with_is_cached_without_running_it_again(session, t) -> None:
    done = session.sql("INSERT INTO t VALUES (50, 'x', 1)").cache()
    assert done.collect() == []
    assert count(session) == 11
    shown = session.sql("SHOW TABLES").cache()
    assert shown.count() == 1
    shown.unpersist()


def test_commands_reach_cached_tables_and_frames(session, tmp_path) -> None:
    table = make_logs(tmp_path / "logs")
    session.sql(f"CREATE TABLE logs USING indextables LOCATION '{table.url}'")
    session.sql(f"CREATE TABLE same USING indextables LOCATION '{table.url}'")
    session.sql("CACHE TABLE logs")
    session.sql("CACHE TABLE same")
    frame = session.table("logs").groupBy("day").count().cache()
    loaded = session.read.format("indextables").load(table.url).cache()
    pinned = session.read.format("indextables").option("versionAsOf", 1).load(table.url).cache()

    def counts() -> tuple[int, ...]:
        names = (count(session, f"SELECT count(*) FROM {name}") for name in ("logs", "same"))
        return (*names, frame.selectExpr("sum(count)").first()[0], loaded.count(), pinned.count())

    assert counts() == (180, 180, 180, 180, 60)
    it.sql(session, "DROP INDEXTABLES PARTITIONS FROM logs WHERE day = '2026-01-01'")
    assert counts() == (90, 90, 90, 90, 60)
    it.sql(session, f"RESTORE INDEXTABLES '{table.url}' TO VERSION 2")
    assert counts() == (120, 120, 120, 120, 60)
    session.sql("INSERT INTO same SELECT * FROM logs")
    assert counts() == (240, 240, 240, 240, 60)


def test_a_frame_that_is_not_cached_stands_at_its_version(session, tmp_path) -> None:
    table = make_logs(tmp_path / "logs")
    frame = session.read.format("indextables").load(table.url)
    cached = it.read(session, table.url).cache()
    assert (frame.count(), cached.count()) == (180, 180)
    rows = session.createDataFrame(log_rows(1000).to_pylist(), frame.schema)
    rows.write.format("indextables").mode("append").save(table.url)
    assert (frame.count(), cached.count(), table.refresh().num_records) == (180, 180, 240)


def test_a_refresh_shows_what_others_have_written(session, tmp_path) -> None:
    table = make_logs(tmp_path / "logs")
    session.sql(f"CREATE TABLE logs USING indextables LOCATION '{table.url}'")
    session.sql("CACHE TABLE logs")
    assert count(session, "SELECT count(*) FROM logs") == 180
    table.append(log_rows(1000))
    session.sql("REFRESH TABLE logs")
    assert count(session, "SELECT count(*) FROM logs") == 240
