"""Statements with table functions and search operators, in sessions of every kind."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, ParseException
from tests.spark.conftest import rows_of

import indextables as it
from indextables.errors import ConfigError, IndexTablesError, QueryError, TableNotFoundError


def is_classic(session: Any) -> bool:
    return hasattr(session, "_jsparkSession")


@pytest.fixture
def searching(enabled) -> Any:
    """An enabled session with functions of the operators' names, which look for a part of a text."""
    for name in ("textsearch", "fieldmatch", "indexquery"):
        enabled.udf.register(name, lambda text, part: text is not None and part in text, "boolean")
    return enabled


@pytest.fixture(scope="module")
def numbers(tmp_path_factory) -> it.Table:
    schema = pa.schema([("n", pa.int64()), ("price", pa.decimal128(9, 2)), ("at", pa.timestamp("us", "UTC"))])
    table = it.Table.create(tmp_path_factory.mktemp("numbers") / "it's {here}", schema)
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    rows = [{"n": n - 5, "price": Decimal(n) / 4, "at": start + dt.timedelta(hours=6 * n)} for n in range(20)]
    table.append(pa.Table.from_pylist(rows, schema=schema))
    return table


def test_rows_of_a_search(session, logs) -> None:
    call = f"indextables_table('{logs.url}', search => 'timeout', where => 'id >= 20', columns => array('id', 'level'))"
    found = it.sql(session, f"SELECT * FROM {call} AS t WHERE t.id < :most", {"most": 100})
    assert rows_of(found) == rows_of(logs.search("timeout", where="id >= 20 AND id < 100", columns=["id", "level"]))
    assert found.columns == ["id", "level"]
    best = it.sql(
        session,
        f"SELECT id, _snippet, _score > 0 AS hit FROM indextables_table('{logs.url}', search => :q, score => true, "
        "snippet => message, limit => 3)",
        {"q": "timeout"},
    )
    assert [(row.hit, "<b>timeout</b>" in row._snippet) for row in best.collect()] == [(True, True)] * 3


def test_versions_and_moments(session, logs) -> None:
    counts = it.sql(
        session,
        "SELECT (SELECT count(*) FROM indextables_table(?, version => ?)) AS one, "
        "(SELECT count(*) FROM INDEXTABLES_TABLE(?)) AS all, ? AS left",
        [logs.url, 1, logs.url, "x"],
    )
    assert [tuple(row) for row in counts.collect()] == [(60, 180, "x")]
    moment = logs.history()["timestamp"].to_pylist()[0]
    later = (moment + dt.timedelta(days=1)).strftime("%Y-%m-%d %H:%M:%S")
    found = it.sql(session, f"SELECT * FROM indextables_count('{logs.url}', timestamp => TIMESTAMP '{later}')")
    assert found.first()[0] == 180
    assert it.sql(session, f"SELECT * FROM indextables_count('{logs.url}', version => 0)").first()[0] == 0


def test_aggregations_are_those_of_the_table(session, logs, numbers) -> None:
    path = numbers.url.replace("'", "\\'")

    def ask(call: str, url: str = path, **frames: Any) -> list:
        return rows_of(it.sql(session, f"SELECT * FROM {call}".replace("@", f"'{url}'"), **frames))

    assert ask("indextables_terms(@, 'level')", logs.url) == rows_of(logs.aggregate("level"))
    assert ask("indextables_terms(@, Level, search => 'timeout', limit => 1)", logs.url) == rows_of(
        logs.aggregate("level", query="timeout", limit=1)
    )
    assert ask("indextables_terms(@, level, search => 'absent')", logs.url) == []
    assert ask("indextables_count(@, search => 'timeout', where => 'id < 50')", logs.url) == [
        (logs.count("timeout", where="id < 50"),)
    ]
    assert ask("indextables_stats(@, 'id')", logs.url) == rows_of(logs.stats("id"))
    assert ask("indextables_histogram(@, 'n', interval => 10, offset => -3)") == rows_of(
        numbers.histogram("n", interval=10, offset=-3)
    )
    assert ask("indextables_histogram(@, column => price, interval => 0.75)") == rows_of(
        numbers.histogram("price", interval=Decimal("0.75"))
    )
    days = it.sql(
        session, f"SELECT `count` FROM indextables_date_histogram('{path}', at, interval => '1 day') ORDER BY at"
    )
    assert [row[0] for row in days.collect()] == [4] * 5


