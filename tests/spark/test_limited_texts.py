"""`CHAR(n)`, `VARCHAR(n)` and `FLOAT`: tables of ours do as Spark's own do."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import SchemaError


@pytest.fixture
def session(enabled) -> Any:
    enabled.sql("CREATE DATABASE limits")
    enabled.sql("USE limits")
    yield enabled
    enabled.sql("DROP DATABASE limits CASCADE")


@pytest.fixture(params=["indextables", "parquet"])
def form(request) -> str:
    return request.param


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_tables_of_the_catalog(session, form, tmp_path) -> None:
    session.sql(f"CREATE TABLE t (id INT, c CHAR(5), v VARCHAR(3)) USING {form} LOCATION '{tmp_path}/t'")
    shown = {row.col_name: row.data_type for row in session.sql("DESCRIBE TABLE t").collect()}
    assert (shown["c"], shown["v"]) == ("char(5)", "varchar(3)")
    session.sql("INSERT INTO t VALUES (1, 'ab', 'x'), (2, 'abcde  ', 'xyz  '), (3, NULL, NULL)")
    session.table("t").limit(0).union(session.sql("SELECT 4, 'q', 'w'")).write.insertInto("t")
    expected = [(1, "ab   ", "x"), (2, "abcde", "xyz"), (3, None, None), (4, "q    ", "w")]
    assert rows(session.table("t")) == expected
    assert rows(session.sql("SELECT id FROM t WHERE c = 'ab'")) == [(1,)]
    assert rows(session.sql("SELECT a.id FROM t a JOIN t b ON a.c = b.c WHERE b.c IN ('q', 'z')")) == [(4,)]
    for values in ("5, 'abcdef', 'x'", "5, 'a', 'wxyz'"):
        with pytest.raises(Exception, match=r"EXCEED_LIMIT_LENGTH|exceeds|length limitation"):
            session.sql(f"INSERT INTO t VALUES ({values})")
    session.sql(f"CREATE TABLE u USING {form} LOCATION '{tmp_path}/u' AS SELECT * FROM t")
    copied = {row.col_name: row.data_type for row in session.sql("DESCRIBE TABLE u").collect()}
    assert (copied["c"], copied["v"]) == ("char(5)", "varchar(3)")
    assert rows(session.table("u")) == expected
    if form == "indextables":
        with pytest.raises(SchemaError, match="`abcdef` has more than 5 characters"):
            it.Table.open(f"{tmp_path}/u").append(pa.table({"c": ["abcdef"]}))


@pytest.mark.slow
def test_saves_and_loads_by_path(session, tmp_path) -> None:
    place = f"{tmp_path}/t"
    session.sql(f"CREATE TABLE t (id INT, c CHAR(5), v VARCHAR(3)) USING indextables LOCATION '{place}'")
    given = session.sql("SELECT 1 AS id, 'ab' AS c, 'x ' AS v")
    given.write.format("indextables").mode("append").save(place)
    loaded = session.read.format("indextables").load(place)
    assert rows(loaded) == rows(session.table("t")) == [(1, "ab   ", "x ")]
    assert loaded.filter("c = 'ab'").count() == it.read(session, place).filter("c = 'ab'").count() == 1
    with pytest.raises(SchemaError, match=r"`wxyz` has more than 3 characters, and the table's is `varchar\(3\)`"):
        session.sql("SELECT 2 AS id, 'a' AS c, 'wxyz' AS v").write.format("indextables").mode("append").save(place)
    stream = session.readStream.format("indextables").load(place)
    writer = stream.writeStream.format("indextables").option("checkpointLocation", f"{tmp_path}/check")
    writer.trigger(availableNow=True).start(place).awaitTermination(60)
    assert rows(session.table("t")) == [(1, "ab   ", "x "), (1, "ab   ", "x ")]
    assert session.sql("SELECT * FROM t WHERE c FIELDMATCH 'ab   '").count() == 2


def test_a_search_on_limited_texts(session, tmp_path) -> None:
    session.sql(
        f"CREATE TABLE t (c CHAR(20), v VARCHAR(20)) USING indextables LOCATION '{tmp_path}/t' "
        "TBLPROPERTIES ('indexing.c' = 'text', 'indexing.v' = 'text')"
    )
    session.sql("INSERT INTO t VALUES ('disk full', 'one'), ('timeout', 'disk')")
    assert session.sql("SELECT * FROM t WHERE c TEXTSEARCH 'disk'").count() == 1
    assert session.sql("SELECT * FROM t WHERE v TEXTSEARCH 'disk' OR c TEXTSEARCH 'disk'").count() == 2


def test_doubles_in_a_column_of_floats(session, tmp_path) -> None:
    place = f"{tmp_path}/t"
    session.sql(f"CREATE TABLE t (x FLOAT) USING indextables LOCATION '{place}'")
    session.sql("INSERT INTO t SELECT CAST(0.1 AS DOUBLE)")
    assert session.sql("SELECT count(*) FROM t WHERE x = CAST(0.1 AS FLOAT)").first()[0] == 1, "Spark itself casts"
    exact, other = session.sql("SELECT 0.5D AS x"), session.sql("SELECT 1e300D AS x")
    exact.write.format("indextables").mode("append").save(place)
    with pytest.raises(SchemaError, match=r"`x` because it is `double`, .* would become another number"):
        other.write.format("indextables").mode("append").save(place)
    assert it.Table.open(place).num_records == 2
