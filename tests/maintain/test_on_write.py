"""Tables that look after themselves: merges and purges after writes, which never fail the write, keep every row, are
waited for at the end of the process, and cost nothing where they are not asked for."""

from __future__ import annotations

import logging
import math
import os
import random
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from tests.doubles.faulty_store import Call, Fault, FaultyStore
from tests.doubles.metered_store import MeteredStore

import indextables as it
from indextables.errors import StorageError
from indextables.maintain import on_write
from indextables.maintain.merge.merge_jobs import list_merge_jobs
from indextables.runtime.background import BACKGROUND
from indextables.store import open_store

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string()), ("day", pa.string())])
MERGE = {"spark.indextables.mergeOnWrite.enabled": "true"}
FOREGROUND = {**MERGE, "spark.indextables.mergeOnWrite.async.enabled": "false"}
PURGE = {"spark.indextables.purgeOnWrite.enabled": "true", "spark.indextables.mergeOnWrite.async.enabled": "false"}
ENOUGH = 12
LONG = 30


def rows(first: int, count: int = 5, days: int = 1) -> pa.Table:
    numbers = range(first, first + count)
    return pa.Table.from_pylist(
        [{"id": n, "message": f"row number {n}", "day": f"2026-01-0{1 + n % days}"} for n in numbers], SCHEMA
    )


def make_table(place, *, store=None, days: int = 1) -> it.Table:
    """A table of many small splits, nothing of it merged."""
    log = it.TransactionLog(place, store=store)
    log.initialize(
        SCHEMA, partition_columns=("day",), configuration={"spark.indextables.indexing.typemap.message": "text"}
    )
    table = it.Table(log, log.snapshot())
    for number in range(ENOUGH):
        table.append(rows(5 * number, days=days))
    return table


def jobs_of(table: it.Table) -> list[dict]:
    return [job for job in table.merge_jobs().to_pylist() if job["table_path"] == table.url]


def ids(table: it.Table) -> list[int]:
    return sorted(table.refresh().search(columns=["id"])["id"].to_pylist())


def operations(table: it.Table) -> list[str]:
    return table.history()["operation"].to_pylist()


@pytest.fixture
def table(tmp_path) -> it.Table:
    return make_table(tmp_path / "t")


def test_a_merge_runs_in_the_background_and_is_seen_there(tmp_path):
    gate = threading.Event()
    table = make_table(tmp_path / "t", store=_GatedStore(tmp_path / "t", gate))
    table.set_properties(MERGE)
    version = table.append(rows(60))
    try:
        assert table.version == version, "the write does not wait"
        assert _GatedStore.reached.wait(LONG)
        (job,) = jobs_of(table)
        assert (job["status"], job["completed_groups"], job["error_message"]) == ("RUNNING", 0, None)
        assert job["total_groups"] >= 1
    finally:
        gate.set()
    assert BACKGROUND.wait(table.url, LONG)
    (job,) = jobs_of(table)
    assert (job["status"], job["completed_groups"], job["progress_pct"]) == ("SUCCESS", job["total_groups"], 100.0)
    assert ids(table) == list(range(65))
    assert table.num_files < ENOUGH
    assert operations(table).count("MERGE") == 1


class _GatedStore(MeteredStore):
    """Holds the background up at its first look into a split, until the gate opens."""

    reached = threading.Event()

    def __init__(self, place, gate: threading.Event) -> None:
        super().__init__(open_store(str(place), it.config.Config.resolve()))
        self._gate = gate
        _GatedStore.reached.clear()

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self._pass(key)
        return super().get_range(key, start, end)

    def get_ranges(self, key: str, ranges) -> list[bytes]:
        self._pass(key)
        return super().get_ranges(key, ranges)

    def _pass(self, key: str) -> None:
        if key.endswith(".split") and threading.current_thread().name == "indextables-background":
            _GatedStore.reached.set()
            self._gate.wait(LONG)


def test_a_merge_is_part_of_the_write_where_that_is_asked_for(table):
    table.set_properties(FOREGROUND)
    version = table.append(rows(60))
    assert table.version > version
    (job,) = jobs_of(table)
    assert job["status"] == "SUCCESS"
    assert ids(table) == list(range(65))
    assert table.num_files < ENOUGH
    assert table.count("message:number") == 65


