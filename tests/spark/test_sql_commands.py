"""Commands of SQL on classic sessions, enabled or not, and on Connect: names resolve, answers are DataFrames."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.spark.conftest import log_rows, make_logs

import indextables as it
from indextables.commands import COMMANDS, parse_command
from indextables.errors import ConfigError, QueryError, TableNotFoundError
from indextables.maintain.merge import merge_jobs
from indextables.predicate.source import show_place
from indextables.spark.jvm import gateway
from indextables.spark.statements.commands import run_command


def run(spark, text):
    return run_command(spark, parse_command(text))


@pytest.fixture
def table(tmp_path):
    return make_logs(tmp_path / "table")


@pytest.fixture
def view(session, table):
    """A temporary view of the table, which ends with the test."""
    session.read.format("indextables").load(table.url).createOrReplaceTempView("commanded")
    yield "commanded"
    session.catalog.dropTempView("commanded")


@pytest.mark.parametrize("name", ["CHECKPOINT", "COMPACT"])
def test_checkpoint(session, table, name):
    answer = run(session, f"{name} INDEXTABLES '{table.url}'")
    assert answer.columns == COMMANDS["checkpoint"].schema.names
    (row,) = answer.collect()
    assert row.asDict() == {
        "table_path": table.url,
        "status": "SUCCESS",
        "checkpoint_version": 3,
        "num_actions": 8,
        "num_files": 6,
        "protocol_version": 4,
        "is_multi_part": False,
    }
    assert table.state()["format"].to_pylist() == ["avro-state"]
    assert answer.collect() == [row]
    assert table.log.versions()[-1] == 3, "a command runs once, however often its answer is read"


def test_state_with_skipped_files(session, table):
    assert run(session, f"DESCRIBE INDEXTABLES STATE '{table.url}'").first().skipped_files == []
    path = table.files()["path"][0].as_py()
    table.log.record_skipped_file(path, reason="odd", cooldown_hours=1)
    (row,) = run(session, f"DESCRIBE INDEXTABLES STATE '{table.url}'").collect()
    assert (row.format, row.version, row.num_files, row.num_skipped, row.status) == ("none", 4, 6, 1, "OK")
    (skip,) = row.skipped_files
    assert skip.asDict().keys() == {"path", "reason", "skip_count", "retry_after"}
    assert (skip.path, skip.reason, skip.skip_count) == (path, "odd", 1)


def test_the_transaction_log(session, table):
    expected = table.describe_log()
    answer = run(session, f"DESCRIBE INDEXTABLES TRANSACTION LOG '{table.url}'")
    assert answer.columns == expected.column_names
    rows = answer.collect()
    assert [(row.version, row.action_type, row.path) for row in rows] == list(
        zip(*(expected[name].to_pylist() for name in ("version", "action_type", "path")), strict=True)
    )
    adds = [row for row in rows if row.action_type == "add"]
    assert adds[0].partition_values == {"day": "2026-01-01"}
    table.checkpoint()
    assert run(session, f"DESCRIBE INDEXTABLES TRANSACTION LOG '{table.url}'").filter("is_checkpoint").count() == 8
    everything = run(session, f"DESCRIBE INDEXTABLES TRANSACTION LOG '{table.url}' INCLUDE ALL")
    assert everything.filter("is_checkpoint").count() == 0
    assert everything.count() == expected.num_rows


def test_the_history(session, table):
    answer = run(session, f"DESCRIBE INDEXTABLES HISTORY '{table.url}' LIMIT 2")
    assert answer.columns == COMMANDS["history"].schema.names
    rows = answer.collect()
    assert [(row.version, row.operation, row.files_added, row.records_added) for row in rows] == [
        (3, "WRITE", 2, 60),
        (2, "WRITE", 2, 60),
    ]
    assert rows[0].parameters == {"mode": "Append"}
    assert rows[0].timestamp > rows[1].timestamp.replace(year=2000)
    assert run(session, f"DESCRIBE INDEXTABLES HISTORY '{table.url}'").count() == 4


def test_no_rows(session, monkeypatch):
    monkeypatch.setattr(merge_jobs, "_jobs", merge_jobs._Jobs())
    answer = run(session, "DESCRIBE INDEXTABLES MERGE JOBS")
    assert answer.columns == COMMANDS["merge_jobs"].schema.names
    assert answer.collect() == []


@pytest.fixture
def cache(session, tmp_path):
    """A cache on local disk of the test's own."""
    session.conf.set("spark.indextables.cache.disk.path", str(tmp_path / "cache"))
    yield str(tmp_path / "cache")
    for key in ("path", "enabled"):
        session.conf.unset(f"spark.indextables.cache.disk.{key}")


