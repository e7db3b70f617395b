"""Tables of Spark's session catalog: every statement that makes, fills, reads, changes and drops one, and what is
refused."""

from __future__ import annotations

import itertools
import random
import re
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, WriterCommitMessage
from tests.spark.conftest import log_rows, make_logs, rows_of
from tests.spark.test_enabling import FOUND, NATIVE, PYTHON, plan_of, splits_of

import indextables as it
from indextables.errors import CommitConflictError, ConfigError, IndexTablesError, SchemaError, TableExistsError
from indextables.protocol.doc_mapping import without_registry
from indextables.spark.catalog.named_tables import named_tables
from indextables.spark.catalog.tables import CatalogSide
from indextables.spark.compat.versions import feature_release
from indextables.spark.jvm.worker_errors import error_text, find_own_error

_numbers = itertools.count()
RELEASE = feature_release(pyspark.__version__)
follows_tables = pytest.mark.skipif(
    RELEASE < (4, 1), reason="before Spark 4.1, a DataFrame of a table stays at its version, as one of a load does"
)


@pytest.fixture(scope="module")
def sql_session(spark) -> Any:
    """An enabled session that all tests of this file share, with a database of its own. It has run before."""
    session = spark.newSession()
    session.range(1).count()
    it.enable(session)
    session.sql("CREATE DATABASE catalog_tests")
    session.sql("USE catalog_tests")
    yield session
    session.sql("DROP DATABASE catalog_tests CASCADE")


@pytest.fixture
def sql(sql_session) -> Any:
    return lambda text: rows_of(sql_session.sql(text))


@pytest.fixture
def name() -> str:
    """The name of a table that is nowhere yet."""
    return f"t{next(_numbers)}"


def place_of(session: Any, name: str) -> str:
    found = {row.col_name: row.data_type for row in session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()}
    return str(found["Location"]).removeprefix("file:")


def frame(session: Any, count: int, day: str = "x") -> Any:
    return session.range(count).selectExpr("id", "concat('word ', id) AS message", f"'{day}' AS day")


def refusal(session: Any, text: str) -> str:
    """What is said where a statement is refused, by us when it is given or by Spark when it runs."""
    with pytest.raises((PySparkException, IndexTablesError)) as raised:
        session.sql(text).collect()
    return error_text(raised.value) if isinstance(raised.value, IndexTablesError) else str(raised.value)


def test_a_table_is_made_filled_read_and_dropped(sql_session, sql, name) -> None:
    sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL COMMENT 'its number', message STRING, day STRING) USING indextables "
        "OPTIONS ('indexing.message'='text') PARTITIONED BY (day) COMMENT 'rows' "
        "TBLPROPERTIES ('team'='ours', 'checkpoint.interval'='5')"
    )
    place = place_of(sql_session, name)
    table = it.Table.open(place)
    assert table.partition_columns == ("day",)
    assert not table.schema.field("id").nullable
    assert table.metadata.configuration == {
        "spark.indextables.checkpoint.interval": "5",
        "spark.indextables.indexing.typemap.message": "text",
    }
    assert sql(f"SELECT * FROM {name}") == []
    sql(f"INSERT INTO {name} VALUES (1, 'connection timeout', 'x'), (2, 'ok', 'y')")
    if RELEASE >= (4, 1):  # Spark 4.0 wants all columns
        sql(f"INSERT INTO {name} (day, id) VALUES ('x', 3)")
    else:
        sql(f"INSERT INTO {name} (day, id, message) VALUES ('x', 3, NULL)")
    sql(f"INSERT INTO {name} BY NAME SELECT 'y' AS day, 'late' AS message, 4L AS id")
    expected = [(1, "connection timeout", "x"), (2, "ok", "y"), (3, None, "x"), (4, "late", "y")]
    assert sql(f"SELECT * FROM {name}") == rows_of(sql_session.table(name)) == expected
    assert rows_of(it.Table.open(place).search()) == expected
    assert it.Table.open(place).count("timeout") == 1
    described = sql(f"DESCRIBE TABLE EXTENDED {name}")
    assert ("id", "bigint", "its number") in described
    assert ("Type", "MANAGED", "") in described
    assert ("Provider", "indextables", "") in described
    assert ("Comment", "rows", "") in described
    shown = dict(sql(f"SHOW TBLPROPERTIES {name}"))
    assert shown == {**table.metadata.configuration, "team": "ours"}
    again = sql(f"SHOW CREATE TABLE {name}")[0][0]
    sql(f"DROP TABLE {name}")
    assert not Path(place).exists()
    assert "TABLE_OR_VIEW_NOT_FOUND" in refusal(sql_session, f"SELECT * FROM {name}")
    sql(again)
    assert it.Table.open(place).metadata.configuration == table.metadata.configuration
    assert it.Table.open(place).schema == table.schema