def test_an_overwrite_looks_after_the_table_too(table):
    table.set_properties(FOREGROUND)
    table.overwrite(rows(0), where="day = '2026-01-01'")
    assert jobs_of(table) == [], "there is one split"
    table.set_properties({"spark.indextables.mergeOnWrite.enabled": "false"})
    for number in range(5, 60, 5):
        table.append(rows(number))
    table.set_properties(FOREGROUND)
    table.overwrite(rows(0, 0), where="day = '2026-01-09'")
    assert [job["status"] for job in jobs_of(table)] == ["SUCCESS"]
    assert ids(table) == list(range(60))


def test_nothing_is_merged_below_the_threshold(tmp_path):
    table = make_table(tmp_path / "t", days=2)
    table.set_properties({**FOREGROUND, "spark.indextables.mergeOnWrite.minBatchesToTrigger": "3"})
    table.append(rows(60, days=2))
    assert jobs_of(table) == []
    assert "MERGE" not in operations(table)
    table.set_properties({"spark.indextables.mergeOnWrite.minBatchesToTrigger": "2"})
    table.append(rows(65, days=2))
    (job,) = jobs_of(table)
    assert (job["status"], job["total_groups"]) == ("SUCCESS", 2)
    assert ids(table) == list(range(70))


@pytest.mark.parametrize("layer", ["option", "session", "property"])
def test_settings_of_every_layer(tmp_path, layer):
    make_table(tmp_path / "t")
    log = it.TransactionLog(
        tmp_path / "t",
        options=FOREGROUND if layer == "option" else None,
        session=FOREGROUND if layer == "session" else None,
    )
    table = it.Table(log, log.snapshot())
    if layer == "property":
        table.set_properties(FOREGROUND)
    table.append(rows(60))
    assert [job["status"] for job in jobs_of(table)] == ["SUCCESS"]


def test_a_damaged_split_fails_the_merge_and_not_the_write(table, caplog):
    damaged = Path(table.url, table.files()["path"][0].as_py())
    content = damaged.read_bytes()
    damaged.write_bytes(bytes(len(content)))
    table.set_properties(FOREGROUND)
    with caplog.at_level(logging.WARNING):
        version = table.append(rows(60))
    assert version in table.log.versions()
    (job,) = jobs_of(table)
    assert job["status"] in ("FAILED", "PARTIAL")
    assert damaged.name in job["error_message"]
    assert any(damaged.name in record.getMessage() for record in caplog.records)
    table.append(rows(65))
    assert all(damaged.name not in (job["error_message"] or "") for job in jobs_of(table)[:-1]), "it is in cooldown"
    damaged.write_bytes(content)
    assert ids(table) == list(range(70))


@pytest.mark.parametrize("is_async", ["true", "false"])
def test_a_store_that_fails_the_merge_does_not_fail_the_write(tmp_path, is_async, caplog):
    url, failing = str(tmp_path / "t"), threading.Event()

    def script(call: Call) -> Fault:
        """Puts of splits fail, except the one that the write itself makes."""
        is_split = call.verb == "put" and call.key.endswith(".split")
        if is_split and failing.is_set():
            return Fault.UNAVAILABLE
        if is_split and armed:
            failing.set()
        return Fault.NONE

    armed: list[bool] = []
    store = FaultyStore(open_store(url, it.config.Config.resolve()), script)
    table = make_table(url, store=store)
    table.set_properties({**MERGE, "spark.indextables.mergeOnWrite.async.enabled": is_async})
    armed.append(True)
    with caplog.at_level(logging.WARNING):
        version = table.append(rows(60))
        assert BACKGROUND.wait(table.url, LONG)
    assert version in table.log.versions()
    (job,) = jobs_of(table)
    assert job["status"] == "FAILED"
    assert "injected: put of" in job["error_message"]
    assert any("injected: put of" in record.getMessage() for record in caplog.records)
    failing.clear()
    armed.clear()
    assert ids(table) == list(range(65))
    table.append(rows(65))
    assert BACKGROUND.wait(table.url, LONG)
    assert ids(table) == list(range(70))


@pytest.mark.parametrize("is_async", ["true", "false"])
def test_what_nobody_foresaw_does_not_fail_the_write(table, monkeypatch, caplog, is_async):
    def fail(*_):
        raise ZeroDivisionError("odd")

    monkeypatch.setattr(on_write, "plan_merge", fail)
    table.set_properties({**MERGE, "spark.indextables.mergeOnWrite.async.enabled": is_async})
    version = table.append(rows(60))
    assert BACKGROUND.wait(table.url, LONG)
    assert version in table.log.versions()
    (job,) = jobs_of(table)
    assert (job["status"], job["error_message"]) == ("FAILED", "ZeroDivisionError: odd")
    assert any(record.exc_info for record in caplog.records)


