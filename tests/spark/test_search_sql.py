"""Searches in SQL: the index decides where a plan allows it, values decide elsewhere, and both say the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from tests.spark.conftest import SCHEMA, log_rows, make_logs, rows_of

import indextables as it
from indextables.errors import QueryError

PUSHED, BY_VALUES = "search: ", "ArrowEvalPython"


@pytest.fixture
def t(enabled, logs) -> Any:
    """An enabled session with the table as `t`, and an empty one as `e`."""
    enabled.read.format("indextables").load(logs.url).createOrReplaceTempView("t")
    return enabled


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def ids(frame: Any) -> list[int]:
    return sorted(row.id for row in frame.collect())


@pytest.mark.parametrize(
    ("condition", "where", "note"),
    [
        ("textsearch(message, 'timeout')", None, "search: message TEXTSEARCH 'timeout'"),
        ("textsearch(message, 'timeout') AND id > 60", "id > 60", "search: message TEXTSEARCH 'timeout'"),
        ("id > 60 AND day = '2026-01-01' AND textsearch(*, 'timeout')", "id > 60 AND day = '2026-01-01'", PUSHED),
        ("indexquery(*, 'timeout')", None, PUSHED),
        ("textsearch(message, concat('time', 'out'))", None, PUSHED),
    ],
)
def test_the_index_decides_what_every_row_has_to_fit(t, logs, condition, where, note) -> None:
    frame = t.sql(f"SELECT id FROM t WHERE {condition}")
    assert note in plan_of(frame)
    assert BY_VALUES not in plan_of(frame)
    assert ids(frame) == sorted(logs.search("timeout", where=where)["id"].to_pylist())


def test_what_is_joined_of_searches_alone_is_one_query(t, logs) -> None:
    condition = "NOT textsearch(message, 'ok') AND (fieldmatch(level, 'ERROR') OR indexquery(id, '<30'))"
    frame = t.sql(f"SELECT id FROM t WHERE {condition}")
    assert "search: (level FIELDMATCH 'ERROR' OR id INDEXQUERY '<30')" in plan_of(frame)
    assert "search: NOT message TEXTSEARCH 'ok'" in plan_of(frame)
    expected = logs.search("NOT message:ok AND (level:ERROR OR id:<30)")["id"].to_pylist()
    assert ids(frame) == sorted(expected) != []


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM t WHERE textsearch(message, 'timeout') OR id = 1",
        "SELECT id FROM t WHERE CASE WHEN id < 90 THEN textsearch(message, 'timeout') ELSE id = 100 END",
        "SELECT id FROM (SELECT * FROM t ORDER BY id LIMIT 70) WHERE textsearch(message, 'timeout')",
        "SELECT id FROM (SELECT id, textsearch(message, 'timeout') AS found FROM t) WHERE found OR id = 1",
        "SELECT a.id FROM t a LEFT JOIN t b ON a.id = b.id AND textsearch(a.message, 'timeout') WHERE b.id IS NOT NULL",
    ],
)
def test_values_decide_elsewhere(t, logs, query) -> None:
    frame = t.sql(query)
    timeouts = set(logs.search("timeout")["id"].to_pylist())
    conditions = {
        "OR id = 1": lambda number: number in timeouts or number == 1,
        "CASE": lambda number: number in timeouts if number < 90 else number == 100,
        "LIMIT": lambda number: number in timeouts and number < 70,
        "AS found": lambda number: number in timeouts or number == 1,
        "LEFT JOIN": lambda number: number in timeouts,
    }
    holds = next(condition for word, condition in conditions.items() if word in query)
    assert ids(frame) == [number for number in range(180) if holds(number)]
    assert BY_VALUES in plan_of(frame) or "LEFT JOIN" in query


def test_names_views_and_columns_of_frames(t, logs) -> None:
    expected = sorted(logs.search("timeout", where="id < 100")["id"].to_pylist())
    t.sql("CREATE TEMPORARY VIEW v AS SELECT message AS m, id FROM t WHERE id < 100")
    assert ids(t.sql("SELECT id FROM v WHERE textsearch(m, 'timeout')")) == expected
    frame = it.read(t, logs.url, where="id < 100").withColumnRenamed("message", "text")
    assert ids(frame.filter(F.expr("textsearch(text, 'timeout')"))) == expected
    scanned = logs.to_spark(t, where="id < 100").filter("textsearch(message, 'timeout')")
    assert PUSHED in plan_of(scanned)
    assert ids(scanned) == expected


def test_a_search_goes_with_the_search_of_a_load(t, logs) -> None:
    both = it.read(t, logs.url, search="timeout").filter("textsearch(message, 'error') AND indexquery(id, '>50')")
    assert ids(both) == sorted(logs.search("timeout AND error AND id:>50")["id"].to_pylist()) != []
    assert BY_VALUES not in plan_of(both)
    scored = it.read(t, logs.url, search="timeout", score=True)
    narrowed = scored.filter("textsearch(message, 'request')")
    assert rows_of(narrowed) == rows_of(scored)
    few = it.read(t, logs.url, limit=20)
    assert ids(few.filter("textsearch(message, 'timeout')")) == [n for n in ids(few) if n % 7 == 0 and n % 11]


def test_scores_and_snippets_are_those_of_the_search(t, logs) -> None:
    expected = logs.search("message:timeout", score=True, snippet="message", columns=["id"])
    by_id = {row["id"]: (row["_score"], row["_snippet"]) for row in expected.to_pylist()}
    best = t.sql(
        "SELECT id, score() AS s, snippet(message) AS p FROM t WHERE textsearch(message, 'timeout') "
        "ORDER BY score() DESC, id LIMIT 5"
    ).collect()
    assert {row.id: (row.s, row.p) for row in best}.items() <= by_id.items()
    assert [row.s for row in best] == sorted((score for score, _ in by_id.values()), reverse=True)[:5]
    everywhere = t.sql("SELECT id, score() AS s FROM t WHERE * TEXTSEARCH 'timeout request'").collect()
    scores = logs.search("timeout request", score=True)
    assert {row.id: row.s for row in everywhere} == dict(
        zip(scores["id"].to_pylist(), scores["_score"].to_pylist(), strict=True)
    )


def test_a_score_changes_no_rows_of_a_load(t, logs) -> None:
    few = it.read(t, logs.url, search="timeout OR ok", limit=7)
    with pytest.raises(Exception, match="a load with a limit"):
        few.selectExpr("id", "score() AS s").collect()
    best = it.read(t, logs.url, search="timeout OR ok", limit=7, score=True, snippet="message")
    shown = best.selectExpr("id", "_score = score() AND _snippet = snippet(message) AS same").collect()
    assert sorted(row.id for row in shown) == ids(best)
    assert all(row.same for row in shown)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, score() AS s FROM t WHERE textsearch(message, 'timeout') AND score() > 0.1",
        "SELECT id, s FROM (SELECT id, score() AS s, took FROM t WHERE textsearch(message, 'timeout')) WHERE s > 0",
        "SELECT a.id, score() AS s FROM t a JOIN t b ON a.id = b.id WHERE textsearch(a.message, 'timeout')",
        "SELECT id, s FROM (SELECT id, score() AS s, row_number() OVER (ORDER BY id) AS r FROM t "
        "WHERE textsearch(message, 'timeout')) WHERE r > 0",
        "SELECT id, score() AS s FROM (SELECT id FROM t WHERE textsearch(message, 'timeout') ORDER BY id LIMIT 99)",
    ],
)
def test_a_score_finds_its_search_below(t, logs, query) -> None:
    expected = logs.search("message:timeout", score=True)
    by_id = dict(zip(expected["id"].to_pylist(), expected["_score"].to_pylist(), strict=True))
    assert {row.id: row.s for row in t.sql(query).collect()} == by_id


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT score() FROM t", "there is no search below"),
        ("SELECT score() FROM t WHERE textsearch(message, 'x') OR id = 1", "there is no search below"),
        (
            "SELECT score() FROM t a JOIN t b ON a.id = b.id "
            "WHERE textsearch(a.message, 'ok') AND textsearch(b.message, 'ok')",
            "cannot tell which search",
        ),
        ("SELECT snippet(level) FROM t WHERE textsearch(message, 'x')", "snippet"),
        ("SELECT snippet() FROM t WHERE textsearch(message, 'x')", "snippet"),
        ("SELECT score(id) FROM t WHERE textsearch(message, 'x')", "score"),
        ("SELECT * FROM t WHERE textsearch(level, 'x')", "cannot use TEXTSEARCH on `level`"),
        ("SELECT * FROM t WHERE textsearch(lower(message), 'x')", "computed"),
        ("SELECT * FROM t WHERE textsearch(message, level)", "known beforehand"),
        ("SELECT * FROM t WHERE textsearch(message, CAST(NULL AS STRING))", "known beforehand"),
        ("SELECT * FROM t WHERE textsearch(message)", "takes columns and a text"),
        ("SELECT * FROM t WHERE textsearch(message, '(x')", "not closed"),
        ("SELECT * FROM t a JOIN t b ON a.id = b.id WHERE textsearch(*, 'x')", "several tables"),
        ("SELECT * FROM range(3) WHERE textsearch(id, 'x')", "not a column of a table"),
    ],
)
def test_what_cannot_be_is_said_before_a_row_is_read(t, query, message) -> None:
    with pytest.raises(Exception, match=message) as caught:
        plan_of(t.sql(query))
    assert isinstance(caught.value, QueryError) or "IllegalArgumentException" in type(caught.value).__name__


def test_splits_that_are_indexed_otherwise_are_searched_as_the_table_says(enabled, tmp_path) -> None:
    table = make_logs(tmp_path / "mixed")
    odd = it.Table.open(table.url, options={"indexing.tokenizer.message": "whitespace"})
    odd.append(log_rows(1000))
    enabled.read.format("indextables").load(table.url).createOrReplaceTempView("mixed")
    frame = enabled.sql("SELECT id FROM mixed WHERE textsearch(message, 'timeout')")
    assert BY_VALUES not in plan_of(frame)
    either = enabled.sql("SELECT id FROM mixed WHERE textsearch(message, 'timeout') OR id < 0")
    assert BY_VALUES in plan_of(either)
    assert ids(frame) == ids(either) == [n for n in [*range(180), *range(1000, 1060)] if n % 7 == 0 and n % 11]


def test_a_union_searches_by_the_index_of_its_first_part(enabled, logs, tmp_path) -> None:
    other = it.Table.create(tmp_path / "plain", SCHEMA)
    other.append(log_rows(500))
    first, second = (enabled.read.format("indextables").load(url) for url in (logs.url, other.url))
    found = first.union(second).filter("textsearch(message, 'timeout')")
    assert ids(found) == [n for n in [*range(180), *range(500, 560)] if n % 7 == 0 and n % 11]
    with pytest.raises(Exception, match="indexed as `string`"):
        second.union(first).filter("textsearch(message, 'timeout')").collect()


def test_an_empty_table_is_searched_too(enabled, tmp_path) -> None:
    table = it.Table.create(tmp_path / "empty", SCHEMA, indexing={"message": "text"})
    enabled.read.format("indextables").load(table.url).createOrReplaceTempView("e")
    assert enabled.sql("SELECT id, score() FROM e WHERE textsearch(message, 'x')").collect() == []
    assert enabled.sql("SELECT id FROM e WHERE textsearch(message, 'x') OR id = 1").collect() == []


def test_values_of_every_kind(enabled, tmp_path) -> None:
    import datetime as dt
    from decimal import Decimal

    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("amount", pa.decimal128(9, 2)),
            ("ok", pa.bool_()),
            ("x", pa.float64()),
            ("tags", pa.list_(pa.field("element", pa.string()))),
            ("attrs", pa.struct([("user", pa.string()), ("n", pa.int32())])),
        ]
    )
    rows = [
        {
            "id": number,
            "day": dt.date(2026, 1, 1 + number),
            "at": dt.datetime(2026, 1, 1, number, tzinfo=dt.UTC),
            "amount": Decimal(number) / 4,
            "ok": number % 2 == 0,
            "x": number / 2,
            "tags": [f"t{number % 3}"],
            "attrs": {"user": f"ann {number}", "n": number},
        }
        for number in range(10)
    ]
    table = it.Table.create(tmp_path / "kinds", schema)
    table.append(pa.Table.from_pylist([*rows, {"id": 10}], schema))
    enabled.conf.set("spark.sql.session.timeZone", "America/New_York")
    enabled.read.format("indextables").load(table.url).createOrReplaceTempView("kinds")
    for column, query in [
        ("day", ">=2026-01-05"),
        ("at", "[2026-01-01T03:00:00Z TO 2026-01-01T05:00:00Z]"),
        ("amount", "<1.25"),
        ("ok", "true"),
        ("x", "{1 TO 3}"),
        ("tags", "t1"),
        ("attrs", "attrs.user:3 OR attrs.n:5"),
    ]:
        pushed = enabled.sql(f"SELECT id FROM kinds WHERE indexquery({column}, '{query}')")
        by_values = enabled.sql(f"SELECT id FROM kinds WHERE indexquery({column}, '{query}') OR id < 0")
        assert PUSHED in plan_of(pushed)
        assert BY_VALUES in plan_of(by_values)
        assert ids(pushed) == ids(by_values) != [], query


def test_a_frame_that_forgets_its_table_is_not_searched(t) -> None:
    """A checkpointed frame has no relation of a table any more, so nothing says how its words are indexed."""
    forgotten = t.table("t").localCheckpoint()
    with pytest.raises(Exception, match="`message` because it is not a column of a table of this format"):
        forgotten.filter("textsearch(message, 'timeout')").collect()