def test_a_table_with_a_location_keeps_its_files(sql_session, sql, name, tmp_path) -> None:
    place = tmp_path / "my table"
    sql(f"CREATE TABLE {name} (id BIGINT, day STRING) USING indextables PARTITIONED BY (day) LOCATION '{place}'")
    sql(f"INSERT INTO {name} VALUES (1, 'x')")
    assert ("Type", "EXTERNAL", "") in sql(f"DESCRIBE TABLE EXTENDED {name}")
    sql(f"DROP TABLE {name}")
    assert it.Table.open(place).num_records == 1
    # A catalog in memory forgets its entries with the process; the place is all that is needed to have them back.
    sql(f"CREATE TABLE {name} USING indextables LOCATION '{place}'")
    assert sql(f"SELECT * FROM {name}") == [(1, "x")]
    sql(f"CREATE TABLE IF NOT EXISTS {name} (other INT) USING indextables LOCATION '{place}'")
    sql(f"CREATE TABLE same_{name} (ID bigint, day string) USING indextables OPTIONS (path '{place}')")
    sql(f"INSERT INTO same_{name} VALUES (2, 'y')")
    assert sql(f"SELECT * FROM {name}") == [(1, "x"), (2, "y")]
    assert sql_session.catalog.createTable(f"api_{name}", str(place), "indextables").count() == 2


def test_what_is_said_of_a_table_that_is_there_has_to_be_true(sql_session, sql, name, tmp_path) -> None:
    place = tmp_path / "there"
    it.Table.create(
        place, pa.schema([("id", pa.int64()), ("day", pa.string())]), partition_by=("day",), indexing={"day": "string"}
    )
    start = f"CREATE TABLE {name}"
    end = f"USING indextables LOCATION '{place}'"
    assert "has (id bigint, day string)" in refusal(sql_session, f"{start} (id INT, day STRING) {end}")
    assert "has (id bigint, day string)" in refusal(sql_session, f"{start} (day STRING, id BIGINT) {end}")
    partitioned = refusal(sql_session, f"{start} (id BIGINT, day STRING) {end} PARTITIONED BY (id)")
    assert "is partitioned by (day)" in partitioned
    indexed = refusal(sql_session, f"{start} {end} OPTIONS ('indexing.day'='text')")
    assert "with `string`" in indexed
    sql(f"{start} {end} OPTIONS ('indexing.day'='string')")
    nothing = refusal(sql_session, f"CREATE TABLE other_{name} USING indextables LOCATION '{tmp_path / 'nothing'}'")
    assert "No transaction log found" in nothing
    assert not (tmp_path / "nothing").exists()
    taken = refusal(sql_session, f"CREATE TABLE other_{name} {end} AS SELECT 1 AS id")
    assert "there is a table at" in taken
    assert it.Table.open(place).version == 0


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("(a INT) USING indextables OPTIONS (serach 'x')", "did you mean `search`"),
        ("(a INT) USING indextables OPTIONS (search 'x')", "an option of one read or write"),
        ("(a INT) USING indextables OPTIONS ('indexing.b'='text')", "no such column|no column"),
        ("(a INT) USING indextables TBLPROPERTIES ('spark.indextables.chekpoint.interval'='1')", "did you mean"),
        ("(a INT) USING indextables TBLPROPERTIES ('cache.disk.path'='/')", "a setting of readers"),
        ("(a INT DEFAULT 5) USING indextables", "has a default"),
        ("(a INT) USING indextables CLUSTERED BY (a) INTO 4 BUCKETS", "partitioned by columns"),
        ("(a DATE) USING indextables PARTITIONED BY (years(a))", "partitioned by columns"),
        ("(a INT) USING indextables PARTITIONED BY (b)", "b"),
        ("(a INTERVAL DAY) USING indextables", "cannot hold its type"),
        ("USING indextables", "No transaction log found"),
    ],
)
def test_what_no_table_can_be_is_refused(sql_session, sql, name, rest, message) -> None:
    assert re.search(message, refusal(sql_session, f"CREATE TABLE {name} {rest}"))
    assert name not in {row[1] for row in sql("SHOW TABLES")}
    sql(f"CREATE TABLE {name} (a INT) USING indextables")  # nothing was left at its place


