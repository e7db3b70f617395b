"""Tables by their paths in SQL, and statements in words of other formats, in every session."""

from __future__ import annotations

import pytest
from tests.spark.conftest import make_logs, rows_of

import indextables as it
from indextables.errors import QueryError, TableNotFoundError


@pytest.fixture
def table(tmp_path) -> it.Table:
    return make_logs(tmp_path / "it's here")


def test_a_table_is_read_by_its_path(session, table) -> None:
    path = f"indextables.`{table.url}`"
    assert rows_of(it.sql(session, f"SELECT * FROM {path}")) == rows_of(table.search())
    joined = f"SELECT count(*) FROM {path} a JOIN IndexTables . `{table.url}` VERSION AS OF 1 AS b ON a.id = b.id"
    assert it.sql(session, joined).first()[0] == 60
    moment = table.history(limit=1)["timestamp"][0].as_py().isoformat()
    travelled = f"SELECT count(*) AS n FROM {path} FOR TIMESTAMP AS OF '{moment}' WHERE id < 10"
    assert it.sql(session, travelled).first().n == 10
    nested = (
        f"SELECT * FROM (SELECT id FROM {path} VERSION AS OF '1') WHERE id IN (SELECT id FROM {path} WHERE id > 50)"
    )
    assert it.sql(session, nested).count() == 9
    with pytest.raises(TableNotFoundError):
        it.sql(session, "SELECT * FROM indextables.`/nowhere/at/all`").collect()


@pytest.mark.parametrize(
    "begin", ["INSERT INTO", "INSERT OVERWRITE TABLE", "DELETE FROM", "DESCRIBE TABLE", "CACHE TABLE"]
)
def test_what_cannot_be_done_by_a_path_says_what_can(spark, table, begin) -> None:
    with pytest.raises(QueryError, match="because Spark reads tables by their paths alone, at line 1") as raised:
        it.sql(spark, f"{begin} indextables.`{table.url}` VALUES (1)")
    assert "CREATE TABLE t USING indextables LOCATION" in str(raised.value)


def test_words_of_other_formats(session, table) -> None:
    assert it.sql(session, f'DESCRIBE HISTORY "{table.url}" LIMIT 2').count() == 2
    assert it.sql(session, f"VACUUM indextables.`{table.url}` RETAIN 168 HOURS DRY RUN").first().status == "DRY_RUN"
    session.read.format("indextables").load(table.url).createOrReplaceTempView("logs")
    try:
        assert it.sql(session, "OPTIMIZE logs WHERE day = '2026-01-01'").first().status == "SUCCESS"
        assert (
            it.sql(session, "DESCRIBE HISTORY logs").first().operation == table.history(limit=1)["operation"][0].as_py()
        )
        with pytest.raises(QueryError, match="`ZORDER`") as raised:
            it.sql(session, "OPTIMIZE logs ZORDER BY (id)")
        assert "MERGE SPLITS" in str(raised.value)
    finally:
        session.catalog.dropTempView("logs")
    session.range(3).createOrReplaceTempView("history")
    assert tuple(it.sql(session, "DESCRIBE history id").collect()[0]) == ("col_name", "id"), "a table and its column"
    session.catalog.dropTempView("history")
    with pytest.raises(TableNotFoundError, match="no table or view `nowhere`"):
        it.sql(session, "VACUUM nowhere")
