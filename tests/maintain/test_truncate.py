"""Truncate time travel: only the newest version is left, and nobody who works meanwhile is harmed."""

from __future__ import annotations

import concurrent.futures

import pytest
from tests.conftest import SCHEMA, live_paths, make_add
from tests.doubles.faulty_store import Call, Fault, FaultyStore, ProcessDied
from tests.maintain.aging_table import AgingTable

import indextables as it
from indextables.errors import CheckpointError, CorruptLogError, RetentionError
from indextables.maintain.truncate import truncate_time_travel
from indextables.protocol.avro import file_entry
from indextables.protocol.names import parse_checkpoint_key, parse_part_key, parse_version_key, version_key

FORMATS = ["avro", "json", "parquet"]


def truncate(log: it.TransactionLog, **arguments) -> dict:
    (row,) = truncate_time_travel(log, **arguments).to_pylist()
    return row


def versions(table: AgingTable) -> list[int]:
    return sorted(at for key in table.content if (at := parse_version_key(key)) is not None)


def checkpoints(table: AgingTable) -> list[int]:
    return sorted({at for key in table.content if (at := parse_checkpoint_key(key)) is not None})


@pytest.fixture
def table() -> AgingTable:
    """Versions 0 to 8, with states at 3 and 6."""
    table = AgingTable(**{"cleanup.enabled": "false"})
    for number in range(1, 9):
        table.append(f"{number}.split")
        if number in (3, 6):
            table.log().checkpoint()
    return table


def _decodes_nothing(path, columns):
    """What DataFusion 50 to 53 make of our manifests."""
    raise ValueError("it cannot be decoded (unresolved named schema)")


@pytest.mark.parametrize("has_cache", [True, False])
@pytest.mark.parametrize("has_states", [True, False])
def test_nothing_is_deleted_that_a_reader_here_would_need(has_states, has_cache, monkeypatch, request) -> None:
    """The bytes of the new state are right, but the decoder of this process gets no files out of them."""
    table = request.getfixturevalue("table") if has_states else AgingTable()
    for number in range(1, 9 - len(table.splits)):
        table.append(f"{number}.split")
    monkeypatch.setattr(file_entry, "_read_avro", _decodes_nothing)
    before = dict(table.content)
    options = {"cache.disk.enabled": str(has_cache).lower(), "state.retry.maxAttempts": 2, "state.retry.baseDelayMs": 1}
    with pytest.raises(CheckpointError, match="cannot be decoded"):
        truncate(table.log(**options))
    assert before.items() <= table.content.items()
    monkeypatch.undo()
    assert len(live_paths(table.log())) == 8


def test_only_the_newest_version_is_left(table) -> None:
    row = truncate(table.log())
    assert row == {
        "table_path": table.url,
        "status": "SUCCESS",
        "checkpoint_version": 8,
        "versions_deleted": 8,
        "checkpoints_deleted": 2,
        "files_preserved": 8,
        "message": "deleted 8 versions and 2 states and checkpoints before version 8",
    }
    assert (versions(table), checkpoints(table)) == ([8], [8])
    assert live_paths(table.log()) == [f"{number}.split" for number in range(1, 9)]
    for version in range(8):
        with pytest.raises(RetentionError, match="it has the versions 8 to 8"):
            table.log().snapshot(version=version)
    assert len(table.splits) == 8
    assert table.append("9.split") == 9
    assert len(live_paths(table.log())) == 9


def test_a_second_truncation_has_nothing_to_do(table) -> None:
    truncate(table.log())
    before = table.content
    assert truncate(table.log())["status"] == "NO_ACTION"
    assert table.content == before


def test_a_dry_run_changes_nothing(table) -> None:
    before, times = table.content, dict(table.modified_ms)
    row = truncate(table.log(), dry_run=True)
    assert (table.content, table.modified_ms) == (before, times)
    assert (row["status"], row["versions_deleted"], row["checkpoints_deleted"]) == ("DRY_RUN", 8, 2)
    real = truncate(table.log())
    columns = ("checkpoint_version", "versions_deleted", "checkpoints_deleted", "files_preserved")
    assert [row[name] for name in columns] == [real[name] for name in columns]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("size", ["200", "1M"])
