"""A name stands for the table that its plan reads; a copy in another format is no table of ours."""

from __future__ import annotations

import glob
import json
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StringType, StructField, StructType
from tests.spark.conftest import make_logs, rows_of

import indextables as it
from indextables.errors import QueryError
from indextables.spark.catalog.named_tables import named_tables

COMMANDS = (
    "DROP INDEXTABLES PARTITIONS FROM {} WHERE day = '2026-01-01'",
    "RESTORE INDEXTABLES {} TO VERSION 1",
    "DESCRIBE INDEXTABLES HISTORY {}",
    "TRUNCATE INDEXTABLES TIME TRAVEL {}",
)


@pytest.fixture
def table(tmp_path) -> it.Table:
    return make_logs(tmp_path / "source")


def load(session: Any, table: it.Table) -> Any:
    return session.read.format("indextables").load(table.url)


def refuse_all(session: Any, name: str, table: it.Table) -> None:
    for command in COMMANDS:
        with pytest.raises(QueryError, match=f"`{name}` is not a table of this format"):
            it.sql(session, command.format(name))
    for function in ("indextables_count({})", "indextables_table({})", "indextables_terms({}, 'level')"):
        with pytest.raises(QueryError, match=f"`{name}` is not a table of this format"):
            it.sql(session, f"SELECT * FROM {function.format(name)}")
    assert table.refresh().version == 3


def test_a_copy_in_files_of_another_format_is_no_table_of_ours(session, table, tmp_path) -> None:
    """By a save, whose files are then named by a view."""
    place = str(tmp_path / "copy")
    load(session, table).write.parquet(place)
    session.read.parquet(place).createOrReplaceTempView("copied")
    try:
        assert session.table("copied").count() == 180
        refuse_all(session, "copied", table)
    finally:
        session.catalog.dropTempView("copied")
    for file in glob.glob(f"{place}/*.parquet"):
        told = str(pq.read_schema(file).metadata)
        assert "indextables" not in told.lower()
        assert table.url not in told


def test_what_columns_say_of_themselves_does_not_count(session, table, tmp_path) -> None:
    """A file whose columns name a table in their metadata, whoever wrote it."""
    place = str(tmp_path / "named")
    field = {"name": "message", "field": "f0", "kind": "text", "type": "string"}
    named = {"indextables": {"table": table.url, "field": json.dumps(field)}}
    schema = StructType([StructField("message", StringType(), True, named)])
    session.createDataFrame([("one",), ("two",)], schema).write.parquet(place)
    session.read.parquet(place).createOrReplaceTempView("named")
    try:
        refuse_all(session, "named", table)
    finally:
        session.catalog.dropTempView("named")


@pytest.fixture
def source(enabled, table) -> Any:
    """A session with the table in its catalog as `src`; what else it makes is dropped."""
    enabled.sql("CREATE DATABASE identities")
    enabled.sql("USE identities")
    enabled.sql(f"CREATE TABLE src USING indextables LOCATION '{table.url}'")
    yield enabled
    enabled.sql("DROP DATABASE identities CASCADE")


def test_a_copy_in_the_catalog_is_no_table_of_ours(source, table) -> None:
    source.sql("CREATE TABLE bak USING parquet AS SELECT * FROM src")
    refuse_all(source, "bak", table)
    source.sql("INSERT INTO bak SELECT * FROM src WHERE textsearch(message, 'timeout')")
    assert source.table("bak").count() == 180 + table.count("timeout")
    shown = [row.data_type for row in source.sql("DESCRIBE EXTENDED bak").collect()]
    assert table.url not in str(shown)
    assert not any(field.metadata for field in source.table("bak").schema)
    with pytest.raises(QueryError, match="not a column of a table of this format"):
        source.sql("SELECT * FROM bak WHERE message TEXTSEARCH 'timeout'")
    source.sql("CREATE TABLE joined USING parquet AS SELECT s.id, b.message FROM src s JOIN bak b ON s.id = b.id")
    refuse_all(source, "joined", table)