def test_a_write_is_not_failed_by_a_background_that_cannot_begin(table, monkeypatch, caplog):
    def refuse(*_, **__):
        raise RuntimeError("can't start new thread")

    table.set_properties(MERGE)
    monkeypatch.setattr(on_write.BACKGROUND, "_watch_exit", refuse)
    assert table.append(rows(60)) in table.log.versions()
    assert any("nothing is done after a write" in record.getMessage() for record in caplog.records)
    assert BACKGROUND.wait(table.url, 0)


def test_a_merge_that_is_called_off_leaves_nothing(tmp_path):
    gate = threading.Event()
    table = make_table(tmp_path / "t", store=_GatedStore(tmp_path / "t", gate), days=2)
    table.set_properties(MERGE)
    before = table.append(rows(60, days=2))
    assert _GatedStore.reached.wait(LONG)
    splits = set(Path(table.url).rglob("*.split"))
    BACKGROUND._runs[table.url].cancellation.cancel()
    gate.set()
    assert BACKGROUND.wait(table.url, LONG)
    (job,) = jobs_of(table)
    assert job["status"] == "CANCELLED"
    assert "cancelled" in job["error_message"]
    assert table.refresh().version == before
    assert set(Path(table.url).rglob("*.split")) == splits
    assert ids(table) == list(range(65))


def test_a_purge_after_so_many_writes(table):
    orphan = _orphan(table)
    table.set_properties(
        {
            **PURGE,
            "spark.indextables.purgeOnWrite.triggerAfterWrites": "3",
            "spark.indextables.purgeOnWrite.splitRetentionHours": "24",
        }
    )
    for number in (60, 65):
        table.append(rows(number))
        assert orphan.exists()
    table.append(rows(70))
    assert not orphan.exists()
    orphan = _orphan(table)
    table.append(rows(75))
    assert orphan.exists(), "it counts from the last purge"
    assert ids(table) == list(range(80))


def test_a_purge_after_a_merge(table):
    orphan = _orphan(table)
    table.set_properties({**FOREGROUND, **PURGE, "spark.indextables.purgeOnWrite.triggerAfterMerge": "false"})
    table.append(rows(60))
    assert "MERGE" in operations(table)
    assert orphan.exists()
    table.set_properties(
        {
            "spark.indextables.purgeOnWrite.triggerAfterMerge": "true",
            "spark.indextables.purgeOnWrite.splitRetentionHours": "24",
        }
    )
    number = 65
    while operations(table).count("MERGE") == 1:
        assert orphan.exists()
        table.append(rows(number))
        number += 5
    assert not orphan.exists()
    assert ids(table) == list(range(number))


def _orphan(table: it.Table) -> Path:
    """A split that no version names, two days old."""
    orphan = Path(table.url, "part-00000-0b7ae4a0-5a3c-4f0e-9d5c-2f0d3c9f5a11.split")
    orphan.write_bytes(b"left behind")
    old = orphan.stat().st_mtime - 48 * 3600
    os.utime(orphan, (old, old))
    return orphan


def test_a_purge_that_fails_is_told_and_does_not_fail_the_write(table, monkeypatch, caplog):
    def fail(*_, **__):
        raise StorageError("cannot list the table")

    monkeypatch.setattr(on_write, "purge", fail)
    table.set_properties({**PURGE, "spark.indextables.purgeOnWrite.triggerAfterWrites": "1"})
    assert table.append(rows(60)) in table.log.versions()
    (job,) = jobs_of(table)
    assert (job["status"], job["error_message"]) == ("FAILED", "cannot list the table")
    assert any("are not purged" in record.getMessage() for record in caplog.records)


def test_the_retention_of_a_purge_is_that_of_the_settings(table, monkeypatch):
    seen = []
    monkeypatch.setattr(on_write, "purge", lambda log, **given: seen.append((log.url, given)))
    retention = {
        "spark.indextables.purgeOnWrite.triggerAfterWrites": "1",
        "spark.indextables.purgeOnWrite.splitRetentionHours": "48",
        "spark.indextables.purgeOnWrite.txLogRetentionHours": "96",
    }
    table.set_properties({**PURGE, **retention, "spark.indextables.mergeOnWrite.async.enabled": "true"})
    table.append(rows(60))
    assert BACKGROUND.wait(table.url, LONG)
    assert seen == [(table.url, {"older_than": "48 hours", "log_retention": "96 hours"})]