def test_a_query_makes_a_table_or_nothing(sql_session, sql, name, tmp_path) -> None:
    sql(
        f"CREATE TABLE {name} USING indextables PARTITIONED BY (day) OPTIONS ('indexing.message'='text') "
        "TBLPROPERTIES ('checkpoint.interval'='7', 'team'='ours') COMMENT 'made' "
        "AS SELECT id, concat('word ', id) AS message, cast(id % 2 AS string) AS day FROM range(6)"
    )
    table = it.Table.open(place_of(sql_session, name))
    assert (table.num_records, table.partition_columns, table.count("message:word")) == (6, ("day",), 6)
    properties = without_registry(table.metadata.configuration)
    assert dict(sql(f"SHOW TBLPROPERTIES {name}")) == {**properties, "team": "ours"}
    assert properties["spark.indextables.checkpoint.interval"] == "7"
    assert ("Comment", "made", "") in sql(f"DESCRIBE TABLE EXTENDED {name}")
    for number, place in enumerate(["", f"LOCATION '{tmp_path / 'failed'}'"]):
        failed = refusal(
            sql_session,
            f"CREATE TABLE bad{number}_{name} USING indextables {place} "
            "AS SELECT id, if(id = 40, raise_error('stop'), 'x') AS m FROM range(0, 50, 1, 4)",
        )
        assert "stop" in failed
        assert f"bad{number}_{name}" not in {row[1] for row in sql("SHOW TABLES")}
        sql(f"CREATE TABLE bad{number}_{name} USING indextables {place} AS SELECT 1 AS id")
        assert sql(f"SELECT * FROM bad{number}_{name}") == [(1,)]
    sql(f"CREATE TABLE empty_{name} USING indextables AS SELECT 1 AS id WHERE false")
    assert sql(f"SELECT * FROM empty_{name}") == []


def test_a_table_that_owns_its_place_is_alone_there(sql_session, sql, name) -> None:
    sql(f"CREATE TABLE {name} (id BIGINT) USING indextables")
    place = Path(place_of(sql_session, name))
    sql(f"DROP TABLE {name}")
    (place / "splits").mkdir(parents=True)
    (place / "note.txt").write_text("somebody else's")
    for rest in ("(id BIGINT) USING indextables", "USING indextables AS SELECT 1 AS id"):
        assert "holds other files, as `note.txt`" in refusal(sql_session, f"CREATE TABLE {name} {rest}")
    (place / "note.txt").rename(place / "splits" / "split-of-a-killed-task.split")
    sql(f"CREATE TABLE {name} USING indextables AS SELECT 1 AS id")
    assert sql(f"SELECT * FROM {name}") == [(1,)]


def test_a_table_that_is_made_meanwhile_is_noticed(sql_session, sql, name, tmp_path) -> None:
    with mock.patch("indextables.spark.catalog.tables._head", return_value=None):
        make_logs(tmp_path / "raced")
        query = f"CREATE TABLE {name} USING indextables LOCATION '{tmp_path / 'raced'}' AS SELECT 1 AS id"
        assert isinstance(find_own_error(refusal(sql_session, query)), TableExistsError)
    assert name not in {row[1] for row in sql("SHOW TABLES")}
    assert it.Table.open(tmp_path / "raced").num_records == 180


@pytest.mark.slow
def test_all_ways_to_overwrite(sql_session, sql, name) -> None:
    sql(f"CREATE TABLE {name} (id BIGINT, day STRING) USING indextables PARTITIONED BY (day)")
    sql(f"INSERT INTO {name} VALUES (1, 'x'), (2, 'y'), (3, NULL)")
    sql(f"INSERT OVERWRITE {name} PARTITION (day = 'x') SELECT 10L")
    assert sql(f"SELECT * FROM {name}") == [(10, "x"), (2, "y"), (3, None)]
    sql(f"INSERT OVERWRITE {name} PARTITION (day = NULL) SELECT 30L")
    assert sql(f"SELECT * FROM {name}") == [(10, "x"), (2, "y"), (30, None)]
    sql_session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        sql(f"INSERT OVERWRITE {name} VALUES (20, 'y'), (40, 'z')")
    finally:
        sql_session.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert sql(f"SELECT * FROM {name}") == [(10, "x"), (20, "y"), (30, None), (40, "z")]
    sql(f"INSERT INTO {name} REPLACE WHERE day = 'x' OR day IS NULL SELECT 11L, 'x'")
    assert sql(f"SELECT * FROM {name}") == [(11, "x"), (20, "y"), (40, "z")]
    for text in ("REPLACE WHERE id = 1", "REPLACE WHERE day = 'q'"):
        refusal(sql_session, f"INSERT INTO {name} {text} SELECT 12L, 'x'")
    assert sql(f"SELECT * FROM {name}") == [(11, "x"), (20, "y"), (40, "z")]
    sql(f"INSERT OVERWRITE {name} SELECT id + 1, day FROM {name}")
    assert sql(f"SELECT * FROM {name}") == [(12, "x"), (21, "y"), (41, "z")]
    assert it.Table.open(place_of(sql_session, name)).version == 6