def test_caches(session, table, view, cache):
    place = table.url
    assert session.table(view).count() == 180
    opened = it.Table.open(place, options={"cache.disk.path": cache})
    assert opened.count("timeout") > 0
    (row,) = run(session, f"INVALIDATE INDEXTABLES TRANSACTION LOG CACHE FOR {view}").collect()
    assert (row.table_path, row.result) == (place, "INVALIDATED")
    assert row.cache_hits_before + row.cache_misses_before > 0
    assert place in {row.table_path for row in run(session, "INVALIDATE INDEXTABLES TRANSACTION LOG CACHE").collect()}
    searchers, indexes, rows = run(session, "FLUSH INDEXTABLES SEARCHER CACHE").collect()
    assert (searchers.cache_type, searchers.status) == ("searchers", "FLUSHED")
    assert searchers.cleared_entries >= 6
    assert (indexes.cache_type, indexes.status, indexes.cleared_entries) == ("indexes", "FLUSHED", 6)
    assert (rows.cache_type, rows.status) == ("rows", "FLUSHED")
    assert opened.count("timeout") == 23
    assert session.table(view).count() == 180
    session.conf.set("spark.indextables.cache.disk.enabled", "false")
    assert run(session, "FLUSH INDEXTABLES SEARCHER CACHE").collect()[1].status == "SWITCHED OFF"


def test_names_resolve_to_their_table(session, table, view):
    assert run(session, f"CHECKPOINT INDEXTABLES {view}").first().table_path == table.url
    session.sql(f"SELECT id AS number, upper(level) AS loud FROM {view} WHERE id > 5").createOrReplaceTempView("above")
    try:
        assert run(session, "DESCRIBE INDEXTABLES STATE `above`").first().table_path == table.url
    finally:
        session.catalog.dropTempView("above")
    table.append(log_rows(1000))
    assert run(session, f"DESCRIBE INDEXTABLES HISTORY {view.upper()} LIMIT 1").first().version == 4


def test_names_that_are_not_one_table(session, table, view, tmp_path):
    other = make_logs(tmp_path / "other")
    session.read.format("indextables").load(other.url).createOrReplaceTempView("others")
    session.sql(f"SELECT a.id, b.message FROM {view} a JOIN others b ON a.id = b.id").createOrReplaceTempView("both")
    session.range(3).createOrReplaceTempView("numbers")
    session.sql(f"SELECT count(*) AS n FROM {view}").createOrReplaceTempView("computed")
    try:
        text = "COMPACT INDEXTABLES both"
        with pytest.raises(QueryError, match=r"`both` (has columns of several tables|is unknown)") as caught:
            run(session, text)
        if gateway.is_classic(session):
            assert table.url in str(caught.value)
            assert other.url in str(caught.value)
        assert show_place(text, text.index("both")) in str(caught.value)
        for name in ("numbers", "computed"):
            reason = f"`{name}` (is not a table of this format|is unknown.*), at line 1"
            with pytest.raises(QueryError, match=reason):
                run(session, f"COMPACT INDEXTABLES {name}")
    finally:
        for name in ("others", "both", "numbers", "computed"):
            session.catalog.dropTempView(name)
    assert table.state()["format"].to_pylist() == ["none"]


@pytest.mark.parametrize("name", ["nowhere", "`no where`", "no.where", "spark_catalog.no.where", "a.b.c.d", "limit"])
def test_names_that_are_not_there(session, name):
    text = f"/* it's */\nDESCRIBE INDEXTABLES STATE {name}"
    with pytest.raises(TableNotFoundError) as caught:
        run(session, text)
    assert f"cannot describe the state because there is no table or view `{name}`, at " in str(caught.value)
    assert show_place(text, text.index(name)) in str(caught.value)