@pytest.mark.parametrize("is_async", ["true", "false"])
def test_many_writes_keep_every_row_and_few_splits(tmp_path, is_async):
    dice = random.Random(11 + len(is_async))
    properties = {
        **MERGE,
        **PURGE,
        "spark.indextables.mergeOnWrite.async.enabled": is_async,
        "spark.indextables.purgeOnWrite.triggerAfterWrites": "7",
    }
    table = it.Table.create(tmp_path / "t", SCHEMA, properties=properties, indexing={"message": "text"})
    num_rows, num_writes, most_files = 0, 60, 0
    for _ in range(num_writes):
        count = dice.choice([20, 40, 80])
        table.append(_long_rows(dice, num_rows, count))
        num_rows += count
        most_files = max(most_files, table.num_files)
    assert BACKGROUND.wait(table.url, LONG)
    assert ids(table) == list(range(num_rows))
    assert table.count("message:number") == num_rows
    assert {job["status"] for job in jobs_of(table)} <= {"SUCCESS", "NO_ACTION"}
    assert table.num_files <= 25
    if is_async == "false":
        assert most_files <= 25
    assert "MERGE" in operations(table)
    times_rewritten = max(table.files()["num_merge_ops"].to_pylist(), key=lambda times: times or 0)
    assert 1 <= times_rewritten <= 2 + math.log2(num_writes), "a row is rewritten O(log n) times"


def _long_rows(dice: random.Random, first: int, count: int) -> pa.Table:
    """Rows that nothing makes smaller, so that the size of a split tells of its rows."""
    found = [{"id": first + n, "message": f"number {dice.randbytes(400).hex()}", "day": "x"} for n in range(count)]
    return pa.Table.from_pylist(found, SCHEMA)


def test_nothing_is_asked_of_the_store_where_all_is_switched_off(tmp_path, monkeypatch):
    def calls(place) -> dict:
        store = MeteredStore(open_store(str(place), it.config.Config.resolve()))
        log = it.TransactionLog(place, store=store)
        log.initialize(SCHEMA)
        table = it.Table(log, log.snapshot())
        store.calls.clear()
        table.append(rows(0))
        table.overwrite(rows(5))
        table.append(rows(10))
        return dict(store.calls)

    as_it_is = calls(tmp_path / "a")
    monkeypatch.setattr("indextables.maintain.on_write.after_write", lambda log: None)
    assert as_it_is == calls(tmp_path / "b")


def test_the_end_of_the_process_waits_for_a_merge(tmp_path):
    make_table(tmp_path / "t")
    _run_to_its_end(tmp_path / "t", slow_seconds=1.0, timeout_ms=60_000)
    table = it.Table.open(tmp_path / "t")
    assert operations(table).count("MERGE") == 1
    assert table.num_files < ENOUGH
    assert ids(table) == list(range(65))


def test_the_end_of_the_process_calls_off_what_takes_too_long(tmp_path):
    make_table(tmp_path / "t", days=2)
    said = _run_to_its_end(tmp_path / "t", slow_seconds=1.5, timeout_ms=300)
    assert "was cancelled" in said
    table = it.Table.open(tmp_path / "t")
    assert "MERGE" not in operations(table)
    assert ids(table) == list(range(65))
    live = {Path(table.url, path) for path in table.files()["path"].to_pylist()}
    assert set(Path(table.url).rglob("*.split")) == live, "what was put for nothing is deleted"


def _run_to_its_end(place, *, slow_seconds: float, timeout_ms: int) -> str:
    """A process that appends and ends. Its merge takes a while for each look into a split and each put of one."""
    script = f"""
        import logging, threading, time
        import pyarrow as pa
        import indextables as it
        from indextables.split import combine
        logging.basicConfig(level="WARNING")
        open_split = combine._open

        def slowly(*given):
            time.sleep({slow_seconds} / {ENOUGH})
            return open_split(*given)

        combine._open = slowly
        options = {{"mergeOnWrite.enabled": "true", "mergeOnWrite.shutdownTimeoutMs": "{timeout_ms}"}}
        table = it.Table.open({str(place)!r}, options=options)
        rows = [{{"id": n, "message": f"row number {{n}}", "day": "2026-01-01"}} for n in range(60, 65)]
        table.append(pa.Table.from_pylist(rows, table.schema))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr


def test_jobs_of_all_tables_are_in_one_list(table):
    assert list_merge_jobs().num_rows == table.merge_jobs().num_rows == it.Table.open(table.url).merge_jobs().num_rows
