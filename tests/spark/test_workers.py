"""Spread work on a Spark session: every item once, in its place, errors as they were raised, secrets nowhere to be
seen; and other workers where no session runs."""

from __future__ import annotations

import functools
import operator
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from tests.spark.conftest import make_logs

from indextables.commands import parse_command
from indextables.errors import ConfigError, IndexTablesError, TableNotFoundError
from indextables.maintain.workers import InlineWorkers, workers_for, working_with
from indextables.runtime.cancellation import Cancellation, WorkCancelled, cancelled_by
from indextables.spark import workers
from indextables.spark.statements import commands as sql_commands
from indextables.spark.statements.commands import run_command
from indextables.spark.workers import SparkWorkers, enabled_workers
from indextables.table import Table
from indextables.transaction_log import TransactionLog


def results(spark, work, items, **limits):
    return list(SparkWorkers(spark).run(work, items, **limits))


def test_every_item_has_its_result_in_its_place(session):
    assert results(session, operator.neg, list(range(20))) == [(place, -place) for place in range(20)]
    assert results(session, operator.neg, []) == []


def test_a_single_item_goes_to_spark_too(session):
    ((_, process),) = results(session, operator.methodcaller("__call__"), [os.getpid])
    assert process != os.getpid()


def test_no_more_tasks_than_allowed_work_at_once(session):
    found = results(session, operator.methodcaller("__call__"), [os.getpid] * 4, at_once=1)
    assert len({process for _, process in found}) == 1
    assert results(session, operator.neg, range(7), at_once=2) == [(place, -place) for place in range(7)]


def test_items_and_results_of_any_kind(session):
    log = TransactionLog("/nowhere", options={"checkpoint.interval": 3})
    ((_, same),) = results(session, operator.itemgetter(0), [(log, b"\0\xff")])
    assert (same.url, same.options) == (log.url, log.options)
    ((_, made),) = results(session, functools.partial(int, base=16), ["ff"])
    assert made == 255


def test_an_error_of_the_work_is_raised_as_itself(session, tmp_path):
    with pytest.raises(TableNotFoundError, match="No transaction log found") as raised:
        results(session, Table.open, [str(tmp_path / "missing")])
    assert "Traceback" not in str(raised.value)
    with pytest.raises(ConfigError, match=r"cannot use `no` for `checkpoint\.interval`") as raised:
        results(session, functools.partial(TransactionLog, options={"checkpoint.interval": "no"}), ["/a", "/b"])
    assert type(raised.value) is ConfigError


def test_any_other_failure_is_an_error_of_the_library(session):
    with pytest.raises(IndexTablesError, match=r"cannot finish because .* failed with ZeroDivisionError: "):
        results(session, functools.partial(operator.floordiv, 1), [1, 0, 2])


def test_a_worker_that_dies_is_an_error_of_the_library(enabled):
    with pytest.raises(IndexTablesError, match="cannot finish because Spark could not do a part of the work") as raised:
        results(enabled, os._exit, [3])
    assert "py4j" not in str(raised.value).lower()


SECRET = "SUPER-SECRET-KEY-1234"


def test_secrets_of_items_stand_in_no_description(enabled):
    log = TransactionLog("/nowhere", options={"aws.secretKey": SECRET})
    assert workers._describe(functools.partial(Table.open, options=log.options), 1) == "indextables: table, 1 part"
    assert SECRET not in workers._describe(functools.partial(operator.eq, log), 2)


def test_secrets_of_items_stand_in_no_plan(connect, monkeypatch):
    frames, map_in_arrow = [], type(connect.range(1)).mapInArrow

    def kept(self, *given):
        frames.append(map_in_arrow(self, *given))
        return frames[-1]

    monkeypatch.setattr(type(connect.range(1)), "mapInArrow", kept)
    assert results(connect, functools.partial(operator.getitem, {SECRET: 1}), [SECRET]) == [(0, 1)]
    (frame,) = frames
    explained = frame._explain_string(extended=True)
    assert "MapInArrow" in explained
    assert SECRET not in explained


def test_the_description_of_jobs_is_as_before_afterwards(enabled, monkeypatch):
    context, seen = enabled.sparkContext, []
    collect = workers._ClassicJobs.collect

    def watched(*given):
        seen.append(context.getLocalProperty("spark.job.description"))
        return collect(*given)

    monkeypatch.setattr(workers._ClassicJobs, "collect", watched)
    context.setJobDescription("mine")
    try:
        results(enabled, Path, ["a", "b"])
        assert context.getLocalProperty("spark.job.description") == "mine"
    finally:
        context.setJobDescription(None)
    results(enabled, Path, ["a"])
    assert context.getLocalProperty("spark.job.description") is None
    assert seen == ["indextables: pathlib, 2 parts", "indextables: pathlib, 1 part"]


def test_a_worker_without_the_function_says_so(enabled):
    with pytest.raises(IndexTablesError, match=f"of the work: ModuleNotFoundError: No module named '{__name__}'"):
        results(enabled, local_function, [1])