def test_paths_where_no_table_is(session, tmp_path):
    with pytest.raises(TableNotFoundError, match="No transaction log found"):
        run(session, f"DESCRIBE INDEXTABLES STATE '{tmp_path / 'none'}'")


def test_settings_of_the_session(session, table):
    session.conf.set("spark.indextables.state.format", "json")
    try:
        run(session, f"CHECKPOINT INDEXTABLES '{table.url}'")
        assert table.state()["format"].to_pylist() == ["json"]
        session.conf.set("spark.indextables.state.format", "odd")
        with pytest.raises(ConfigError, match="format"):
            run(session, f"CHECKPOINT INDEXTABLES '{table.url}'")
    finally:
        session.conf.unset("spark.indextables.state.format")


def test_a_life_in_sql(session, table, view, tmp_path):
    """Every command that changes a table, by name, one after the other."""
    rows = sorted(map(str, table.search().to_pylist()))
    days = len(set(table.search()["day"].to_pylist()))
    plan = run(session, f"MERGE SPLITS {view} TARGET SIZE 1G MAX DEST SPLITS 9 DRY RUN").first()
    assert (plan.status, plan.merged_files, table.refresh().version) == ("DRY_RUN", 6, 3)
    merged = run(session, f"MERGE SPLITS {view} TARGET SIZE 1G MAX SOURCE SPLITS PER MERGE 100").first()
    assert (merged.status, merged.merge_groups, table.refresh().num_files) == ("SUCCESS", days, days)
    assert sorted(map(str, table.search().to_pylist())) == rows
    dropped = run(session, f"DROP INDEXTABLES PARTITIONS FROM {view} WHERE day IS NOT NULL").first()
    assert (dropped.partitions_dropped, table.refresh().num_records) == (days, 0)
    restored = run(session, f"RESTORE INDEXTABLES {view} TO VERSION 3").first()
    assert (restored.restored_version, restored.files_added, restored.files_removed) == (3, 6, 0)
    assert sorted(map(str, table.refresh().search().to_pylist())) == rows
    moment = table.history(limit=1)["timestamp"][0].as_py().isoformat()
    assert run(session, f"RESTORE INDEXTABLES {view} TO TIMESTAMP '{moment}'").first().status == "NO_ACTION"
    purged = run(
        session, f"PURGE INDEXTABLE {view} OLDER THAN 7 DAYS TRANSACTION LOG RETENTION 48 HOURS DRY RUN"
    ).first()
    assert (purged.status, purged.orphaned_files_found, purged.retention_hours) == ("DRY_RUN", 0, 168)
    with pytest.raises(ConfigError, match="purge"):
        run(session, f"PURGE INDEXTABLES {view} OLDER THAN 1 HOURS")
    truncated = run(session, f"TRUNCATE INDEXTABLES TIME TRAVEL {view}").first()
    assert (truncated.status, truncated.files_preserved) == ("SUCCESS", 6)
    clean = tmp_path / "clean"
    repaired = run(session, f"REPAIR INDEXFILES TRANSACTION LOG '{table.url}' AT LOCATION '{clean}'").first()
    assert (repaired.status, repaired.valid_splits, repaired.missing_splits) == ("SUCCESS", 6, 0)
    assert run(session, f"REPAIR INDEXFILES TRANSACTION LOG '{table.url}'").first().status == "VALID"
    assert sorted(map(str, table.refresh().search().to_pylist())) == rows


WITHOUT_PANDAS = """
import sys

class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoPandas())
from tests.spark.spark_sessions import spark_session
from indextables.commands import parse_command
from indextables.spark import jvm
from indextables.spark.statements.commands import run_command

with spark_session(sys.argv[2]) as spark:
    for asked in ("STATE '{}'", "HISTORY '{}'", "MERGE JOBS"):
        text = "DESCRIBE INDEXTABLES " + asked.format(sys.argv[1])
        print(run_command(spark, parse_command(text)).count())
"""


@pytest.mark.slow
def test_pandas_is_not_needed(spark, table, tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_PANDAS, table.url, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["1", "4", "0"]), done.stderr
