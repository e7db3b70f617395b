"""Clean-up after a checkpoint: what goes, what stays, and what happens when it fails."""

from __future__ import annotations

import concurrent.futures
import logging
import os
import shutil
import threading
from pathlib import Path

import pytest
from tests.aging import AgingStore
from tests.conftest import SCHEMA, live_paths, make_add
from tests.doubles.faulty_store import Fault, FaultyStore

import indextables as it
from indextables.config import Config
from indextables.errors import RetentionError, StorageError
from indextables.protocol.avro import file_entry
from indextables.protocol.names import LOG_DIRECTORY, parse_checkpoint_key, parse_version_key, version_key
from indextables.state.cleanup.retention import Listing, Retention
from indextables.store import open_store

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
KEEP_LITTLE = {
    "logRetention.duration": "0",
    "state.retention.hours": 0,
    "state.retention.versions": 1,
    "checkpointRetention.duration": "0",
}


class Place:
    """A table on local disk whose files age as the test says."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now_ms = 10**12
        self.modified_ms: dict[str, int] = {}
        self.inner = open_store(str(path), Config.resolve())
        self.store = AgingStore(self.inner, lambda: self.now_ms, self.modified_ms)
        self.log().initialize(SCHEMA)

    def log(self, store=None, **options) -> it.TransactionLog:
        return it.TransactionLog(self.path, options={"checkpoint.interval": 5, **options}, store=store or self.store)

    def commit(self, first: int, last: int, *, minutes_each: float = 0, **options) -> it.TransactionLog:
        log = self.log(**options)
        for number in range(first, last + 1):
            self.now_ms += int(minutes_each * 60_000)
            assert log.add_files([make_add(f"{number}.split")]) == number
            log.wait_for_checkpoint()
        return log

    def clean_up(self, **options):
        log = self.log(**options)
        return log._checkpointer.clean_up(log.config)

    def wait(self, **hours: float) -> None:
        self.now_ms += int(hours["hours"] * HOUR_MS)
        self.store.put(f"{LOG_DIRECTORY}/_last_checkpoint", self.inner.get(f"{LOG_DIRECTORY}/_last_checkpoint"))

    @property
    def versions(self) -> list[int]:
        return sorted(version for key in self.keys if (version := parse_version_key(key)) is not None)

    @property
    def states(self) -> list[int]:
        return sorted({version for key in self.keys if (version := parse_checkpoint_key(key)) is not None})

    @property
    def manifests(self) -> set[str]:
        return {key for key in self.keys if "/manifests/" in key}

    @property
    def keys(self) -> list[str]:
        return [meta.key for meta in self.inner.list(LOG_DIRECTORY)]


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path / "t")


def test_nothing_goes_within_thirty_days(place) -> None:
    place.commit(1, 23, **{"cleanup.enabled": "false"})
    place.wait(hours=29 * 24)
    assert place.clean_up().versions == ()
    assert place.versions == list(range(24))
    assert place.clean_up().checkpoints == ()


def test_after_thirty_days_the_versions_below_the_second_newest_state_go(place) -> None:
    place.commit(1, 23, **{"cleanup.enabled": "false"})
    place.wait(hours=31 * 24)
    cleaned = place.clean_up()
    assert cleaned.versions == tuple(range(15))
    assert place.versions == list(range(15, 24))
    assert place.states == [10, 15, 20]
    assert cleaned.checkpoints == (5,)
    assert len(live_paths(place.log())) == 23
    assert len(live_paths(place.log(**{"checkpoint.enabled": "false"}))) == 23


def test_time_travel_reaches_what_is_retained_and_says_what_that_is(place) -> None:
    place.commit(1, 23, **{"cleanup.enabled": "false"})
    place.wait(hours=31 * 24)
    place.clean_up()
    log = place.log()
    for version in [10, *range(15, 24)]:
        assert len(log.snapshot(version=version).files) == version
    with pytest.raises(RetentionError, match="it has the versions 10 and 15 to 23"):
        log.snapshot(version=12)
    assert place.log().schema() == SCHEMA


def test_the_floor_of_an_hour_holds_whatever_is_set(place) -> None:
    place.commit(1, 23, minutes_each=5, **KEEP_LITTLE, **{"cleanup.enabled": "false"})
    place.wait(hours=0.01)
    assert place.clean_up(**KEEP_LITTLE).versions == tuple(range(10))
    assert place.versions[0] == 10, "version 11 is an hour old, but only a state can be the oldest thing that stays"
    assert place.states == [10, 15, 20]


def test_the_newest_version_and_two_states_always_stay(place) -> None:
    place.commit(1, 20, **{"cleanup.enabled": "false"})
    place.wait(hours=10_000)
    place.clean_up(**KEEP_LITTLE)
    assert place.versions == list(range(15, 21))
    assert place.states == [15, 20]
    place.wait(hours=10_000)
    assert place.clean_up(**KEEP_LITTLE).num_files == 0


def test_one_state_alone_lets_nothing_go(place) -> None:
    place.commit(1, 6, **{"cleanup.enabled": "false"})
    place.wait(hours=10_000)
    assert place.clean_up(**KEEP_LITTLE).num_files == 0


@pytest.mark.parametrize(
    ("options", "oldest"),
    [
        ({"logRetention.duration": "2h"}, 15),
        ({"logRetention.duration": "2h", "purge.txLogRetentionHours": 11}, 5),
        ({"logRetention.duration": "2h", "checkpoint.retention": 12}, 5),
        ({"checkpoint.retention": 3}, 15),
        ({"purge.txLogRetentionHours": 100, "checkpoint.retention": 1}, 0),
        ({"logRetention.duration": "2h", "purgeOnWrite.txLogRetentionHours": 100}, 15),
        ({"logRetention.duration": "2h", "purgeOnWrite.txLogRetentionHours": 100, "purgeOnWrite.enabled": "true"}, 0),
        ({}, 0),
    ],
)
def test_of_the_keys_that_are_set_the_longest_wins(place, options, oldest) -> None:
    place.commit(1, 20, minutes_each=60, **{"cleanup.enabled": "false"})
    place.clean_up(**options)
    assert place.versions[0] == oldest


def test_a_table_property_sets_the_retention(place) -> None:
    place.log().set_properties({"spark.indextables.logRetention.duration": "0"})
    log = place.log(**{"cleanup.enabled": "false"})
    for number in range(20):
        log.add_files([make_add(f"{number}.split")])
        log.wait_for_checkpoint()
    place.wait(hours=2)
    place.log().checkpoint()
    assert place.versions[0] == 20


def test_an_automatic_checkpoint_cleans_up(place) -> None:
    place.commit(1, 19, **{"cleanup.enabled": "false"})
    place.now_ms += 2 * HOUR_MS
    log = place.commit(20, 20, **KEEP_LITTLE)
    assert place.versions[0] == 15
    assert log.metrics().versions_cleaned == 15
    assert log.metrics().checkpoints_cleaned == 2
    assert len(live_paths(place.log())) == 20


def test_nothing_is_cleaned_up_where_that_is_switched_off(place) -> None:
    place.commit(1, 19, **KEEP_LITTLE, **{"cleanup.enabled": "false"})
    place.wait(hours=100)
    place.log(**KEEP_LITTLE, **{"cleanup.enabled": "false"}).checkpoint()
    assert place.versions == list(range(20))


def test_a_dry_run_says_what_would_go_and_deletes_nothing(place, caplog) -> None:
    place.commit(1, 20, **{"cleanup.enabled": "false"})
    place.wait(hours=100)
    before = place.keys
    with caplog.at_level(logging.INFO, logger="indextables"):
        cleaned = place.clean_up(**KEEP_LITTLE, **{"cleanup.dryRun": "true"})
    assert place.keys == before
    assert cleaned.is_dry_run
    assert cleaned.versions == tuple(range(15))
    assert "would delete the versions [0, 1, 2" in caplog.text


def test_a_damaged_state_counts_for_nothing(place) -> None:
    place.commit(1, 20, **{"cleanup.enabled": "false"})
    path = place.path / LOG_DIRECTORY / f"state-v{20:020d}" / "_manifest.avro"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    place.wait(hours=100)
    place.clean_up(**KEEP_LITTLE)
    assert place.versions[0] == 10
    assert len(live_paths(place.log())) == 20


def test_a_state_that_no_reader_here_can_decode_counts_for_nothing(place, monkeypatch) -> None:
    place.commit(1, 20, **{"cleanup.enabled": "false"})
    before = place.versions
    place.wait(hours=100)

    def decodes_nothing(path, columns):
        raise ValueError("it cannot be decoded (unresolved named schema)")

    with monkeypatch.context() as patch:
        patch.setattr(file_entry, "_read_avro", decodes_nothing)
        place.clean_up(**KEEP_LITTLE)
    assert place.versions == before
    assert len(live_paths(place.log())) == 20


def test_a_state_that_lost_a_manifest_counts_for_nothing(place) -> None:
    place.commit(1, 20, **{"cleanup.enabled": "false"})
    state = place.log()._checkpointer._states.state_at(20)
    (place.path / LOG_DIRECTORY / state.manifests[-1].path).unlink()
    place.wait(hours=100)
    place.clean_up(**KEEP_LITTLE)
    assert place.versions[0] == 10
    assert len(live_paths(place.log())) == 20


def test_version_0_stays_where_a_state_of_another_writer_needs_it(shared, tmp_path) -> None:
    source = next(path for path in sorted(shared.rglob("_transaction_log")) if (path / f"{0:020d}.json").exists())
    table = Path(shutil.copytree(source.parent, tmp_path / "table"))
    before = len(live_paths(it.TransactionLog(table)))
    log = it.TransactionLog(table, options={"checkpoint.interval": 3, **KEEP_LITTLE})
    newest = log.snapshot().version
    log.upgrade_protocol()
    for number in range(4):
        log.add_files([make_add(f"new-{number}.split", partition_values=_some_partition(log))])
        log.wait_for_checkpoint()
    for file in (table / LOG_DIRECTORY).rglob("*"):
        if file.is_file():
            os.utime(file, (1, 1))
    it.TransactionLog(table, options={**KEEP_LITTLE, "state.retention.versions": 100}).checkpoint()
    assert (table / version_key(0)).exists()
    assert len(it.TransactionLog(table).snapshot(version=newest).files) == before
    log.checkpoint()
    assert not (table / version_key(0)).exists(), "once only states of our own are left, nobody needs it"
    assert len(live_paths(it.TransactionLog(table))) == before + 4


def _some_partition(log: it.TransactionLog) -> dict[str, str]:
    return dict(log.list_files()["partition_values"][0].as_py() or [])


def test_manifests_that_nobody_names_go_after_an_hour(place) -> None:
    log = place.commit(1, 20, **{"cleanup.enabled": "false"})
    orphan = f"{LOG_DIRECTORY}/manifests/manifest-{'0' * 32}.avro"
    place.store.put(orphan, b"left by a writer that died")
    place.log().checkpoint()
    place.wait(hours=0.5)
    assert place.clean_up(**KEEP_LITTLE).manifests == ()
    place.wait(hours=1)
    cleaned = place.clean_up(**KEEP_LITTLE)
    assert orphan in cleaned.manifests
    place.log().checkpoint()
    place.wait(hours=2)
    place.clean_up(**KEEP_LITTLE)
    named = {
        f"{LOG_DIRECTORY}/{info.path}"
        for version in place.states
        for info in log._checkpointer._states.state_at(version).manifests
    }
    assert place.manifests == named
    assert len(live_paths(place.log(**{"cache.disk.enabled": "false"}))) == 20


def test_no_manifest_goes_while_a_state_that_stays_cannot_be_read(place) -> None:
    place.commit(1, 20, **{"cleanup.enabled": "false"})
    path = place.path / LOG_DIRECTORY / f"state-v{20:020d}" / "_manifest.avro"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    before = place.manifests
    place.wait(hours=5)
    place.clean_up(**KEEP_LITTLE | {"state.retention.hours": 200})
    assert place.manifests == before


def test_a_state_that_cannot_be_deleted_keeps_its_manifests(place) -> None:
    log = place.log(**{"cleanup.enabled": "false"})
    for number in range(1, 6):
        log.overwrite_files([make_add(f"{number}.split")])
        log.checkpoint()
    before = place.manifests
    place.wait(hours=5)
    oldest = place.states[0]

    def script(call):
        is_state = call.verb == "delete" and parse_checkpoint_key(call.key) == oldest
        return Fault.UNAVAILABLE if is_state else Fault.NONE

    failing = place.log(FaultyStore(place.store, script), **KEEP_LITTLE)
    cleaned = failing._checkpointer.clean_up(failing.config)
    assert cleaned.checkpoints
    assert (cleaned.num_failed, cleaned.manifests) == (1, ())
    assert place.manifests == before
    assert live_paths(place.log(**{"cache.disk.enabled": "false"}), version=oldest) == ["1.split"]
    assert place.clean_up(**KEEP_LITTLE).manifests


def test_a_manifest_that_is_put_again_meanwhile_stays(place) -> None:
    place.commit(1, 20, **{"cleanup.enabled": "false"})
    orphan = f"{LOG_DIRECTORY}/manifests/manifest-{'0' * 32}.avro"
    place.store.put(orphan, b"old")
    place.wait(hours=5)

    def script(call):
        if (call.verb, call.key) == ("head", orphan):
            place.now_ms += 10_000
            place.store.put(orphan, b"old")
        return Fault.NONE

    log = place.log(FaultyStore(place.store, script), **KEEP_LITTLE)
    assert orphan not in log._checkpointer.clean_up(log.config).manifests
    assert orphan in place.manifests


def test_a_table_made_anew_in_the_middle_keeps_its_versions(place, tmp_path) -> None:
    place.commit(1, 20, **{"cleanup.enabled": "false"})
    place.wait(hours=100)

    def script(call):
        if (call.verb, call.key) == ("head", version_key(3)):
            place.store.put(version_key(3), b"of another table")
        return Fault.NONE

    log = place.log(FaultyStore(place.store, script), **KEEP_LITTLE)
    assert log._checkpointer.clean_up(log.config).versions == (0, 1, 2)
    assert place.versions == list(range(3, 21))


def test_a_file_that_cannot_be_deleted_is_left_for_the_next_clean_up(place, caplog) -> None:
    place.commit(1, 20, **{"cleanup.enabled": "false"})
    place.wait(hours=100)

    def script(call):
        return Fault.UNAVAILABLE if call.verb == "delete" and call.key == version_key(7) else Fault.NONE

    log = place.log(FaultyStore(place.store, script), **KEEP_LITTLE)
    with caplog.at_level(logging.WARNING, logger="indextables"):
        cleaned = log._checkpointer.clean_up(log.config)
    assert cleaned.versions == tuple(range(7)), "upwards, and without a hole"
    assert cleaned.checkpoints == (5, 10)
    assert "cannot clean up" in caplog.text
    assert len(live_paths(place.log())) == 20
    assert place.clean_up(**KEEP_LITTLE).versions == tuple(range(7, 15))


def test_a_failure_is_an_error_where_the_policy_says_so(place) -> None:
    place.commit(1, 20, **{"cleanup.enabled": "false"})
    place.wait(hours=100)
    store = FaultyStore(place.store, lambda call: Fault.UNAVAILABLE if call.verb == "delete" else Fault.NONE)
    log = place.log(store, **KEEP_LITTLE, **{"cleanup.failurePolicy": "fail"})
    with pytest.raises(StorageError):
        log.checkpoint()
    assert len(live_paths(place.log())) == 20


def test_a_large_backlog_is_worked_off_by_several_clean_ups(place, monkeypatch) -> None:
    monkeypatch.setattr("indextables.state.cleanup.retention._MOST_VERSIONS", 6)
    place.commit(1, 20, **{"cleanup.enabled": "false"})
    place.wait(hours=100)
    assert [place.clean_up(**KEEP_LITTLE).versions for _ in range(4)] == [
        tuple(range(6)),
        tuple(range(6, 12)),
        tuple(range(12, 15)),
        (),
    ]


def test_empty_directories_of_states_go_with_them(place) -> None:
    place.commit(1, 20, **{"cleanup.enabled": "false"})
    place.wait(hours=100)
    place.clean_up(**KEEP_LITTLE)
    directories = sorted(path.name for path in (place.path / LOG_DIRECTORY).glob("state-v*"))
    assert directories == [f"state-v{15:020d}", f"state-v{20:020d}"]


@pytest.mark.parametrize("kind", ["json", "parquet"])
@pytest.mark.parametrize("size", ["200", "1M"])
def test_older_formats_are_cleaned_up_with_all_their_parts(place, kind, size) -> None:
    options = {"state.format": kind, "checkpoint.maxFileSize": size, "cleanup.enabled": "false"}
    place.commit(1, 20, **options)
    place.wait(hours=100)
    cleaned = place.clean_up(**KEEP_LITTLE)
    assert cleaned.checkpoints == (5, 10)
    assert not [key for key in place.keys if f"{10:020d}.checkpoint" in key or f"{5:020d}.checkpoint" in key]
    assert place.versions[0] == 15
    assert len(live_paths(place.log())) == 20


def test_superseded_json_checkpoints_go_by_their_own_key(place) -> None:
    place.commit(1, 20, minutes_each=30, **{"state.format": "json", "cleanup.enabled": "false"})
    place.clean_up()
    assert place.states == [10, 15, 20], "the oldest is older than two hours, and two old ones stay"
    assert place.versions == list(range(21))


def test_nothing_is_forgotten_by_a_clean_up(place) -> None:
    log = place.log(**{"cleanup.enabled": "false"})
    log.add_files([make_add("a.split", doc_mapping_json='[{"name":"a"}]')], application_id="app", batch_id=7)
    log.record_skipped_file("a.split", reason="odd")
    log.set_properties({"owner": "me"})
    before = log.snapshot()
    for number in range(4, 21):
        log.add_files([make_add(f"{number}.split")])
        log.wait_for_checkpoint()
    place.wait(hours=100)
    place.clean_up(**KEEP_LITTLE)
    after = place.log().snapshot()
    assert place.versions[0] == 15
    assert after.protocol == before.protocol
    assert after.metadata == before.metadata
    assert after.skips == before.skips
    assert after.transactions == before.transactions == {"app": (7, 1)}
    assert place.log().add_files([make_add("again.split")], application_id="app", batch_id=7) == 1


def test_readers_during_clean_ups_never_fail(place) -> None:
    """Writers commit and checkpoint, files age quickly, and readers with and without a memory read on."""
    place.commit(1, 5, **{"cleanup.enabled": "false"})
    ends = threading.Event()

    def write() -> None:
        try:
            log = place.log(**KEEP_LITTLE)
            for number in range(6, 80):
                place.now_ms += HOUR_MS
                log.add_files([make_add(f"{number}.split")])
                if number % 5 == 0:
                    log.wait_for_checkpoint()
                    log._checkpointer.clean_up(log.config)
        finally:
            ends.set()

    def read(fresh: bool) -> int:
        log, reads = place.log(), 0
        while not ends.is_set():
            log = place.log(**{"cache.disk.enabled": "false"}) if fresh else log
            snapshot = log.snapshot()
            assert len(snapshot.files) == snapshot.version
            reads += 1
        return reads

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read, fresh) for fresh in (True, False)]
        pool.submit(write).result()
        assert all(reader.result() > 3 for reader in readers)
    assert place.versions[0] > 50


def test_retention_is_read_from_the_settings() -> None:
    assert Retention.of(Config.resolve()) == Retention(30 * DAY_MS, None, 7 * DAY_MS, 2, 2 * HOUR_MS, HOUR_MS)
    only_count = Retention.of(Config.resolve(options={"checkpoint.retention": 7}))
    assert (only_count.version_ms, only_count.num_versions) == (None, 7)


def test_an_empty_log_has_nothing_to_clean_up() -> None:
    listing = Listing.of([])
    assert (listing.now_ms, listing.versions, listing.checkpoints) == (0, {}, {})


@pytest.mark.parametrize("kind", ["avro", "json", "parquet"])
def test_states_whose_version_is_gone_are_counted(place, kind) -> None:
    options = {"state.format": kind, "cleanup.enabled": "false"}
    place.commit(1, 40, **options)
    place.wait(hours=31 * 24)
    retained = {"state.retention.versions": 5, "state.retention.hours": 0, "state.format": kind}
    for _ in range(3):
        place.clean_up(**retained)
        assert place.states == [15, 20, 25, 30, 35, 40]
    assert place.versions == list(range(35, 41))
    assert len(live_paths(place.log(), version=20)) == 20
    log = place.log(**retained)
    purged = log.checkpointer.cleaner.purge(Retention.of(log.config), now_ms=place.now_ms, dry_run=False)
    assert purged.checkpoints == ()
    place.clean_up(**{**retained, "state.retention.versions": 2})
    assert place.states == [30, 35, 40]


def test_a_state_that_an_earlier_table_left_is_not_counted(place) -> None:
    place.commit(1, 20, **{"cleanup.enabled": "false"})
    place.wait(hours=31 * 24)
    place.clean_up(**{"state.retention.hours": 0})
    left = {key: place.inner.get(key) for key in place.keys if "state-v" in key or "/manifests/" in key}
    for key in place.keys:
        place.inner.delete(key)
    place.log().initialize(SCHEMA)
    place.commit(1, 31, **{"cleanup.enabled": "false"})
    for key, data in left.items():
        if key not in place.keys:
            place.store.put(key, data)
    place.wait(hours=31 * 24)
    log = place.log()
    log.checkpointer.cleaner.run(log.config)
    assert len(live_paths(place.log())) == 31
