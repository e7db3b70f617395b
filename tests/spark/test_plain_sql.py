"""Plain SQL reaches the index: filters, counts, groups and limits, with the rows that Spark's own scan gives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables.spark.scan.native import ChooseSplits

NUM_ROWS = 400
SCHEMA = pa.schema(
    [("id", pa.int64()), ("trace", pa.string()), ("host", pa.string()), ("took", pa.int32()), ("message", pa.string())]
)


def some_rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": numbers,
            "trace": [f"{number * 7919 % 100_003:08x}" for number in numbers],
            "host": [None if number % 10 == 9 else f"host-{number % 5}" for number in numbers],
            "took": [None if number % 7 == 3 else number % 50 for number in numbers],
            "message": [f"request {number} {'error' if number % 4 == 0 else 'ok'}" for number in numbers],
        },
        SCHEMA,
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> it.Table:
    table = it.Table.create(tmp_path_factory.mktemp("plain") / "table", SCHEMA, indexing={"message": "text"})
    for start in range(0, NUM_ROWS, 100):
        table.append(some_rows(start, 100))
    return table


@pytest.fixture
def view(enabled, table) -> Any:
    enabled.read.format("indextables").load(table.url).createOrReplaceTempView("t")
    return enabled


def plan_of(session: Any, text: str) -> str:
    return str(session.sql(text)._jdf.queryExecution().executedPlan().toString())


def is_found(session: Any, text: str) -> bool:
    return "found on the driver" in plan_of(session, text)


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        (f"trace = '{7919 * 123 % 100_003:08x}'", [123]),
        ("id = 7 OR id = 9", [7, 9]),
        ("host = 'host-1' AND took > 45", [46, 96, 146, 196, 246, 296, 396]),
        ("id IN (1, 2, NULL, 500)", [1, 2]),
        ("trace LIKE '0000%' AND id < 0", []),
        ("id BETWEEN 100 AND 102 AND took <=> NULL", [101]),
        ("host = 'host-1' COLLATE UTF8_LCASE AND id < 7", [1, 6]),
        ("host IS NULL AND id < 20", [9, 19]),
    ],
)
def test_few_rows_of_a_filter_are_found_by_the_index(view, condition, ids) -> None:
    text = f"SELECT id FROM t WHERE {condition}"
    assert sorted(row.id for row in view.sql(text).collect()) == ids
    assert is_found(view, text)
    assert ", where: (" in plan_of(view, text)


def test_many_rows_are_scanned_natively_in_the_splits_that_have_them(enabled, table) -> None:
    few = {"search.driver.maxRows": "20"}
    enabled.read.format("indextables").options(**few).load(table.url).createOrReplaceTempView("few")
    assert is_found(enabled, "SELECT * FROM few WHERE id >= 150 AND id < 190 AND host = 'host-1'")
    text = "SELECT * FROM few WHERE host IN ('host-1', 'host-2') AND id < 200"
    plan = plan_of(enabled, text)
    assert "FileScan parquet" in plan
    assert "2 of 4 splits of version 4 (the index finds 80 rows in 2 splits)" in plan
    assert len(enabled.sql(text).collect()) == 80


@pytest.mark.parametrize(("mode", "sign"), [("native", "FileScan"), ("index", "found on the driver")])
def test_the_mode_can_be_forced(enabled, table, mode, sign) -> None:
    frame = enabled.read.format("indextables").option("scan.mode", mode).load(table.url).filter("host = 'host-3'")
    assert sign in frame._jdf.queryExecution().executedPlan().toString()
    assert frame.count() == sum(host == "host-3" for host in table.to_arrow()["host"].to_pylist())


def test_a_plan_that_counted_all_rows_is_kept_for_its_version(table) -> None:
    from indextables.scan.scan_tasks import shared_splits

    choose = ChooseSplits(table.snapshot.files, table.snapshot, table.log.config, shared_splits(table.url, ()))
    first = choose.apply('["(`id` = 5)"]')
    assert first[0] == 1
    assert choose.apply('["(`id` = 5)"]') == first
    assert len(choose._known) == 1
    assert choose.apply("[\"(`message` LIKE 'request 5%')\"]") == b""


def test_rows_of_later_versions_are_seen(enabled, tmp_path) -> None:
    url = str(tmp_path / "grows")
    table = it.Table.create(url, SCHEMA)
    for number in range(3):
        table.append(some_rows(number * 10, 10))
        load = enabled.read.format("indextables").load(url)
        assert load.count() == 10 * (number + 1)
        assert load.filter("host = 'host-1'").count() == 2 * (number + 1)
        assert [row.id for row in load.filter(f"id = {number * 10 + 4}").collect()] == [number * 10 + 4]
    old = enabled.read.format("indextables").option("versionAsOf", 1).load(url)
    assert (old.count(), old.filter("id = 24").count(), len(old.limit(100).collect())) == (10, 0, 10)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM {t}",
        "SELECT count(*), min(took), max(took), sum(took), avg(took), count(took) FROM {t} WHERE host = 'host-2'",
        "SELECT host, count(*) FROM {t} GROUP BY host",
        "SELECT host, count(*) FROM {t} WHERE took < 20 GROUP BY host HAVING count(*) > 10",
        "SELECT max(id) - min(id), count(1) * 2 FROM {t}",
        "SELECT DISTINCT host FROM {t}",
        "SELECT took, count(*) AS c FROM {t} WHERE host IN ('host-1', 'host-2') GROUP BY took",
        "SELECT count(*) FROM {t} WHERE id < 0",
        "SELECT sum(took) FROM {t} WHERE id < 0",
        "SELECT host, count(*) FROM {t} WHERE id < 0 GROUP BY host",
    ],
)
def test_aggregations_are_answered_by_log_and_index(view, table, query) -> None:
    view.read.format("indextables").option("scan.mode", "native").load(table.url).createOrReplaceTempView("plain")
    assert "aggregated, found on the driver" in plan_of(view, query.format(t="t"))
    found, expected = (sorted(map(str, view.sql(query.format(t=name)).collect())) for name in ("t", "plain"))
    assert found == expected
    schemas = [view.sql(query.format(t=name)).schema for name in ("t", "plain")]
    assert schemas[0] == schemas[1]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(DISTINCT host) FROM t",
        "SELECT host, sum(took) FROM t GROUP BY host",
        "SELECT count(*) FILTER (WHERE took > 3) FROM t",
        "SELECT host, took, count(*) FROM t GROUP BY host, took",
        "SELECT count(*) FROM t a JOIN t b ON a.id = b.id",
        "SELECT count(*) FROM t WHERE message LIKE '%error%'",
        "SELECT count(*) FROM t WHERE rand() > 2",
        "SELECT max(message) FROM t",
        "SELECT upper(host), count(*) FROM t GROUP BY upper(host)",
    ],
)
def test_other_aggregations_are_sparks(view, query) -> None:
    assert "aggregated" not in plan_of(view, query)


def test_searches_are_counted_grouped_and_limited_by_the_index(view) -> None:
    count = "SELECT count(*) FROM t WHERE message TEXTSEARCH 'error'"
    group = "SELECT host, count(*) FROM t WHERE message TEXTSEARCH 'error' AND took >= 10 GROUP BY host"
    assert view.sql(count).first()[0] == NUM_ROWS // 4
    assert all("aggregated, found on the driver" in plan_of(view, text) for text in (count, group))
    errors = [
        row for row in some_rows(0, NUM_ROWS).to_pylist() if "error" in row["message"] and (row["took"] or 0) >= 10
    ]
    hosts = {row["host"] for row in errors}
    assert dict(map(tuple, view.sql(group).collect())) == {h: sum(r["host"] == h for r in errors) for h in hosts}
    limited = view.sql("SELECT * FROM t WHERE message TEXTSEARCH 'error' LIMIT 5").collect()
    assert len({row.id for row in limited}) == 5
    assert all("error" in row.message for row in limited)


def test_limits_stop_early(view) -> None:
    text = "SELECT id, upper(host) FROM t LIMIT 7"
    assert "limit: 7, 1 of 4 splits, found on the driver" in plan_of(view, text)
    assert len(set(view.sql(text).collect())) == 7
    assert len(view.sql("SELECT * FROM t LIMIT 10 OFFSET 395").collect()) == 5
    assert len(view.sql("(SELECT id FROM t LIMIT 3) UNION ALL (SELECT id FROM t LIMIT 4)").collect()) == 7
    assert view.sql("SELECT id FROM t ORDER BY id DESC LIMIT 2").collect()[0].id == NUM_ROWS - 1
    assert len(view.sql("SELECT * FROM (SELECT * FROM t LIMIT 50) WHERE id % 2 = 0").collect()) == 25
    assert view.sql("SELECT * FROM t LIMIT 0").collect() == []


def test_the_best_rows_of_a_search_are_chosen_by_the_index(view) -> None:
    scored = "SELECT id, score() AS s FROM t WHERE message TEXTSEARCH 'error OR 17 OR 21'"
    scores = sorted((row.s for row in view.sql(scored).collect()), reverse=True)
    best = view.sql(f"{scored} ORDER BY s DESC LIMIT 2")
    assert "found on the driver" in best._jdf.queryExecution().executedPlan().toString()
    assert [row.s for row in best.collect()] == scores[:2]
    assert {row.id for row in best.collect()} == {17, 21}
    assert [row.s for row in view.sql(f"{scored} ORDER BY s LIMIT 2").collect()] == scores[:-3:-1]


def test_padded_columns_are_compared_as_spark_does(enabled, tmp_path) -> None:
    enabled.sql(f"CREATE TABLE padded (c CHAR(5), i INT) USING indextables LOCATION '{tmp_path}/padded'")
    enabled.sql("INSERT INTO padded (c, i) VALUES ('ab', 1), ('abc', 2), (NULL, 3)")
    assert [row.i for row in enabled.sql("SELECT i FROM padded WHERE c = 'ab'").collect()] == [1]
    assert enabled.sql("SELECT count(*) FROM padded WHERE c = 'ab   '").first()[0] == 1
    groups = enabled.sql("SELECT c, count(*) FROM padded GROUP BY c").collect()
    assert {row.c for row in groups} == {"ab   ", "abc  ", None}
    enabled.sql("DROP TABLE padded")