def test_views_and_tables_stand_for_the_table_that_they_read(source, table) -> None:
    source.sql("CREATE VIEW kept AS SELECT id AS number, message FROM src WHERE id > 3")
    source.sql("CREATE TABLE other USING parquet AS SELECT * FROM src")
    source.sql("CREATE TEMPORARY VIEW beside AS SELECT src.message, o.level FROM src JOIN other o ON src.id = o.id")
    source.sql("CREATE TEMPORARY VIEW named AS WITH c AS (SELECT * FROM src) SELECT c.id AS n FROM c")
    source.sql("CREATE TEMPORARY VIEW theirs AS SELECT o.level FROM src JOIN other o ON src.id = o.id")
    try:
        for name in ("src", "identities.src", "spark_catalog.identities.src", "kept", "beside", "named"):
            assert it.sql(source, f"DESCRIBE INDEXTABLES STATE {name}").first().table_path == table.url, name
        with pytest.raises(QueryError, match="`theirs` is not a table of this format"):
            it.sql(source, "DESCRIBE INDEXTABLES STATE theirs")
        assert it.sql(source, "SELECT * FROM indextables_count(src)").first()[0] == 180
        for name in ("kept", "beside", "named"):
            with pytest.raises(QueryError, match=f"`{name}` is a view that does not select a whole table unchanged"):
                it.sql(source, f"SELECT * FROM indextables_count({name})")
    finally:
        for name in ("beside", "named", "theirs"):
            source.catalog.dropTempView(name)


def test_a_table_says_nothing_of_another_in_its_log(source, table) -> None:
    source.sql("CREATE TABLE ours USING indextables AS SELECT * FROM src")
    (place,) = named_tables(source, "ours").urls
    assert place != table.url
    assert table.url not in it.Table.open(place).metadata.schema_string
    assert rows_of(source.table("ours")) == rows_of(source.table("src"))


@pytest.mark.parametrize(
    "query",
    [
        "WITH c AS (SELECT * FROM src), d AS (SELECT id, message AS m FROM c) "
        "SELECT id FROM d WHERE m TEXTSEARCH 'timeout'",
        "SELECT id FROM (SELECT id, message AS m FROM src) WHERE m TEXTSEARCH 'timeout'",
        "SELECT a.id FROM src a JOIN src b ON a.id = b.id WHERE a.message TEXTSEARCH 'timeout' AND b.level IS NOT NULL "
        "UNION SELECT id FROM src WHERE level IS NULL AND message TEXTSEARCH 'timeout'",
        "SELECT id FROM src s WHERE EXISTS (SELECT 1 FROM src i WHERE i.id = s.id AND i.message TEXTSEARCH 'timeout')",
        "SELECT id FROM src WHERE id IN (SELECT id FROM src WHERE textsearch(*, 'timeout'))",
        "SELECT id FROM (SELECT max(id) AS id, message FROM src GROUP BY message HAVING message TEXTSEARCH 'timeout')",
        "SELECT id FROM src GROUP BY id, message, message TEXTSEARCH 'timeout' HAVING message TEXTSEARCH 'timeout'",
        "SELECT id FROM src, LATERAL (SELECT src.message AS m) WHERE m TEXTSEARCH 'timeout'",
    ],
)
def test_a_search_finds_its_column_through_a_plan(source, table, query) -> None:
    expected = sorted(table.search("timeout")["id"].to_pylist())
    assert sorted(row.id for row in source.sql(query).collect()) == expected


def test_a_search_stands_in_what_a_command_runs(source, table) -> None:
    hits = table.count("timeout")
    for made in ("USING parquet", "USING indextables"):
        source.sql(f"CREATE TABLE hits {made} AS SELECT id FROM src WHERE message TEXTSEARCH 'timeout'")
        source.sql("INSERT INTO hits SELECT id FROM src WHERE message TEXTSEARCH 'timeout'")
        assert source.table("hits").count() == 2 * hits
        source.sql("DROP TABLE hits")
    source.sql("CREATE VIEW hits AS SELECT id, message FROM src WHERE message TEXTSEARCH 'timeout'")
    assert source.sql("SELECT * FROM hits WHERE message TEXTSEARCH 'request'").count() == hits
    source.sql("CACHE TABLE kept AS SELECT * FROM src WHERE message TEXTSEARCH 'timeout'")
    assert source.table("kept").count() == hits
    source.sql("UNCACHE TABLE kept")
    assert "search: message TEXTSEARCH 'timeout'" in source.sql("EXPLAIN SELECT * FROM hits").first()[0]