def test_several_calls_braces_and_frames_of_the_user(session, logs) -> None:
    mine = session.createDataFrame([(0, "INFO {x}")], "id long, note string")
    text = (
        "SELECT t.id, m.note, '{{' AS brace, c.`count` FROM {mine} m "
        f"JOIN indextables_table('{logs.url}', columns => 'id') t ON t.id = m.id "
        f"CROSS JOIN indextables_count('{logs.url}', search => {{q}}) c"
    )
    found = it.sql(session, text, mine=mine, q="timeout")
    assert [tuple(row) for row in found.collect()] == [(0, "INFO {x}", "{", logs.count("timeout"))]
    plain = it.sql(session, f"SELECT '{{}}' AS a, '}}' AS b, c.* FROM indextables_count('{logs.url}') c /* {{ */")
    assert [tuple(row) for row in plain.collect()] == [("{}", "}", 180)]


def test_tables_by_name(session, logs, numbers) -> None:
    session.read.format("indextables").load(logs.url).createOrReplaceTempView("whole")
    assert it.sql(session, "SELECT * FROM indextables_count(whole)").first()[0] == 180
    assert it.sql(session, "SELECT * FROM indextables_table(`whole`, version => 1)").count() == 60
    session.sql("CREATE OR REPLACE TEMPORARY VIEW some AS SELECT * FROM whole WHERE id < 3")
    session.sql("CREATE OR REPLACE TEMPORARY VIEW renamed AS SELECT id, message AS level FROM whole")
    session.sql("CREATE OR REPLACE TEMPORARY VIEW projected AS SELECT level, id FROM whole")
    it.read(session, logs.url, search="timeout").createOrReplaceTempView("found")
    it.read(session, logs.url, where="id < 3").createOrReplaceTempView("less")
    session.sql("CREATE OR REPLACE TEMPORARY VIEW twice AS SELECT id FROM whole UNION ALL SELECT id FROM whole")
    session.range(3).createOrReplaceTempView("other")
    assert it.sql(session, "SELECT * FROM indextables_terms(projected, level)").count() == 2
    for view in ("some", "renamed", "found", "less", "twice"):
        with pytest.raises(
            QueryError, match=f"`{view}` is a view that does not select a whole table unchanged, at line 1, column 33"
        ):
            it.sql(session, f"SELECT * FROM indextables_count({view})")
    with pytest.raises(QueryError, match="`other` is not a table of this format"):
        it.sql(session, "SELECT * FROM indextables_count(other)")
    with pytest.raises(QueryError, match="no table or view `nowhere`"):
        it.sql(session, "SELECT * FROM indextables_count(nowhere)")


BAD = {
    "indextables_count()": "expected a table first",
    "indextables_count(5)": "expected a table first",
    "indextables_count('T', 'level')": "has to be named",
    "indextables_count('T', serch => 'x')": "did you mean `search`",
    "indextables_count('T', search => 5)": "expected a string for `search`",
    "indextables_count('T', version => -1)": "expected a whole number for `version`",
    "indextables_count('T', search => 'a', SEARCH => 'b')": "given twice",
    "indextables_terms('T')": "`column` is missing",
    "indextables_histogram('T', 'id')": "`interval` is missing",
    "indextables_table('T', score => 'yes')": "`true` or `false`",
    "indextables_table('T', columns => 5)": "names of columns",
}


@pytest.mark.parametrize("call", BAD)
def test_bad_calls_are_refused_with_their_place(spark, logs, call) -> None:
    with pytest.raises(QueryError, match=BAD[call]) as raised:
        it.sql(spark, f"SELECT * FROM {call}".replace("T'", f"{logs.url}'"))
    assert "^" in str(raised.value)


def test_errors_of_the_library_come_out_as_they_are(session, logs, tmp_path) -> None:
    for call in ("indextables_table", "indextables_count"):
        with pytest.raises(TableNotFoundError):
            it.sql(session, f"SELECT * FROM {call}('{tmp_path}/nowhere')").collect()
        with pytest.raises(IndexTablesError, match="`absent`"):
            it.sql(session, f"SELECT * FROM {call}('{logs.url}', where => 'absent = 1')").collect()
    with pytest.raises(ConfigError, match="interval"):
        it.sql(session, f"SELECT * FROM indextables_histogram('{logs.url}', id, interval => 0)")


def test_settings_of_the_session_are_options(session, logs) -> None:
    session.conf.set("spark.indextables.cache.disk.enabled", "perhaps")
    try:
        with pytest.raises(ConfigError, match=r"cache\.disk\.enabled"):
            it.sql(session, f"SELECT * FROM indextables_count('{logs.url}')")
    finally:
        session.conf.unset("spark.indextables.cache.disk.enabled")


@pytest.mark.parametrize("kept", ["CREATE OR REPLACE TEMPORARY VIEW v AS", "CREATE VIEW v AS", "CACHE TABLE v AS"])
def test_a_call_is_not_kept_in_a_view(spark, logs, kept) -> None:
    with pytest.raises(QueryError, match="cannot keep `indextables_count` in a view"):
        it.sql(spark, f"{kept} SELECT * FROM indextables_count('{logs.url}')")