def local_function(_):
    """The workers of Spark cannot find it."""


def test_a_repeated_row_counts_once(enabled, monkeypatch):
    collect = SparkWorkers._collect
    monkeypatch.setattr(SparkWorkers, "_collect", lambda *given: [*collect(*given)] * 2)
    assert results(enabled, operator.neg, [1, 2]) == [(0, -1), (1, -2)]


def test_a_lost_row_is_an_error(enabled, monkeypatch):
    collect = SparkWorkers._collect
    monkeypatch.setattr(SparkWorkers, "_collect", lambda *given: [*collect(*given)][1:])
    with pytest.raises(IndexTablesError, match="no result for part 0"):
        results(enabled, operator.neg, [1, 2])


def test_work_that_is_called_off_ends_its_jobs(enabled):
    cancellation = Cancellation()
    timer = threading.Timer(1.0, cancellation.cancel)
    timer.start()
    with cancelled_by(cancellation), pytest.raises(WorkCancelled):
        results(enabled, time.sleep, [60, 60])
    timer.join()
    with cancelled_by(cancellation), pytest.raises(WorkCancelled):
        results(enabled, operator.neg, [1])


def test_an_enabled_session_does_the_work_of_operations(enabled, tmp_path):
    table = make_logs(tmp_path / "table")
    offered = workers_for(table.log)
    assert isinstance(offered, SparkWorkers)
    assert offered.spark is enabled
    in_memory = TransactionLog("memory://workers/table")
    assert isinstance(workers_for(in_memory), InlineWorkers)


def test_a_relative_path_means_the_same_to_workers(enabled, tmp_path, monkeypatch):
    """They stand in the directory in which Spark was started."""
    monkeypatch.chdir(tmp_path)
    table = make_logs("table")
    assert table.merge_splits(target_size="1G")["status"].to_pylist() == ["SUCCESS"]
    assert table.fsck().num_rows == 0


def test_other_threads_of_the_process_have_the_workers_too(enabled, tmp_path):
    table = make_logs(tmp_path / "table")
    found = []

    def look():
        found.extend(workers_for(table.log).run(operator.neg, [1, 2]))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [(0, -1), (1, -2)]


def test_a_forked_child_has_none(enabled):
    assert enabled_workers.workers() is not None
    child = os.fork()
    if child == 0:
        os._exit(0 if enabled_workers.workers() is None else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_commands_give_their_work_to_the_session(session, tmp_path, monkeypatch):
    table, seen = make_logs(tmp_path / "table"), []

    def work(self, url, arguments, options):
        seen.append(workers_for(TransactionLog(url)))
        return table.state()

    monkeypatch.setattr(sql_commands.COMMANDS["state"].__class__, "run", work)
    run_command(session, parse_command(f"DESCRIBE INDEXTABLES STATE '{table.url}'"))
    run_command(session, parse_command("DESCRIBE INDEXTABLES STATE 'memory://workers/table'"))
    assert isinstance(seen[0], SparkWorkers)
    assert seen[0].spark is session
    assert isinstance(seen[1], InlineWorkers)


def test_splits_are_merged_checked_and_deleted_by_the_session(session, tmp_path):
    """The same answers and the same rows, whoever does the work."""
    table = make_logs(tmp_path / "table")
    for _ in range(3):
        table.append(table.search())
    before = sorted(map(str, table.search().to_pylist()))
    merged = run_command(session, parse_command(f"MERGE SPLITS '{table.url}' TARGET SIZE 1G")).toArrow().to_pylist()[0]
    assert (merged["status"], merged["merged_files"] > merged["merge_groups"] > 0) == ("SUCCESS", True)
    table.refresh()
    assert sorted(map(str, table.search().to_pylist())) == before
    with working_with(SparkWorkers(session)):
        assert table.fsck().num_rows == 0
        unchecked = Table.open(table.url, options={"purge.retentionCheckEnabled": "false"})
        purged = unchecked.purge(older_than="0 hours").to_pylist()[0]
    assert purged["orphaned_files_deleted"] == merged["merged_files"]
    assert sorted(map(str, table.search().to_pylist())) == before


def test_a_stopped_session_leaves_the_work_to_processes():
    script = """
        import operator
        import indextables as it
        from indextables.maintain.workers import LocalWorkers, workers_for
        from indextables.spark.workers import SparkWorkers
        from indextables.transaction_log import TransactionLog

        log = TransactionLog("/nowhere")
        assert isinstance(workers_for(log), LocalWorkers)
        spark = it.spark.session(master="local[1]")
        assert isinstance(workers_for(log), SparkWorkers)
        spark.stop()
        assert isinstance(workers_for(log), LocalWorkers)
        assert sorted(workers_for(log).run(operator.neg, [1, 2])) == [(0, -1), (1, -2)]
        spark = it.spark.session(master="local[1]")
        assert sorted(workers_for(log).run(operator.neg, [1, 2])) == [(0, -1), (1, -2)]
        assert isinstance(workers_for(log), SparkWorkers)
        print("done")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == "done", done.stderr