def test_checkpoints_of_every_format_go_with_all_their_parts(kind, size) -> None:
    options = {"state.format": kind, "checkpoint.maxFileSize": size, "cleanup.enabled": "false"}
    table = AgingTable(**options)
    for number in range(1, 7):
        table.append(f"{number}.split")
        if number % 2 == 0:
            table.log().checkpoint()
    table.append("7.split")
    row = truncate(table.log())
    assert (row["versions_deleted"], row["checkpoints_deleted"]) == (7, 3)
    assert (versions(table), checkpoints(table)) == ([7], [7])
    assert {at for key in table.content if (at := parse_part_key(key)) is not None} <= {7}
    assert len(live_paths(table.log())) == 7


def test_what_the_checkpoint_cleans_up_by_the_settings_counts(table) -> None:
    table.wait(24 * 50)
    row = truncate(table.log(**{"cleanup.enabled": "true"}))
    assert (row["versions_deleted"], row["checkpoints_deleted"]) == (8, 2)
    assert versions(table) == [8]


def test_manifests_that_nobody_names_go_once_they_are_old(table) -> None:
    def manifests() -> set[str]:
        return {key for key in table.content if "/manifests/" in key}

    before = manifests()
    truncate(table.log())
    assert manifests() > before, "somebody may be building on them"
    table.wait(2)
    table.append("9.split")
    truncate(table.log())
    named = table.log().states.state_at(9).manifests
    assert manifests() == {f"_transaction_log/{info.path}" for info in named}
    assert len(live_paths(table.log())) == 9


def test_a_purge_deletes_afterwards_what_only_old_versions_needed(table) -> None:
    table.overwrite("new.split")
    table.wait(10)
    truncate(table.log())
    assert len(table.splits) == 9
    assert table.purge(24)["orphaned_files_found"] == 0, "nobody knows any more when they were removed"
    table.wait(24)
    assert table.purge(24)["orphaned_files_deleted"] == 8


def test_what_is_committed_meanwhile_stays(table) -> None:
    """A writer commits and makes a checkpoint while versions are being deleted."""
    pending = ["once"]

    def script(call: Call) -> Fault:
        if call == Call("delete", version_key(4)) and pending:
            pending.clear()
            table.append("9.split")
            table.log().checkpoint()
            table.append("10.split")
        return Fault.NONE

    row = truncate(table.log(FaultyStore(table.store, script)))
    assert (row["checkpoint_version"], row["versions_deleted"]) == (8, 8)
    assert versions(table) == [8, 9, 10]
    assert checkpoints(table) == [8, 9]
    for version, count in ((8, 8), (9, 9), (10, 10)):
        assert len(live_paths(table.log(), version=version)) == count


def test_a_later_checkpoint_that_is_there_already_stays(table) -> None:
    """Others commit and make a checkpoint after ours was written and before the log is listed."""
    state = "_transaction_log/state-v00000000000000000008/_manifest.avro"
    pending = ["once"]

    def script(call: Call) -> Fault:
        if call.verb == "list" and state in table.content and pending:
            pending.clear()
            table.append("9.split")
            table.log().checkpoint()
        return Fault.NONE

    assert truncate(table.log(FaultyStore(table.store, script)))["checkpoint_version"] == 8
    assert not pending
    assert (versions(table), checkpoints(table)) == ([8, 9], [8, 9])
    assert len(live_paths(table.log())) == 9


