"""Splits that are indexed in another way than the table says, searched by Spark: every way finds the same rows."""

from __future__ import annotations

from typing import Any

import pytest
from tests.spark.conftest import SCHEMA, log_rows
from tests.spark.streams import finish

import indextables as it

TIMEOUTS = [n for n in range(120) if n % 7 == 0 and n % 11]


@pytest.fixture(scope="module")
def changed(tmp_path_factory) -> it.Table:
    """A table whose first splits keep messages whole, and whose last ones split them into words."""
    table = it.Table.create(tmp_path_factory.mktemp("changed") / "table", SCHEMA, partition_by=("day",))
    table.append(log_rows(0))
    table.set_properties({"indexing.message": "text"})
    table.append(log_rows(60))
    return table


def ids(frame: Any) -> list[int]:
    return sorted(row.id for row in frame.collect())


@pytest.mark.parametrize("settings", [{}, {"search.driver.maxRows": 0}, {"search.driver.maxFetch": "0"}])
def test_a_read_with_a_search(session, changed, settings) -> None:
    assert ids(it.read(session, changed.url, search="timeout", options=settings)) == TIMEOUTS
    scored = it.read(session, changed.url, search="timeout", score=True, snippet="message", options=settings)
    expected = {row["id"]: row for row in changed.search("timeout", score=True, snippet="message").to_pylist()}
    found = {row.id: (row._snippet, row._score) for row in scored.collect()}
    assert found == {key: (row["_snippet"], row["_score"]) for key, row in expected.items()}
    assert sorted(found) == TIMEOUTS


def test_table_functions(session, changed) -> None:
    call = f"indextables_table('{changed.url}', search => 'message:timeout')"
    assert ids(it.sql(session, f"SELECT id FROM {call}")) == TIMEOUTS
    counted = it.sql(session, f"SELECT * FROM indextables_count('{changed.url}', search => 'timeout')").collect()
    assert counted[0][0] == len(TIMEOUTS)


@pytest.mark.parametrize(
    "condition",
    [
        "message TEXTSEARCH 'timeout'",
        "* TEXTSEARCH 'timeout'",
        "message INDEXQUERY 'message:timeout'",
        "message TEXTSEARCH 'timeout' OR id < 0",
        "CASE WHEN message TEXTSEARCH 'timeout' THEN true ELSE false END",
    ],
)
def test_operators_of_sql(enabled, changed, condition) -> None:
    enabled.read.format("indextables").load(changed.url).createOrReplaceTempView("changed")
    assert ids(enabled.sql(f"SELECT id FROM changed WHERE {condition}")) == TIMEOUTS


def test_scores_and_snippets_of_sql(enabled, changed) -> None:
    enabled.read.format("indextables").load(changed.url).createOrReplaceTempView("changed")
    query = "SELECT id, score() AS s, snippet(message) AS m FROM changed WHERE message TEXTSEARCH 'timeout'"
    found = {row.id: (row.s, row.m) for row in enabled.sql(query).collect()}
    expected = changed.search("timeout", score=True, snippet="message").to_pylist()
    assert found == {row["id"]: (row["_score"], row["_snippet"]) for row in expected}
    assert all("<b>timeout</b>" in text for _, text in found.values())


@pytest.mark.slow
def test_a_stream_with_a_search(spark, changed, tmp_path) -> None:
    stream = spark.readStream.format("indextables").option("search", "timeout").load(changed.url)
    sink = {"path": str(tmp_path / "sink"), "checkpointLocation": str(tmp_path / "checkpoint")}
    finish(stream.writeStream.format("indextables").trigger(availableNow=True).options(**sink).start())
    assert sorted(it.Table.open(sink["path"]).search(columns=["id"])["id"].to_pylist()) == TIMEOUTS
