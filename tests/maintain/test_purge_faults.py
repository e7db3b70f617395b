"""Purge beside others, in the middle of crashes, on a failing store, and on a damaged log: nothing live is lost."""

from __future__ import annotations

import concurrent.futures
import os
import threading

import pytest
from tests.conftest import SCHEMA, live_paths, make_add
from tests.doubles.faulty_store import Call, Fault, FaultyStore, ProcessDied
from tests.maintain.aging_table import HOUR_MS, UNCHECKED, AgingTable

import indextables as it
from indextables.errors import CommitConflictError, CorruptLogError, ProtocolError, RetentionError, StorageError
from indextables.log.commit.operations import Restore, UpgradeProtocol
from indextables.maintain.purge.purge import purge
from indextables.maintain.truncate import truncate_time_travel
from indextables.maintain.workers import InlineWorkers, LocalWorkers, working_with
from indextables.protocol.actions import Protocol
from indextables.protocol.names import LOG_DIRECTORY, parse_version_key, state_keys, version_key


@pytest.fixture
def table() -> AgingTable:
    """Versions: 1 `a`, 2 `b`, 3 `c`, each in the place of the one before; all old."""
    table = AgingTable()
    for name in ("a.split", "b.split", "c.split"):
        table.overwrite(name)
    table.put("orphan.split")
    table.wait(100)
    return table


def hooked(table: AgingTable, at: tuple[str, str], act) -> FaultyStore:
    """A store that does something once, right before a certain call."""
    pending = [act]

    def script(call: Call) -> Fault:
        if (call.verb, call.key) == at and pending:
            pending.pop()()
        return Fault.NONE

    return FaultyStore(table.store, script)


def failing(table: AgingTable, fault: Fault, is_hit) -> FaultyStore:
    return FaultyStore(table.store, lambda call: fault if is_hit(call) else Fault.NONE)


# Beside others


def test_a_restore_between_the_look_and_the_commit_is_seen(table) -> None:
    def restore() -> None:
        log = table.log()
        log.commit(Restore(log.snapshot(version=1), log.url))

    row = table.purge(24, store=hooked(table, ("put_if_absent", version_key(4)), restore))
    assert row["status"] == "SUCCESS"
    assert live_paths(table.log()) == ["a.split"]
    assert table.splits == {"a.split", "c.split"}
    assert (table.horizon, table.newest) == (3, 5)


def test_a_restore_after_the_commit_is_refused(table) -> None:
    log = table.log()
    target = log.snapshot(version=1)
    refused = []

    def restore() -> None:
        with pytest.raises(RetentionError) as error:
            log.commit(Restore(target, log.url))
        refused.append(error)

    table.purge(24, store=hooked(table, ("delete", "a.split"), restore))
    assert refused
    assert set(live_paths(table.log())) == table.splits == {"c.split"}


def test_what_a_very_slow_writer_commits_before_the_files_go_is_left_alone(table) -> None:
    """It took longer than the retention, and is saved by the last look all the same."""
    store = hooked(table, ("put_if_absent", version_key(4)), lambda: table.log().add_files([make_add("orphan.split")]))
    table.purge(24, store=store)
    assert set(live_paths(table.log())) == table.splits == {"c.split", "orphan.split"}


def test_what_is_committed_after_the_horizon_is_seen_by_the_last_look(table) -> None:
    seen: list[Call] = []

    def script(call: Call) -> Fault:
        if call.verb == "list" and Call("put_if_absent", version_key(4)) in seen and "late" not in seen:
            seen.append("late")
            table.log().add_files([make_add("orphan.split")])
        seen.append(call)
        return Fault.NONE

    table.purge(24, store=FaultyStore(table.store, script))
    assert set(live_paths(table.log())) == table.splits == {"c.split", "orphan.split"}


def test_a_table_that_never_stands_still_is_told_of_and_nothing_is_deleted(table) -> None:
    numbers = iter(range(1000))

    def script(call: Call) -> Fault:
        if call.verb == "put_if_absent" and parse_version_key(call.key) is not None:
            table.append(f"new-{next(numbers)}.split")
        return Fault.NONE

    before = table.splits
    with pytest.raises(CommitConflictError, match="other writers committed first"):
        table.purge(24, store=FaultyStore(table.store, script), options={"transaction.retry.maxAttempts": 3})
    assert table.splits >= before