def test_a_writer_saves_by_name_in_all_modes(sql_session, sql, name) -> None:
    rows = frame(sql_session, 3)
    writer = rows.write.format("indextables").partitionBy("day").option("indexing.message", "text")
    writer.saveAsTable(name)
    table = it.Table.open(place_of(sql_session, name))
    assert (table.partition_columns, table.count("message:word")) == (("day",), 3)
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        writer.saveAsTable(name)
    writer.mode("ignore").saveAsTable(name)
    assert table.refresh().num_records == 3
    others = rows.select("day", "id") if RELEASE >= (4, 1) else rows.selectExpr("day", "id", "'' || NULL AS message")
    others.write.format("indextables").mode("append").saveAsTable(name)
    assert sql_session.table(name).filter("message IS NULL").count() == 3
    with pytest.raises(AnalysisException, match="more"):
        rows.selectExpr("*", "1 AS more").write.format("indextables").mode("append").saveAsTable(name)
    rows.write.insertInto(name)
    assert table.refresh().num_records == 9
    rows.limit(1).write.insertInto(name, overwrite=True)
    assert table.refresh().num_records == 1
    frame(sql_session, 5, "y").write.format("indextables").mode("overwrite").saveAsTable(name)
    assert rows_of(sql_session.table(name)) == rows_of(frame(sql_session, 5, "y"))
    assert table.refresh().partition_columns == ("day",)
    assert it.Table.open(table.url, version=1).num_records == 3  # an overwrite is a version like any other


def test_a_replacement_of_another_shape_is_refused(sql_session, sql, name) -> None:
    frame(sql_session, 3).write.format("indextables").saveAsTable(name)
    with pytest.raises(SchemaError, match="drop the table first"):
        sql_session.range(3).write.format("indextables").mode("overwrite").saveAsTable(name)
    with pytest.raises(SchemaError, match="partition"):
        frame(sql_session, 3).write.format("indextables").mode("overwrite").partitionBy("day").saveAsTable(name)
    with pytest.raises(ConfigError, match="without a query"):
        _raise_own(sql_session, f"REPLACE TABLE {name} (id BIGINT, message STRING, day STRING) USING indextables")
    sql(f"CREATE TABLE parquet_{name} USING parquet AS SELECT 1 AS id")
    refusal(sql_session, f"CREATE OR REPLACE TABLE parquet_{name} USING indextables AS SELECT 1 AS id")
    assert sql_session.table(name).count() == 3
    assert sql(f"SELECT * FROM parquet_{name}") == [(1,)]


def _raise_own(session: Any, text: str) -> None:
    error = find_own_error(refusal(session, text))
    assert error is not None
    raise error


def test_a_replacement_that_fails_leaves_the_table(sql_session, sql, name) -> None:
    frame(sql_session, 3).write.format("indextables").saveAsTable(name)
    failing = "SELECT id, if(id = 9, raise_error('stop'), 'x') AS message, 'd' AS day FROM range(10)"
    assert "stop" in refusal(sql_session, f"CREATE OR REPLACE TABLE {name} USING indextables AS {failing}")
    assert rows_of(sql_session.table(name)) == rows_of(frame(sql_session, 3))
    sql(
        f"CREATE OR REPLACE TABLE {name} USING indextables COMMENT 'new' AS SELECT 7L AS id, 'm' AS message, 'd' AS day"
    )
    assert sql(f"SELECT * FROM {name}") == [(7, "m", "d")]
    assert ("Comment", "new", "") in sql(f"DESCRIBE TABLE EXTENDED {name}")


def test_the_other_writer(sql_session, name) -> None:
    rows = frame(sql_session, 4)
    rows.writeTo(name).using("indextables").partitionedBy("day").tableProperty("team", "ours").option(
        "indexing.message", "text"
    ).create()
    table = it.Table.open(place_of(sql_session, name))
    assert (table.partition_columns, table.count("message:word")) == (("day",), 4)
    frame(sql_session, 2, "y").writeTo(name).append()
    frame(sql_session, 1, "y").writeTo(name).overwritePartitions()
    assert table.refresh().num_records == 5
    frame(sql_session, 2, "x").writeTo(name).overwrite(F.col("day") == "x")
    assert table.refresh().num_records == 3
    with pytest.raises(SchemaError, match="not a partition column"):
        rows.writeTo(name).overwrite(F.col("id") == 1)
    with pytest.raises(Exception, match=f"does not support overwrite by expression.*{name}"):
        rows.writeTo(name).overwrite(F.length("day") == 1)
    rows.writeTo(name).using("indextables").replace()
    assert rows_of(sql_session.table(name)) == rows_of(rows)
    rows.writeTo(name).using("indextables").createOrReplace()
    assert table.refresh().num_records == 4
    with pytest.raises(ConfigError, match="option of overwriting"):
        rows.writeTo(name).option("ifVersion", "1").append()


