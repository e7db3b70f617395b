"""Jobs of this process as people see them, and work in the background: one at a time for each table, called off
cleanly, unknown to forked children."""

from __future__ import annotations

import os
import signal
import threading

import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import StorageError
from indextables.maintain.merge.merge_jobs import MERGE_JOBS_SCHEMA, NO_ACTION, list_merge_jobs, merge_job
from indextables.runtime.background import Background
from indextables.runtime.caching import in_turn
from indextables.runtime.cancellation import Cancellation, WorkCancelled
from indextables.store import open_store
from indextables.store.cancellable import CancellableStore

LONG = 30


def jobs_of(log) -> list[dict]:
    return [job for job in list_merge_jobs().to_pylist() if job["table_path"] == log.url]


def test_a_job_is_shown_from_its_beginning_to_its_end(log):
    with merge_job(log) as job:
        assert jobs_of(log) == []
        job.begin(4)
        job.complete(1)
        (running,) = jobs_of(log)
        assert (running["status"], running["total_groups"], running["completed_groups"]) == ("RUNNING", 4, 1)
        assert (running["progress_pct"], running["error_message"]) == (25.0, None)
        job.complete(4)
    (done,) = jobs_of(log)
    assert (done["status"], done["progress_pct"], done["job_id"]) == ("SUCCESS", 100.0, running["job_id"])
    assert 0 <= running["duration_ms"] <= done["duration_ms"] == jobs_of(log)[0]["duration_ms"]
    assert list_merge_jobs().schema == MERGE_JOBS_SCHEMA


def test_what_did_not_begin_is_shown_only_where_it_failed(log):
    with merge_job(log):
        pass
    assert jobs_of(log) == []
    with pytest.raises(StorageError), merge_job(log):
        raise StorageError("cannot read because the store is gone", hint="look for it")
    (failed,) = jobs_of(log)
    assert (failed["status"], failed["error_message"]) == ("FAILED", "cannot read because the store is gone")
    assert failed["progress_pct"] == 0.0


def test_unforeseen_errors_are_shown_without_secrets(log):
    with pytest.raises(ValueError, match="sig"), merge_job(log):
        raise ValueError("https://account/x?sig=abcdef123")
    (failed,) = jobs_of(log)
    assert failed["error_message"] == "ValueError: https://account/x?sig=***"


def test_the_newest_come_first_and_the_oldest_are_dropped(log):
    for number in range(103):
        with merge_job(log) as job:
            job.begin(number)
            job.end(NO_ACTION)
    jobs = list_merge_jobs().to_pylist()
    assert [job["total_groups"] for job in jobs] == list(range(102, 2, -1))
    assert {job["status"] for job in jobs} == {"NO_ACTION"}


def test_a_forked_child_has_no_jobs(log):
    with merge_job(log) as job:
        job.begin(1)
        child = os.fork()
        if child == 0:
            os._exit(list_merge_jobs().num_rows)
        assert os.waitpid(child, 0)[1] == 0
    assert jobs_of(log)


def test_a_forked_child_reads_files_that_a_thread_was_reading(tmp_path):
    """As a merge in the background does: the thread is gone in the child, and never lets go of the files."""
    table = it.Table.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    files = table.log.snapshot().live_files
    held, done = threading.Event(), threading.Event()

    def read() -> None:
        with in_turn((id(files), "table")):
            held.set()
            done.wait(LONG)

    thread = threading.Thread(target=read)
    thread.start()
    assert held.wait(LONG)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(files.table.num_rows - 1)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_work_on_a_table_is_never_done_twice_at_a_time_and_remembered_once():
    background, gate, done = Background(), threading.Event(), []

    def first(_):
        gate.wait(LONG)
        done.append("first")

    background.begin("t", first, wait_seconds=LONG)
    for number in range(3):
        background.begin("t", lambda _, number=number: done.append(number), wait_seconds=LONG)
    background.begin("other", lambda _: done.append("other"), wait_seconds=LONG)
    assert background.wait("other", LONG)
    background.run_here("t", lambda _: done.append("here"))
    assert done == ["other"]
    gate.set()
    assert background.wait("t", LONG)
    assert done == ["other", "first", 2]
    background.run_here("t", lambda _: done.append("here"))
    assert done[-1] == "here"


def test_what_is_asked_for_while_a_caller_works_is_left_to_the_next_one():
    background, done = Background(), []

    def here(_):
        background.begin("t", lambda _: done.append("background"), wait_seconds=LONG)
        background.run_here("t", lambda _: done.append("twice"))

    background.run_here("t", here)
    assert background.wait("t", 0)
    assert done == []


def test_a_table_is_free_again_after_work_that_failed(monkeypatch):
    background, done, told = Background(), [], threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: told.set())

    def fail(_):
        raise ValueError("unforeseen")

    background.begin("t", fail, wait_seconds=LONG)
    assert background.wait("t", LONG)
    assert told.wait(LONG)
    with pytest.raises(ValueError, match="unforeseen"):
        background.run_here("t", fail)
    background.begin("t", lambda _: done.append(1), wait_seconds=LONG)
    assert background.wait("t", LONG)
    assert done == [1]


def test_work_that_is_called_off_does_not_touch_the_store(tmp_path):
    inner, cancellation = open_store(str(tmp_path / "t"), it.config.Config.resolve()), Cancellation()
    store = CancellableStore(inner, cancellation)
    (tmp_path / "local").write_bytes(b"rows")
    store.put_file("mine.split", str(tmp_path / "local"))
    store.put("theirs.split", b"rows")
    store.put("other", b"1")
    cancellation.cancel()
    for call in (
        lambda: store.put("other", b"2"),
        lambda: store.put_if_absent("new", b"2"),
        lambda: store.put_file("new", str(tmp_path / "local")),
        lambda: store.get("other"),
        lambda: store.get_range("other", 0, 1),
        lambda: store.get_ranges("other", [(0, 1)]),
        lambda: store.head("other"),
        lambda: list(store.list()),
        lambda: store.delete("theirs.split"),
        lambda: store.delete_many(["mine.split", "theirs.split"]),
    ):
        with pytest.raises(WorkCancelled):
            call()
    assert sorted(meta.key for meta in inner.list()) == ["mine.split", "other", "theirs.split"]
    assert inner.get("other") == b"1"
    store.delete_many(["mine.split"])
    assert sorted(meta.key for meta in inner.list()) == ["other", "theirs.split"]


def test_those_who_wait_elsewhere_are_told_once():
    cancellation, told = Cancellation(), []
    with cancellation.notifying(lambda: told.append("early")):
        pass
    with cancellation.notifying(lambda: told.append("waiting")):
        cancellation.cancel()
    assert told == ["waiting"]
    with pytest.raises(WorkCancelled), cancellation.notifying(lambda: told.append("late")):
        pass
    assert told == ["waiting"]