def test_two_purges_at_once_delete_what_one_would(table) -> None:
    row: dict = {}
    first = table.purge(24, store=hooked(table, ("put_if_absent", version_key(4)), lambda: row.update(table.purge(24))))
    assert row["status"] == "SUCCESS"
    assert first["status"] in ("SUCCESS", "NO_ACTION")
    assert table.splits == set(live_paths(table.log())) == {"c.split"}


def test_purges_and_writers_in_threads_lose_nothing(tmp_path) -> None:
    """Once a file is committed it is made to look old, so that nothing but the log protects it."""
    log = it.TransactionLog(tmp_path / "t", options=UNCHECKED)
    log.initialize(SCHEMA)
    log.reader.store.put("splits/first.split", b"x")
    ends = threading.Event()

    def write(name: str) -> None:
        own = it.TransactionLog(tmp_path / "t")
        for number in range(15):
            key = f"splits/{name}-{number}.split"
            path = tmp_path / "t" / key
            new = path.with_suffix(".new")
            new.write_bytes(b"x")
            os.utime(new, (2**31, 2**31))
            new.rename(path)
            if number % 3 == 2:
                own.overwrite_files([make_add(key)])
            else:
                own.add_files([make_add(key)])
            os.utime(path, (1, 1))

    def sweep() -> int:
        deleted = 0
        while not ends.is_set():
            row = purge(it.TransactionLog(tmp_path / "t", options=UNCHECKED), older_than="0 hours").to_pylist()[0]
            deleted += row["orphaned_files_deleted"]
        return deleted

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        sweeper = pool.submit(sweep)
        try:
            for writer in [pool.submit(write, name) for name in "ab"]:
                writer.result()
        finally:
            ends.set()
        assert sweeper.result() > 0
    there = {meta.key for meta in log.reader.store.list("splits")}
    assert set(live_paths(it.TransactionLog(tmp_path / "t"))) <= there


def test_a_table_that_is_made_anew_meanwhile_is_left_alone(table) -> None:
    def make_anew() -> None:
        for meta in list(table.inner.list("_transaction_log")):
            table.inner.delete(meta.key)
        table.log().initialize(SCHEMA)
        for _ in range(4):
            table.log().add_files([make_add("a.split")])

    before = table.splits
    with pytest.raises(CommitConflictError, match="recreated meanwhile"):
        table.purge(24, store=hooked(table, ("put_if_absent", version_key(4)), make_anew))
    assert table.splits == before


# Crashes


@pytest.mark.parametrize("fault", [Fault.DIES_BEFORE, Fault.DIES_AFTER])
@pytest.mark.parametrize(
    "is_hit",
    [
        lambda call: call.verb == "put" and "_purge_probe" in call.key,
        lambda call: call.verb == "pages",
        lambda call: call.verb == "put_if_absent",
        lambda call: call.key == "a.split",
        lambda call: call.key == "orphan.split",
    ],
    ids=["probe", "listing", "horizon", "first delete", "last delete"],
)
def test_after_a_crash_at_any_place_the_next_purge_finishes(table, is_hit, fault) -> None:
    with pytest.raises(ProcessDied):
        table.purge(24, store=failing(table, fault, is_hit))
    assert live_paths(table.log()) == ["c.split"]
    for version in range(table.horizon, table.newest + 1):
        assert set(live_paths(table.log(), version=version)) <= table.splits
    table.wait(2)
    table.purge(24)
    assert table.splits == {"c.split"}
    assert not [key for key in table.content if "_purge_probe" in key]


def test_a_lost_answer_of_the_horizon_is_settled(table) -> None:
    store = FaultyStore(table.store, lambda call: Fault.ANSWER_LOST if call.verb == "put_if_absent" else Fault.NONE)
    assert table.purge(24, store=store)["status"] == "SUCCESS"
    assert (table.splits, table.horizon) == ({"c.split"}, 3)


# Deletes that fail


