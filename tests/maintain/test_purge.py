"""Purge: which files go, which stay, and what the answer says."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from tests.aging import AgingStore
from tests.conftest import live_paths, make_add
from tests.maintain.aging_table import HOUR_MS, UNCHECKED, AgingTable

import indextables as it
from indextables.errors import ConfigError, RetentionError
from indextables.log.commit.operations import Restore
from indextables.log.store_clock import PROBE_PREFIX
from indextables.maintain.purge.purge import purge
from indextables.protocol.names import parse_version_key
from indextables.runtime.progress import reporting_to


@pytest.fixture
def table() -> AgingTable:
    return AgingTable()


def test_files_of_replaced_versions_go_after_the_retention(table) -> None:
    table.append("a.split")
    table.wait(1)
    table.overwrite("b.split")
    table.wait(25)
    row = table.purge(24)
    assert table.splits == {"b.split"}
    assert row == {
        "table_path": table.url,
        "status": "SUCCESS",
        "orphaned_files_found": 1,
        "orphaned_files_deleted": 1,
        "size_mb_deleted": len(b"content of a.split") / 1e6,
        "retention_hours": 24,
        "tx_log_files_deleted": 0,
        "manifests_deleted": 0,
        "expired_states_found": 0,
        "expired_states_deleted": 0,
        "dry_run": False,
        "duration_ms": 0,
        "message": "deleted 1 data files, 0 version files, 0 states and checkpoints, 0 manifests",
    }


def test_a_file_that_was_removed_lately_stays_however_old_it_is(table) -> None:
    table.append("a.split")
    table.wait(1000)
    table.overwrite("b.split")
    table.wait(24 - 0.1)
    assert table.purge(24)["status"] == "NO_ACTION"
    assert table.splits == {"a.split", "b.split"}
    table.wait(0.1)
    assert table.purge(24)["orphaned_files_deleted"] == 1
    assert table.splits == {"b.split"}


def test_a_file_that_is_young_itself_stays_though_nobody_names_it(table) -> None:
    table.append("a.split")
    table.wait(1000)
    table.put("orphan.split")
    table.wait(24 - 0.1)
    table.purge(24)
    assert table.splits == {"a.split", "orphan.split"}
    table.wait(0.1)
    table.purge(24)
    assert table.splits == {"a.split"}


def test_a_writer_inside_the_retention_loses_nothing(table) -> None:
    table.append("a.split")
    table.wait(100)
    writer = table.log()
    assert writer.snapshot().version == 1
    table.put("slow.split")
    table.wait(23)
    table.purge(24)
    writer.add_files([make_add("slow.split")])
    assert table.splits >= set(live_paths(table.log())) == {"a.split", "slow.split"}


def test_versions_from_the_horizon_on_stay_whole_and_earlier_ones_are_refused(table) -> None:
    for number in range(6):
        table.overwrite(f"{number}.split")
        table.wait(10)
    table.purge(24)
    assert table.horizon == 4
    for version in range(4, table.newest + 1):
        assert set(live_paths(table.log(), version=version)) <= table.splits
    for version in range(4):
        with pytest.raises(RetentionError, match=f"cannot read version {version} of .* a purge has deleted"):
            table.log().snapshot(version=version)
    assert table.splits == {"3.split", "4.split", "5.split"}


def test_a_restore_to_before_the_horizon_is_refused(table) -> None:
    table.append("a.split")
    old = table.log().snapshot()
    table.overwrite("b.split")
    table.wait(100)
    log = table.log()
    table.purge(24)
    with pytest.raises(RetentionError, match="a purge has deleted files of versions before 2"):
        log.commit(Restore(old, table.url))
    assert live_paths(table.log()) == ["b.split"]


def test_the_default_retention_is_that_of_the_settings(table) -> None:
    table.append("a.split")
    table.overwrite("b.split")
    table.wait(167)
    assert table.purge(None)["retention_hours"] == 168
    assert table.splits == {"a.split", "b.split"}
    assert table.purge(None, options={"purge.defaultRetentionHours": 160})["orphaned_files_deleted"] == 1


def test_a_retention_below_the_shortest_is_refused_unless_the_check_is_off(table) -> None:
    table.append("a.split")
    table.overwrite("b.split")
    table.wait(5)
    before = table.content
    with pytest.raises(ConfigError, match="after 2 hours because the shortest retention is 24 hours") as refused:
        table.purge(2)
    assert "purge.retentionCheckEnabled" in refused.value.hint
    with pytest.raises(ConfigError, match="shortest retention is 24"):
        table.purge(None, options={"purge.defaultRetentionHours": 1})
    assert table.content == before
    assert table.purge(2, options={"purge.minRetentionHours": 2})["retention_hours"] == 2
    assert table.splits == {"b.split"}
    table.put("c.split")
    assert table.purge(0, options=UNCHECKED)["orphaned_files_deleted"] == 1


@pytest.mark.parametrize("age", ["soon", "", "-1 days", "90 minutes", "1 year", "1.5 days", True])
def test_what_is_no_age_is_refused(table, age) -> None:
    for argument in ("older_than", "log_retention"):
        with pytest.raises(ConfigError, match=r"is not an age: expected a duration.*\nhint: as in `7 days`"):
            purge(table.log(), **{argument: age})


@pytest.mark.parametrize("age", ["2 days", "48h", "48", datetime.timedelta(days=2)])
def test_an_age_is_text_or_a_timedelta(table, age) -> None:
    (row,) = purge(table.log(), older_than=age).to_pylist()
    assert row["retention_hours"] == 48


def test_an_age_of_less_than_an_hour_is_refused_for_what_it_is(table) -> None:
    with pytest.raises(ConfigError, match="cannot purge after `0:00:15` because ages are whole hours") as refused:
        purge(table.log(), older_than=datetime.timedelta(seconds=15))
    assert refused.value.hint == "round it up, as to `1 hour`"


def test_splits_are_found_in_every_layout_and_nothing_else_is_touched(table) -> None:
    splits = ["root.split", "splits/s.split", "day=1/x.split", "day=1%3A2/hour=3/splits/é y.split", "deep/er/z.split"]
    others = [
        "README.md",
        "part-0.parquet",
        "_delta_log/00000000000000000000.json",
        "a.split.tmp",
        "a.SPLIT",
        "x.split/y",
        "split",
        "_transaction_log/odd.split",
        "_transaction_log/notes.txt",
    ]
    table.put(*splits, *others)
    table.wait(1000)
    row = table.purge(24)
    assert row["orphaned_files_deleted"] == len(splits)
    assert set(others) <= table.content.keys()
    assert not table.splits - {"_transaction_log/odd.split"}


def test_splits_of_tables_below_this_one_are_theirs(table) -> None:
    theirs = ["sub/a.split", "sub/day=1/splits/b.split", "x/y/splits/c.split"]
    table.put(*theirs, "subway/d.split", "x/e.split", "sub.split")
    table.put("sub/_transaction_log/00000000000000000000.json", "x/y/_transaction_log/_last_checkpoint")
    table.wait(1000)
    assert table.purge(24, dry_run=True)["orphaned_files_found"] == 3
    assert table.purge(24)["orphaned_files_deleted"] == 3
    assert table.splits == set(theirs)


@pytest.mark.parametrize(
    ("named", "stored"),
    [
        ("day=1%3A2/a.split", "day=1:2/a.split"),
        ("day=1:2/a.split", "day=1%3A2/a.split"),
        ("k=%25/a.split", "k=%/a.split"),
        ("k=a b/a.split", "k=a%20b/a.split"),
    ],
)
def test_a_live_file_stays_however_its_name_is_spelled(table, named, stored) -> None:
    table.put(stored, "orphan.split")
    table.log().add_files([make_add(named)])
    table.wait(1000)
    table.purge(24)
    assert table.splits == {stored}


def test_a_dry_run_changes_nothing_and_tells_what_would_go(table) -> None:
    table.append("a.split", "b.split")
    table.overwrite("c.split")
    table.log().checkpoint()
    table.wait(1000)
    before, times = table.content, dict(table.modified_ms)
    row = table.purge(24, dry_run=True)
    assert (table.content, table.modified_ms) == (before, times)
    assert (row["status"], row["dry_run"]) == ("DRY_RUN", True)
    assert (row["orphaned_files_found"], row["orphaned_files_deleted"]) == (2, 0)
    assert row["size_mb_deleted"] == 2 * len(b"content of a.split") / 1e6
    assert row["message"].startswith("would delete 2 data files")
    assert table.purge(24)["orphaned_files_deleted"] == 2


def test_a_dry_run_asks_nothing_of_the_store_that_writes(table) -> None:
    table.append("a.split")
    table.overwrite("b.split")
    table.wait(1000)

    class ReadOnly:
        def __getattr__(self, name):
            assert not name.startswith(("put", "delete")), name
            return getattr(table.store, name)

    assert table.purge(24, store=ReadOnly(), dry_run=True)["orphaned_files_found"] == 1


def test_the_most_files_to_delete_are_the_oldest(table) -> None:
    for number in (3, 1, 2, 5, 4):
        table.put(f"{number}.split")
        table.wait(1)
    table.wait(100)
    row = table.purge(24, options={"purge.maxFilesToDelete": 2})
    assert (row["orphaned_files_found"], row["orphaned_files_deleted"]) == (5, 2)
    assert "3 more data files are left for the next purge" in row["message"]
    assert table.splits == {"2.split", "4.split", "5.split"}
    assert table.purge(24)["orphaned_files_deleted"] == 3


def test_ages_are_those_of_the_store_and_not_of_the_host(table) -> None:
    table.put("a.split")
    start_ms = table.clock.ms
    table.clock.ms += 1000 * HOUR_MS  # the host runs ahead
    for hours, found in ((23, 0), (24, 1)):
        store = AgingStore(table.inner, lambda hours=hours: start_ms + hours * HOUR_MS, table.modified_ms)
        assert table.purge(24, store=store)["orphaned_files_found"] == found


def test_the_probe_is_gone_afterwards_and_old_ones_too(table) -> None:
    table.put(f"{PROBE_PREFIX}left")
    table.wait(0.5)
    table.purge(24)
    assert [key for key in table.content if key.startswith(PROBE_PREFIX)] == [f"{PROBE_PREFIX}left"]
    table.wait(1)
    table.purge(24)
    assert not [key for key in table.content if key.startswith(PROBE_PREFIX)]


def test_a_purge_that_finds_nothing_commits_nothing(table) -> None:
    table.append("a.split")
    table.wait(1000)
    assert table.purge(24)["status"] == "NO_ACTION"
    assert (table.newest, table.horizon) == (1, 0)


def test_an_orphan_goes_without_a_horizon_where_every_version_is_there(table) -> None:
    table.put("orphan.split")
    table.wait(30)
    table.append("a.split")
    table.purge(24)
    assert table.splits == {"a.split"}
    assert table.horizon == 0, "version 0 is older than the retention, and nothing is older than it"


def test_the_log_is_cleaned_up_after_the_data(table) -> None:
    for number in range(12):
        table.overwrite(f"{number}.split")
        if number % 3 == 2:
            table.log(**{"cleanup.enabled": "false"}).checkpoint()
    table.wait(24 * 40)
    table.append("new.split")
    before = {key for key in table.content if parse_version_key(key) is not None}
    dry = table.purge(24, dry_run=True)
    row = table.purge(24, options={"cleanup.enabled": "false"})
    gone = before - table.content.keys()
    assert len(gone) == row["tx_log_files_deleted"] == dry["tx_log_files_deleted"] > 5
    assert row["expired_states_found"] == row["expired_states_deleted"] == dry["expired_states_found"] > 0
    assert dry["expired_states_deleted"] == 0
    assert live_paths(table.log()) == ["11.split", "new.split"]


def test_the_retention_of_the_log_can_be_said(table) -> None:
    for number in range(12):
        table.append(f"{number}.split")
        if number % 3 == 2:
            table.log(**{"cleanup.enabled": "false"}).checkpoint()
        table.wait(5)
    assert table.purge(24)["tx_log_files_deleted"] == 0
    assert table.purge(24, log_retention="20 hours")["tx_log_files_deleted"] > 0
    assert len(live_paths(table.log())) == 12


def test_more_versions_than_a_clean_up_takes_at_once_go(table, monkeypatch) -> None:
    monkeypatch.setattr("indextables.state.cleanup.retention._MOST_VERSIONS", 2)
    for number in range(8):
        table.append(f"{number}.split")
    table.log(**{"cleanup.enabled": "false"}).checkpoint()
    table.append("8.split")
    table.log(**{"cleanup.enabled": "false"}).checkpoint()
    table.wait(24 * 40)
    assert table.purge(24)["tx_log_files_deleted"] == 8


def test_files_of_versions_that_were_cleaned_up_wait_for_the_oldest_version(table) -> None:
    """Nobody knows when they were removed, only that it was before the oldest version that is there."""
    table.append("a.split")
    table.wait(100)
    table.overwrite("b.split")
    log = table.log()
    log.checkpoint()
    for version in range(log.checkpoint().version):
        table.inner.delete(f"_transaction_log/{version:020d}.json")
    table.wait(23)
    assert table.purge(24)["orphaned_files_found"] == 0
    table.wait(1)
    assert table.purge(24)["orphaned_files_deleted"] == 1
    assert table.splits == {"b.split"}


def test_where_versions_go_sooner_than_data_their_retention_counts(table) -> None:
    options = {"logRetention.duration": "30h"}
    table.append("a.split")
    table.wait(500)
    table.overwrite("b.split")
    log = table.log()
    newest = log.checkpoint().version
    for version in range(newest):
        table.inner.delete(f"_transaction_log/{version:020d}.json")
    table.wait(29)
    assert table.purge(100, options=options)["orphaned_files_found"] == 0
    table.wait(2)
    assert table.purge(100, options=options)["orphaned_files_deleted"] == 1
    assert table.horizon == newest


def test_files_of_versions_that_are_missing_between_states_wait_for_the_next_version(table) -> None:
    """A state of version 2 is all that is left of the old versions: `c` came and went in between."""
    table.append("a.split")
    table.append("b.split")
    quiet = {"cleanup.enabled": "false"}
    table.log(**quiet).checkpoint()
    table.append("c.split")
    table.wait(500)
    table.merge(["c.split"], "d.split")
    newest = table.log(**quiet).checkpoint().version
    for version in range(newest):
        table.inner.delete(f"_transaction_log/{version:020d}.json")
    assert live_paths(table.log(), version=2) == ["a.split", "b.split"]
    table.wait(23)
    assert table.purge(24)["orphaned_files_found"] == 0
    table.wait(1)
    assert table.purge(24)["orphaned_files_deleted"] == 1
    assert table.splits == {"a.split", "b.split", "d.split"}


def test_times_of_versions_never_go_back(table) -> None:
    """A version file that was put again is young: whatever comes after it counts as young, too."""
    table.append("a.split")
    table.wait(100)
    table.overwrite("b.split")
    table.append("c.split")
    table.modified_ms["_transaction_log/00000000000000000003.json"] -= 100 * HOUR_MS
    assert table.purge(24)["orphaned_files_found"] == 0
    table.wait(24)
    assert table.purge(24)["orphaned_files_deleted"] == 1


def test_progress_is_told(table) -> None:
    table.put(*(f"{number}.split" for number in range(1005)))
    table.wait(100)
    told = []
    with reporting_to(lambda *said: told.append(said)):
        table.purge(24)
    assert told == [("deleting files", 1000, 1005), ("deleting files", 1005, 1005)]


def test_a_table_of_real_splits_reads_and_searches_after_a_purge(tmp_path) -> None:
    schema = pa.schema([("id", pa.int64()), ("message", pa.string()), ("day", pa.string())])
    options = {**UNCHECKED, "cache.disk.path": str(tmp_path / "cache")}
    table = it.Table.create(tmp_path / "t", schema, partition_by=["day"], indexing={"message": "text"}, options=options)
    rows = pa.table({"id": [1, 2], "message": ["one error", "two"], "day": ["mon", "x/y"]}, schema=schema)
    table.append(rows)
    table.append(rows)
    table.overwrite(rows)
    (row,) = table.purge(older_than="0 hours").to_pylist()
    assert (row["status"], row["orphaned_files_deleted"]) == ("SUCCESS", 4)
    assert table.version == it.Table.open(tmp_path / "t").version == 4
    assert sorted(table.search("error")["id"].to_pylist()) == [1]
    assert table.count() == 2
    assert len(list((tmp_path / "t").rglob("*.split"))) == 2
    with pytest.raises(RetentionError):
        it.Table.open(tmp_path / "t", version=2)
    assert table.purge(older_than="0 hours")["status"].to_pylist() == ["NO_ACTION"]