def test_reads_get_the_best_scan(sql_session, sql, name, logs) -> None:
    sql(f"CREATE TABLE {name} USING indextables LOCATION '{logs.url}'")
    plain = sql_session.table(name)
    assert NATIVE in plan_of(plain)
    assert splits_of(plain.filter("id < 10")) == (2, 6)
    assert splits_of(sql_session.sql(f"SELECT id FROM {name} WHERE day = '2026-01-02'")) == (3, 6)
    assert named_tables(sql_session, name) == ([logs.url], True, None)
    loaded = sql_session.read.format("indextables").load(logs.url)
    assert loaded.schema == plain.schema
    searched = sql_session.read.option("search", "timeout").table(name)
    assert FOUND in plan_of(searched)
    assert rows_of(searched) == rows_of(logs.search("timeout"))
    scored = f"SELECT * FROM {name} WITH (search = 'timeout', score = true, columns = 'id')"
    if RELEASE >= (4, 3):
        assert sql_session.sql(scored).columns == ["id", "_score"]
        assert sql(scored) == rows_of(logs.search("timeout", score=True, columns=["id"]))
    else:
        assert "ConfigError: cannot read a table by its name with the option" in refusal(sql_session, scored)
    tasks = sql_session.read.option("search", "timeout").option("search.driver.maxRows", "1").table(name)
    assert PYTHON in plan_of(tasks)
    assert rows_of(tasks.select("id")) == rows_of(logs.search("timeout", columns=["id"]))
    best = sql_session.read.option("search", "timeout").option("limit", "3").table(name)
    assert best.filter("id >= 0").count() == 3
    both = searched.select("id").union(plain.select("id"))
    assert both.count() == logs.count("timeout") + 180


@follows_tables
def test_a_query_is_of_one_version_and_the_next_of_the_newest(sql_session, sql, name, tmp_path) -> None:
    table = make_logs(tmp_path / "moving")
    sql(f"CREATE TABLE {name} USING indextables LOCATION '{table.url}'")
    before = sql_session.table(name)
    table.append(log_rows(1_000))
    after = sql_session.table(name)
    joined = before.join(after.select("id"), "id", "full")
    assert joined.count() == 240
    assert len(set(re.findall(r"splits of version (\d+)", joined._jdf.queryExecution().toString()))) == 1
    assert (before.count(), after.count()) == (240, 240)
    assert sql(f"SELECT count(*) FROM {name} a JOIN {name} b ON a.id = b.id") == [(240,)]
    assert sql(f"SELECT count(*) FROM {name} VERSION AS OF 3") == [(180,)]
    assert sql_session.read.option("versionAsOf", 1).table(name).count() == 60
    later = "2999-01-01T00:00:00Z"
    assert sql(f"SELECT count(*) FROM {name} TIMESTAMP AS OF '{later}'") == [(240,)]
    assert "version 99" in refusal(sql_session, f"SELECT * FROM {name} VERSION AS OF 99")


@follows_tables
def test_a_query_that_runs_while_others_write_sees_whole_commits(sql_session, sql, name) -> None:
    sql(f"CREATE TABLE {name} (id BIGINT) USING indextables")
    table = it.Table.open(place_of(sql_session, name))
    for number in range(1, 6):
        held = sql_session.table(name)
        table.append(pa.table({"id": [number] * number}))
        pairs = held.join(held, "id").count()
        assert pairs == sum(count * count for count in range(1, number + 1))


def test_views_go_with_their_tables(sql_session, sql, name, logs) -> None:
    sql(f"CREATE TABLE {name} (id BIGINT, day STRING) USING indextables")
    sql(f"CREATE TEMPORARY VIEW temporary_{name} AS SELECT * FROM {name} WHERE id > 1")
    sql(f"CREATE VIEW kept_{name} AS SELECT day, count(*) AS n FROM {name} GROUP BY day")
    sql(f"INSERT INTO {name} VALUES (1, 'x'), (2, 'x')")
    assert sql(f"SELECT * FROM temporary_{name}") == [(2, "x")]
    assert sql(f"SELECT * FROM kept_{name}") == [("x", 2)]
    sql(f"INSERT INTO {name} VALUES (3, 'y')")
    assert sql(f"SELECT * FROM temporary_{name}") == [(2, "x"), (3, "y")]
    assert sql(f"SELECT * FROM kept_{name}") == [("x", 2), ("y", 1)]


def test_a_view_over_a_path_reads_and_writes(sql_session, sql, name, tmp_path) -> None:
    it.Table.create(tmp_path / "viewed", pa.schema([("id", pa.int64())]))
    sql(f"CREATE TEMPORARY VIEW {name} USING indextables OPTIONS (path '{tmp_path / 'viewed'}')")
    sql(f"INSERT INTO {name} VALUES (1), (2)")
    assert it.Table.open(tmp_path / "viewed").num_records == 2
    sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} USING indextables OPTIONS (path '{tmp_path / 'viewed'}')")
    assert sql(f"SELECT * FROM {name}") == [(1,), (2,)]