def test_deletes_are_tried_again(table) -> None:
    failures = iter([Fault.UNAVAILABLE] * 2)
    store = FaultyStore(table.store, lambda call: next(failures, Fault.NONE) if call.key == "b.split" else Fault.NONE)
    assert table.purge(24, store=store)["status"] == "SUCCESS"
    assert table.splits == {"c.split"}


def test_a_file_that_cannot_be_deleted_does_not_stop_the_others(table) -> None:
    calls = []

    def is_hit(call: Call) -> bool:
        calls.extend([call] if call == Call("delete", "b.split") else [])
        return call == Call("delete", "b.split")

    row = table.purge(24, store=failing(table, Fault.UNAVAILABLE, is_hit), options={"purge.deleteRetries": 2})
    assert (row["status"], row["orphaned_files_found"], row["orphaned_files_deleted"]) == ("PARTIAL", 3, 2)
    assert row["size_mb_deleted"] == (len(b"content of a.split") + len(b"content of orphan.split")) / 1e6
    assert "1 data files could not be deleted: injected: delete of `b.split`" in row["message"]
    assert len(calls) == 3 + 1, "the batch three times, then the file alone"
    assert table.splits == {"b.split", "c.split"}
    assert table.purge(24)["orphaned_files_deleted"] == 1


def test_a_store_that_deletes_nothing_is_not_asked_for_every_file() -> None:
    table = AgingTable()
    table.put(*(f"{number}.split" for number in range(100)))
    table.wait(100)
    calls = []

    def is_hit(call: Call) -> bool:
        is_split = call.verb == "delete" and call.key.endswith(".split")
        calls.extend([call] if is_split else [])
        return is_split

    row = table.purge(24, store=failing(table, Fault.UNAVAILABLE, is_hit))
    assert (row["status"], row["orphaned_files_deleted"]) == ("PARTIAL", 0)
    assert "100 data files could not be deleted" in row["message"]
    assert len(calls) < 20


def test_a_log_that_cannot_be_cleaned_up_is_told_of() -> None:
    table = AgingTable()
    for number in range(8):
        table.append(f"{number}.split")
        if number % 3 == 2:
            table.log(**{"cleanup.enabled": "false"}).checkpoint()
    table.log(**{"cleanup.enabled": "false"}).checkpoint()
    table.wait(24 * 50)
    row = table.purge(24, store=failing(table, Fault.UNAVAILABLE, lambda call: call == Call("delete", version_key(2))))
    assert (row["status"], row["tx_log_files_deleted"]) == ("PARTIAL", 2)
    assert "1 files of the log could not be deleted" in row["message"]
    assert len(live_paths(table.log())) == 8


def test_a_listing_that_fails_is_an_error_before_anything_goes(table) -> None:
    before = table.splits
    with pytest.raises(StorageError):
        table.purge(24, store=failing(table, Fault.UNAVAILABLE, lambda call: call.verb == "pages"))
    assert table.splits == before
    assert table.newest == 3


def test_batches_are_spread_over_processes(tmp_path) -> None:
    table = it.TransactionLog(tmp_path / "t", options=UNCHECKED)
    table.initialize(SCHEMA)
    for number in range(1500):
        (tmp_path / "t" / f"{number}.split").write_bytes(b"x")
    for workers in (LocalWorkers(), InlineWorkers()):
        with working_with(workers):
            (row,) = it.Table.open(tmp_path / "t", options=UNCHECKED).purge(older_than="0 hours").to_pylist()
        assert row["orphaned_files_deleted"] == (1500 if isinstance(workers, LocalWorkers) else 0)
    assert not list((tmp_path / "t").glob("*.split"))


# Logs that cannot be read whole


def refused(table: AgingTable, error=CorruptLogError, match: str = "cannot be read whole", **arguments) -> None:
    before = table.content
    for dry_run in (False, True):
        with pytest.raises(error, match=match):
            table.purge(24, dry_run=dry_run, **arguments)
    assert table.content == before