def test_a_statement_may_write_what_a_call_gives(session, logs) -> None:
    name = f"written_{type(session).__module__.split('.')[2]}_{id(session)}"
    it.sql(session, f"CREATE TABLE {name} USING parquet AS SELECT * FROM indextables_terms('{logs.url}', level)")
    it.sql(session, f"INSERT INTO {name} SELECT * FROM indextables_terms('{logs.url}', level, limit => 1)")
    assert session.table(name).count() == 3
    session.sql(f"DROP TABLE {name}")


def test_operators_in_statements_of_enabled_sessions(searching, logs) -> None:
    searching.read.format("indextables").load(logs.url).createOrReplaceTempView("logs")
    expected = logs.count("timeout")
    for text in (
        "SELECT count(*) FROM logs WHERE message TEXTSEARCH 'timeout'",
        "SELECT count(*) FROM logs l WHERE (l.`message` textsearch 'time' 'out')",
        "SELECT count(*) FROM logs WHERE NOT message NOT TEXTSEARCH 'timeout'",
        "SELECT count(*) FROM logs WHERE textsearch(message, 'timeout') -- message TEXTSEARCH 'x'",
        "SELECT count_if(message IndexQuery 'timeout') FROM logs",
    ):
        assert searching.sql(text).first()[0] == it.sql(searching, text).first()[0] == expected, text
    assert (
        searching.sql("SELECT count(*) FROM logs WHERE message TEXTSEARCH :q", {"q": "timeout"}).first()[0] == expected
    )
    assert searching.sql("SELECT count(*) FROM logs WHERE message TEXTSEARCH ?", ["timeout"]).first()[0] == expected
    whole = searching.read.format("indextables").load(logs.url)
    text = "SELECT count(*) FROM {logs} WHERE {logs.message} TEXTSEARCH {q}"
    assert searching.sql(text, logs=whole, q="timeout").first()[0] == expected
    both = (
        f"SELECT count(*) FROM indextables_table('{logs.url}', where => 'id < 50') WHERE message TEXTSEARCH 'timeout'"
    )
    assert searching.sql(both).first()[0] == logs.count("timeout", where="id < 50")
    with pytest.raises(QueryError, match="expected a string or a parameter"):
        searching.sql("SELECT * FROM logs WHERE message TEXTSEARCH level")


def test_operators_in_conditions_of_enabled_sessions(searching, logs) -> None:
    whole = searching.read.format("indextables").load(logs.url)
    expected = logs.count("timeout")
    assert whole.filter("message TEXTSEARCH 'timeout'").count() == expected
    assert whole.where("message TEXTSEARCH 'timeout' AND id < 50").count() == logs.count("timeout", where="id < 50")
    assert whole.filter(whole.id < 5).count() == 5
    for given in (("id", "message TEXTSEARCH 'timeout' AS hit"), (["id", "message TEXTSEARCH 'timeout' AS hit"],)):
        assert whole.selectExpr(*given).filter("hit").count() == expected
    with pytest.raises(QueryError, match="expected a string or a parameter"):
        whole.filter("message TEXTSEARCH 5")


def test_sessions_that_cannot_search_say_so(spark, connect, logs) -> None:
    for session, hint in ((spark, r"indextables\.enable"), (connect, "indextables_table")):
        session.read.format("indextables").load(logs.url).createOrReplaceTempView("logs")
        for condition in ("message TEXTSEARCH 'x'", "indexquery(message, 'x')", "* TEXTSEARCH 'x'"):
            with pytest.raises(QueryError, match=f"cannot search(?s:.*){hint}"):
                it.sql(session, f"SELECT * FROM logs WHERE {condition}")
        assert it.sql(session, "SELECT 'a TEXTSEARCH' AS textsearch FROM logs LIMIT 1").columns == ["textsearch"]
    with pytest.raises(ParseException):
        spark.sql("SELECT * FROM logs WHERE message TEXTSEARCH 'x'")


def test_other_statements_go_to_spark_as_they_are(session) -> None:
    assert it.sql(session, "SELECT '{}' AS a, :b AS b", {"b": 1}).collect()[0].asDict() == {"a": "{}", "b": 1}
    assert it.sql(session, "SELECT count(*) AS n FROM {df}", df=session.range(3)).first().n == 3
    with pytest.raises(AnalysisException):
        it.sql(session, "SELECT * FROM no_such_table").collect()
    with pytest.raises(ParseException):
        it.sql(session, "SELECT 'textsearch left open").collect()
    assert is_classic(session) or type(session).__module__.startswith("pyspark.sql.connect")
