"""Spark Connect: the same rows, versions and errors as on a classic session."""

from __future__ import annotations

import pytest
from tests.spark.conftest import NUM_APPENDS, ROWS_PER_APPEND, log_rows, make_logs, rows_of

from indextables.errors import QueryError, TableNotFoundError
from indextables.spark.options.session_settings import session_settings
from indextables.spark.scan.reading import read


def test_rows_and_schemas_are_those_of_a_classic_session(spark, connect, logs) -> None:
    assert rows_of(read(connect, logs.url)) == rows_of(logs.search())
    for asked in [{}, {"search": "error", "score": True, "snippet": "message"}, {"columns": ["tags", "ID"]}]:
        assert read(connect, logs.url, **asked).schema.json() == read(spark, logs.url, **asked).schema.json()


def test_a_search_finds_the_same(connect, logs) -> None:
    found = read(connect, logs.url, search="error", where="id > 50", columns=["id", "message"], score=True, limit=5)
    assert rows_of(found) == rows_of(
        logs.search("error", where="id > 50", columns=["id", "message"], score=True, limit=5)
    )


@pytest.mark.parametrize("cached_plans", ["true", "false"])
def test_a_frame_stays_at_its_version(connect, tmp_path, cached_plans) -> None:
    table = make_logs(tmp_path / "table")
    before = NUM_APPENDS * ROWS_PER_APPEND
    connect.conf.set("spark.connect.session.planCache.enabled", cached_plans)
    try:
        frame = read(connect, table.url)
        assert frame.count() == before
        table.append(log_rows(before, 5))
        assert frame.count() == before
        assert frame.alias("a").join(frame.alias("b"), "id").count() == before
        assert read(connect, table.url).count() == before + 5
        assert read(connect, table.url, version=1).count() == ROWS_PER_APPEND
    finally:
        connect.conf.unset("spark.connect.session.planCache.enabled")


def test_two_loads_of_one_table_are_not_taken_for_one(connect, tmp_path) -> None:
    table = make_logs(tmp_path / "table")
    counts = []
    for _ in range(3):
        counts.append(read(connect, table.url).count())
        table.append(log_rows(1_000, 1))
    assert counts == [180, 181, 182]


def test_errors_are_the_librarys_own_and_come_at_once(connect, logs, tmp_path) -> None:
    with pytest.raises(TableNotFoundError, match="No transaction log found"):
        read(connect, tmp_path / "nothing")
    with pytest.raises(QueryError, match="there is no field `nosuch`") as refused:
        read(connect, logs.url, search="nosuch:1")
    assert str(refused.value).splitlines()[-1].startswith("hint: the indexed columns are `id`, ")


def test_settings_of_a_connect_session_are_found(connect) -> None:
    connect.conf.set("spark.indextables.read.maxPartitionBytes", "1M")
    try:
        assert session_settings(connect)["spark.indextables.read.maxPartitionBytes"] == "1M"
    finally:
        connect.conf.unset("spark.indextables.read.maxPartitionBytes")
    assert "spark.indextables.read.maxPartitionBytes" not in session_settings(connect)