def test_a_damaged_version_above_the_horizon_is_refused(table) -> None:
    table.append("young-1.split")
    table.append("young-2.split")
    table.log().checkpoint()
    table.store.put(version_key(4), b"{damaged")
    assert set(live_paths(table.log())) == {"c.split", "young-1.split", "young-2.split"}
    refused(table)


def test_a_damaged_version_below_the_horizon_does_no_harm(table) -> None:
    table.log().checkpoint()
    table.wait(50)
    table.inner.put(version_key(1), b"{damaged")
    table.purge(24)
    assert table.splits == {"c.split"}


def test_where_the_horizon_cannot_be_read_a_lower_one_counts(table) -> None:
    """Version 2 is damaged, so that 3 cannot be read, and the damage lies above what can."""
    table.append("young.split")
    table.log().checkpoint()
    table.store.put(version_key(2), b"{damaged")
    table.modified_ms[version_key(2)] -= 100 * HOUR_MS
    assert live_paths(table.log(), version=1) == ["a.split"]
    refused(table)


def test_a_gap_is_refused(table) -> None:
    table.inner.delete(version_key(2))
    refused(table, match="version 2 of its log is missing")


def test_a_version_that_is_missing_below_everything_is_refused(table) -> None:
    table.inner.delete(version_key(0))
    refused(table, match="version 0 is missing")


def test_an_isolated_state_that_cannot_be_read_is_refused() -> None:
    """States of 2 and 4 are what is left of old versions; the younger one is damaged."""
    table = AgingTable()
    for number in range(1, 8):
        table.overwrite(f"{number}.split")
        if number in (2, 4, 6):
            table.log(**{"cleanup.enabled": "false"}).checkpoint()
        table.wait(20)
    for version in range(6):
        table.inner.delete(version_key(version))
    assert live_paths(table.log(), version=4) == ["4.split"]
    intact = table.content[state_keys(4)[0]]
    table.store.put(state_keys(4)[0], b"damaged")
    table.modified_ms[state_keys(4)[0]] -= 60 * HOUR_MS
    before = table.content
    with pytest.raises(CorruptLogError, match="cannot be read whole"):
        table.purge(90, options={"logRetention.duration": "24h"})
    assert table.content == before
    table.inner.put(state_keys(4)[0], intact)
    table.purge(90, options={"logRetention.duration": "24h"})
    assert {"4.split", "6.split", "7.split"} <= table.splits


def test_a_newest_version_whose_files_cannot_be_told_is_refused() -> None:
    """All that is left is a state with a damaged manifest: its files cannot be told from those that nobody needs."""
    table = AgingTable()
    table.append("a.split")
    table.append("b.split")
    truncate_time_travel(table.log())
    (manifest,) = (meta.key for meta in table.inner.list(f"{LOG_DIRECTORY}/manifests"))
    table.inner.put(manifest, table.inner.get(manifest)[:-20] + b"x" * 20)
    table.wait(1000)
    refused(table)


def test_a_state_above_which_versions_are_missing_protects_its_files() -> None:
    """Files that came in versions which are gone are live in the states that are left."""
    table = AgingTable()
    for number in range(1, 8):
        table.append(f"{number}.split")
        if number in (2, 5):
            table.log(**{"cleanup.enabled": "false"}).checkpoint()
    for version in range(5):
        table.inner.delete(version_key(version))
    table.wait(1000)
    table.append("young.split")
    table.purge(24)
    assert table.splits == set(live_paths(table.log())) == {*(f"{n}.split" for n in range(1, 8)), "young.split"}


def test_a_table_that_is_too_new_to_be_written_is_refused(table) -> None:
    table.log().commit(UpgradeProtocol(Protocol(min_reader_version=4, min_writer_version=9)))
    refused(table, ProtocolError, "it needs writer version 9")


def test_a_damaged_horizon_is_refused(table) -> None:
    table.options["transaction.compression.enabled"] = "false"
    table.purge(24)
    content = table.content[version_key(4)]
    damaged = content.replace(b'"retention.horizonVersion":"3"', b'"retention.horizonVersion":"x"')
    assert damaged != content
    table.store.put(version_key(4), damaged[: damaged.rindex(b'{"checksum":')])
    table.put("another.split")
    table.wait(100)
    refused(table, match="which versions were purged")
