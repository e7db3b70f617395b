"""One table, two kinds of writers: rows of either are never lost without an error."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from tests.conftest import SCHEMA, live_paths, make_add
from tests.foreign_writer import StateWriter, VersionWriter

import indextables as it
from indextables.errors import CorruptLogError, DivergedLogError

OPTIONS = {"checkpoint.interval": 10**6, "cache.disk.enabled": "false"}
MODES = [{}, {"transaction.useOptimized": "false"}, {"checkpoint.enabled": "false"}]


def opened(table, **options) -> it.TransactionLog:
    return it.TransactionLog(table, options={**OPTIONS, **options})


@pytest.fixture
def table(tmp_path):
    log = opened(tmp_path / "t")
    log.initialize(SCHEMA)
    for number in range(1, 6):
        log.add_files([make_add(f"splits/ours-{number}.split")])
    return tmp_path / "t"


def assert_diverged(table, version: int, state: int) -> None:
    for mode in MODES:
        log = opened(table, **mode)
        for read in (log.list_files, log.metadata, lambda log=log: log.add_files([make_add("splits/later.split")])):
            with pytest.raises(DivergedLogError) as caught:
                read()
            message = str(caught.value)
            assert f"{version:020d}.json" in message
            assert f"state-v{state:020d}" in message
            assert "REPAIR" in message


def test_a_state_of_a_writer_that_saw_no_version_is_an_error(table) -> None:
    assert StateWriter(table).commit([f"theirs-{number}.split" for number in range(7)]) == 1
    assert_diverged(table, 1, 1)


def test_a_version_and_a_state_of_one_number_are_an_error(table) -> None:
    log = opened(table)
    log.checkpoint()
    writer = StateWriter(table)
    newest = max(writer.states())
    log.add_files([make_add("splits/ours-6.split")])
    assert writer.commit(["theirs.split"]) == newest + 1
    assert_diverged(table, newest + 1, newest + 1)


def test_a_removal_that_a_state_undoes_is_an_error(table) -> None:
    log = opened(table)
    log.checkpoint()
    writer = StateWriter(table)
    newest = max(writer.states())
    log.overwrite_files([])
    writer.commit(["theirs.split"])
    assert_diverged(table, newest + 1, newest + 1)


def test_later_states_do_not_hide_it(table) -> None:
    writer = StateWriter(table)
    for number in range(8):
        writer.commit([f"theirs-{number}.split"])
    assert_diverged(table, 1, 5)


def test_an_open_handle_meets_it(table) -> None:
    log = opened(table)
    log.checkpoint()
    log.list_files()
    writer = StateWriter(table)
    opened(table).add_files([make_add("splits/ours-6.split")])
    log.list_files()
    writer.commit(["theirs.split"])
    with pytest.raises(DivergedLogError):
        log.list_files()


def test_an_open_handle_sees_commits_in_states(table) -> None:
    log = opened(table)
    log.checkpoint()
    log.list_files()
    version = StateWriter(table).commit(["theirs.split"])
    assert "theirs.split" in live_paths(log)
    assert log.snapshot().version == version


@pytest.mark.parametrize("mode", MODES)
def test_versions_with_a_state_each_are_read(table, mode) -> None:
    writer = VersionWriter(table)
    log = opened(table, **mode)
    log.list_files()
    expected = {f"splits/ours-{number}.split" for number in range(1, 6)}
    for number in range(6, 30):
        assert writer.commit([f"theirs-{number}.split"], ["theirs-6.split"] if number == 9 else []) == number
        expected.add(f"theirs-{number}.split")
    expected.remove("theirs-6.split")
    assert set(live_paths(log)) == set(live_paths(opened(table, **mode))) == expected


def test_both_go_on_by_versions(table) -> None:
    writer, log = VersionWriter(table), opened(table)
    expected = {f"splits/ours-{number}.split" for number in range(1, 6)}
    for number in range(4):
        writer.commit([f"theirs-{number}.split"])
        log.add_files([make_add(f"splits/more-{number}.split")])
        expected |= {f"theirs-{number}.split", f"splits/more-{number}.split"}
    assert set(live_paths(opened(table))) == set(live_paths(log)) == expected


def test_a_state_that_lost_an_older_version_is_an_error(table) -> None:
    log, writer = opened(table), VersionWriter(table)
    log.checkpoint()
    newest = max(writer.states())
    log.add_files([make_add("splits/lost.split")])
    StateWriter(table).commit(["theirs.split"])
    for number in range(3):
        writer.commit([f"later-{number}.split"])
    with pytest.raises(DivergedLogError, match=f"{newest + 1:020d}.json"):
        opened(table).list_files()


def test_it_is_an_error_about_the_log() -> None:
    assert issubclass(DivergedLogError, CorruptLogError)


# The ways out


@pytest.fixture
def rows(tmp_path):
    """A table with rows, and a split of another table that its writer commits in a state."""
    table = it.Table.create(tmp_path / "t", pa.schema([("id", pa.int64())]), options=OPTIONS)
    for start in (0, 10):
        table.append(pa.table({"id": range(start, start + 10)}))
    other = it.Table.create(tmp_path / "other", table.schema, options=OPTIONS)
    other.append(pa.table({"id": [100, 101]}))
    (path,) = live_paths(other.log)
    shutil.copy(tmp_path / "other" / path, tmp_path / "t" / path)
    return table, path


def ids(table: it.Table) -> list[int]:
    return sorted(table.search()["id"].to_pylist())


@pytest.mark.parametrize("with_state", [False, True])
def test_repair_writes_a_log_with_the_rows_of_both(rows, with_state, tmp_path) -> None:
    table, path = rows
    if with_state:
        table.checkpoint()
        table.append(pa.table({"id": [20]}))
    expected = [*ids(table), 100, 101]
    StateWriter(tmp_path / "t").commit([path])
    found = table.fsck().to_pylist()
    assert [problem["check"] for problem in found if problem["check"] == "divergence"] == ["divergence"]
    done = it.repair(str(tmp_path / "t"), str(tmp_path / "clean" / "_transaction_log")).to_pylist()
    assert [row["status"] for row in done] == ["SUCCESS"]
    shutil.move(tmp_path / "t" / "_transaction_log", tmp_path / "old")
    shutil.move(tmp_path / "clean" / "_transaction_log", tmp_path / "t" / "_transaction_log")
    repaired = it.Table.open(tmp_path / "t", options=OPTIONS)
    assert ids(repaired) == expected
    repaired.append(pa.table({"id": [7]}))
    assert [problem for problem in repaired.fsck().to_pylist() if problem["severity"] == "error"] == []


def test_a_repair_keeps_the_removals_of_both(rows, tmp_path) -> None:
    table, path = rows
    table.checkpoint()
    first, second = live_paths(table.log)
    table.log.replace_files([first], [])
    StateWriter(tmp_path / "t").commit([path], [second])
    it.repair(str(tmp_path / "t"), str(tmp_path / "clean" / "_transaction_log"))
    shutil.move(tmp_path / "t" / "_transaction_log", tmp_path / "old")
    shutil.move(tmp_path / "clean" / "_transaction_log", tmp_path / "t" / "_transaction_log")
    assert live_paths(opened(tmp_path / "t")) == [path]


def test_fsck_is_content_with_versions_that_have_a_state_each(table) -> None:
    VersionWriter(table).commit(["splits/theirs.split"])
    found = it.Table.open(table, options=OPTIONS).fsck().to_pylist()
    assert {problem["check"] for problem in found} == {"split"}  # the files that the versions name are not there


def test_fsck_names_a_version_of_a_writer_that_may_not_write_our_splits(rows, tmp_path) -> None:
    table, path = rows
    VersionWriter(tmp_path / "t").commit([path])
    (found,) = [problem for problem in table.fsck().to_pylist() if problem["check"] == "version"]
    assert (found["severity"], found["version"]) == ("error", 3)
    assert "it has no commit line" in found["problem"]


def test_fsck_names_the_state_that_an_engine_numbers_0(rows, tmp_path) -> None:
    table, path = rows
    writer = StateWriter(tmp_path / "t")
    writer.write_state(0, None, [*live_paths(table.log), path])
    fresh = it.Table.open(tmp_path / "t", options=OPTIONS)
    assert ids(fresh) == list(range(20))
    assert fresh.log.snapshot(version=0).num_files == 0
    (found,) = [problem for problem in fresh.fsck().to_pylist() if problem["check"] == "checkpoint"]
    assert (found["severity"], found["version"]) == ("warning", 0)
    assert "under the number 0" in found["problem"]