def test_what_is_changed_and_what_cannot_be(sql_session, sql, name) -> None:
    sql(f"CREATE TABLE {name} (id BIGINT, day STRING) USING indextables")
    sql(f"INSERT INTO {name} VALUES (1, 'x')")
    sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('checkpoint.interval'='7', 'team'='ours')")
    table = it.Table.open(place_of(sql_session, name))
    assert without_registry(table.metadata.configuration) == {"spark.indextables.checkpoint.interval": "7"}
    assert ("team", "ours") in sql(f"SHOW TBLPROPERTIES {name}")
    sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('spark.indextables.checkpoint.interval', 'team')")
    assert sql(f"SHOW TBLPROPERTIES {name}") == []
    version = table.refresh().version
    statements = {
        f"ALTER TABLE {name} SET TBLPROPERTIES ('checkpoint.interval'='-7')": "at least 1",
        f"ALTER TABLE {name} SET TBLPROPERTIES ('spark.indextables.nothing'='x')": "no such setting",
        f"ALTER TABLE {name} SET TBLPROPERTIES ('indexing.dya'='text')": "no column `dya`",
        f"ALTER TABLE {name} SET LOCATION '/tmp/elsewhere'": "drop it",
        f"ALTER TABLE {name} ADD COLUMN more INT": "do not change",
        f"ALTER TABLE {name} DROP COLUMN day": "do not change",
        f"TRUNCATE TABLE {name}": "not support truncates",
        f"DELETE FROM {name} WHERE id = 1": "not support deletes",
        f"UPDATE {name} SET id = 2": "not support UPDATE" if RELEASE >= (4, 1) else "UPDATE TABLE is not supported",
        f"MERGE INTO {name} t USING {name} s ON t.id = s.id WHEN MATCHED THEN DELETE": (
            "not support MERGE" if RELEASE >= (4, 1) else "MERGE INTO TABLE is not supported"
        ),
    }
    for statement, message in statements.items():
        said = refusal(sql_session, statement)
        assert message in said, said
        assert name in said or "checkpoint.interval" in said or "dya" in said or "temporarily" in said
    assert table.refresh().version == version
    sql(f"ALTER TABLE {name} RENAME TO moved_{name}")
    assert sql(f"SELECT * FROM moved_{name}") == [(1, "x")]
    sql(f"INSERT INTO moved_{name} VALUES (2, 'y')")
    assert sql(f"SELECT count(*) FROM moved_{name}") == [(2,)]


def test_options_and_settings_go_with_every_statement(sql_session, sql, name) -> None:
    sql(
        f"CREATE TABLE {name} (id BIGINT, part STRING) USING indextables PARTITIONED BY (part) "
        "OPTIONS ('write.optimizeWrite.enabled'='true', 'aws.secretKey'='hidden-away', 'search.driver.maxRows'='0')"
    )
    rows = sql_session.range(4_000).selectExpr("id", "cast(id % 4 AS string) AS part").repartition(6)
    rows.writeTo(name).append()
    table = it.Table.open(place_of(sql_session, name))
    assert (table.num_files, table.num_records) == (4, 4_000)
    assert PYTHON in plan_of(sql_session.read.option("search", "id:7").table(name))
    assert FOUND in plan_of(
        sql_session.read.option("search", "id:7").option("spark.indextables.search.driver.maxRows", "9").table(name)
    )
    rows.writeTo(name).option("write.optimizeWrite.enabled", "false").append()
    assert table.refresh().num_files == 28
    for text in ("DESCRIBE TABLE EXTENDED", "SHOW TBLPROPERTIES", "SHOW CREATE TABLE"):
        assert "hidden-away" not in str(sql(f"{text} {name}"))
    sql_session.conf.set("spark.indextables.indexing.part", "text")
    try:
        sql(f"CREATE TABLE by_session_{name} (part STRING) USING indextables")
    finally:
        sql_session.conf.unset("spark.indextables.indexing.part")
    shown = sql(f"SHOW TBLPROPERTIES by_session_{name}")
    assert shown == [("spark.indextables.indexing.typemap.part", "text")]


def test_an_entry_whose_table_is_gone_says_so_and_can_be_dropped(sql_session, sql, name) -> None:
    sql(f"CREATE TABLE {name} (id BIGINT) USING indextables")
    shutil.rmtree(place_of(sql_session, name))
    for text in (f"SELECT * FROM {name}", f"INSERT INTO {name} VALUES (1)"):
        assert "No transaction log found" in refusal(sql_session, text)
    assert (name, False) in {row[1:] for row in sql("SHOW TABLES")}
    sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("made_anew", [False, True])