def test_a_writer_that_slept_commits_on_the_newest_version(table) -> None:
    sleeper = table.log()
    assert sleeper.snapshot().version == 8
    table.append("9.split")
    table.append("10.split")
    truncate(table.log())
    assert table.append("late.split", log=sleeper) == 11
    assert len(live_paths(table.log())) == 11
    assert versions(table) == [10, 11]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_checkpoint_that_does_not_verify_is_no_ground_to_delete_anything(table, kind) -> None:
    """Every checkpoint is damaged right after it was put."""

    class Damaging(type(table.store)):
        def put_if_absent(self, key: str, data: bytes, *, once: bool = False) -> None:
            if parse_checkpoint_key(key) is not None:
                data = data[: len(data) // 2]
            super().put_if_absent(key, data, once=once)

    store = Damaging(table.inner, table.clock.now_ms, table.modified_ms)
    before = {at: table.content[version_key(at)] for at in versions(table)}
    with pytest.raises((CheckpointError, CorruptLogError)):
        truncate(table.log(store, **{"state.format": kind}))
    assert before.items() <= {at: table.content[version_key(at)] for at in versions(table)}.items()
    assert set(checkpoints(table)) >= {3, 6}
    assert len(live_paths(table.log())) == 8


@pytest.mark.parametrize("fault", [Fault.DIES_BEFORE, Fault.DIES_AFTER])
@pytest.mark.parametrize("key", [version_key(0), version_key(5), "state-v00000000000000000003"])
def test_after_a_crash_everything_left_is_whole_and_the_next_one_finishes(table, key, fault) -> None:
    def script(call: Call) -> Fault:
        return fault if call.verb == "delete" and key in call.key else Fault.NONE

    with pytest.raises(ProcessDied):
        truncate(table.log(FaultyStore(table.store, script)))
    left = versions(table)
    assert left == list(range(left[0], 9)), "upwards, and without a hole"
    assert len(live_paths(table.log())) == 8
    assert len(live_paths(table.log(**{"transaction.useOptimized": "false"}))) == 8
    truncate(table.log())
    assert (versions(table), checkpoints(table)) == ([8], [8])


def test_a_version_that_cannot_be_deleted_is_told_of(table) -> None:
    def script(call: Call) -> Fault:
        return Fault.UNAVAILABLE if call == Call("delete", version_key(3)) else Fault.NONE

    row = truncate(table.log(FaultyStore(table.store, script)))
    assert (row["status"], row["versions_deleted"]) == ("PARTIAL", 3)
    assert row["message"].startswith("1 files could not be deleted; deleted 3 versions")
    assert versions(table) == list(range(3, 9))
    assert len(live_paths(table.log())) == 8


def test_a_log_with_a_hole_is_refused(table) -> None:
    table.inner.delete(version_key(7))
    before = table.content
    with pytest.raises(CorruptLogError):
        truncate(table.log())
    assert table.content == before


def test_writers_and_truncations_in_threads_lose_nothing(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "t")
    log.initialize(SCHEMA)

    def write(name: str) -> None:
        own = it.TransactionLog(tmp_path / "t", options={"checkpoint.interval": 4})
        for number in range(20):
            own.add_files([make_add(f"{name}-{number}.split")])
        own.wait_for_checkpoint()

    def cut(rounds: int) -> None:
        for _ in range(rounds):
            truncate_time_travel(it.TransactionLog(tmp_path / "t"))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        running = [pool.submit(write, name) for name in "ab"] + [pool.submit(cut, 6) for _ in range(2)]
        for each in running:
            each.result()
    expected = sorted(f"{name}-{number}.split" for name in "ab" for number in range(20))
    assert live_paths(it.TransactionLog(tmp_path / "t")) == expected
    cut(1)
    fresh = it.TransactionLog(tmp_path / "t")
    assert live_paths(fresh) == expected
    assert fresh.versions() == [fresh.snapshot().version]


def test_a_table_handle_truncates_and_moves_on(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "t")
    log.initialize(SCHEMA)
    for number in range(3):
        log.add_files([make_add(f"{number}.split")])
    table = it.Table.open(tmp_path / "t", version=1)
    assert table.truncate_time_travel(dry_run=True)["versions_deleted"].to_pylist() == [3]
    assert table.version == 1
    assert table.truncate_time_travel()["status"].to_pylist() == ["SUCCESS"]
    assert (table.version, table.num_files) == (3, 3)
