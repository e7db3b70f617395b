"""Purge and truncation on tables of other writers, which commit in states alone: never a live file is deleted."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.conftest import live_paths, make_add

import indextables as it
from indextables.errors import IndexTablesError, ProtocolError, RetentionError
from indextables.maintain.purge.purge import purge
from indextables.maintain.truncate import truncate_time_travel

OPTIONS = {"purge.retentionCheckEnabled": "false", "cache.disk.enabled": "false"}
TABLES = ["01_single_write", "04_partitioned", "05_many_transactions", "12_partition_drop", "16_with_skip_actions"]


@pytest.fixture(params=TABLES)
def table(request, shared, tmp_path) -> Path:
    copy = tmp_path / "table"
    shutil.copytree(shared / "fixtures" / "upstream-0.5.4" / request.param, copy)
    for file in copy.rglob("*"):
        if file.is_file():
            os.utime(file, (1_000_000_000, 1_000_000_000))
    return copy


def row_of(table: Path, **arguments) -> dict:
    (row,) = purge(it.TransactionLog(table, options=OPTIONS), **arguments).to_pylist()
    return row


def content(table: Path) -> dict[str, bytes]:
    return {str(path.relative_to(table)): path.read_bytes() for path in table.rglob("*") if path.is_file()}


def test_a_dry_run_reports_nothing_that_is_live(table) -> None:
    before = content(table)
    live = set(live_paths(it.TransactionLog(table)))
    there = {str(path.relative_to(table)) for path in table.rglob("*.split")}
    row = row_of(table, older_than="7 days", dry_run=True)
    assert content(table) == before
    assert row["orphaned_files_found"] <= len(there - live)


def test_all_that_is_live_at_the_horizon_and_after_it_stays(table) -> None:
    log = it.TransactionLog(table)
    newest = log.snapshot().version
    live = set(live_paths(log))
    there = {str(path.relative_to(table)) for path in table.rglob("*.split")}
    (table / "splits").mkdir(exist_ok=True)
    orphan = table / "splits" / "split-orphan.split"
    orphan.write_bytes(b"x")
    os.utime(orphan, (1_000_000_000, 1_000_000_000))
    before = content(table)
    with pytest.raises(ProtocolError, match="CHECKPOINT INDEXTABLES"):
        row_of(table, older_than="7 days")
    assert content(table) == before
    log.checkpoint()
    for file in (table / "_transaction_log").rglob("*"):
        os.utime(file, (1_000_000_000, 1_000_000_000))
    row = row_of(table, older_than="7 days")
    left = {str(path.relative_to(table)) for path in table.rglob("*.split")}
    assert live & there <= left
    assert not orphan.exists()
    assert row["orphaned_files_deleted"] == 1 + len(there - left)
    assert set(live_paths(it.TransactionLog(table))) == live
    if row["orphaned_files_deleted"] > 1:
        with pytest.raises(RetentionError):
            it.TransactionLog(table).snapshot(version=newest - 1)


def test_young_states_keep_their_files(table) -> None:
    """Only the oldest state is old: every file of any later one stays."""
    log = it.TransactionLog(table)
    wanted = [set(live_paths(log, version=version)) for version in range(log.snapshot().version + 1)]
    for path in table.rglob("_manifest.avro"):
        os.utime(path)
    there = {str(path.relative_to(table)) for path in table.rglob("*.split")}
    row_of(table, older_than="7 days")
    left = {str(path.relative_to(table)) for path in table.rglob("*.split")}
    assert set().union(*wanted) & there <= left


def test_a_damaged_state_is_refused(table) -> None:
    newest = it.TransactionLog(table).snapshot().version
    state = table / "_transaction_log" / f"state-v{newest:020d}" / "_manifest.avro"
    state.write_bytes(state.read_bytes()[:-20])
    os.utime(state, (1_000_000_000, 1_000_000_000))
    before = content(table)
    with pytest.raises(IndexTablesError):
        row_of(table, older_than="0 hours")
    assert content(table) == before


def test_a_truncation_leaves_the_newest_version(table) -> None:
    live = live_paths(it.TransactionLog(table))
    (row,) = truncate_time_travel(it.TransactionLog(table)).to_pylist()
    log = it.TransactionLog(table, options={"cache.disk.enabled": "false"})
    assert live_paths(log) == live
    assert row["files_preserved"] == len(live)
    assert log.add_files([make_add("splits/split-new.split", partition_values=_some_partition(log))]) > 0
    assert json.loads(json.dumps(row))["status"] in ("SUCCESS", "NO_ACTION")


def _some_partition(log: it.TransactionLog) -> dict[str, str]:
    files = log.list_files()
    return dict(files["partition_values"][0].as_py() or []) if files.num_rows else {}