def test_a_table_that_goes_while_a_statement_begins_is_not_made_by_it(spark, sql, name, tmp_path, made_anew) -> None:
    place = tmp_path / "going"
    answer = CatalogSide._write

    def interrupted(side: CatalogSide, asked: dict[str, Any]) -> dict[str, Any]:
        answered = answer(side, asked)
        shutil.rmtree(place)
        if made_anew:
            it.Table.create(place, pa.schema([("id", pa.int64())]))
        return answered

    with mock.patch.object(CatalogSide, "_write", interrupted):
        session = it.enable(spark.newSession())
    it.Table.create(place, pa.schema([("id", pa.int64())]))
    sql(f"CREATE TABLE {name} USING indextables LOCATION '{place}'")
    said = refusal(session, f"INSERT INTO catalog_tests.{name} VALUES (1)")
    assert isinstance(find_own_error(said), CommitConflictError)
    assert sql(f"SELECT * FROM {name}") == [] if made_anew else not place.exists()


def test_a_table_made_anew_under_its_name_is_another(sql_session, sql, name) -> None:
    sql(f"CREATE TABLE {name} USING indextables AS SELECT 1 AS id")
    held = sql_session.table(name)
    sql(f"DROP TABLE {name}")
    sql(f"CREATE TABLE {name} USING indextables AS SELECT 2 AS id")
    with pytest.raises((PySparkException, IndexTablesError), match=r"TABLE|another table is there now"):
        held.count()
    assert sql(f"SELECT * FROM {name}") == [(2,)]


def test_cached_tables_follow_writes(sql_session, sql, name) -> None:
    sql(f"CREATE TABLE {name} USING indextables AS SELECT 1 AS id")
    sql(f"CACHE TABLE {name}")
    sql(f"INSERT INTO {name} VALUES (2)")
    assert sql(f"SELECT * FROM {name}") == [(1,), (2,)]
    sql(f"UNCACHE TABLE {name}")


def other_source() -> type[DataSource]:
    """A source that reads one row, and refuses to write the row 13. Workers get the class itself."""

    class Other(DataSource):
        @classmethod
        def name(cls) -> str:
            return "other_source"

        def schema(self) -> str:
            return "id BIGINT"

        def reader(self, schema: Any) -> Any:
            class Reader(DataSourceReader):
                def read(self, partition: Any) -> Any:
                    yield (7,)

            return Reader()

        def writer(self, schema: Any, overwrite: bool) -> Any:
            class Writer(DataSourceWriter):
                def write(self, iterator: Any) -> WriterCommitMessage:
                    if 13 in {row.id for row in iterator}:
                        raise ValueError("not thirteen")
                    return WriterCommitMessage()

            return Writer()

    return Other


@pytest.mark.slow
def test_tables_of_other_formats_are_left_alone(sql_session, sql, name) -> None:
    sql_session.dataSource.register(other_source())
    sql(f"CREATE TABLE other_{name} USING other_source AS SELECT 1L AS id")
    assert sql(f"SELECT * FROM other_{name}") == [(7,)]
    sql(f"CREATE OR REPLACE TABLE other_{name} USING other_source AS SELECT 2L AS id")
    assert "not thirteen" in refusal(sql_session, f"CREATE TABLE bad_{name} USING other_source AS SELECT 13L AS id")
    assert f"bad_{name}" not in {row[1] for row in sql("SHOW TABLES")}
    sql(f"CREATE TABLE {name} USING parquet AS SELECT 1 AS id")
    sql(f"CREATE TABLE like_{name} LIKE {name}")
    sql(f"INSERT INTO {name} VALUES (2)")
    sql(f"ALTER TABLE {name} ADD COLUMN more INT")
    assert sql(f"SELECT * FROM {name}") == [(1, None), (2, None)]
    frame(sql_session, 3).write.mode("overwrite").saveAsTable(name)
    assert sql_session.table(name).count() == 3


def test_a_session_that_is_not_enabled_refuses(spark, connect, sql_session, sql, name, tmp_path) -> None:
    """Its catalog loses the places of tables: a refusal, never an empty table."""
    sql(f"CREATE TABLE {name} USING indextables AS SELECT 1 AS id")
    for session in (spark.newSession(), connect):
        table = f"catalog_tests.{name}"
        for text in (f"SELECT * FROM {table}", f"INSERT INTO {table} VALUES (2)"):
            error = find_own_error(refusal(session, text))
            assert isinstance(error, ConfigError)
            assert "indextables.enable" in str(error.hint)
    assert sql(f"SELECT * FROM {name}") == [(1,)]


def test_sessions_of_their_own_are_enabled_one_by_one(spark, sql_session, sql, name) -> None:
    sql(f"CREATE TABLE {name} USING indextables AS SELECT 1 AS id")
    other = sql_session.newSession()
    assert isinstance(find_own_error(refusal(other, f"SELECT * FROM catalog_tests.{name}")), ConfigError)
    assert it.enable(it.enable(other)) is other
    assert rows_of(other.sql(f"SELECT * FROM catalog_tests.{name}")) == [(1,)]
    clone = type(spark)(spark.sparkContext, sql_session._jsparkSession.cloneSession())
    assert isinstance(find_own_error(refusal(clone, f"SELECT * FROM catalog_tests.{name}")), ConfigError)
    it.enable(clone)
    assert rows_of(clone.sql(f"SELECT * FROM catalog_tests.{name}")) == [(1,)]


@pytest.mark.slow
def test_a_stream_meets_tables_of_the_catalog(sql_session, sql, name, tmp_path) -> None:
    """A stream runs in a copy of the session, which is not enabled by itself."""
    sql(f"CREATE TABLE {name} USING indextables AS SELECT id, concat('n', id) AS label FROM range(5)")
    sql(f"CREATE TABLE out_{name} (id BIGINT, label STRING) USING indextables")
    sql_session.range(3).write.parquet(str(tmp_path / "in"))
    stream = sql_session.readStream.schema("id BIGINT").parquet(str(tmp_path / "in"))
    joined = stream.join(sql_session.table(name), "id")

    def write(batch: Any, number: int) -> None:
        it.enable(batch.sparkSession)
        batch.write.insertInto(f"catalog_tests.out_{name}")

    query = joined.writeStream.foreachBatch(write).trigger(availableNow=True)
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.awaitTermination()
    assert sql(f"SELECT * FROM out_{name}") == [(0, "n0"), (1, "n1"), (2, "n2")]


def test_another_extension_of_the_catalog_is_joined(spark, sql_session, name) -> None:
    session = spark.newSession()
    java = session._jvm
    sources = java.java.util.HashMap()
    extended = "org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension"
    sources.put("other/Passing.java", f"package other; public class Passing extends {extended} {{}}".encode())
    finder = java.org.codehaus.commons.compiler.util.resource.MapResourceFinder(sources)
    parent = java.java.lang.Thread.currentThread().getContextClassLoader()
    loader = java.org.codehaus.janino.JavaSourceClassLoader(parent, finder, "UTF-8")
    passing = loader.loadClass("other.Passing").getDeclaredConstructors()[0].newInstance(None)
    manager = session._jsparkSession.sessionState().catalogManager()
    default = manager.getClass().getDeclaredField("defaultSessionCatalog")
    default.setAccessible(True)
    passing.setDelegateCatalog(default.get(manager))
    catalogs = manager.getClass().getDeclaredField("catalogs")
    catalogs.setAccessible(True)
    catalogs.get(manager).put("spark_catalog", passing)
    session.conf.set("spark.sql.catalog.spark_catalog", "other.Passing")
    it.enable(session)
    session.sql(f"CREATE TABLE catalog_tests.{name} (id BIGINT) USING indextables")
    session.sql(f"INSERT INTO catalog_tests.{name} VALUES (1)")
    assert rows_of(sql_session.table(name)) == rows_of(session.table(f"catalog_tests.{name}")) == [(1,)]


def test_another_catalog_in_its_place_is_said(spark) -> None:
    session = spark.newSession()
    bridge = mock.Mock(wraps=it.spark.jvm.gateway.bridge(session))
    bridge.joinCatalog.return_value = "some.other.Catalog"
    with (
        mock.patch("indextables.spark.jvm.gateway.bridge", return_value=bridge),
        pytest.warns(UserWarning, match="some.other"),
    ):
        it.enable(session)


@pytest.mark.slow
def test_random_statements_against_a_model(sql_session, sql, name) -> None:
    """A table in the catalog beside a dictionary of its partitions."""
    chance = random.Random(7)
    model: dict[str, list[int]] = {}
    sql(f"CREATE TABLE {name} (id BIGINT, day STRING) USING indextables PARTITIONED BY (day)")
    for number in range(10):
        rows = [(chance.randrange(100), chance.choice("abc")) for _ in range(chance.randrange(1, 4))]
        values = ", ".join(f"({value}, '{day}')" for value, day in rows)
        choice = chance.choice(["append", "append", "partition", "all", "dynamic", "replace"])
        if choice == "append":
            sql(f"INSERT INTO {name} VALUES {values}")
        elif choice == "partition":
            rows = [(value, "a") for value, _ in rows]
            sql(f"INSERT OVERWRITE {name} PARTITION (day='a') VALUES {', '.join(f'({value})' for value, _ in rows)}")
            model.pop("a", None)
        elif choice == "dynamic":
            sql_session.sql(f"SELECT * FROM VALUES {values} AS v(id, day)").writeTo(name).overwritePartitions()
            for _, day in rows:
                model.pop(day, None)
        else:
            verb = (
                f"INSERT OVERWRITE {name}"
                if choice == "all"
                else f"CREATE OR REPLACE TABLE {name} USING indextables AS"
            )
            sql(f"{verb} SELECT CAST(id AS BIGINT) AS id, day FROM VALUES {values} AS v(id, day)")
            model = {}
        for value, day in rows:
            model.setdefault(day, []).append(value)
        expected = sorted(((value, day) for day, found in model.items() for value in found), key=repr)
        assert sql(f"SELECT * FROM {name}") == expected, (number, choice)
