"""Time travel, history, skips, caches, and handles in other processes."""

from __future__ import annotations

import datetime
import multiprocessing
import pickle

import pyarrow as pa
import pytest
from tests.conftest import SCHEMA, live_paths, make_add

import indextables as it
from indextables.clock import SYSTEM_CLOCK
from indextables.errors import ConfigError, RetentionError

HOUR_MS = 3_600_000
START_MS = 1_767_225_600_000


class Ticking:
    """A clock of one hour a commit."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now = now_ms

    def __getattr__(self, name):
        return getattr(SYSTEM_CLOCK, name)

    def now_ms(self) -> int:
        return self.now


@pytest.fixture
def hourly(tmp_path) -> tuple[it.TransactionLog, Ticking]:
    """Version n was committed n hours into 2026 and added `n.split`."""
    clock = Ticking()
    log = it.TransactionLog(tmp_path / "t", clock=clock)
    log.initialize(SCHEMA)
    for number in range(1, 11):
        clock.now = START_MS + number * HOUR_MS
        log.add_files([make_add(f"{number}.split")])
    return log, clock


@pytest.mark.parametrize("optimized", ["true", "false"])
def test_time_travel_by_version_and_timestamp(hourly, optimized) -> None:
    log = it.TransactionLog(hourly[0].url, options={"transaction.useOptimized": optimized})
    for version in range(11):
        assert log.snapshot(version=version).num_files == version
        exact = START_MS + version * HOUR_MS
        for moment in (exact, exact + 1, exact + HOUR_MS - 1):
            assert log.snapshot(timestamp=moment).version == version
    assert log.snapshot(timestamp="2026-01-01T03:30:00Z").version == 3
    assert log.snapshot(timestamp="2026-01-01T03:30:00+02:00").version == 1
    assert log.snapshot(timestamp=datetime.datetime(2026, 1, 1, 5, tzinfo=datetime.UTC)).version == 5
    assert log.snapshot(timestamp="2030-01-01").version == 10


def test_time_travel_says_what_is_reachable(hourly) -> None:
    log, _ = hourly
    for version in (11, 10**20):
        with pytest.raises(RetentionError, match="versions 0 to 10"):
            log.snapshot(version=version)
    with pytest.raises(RetentionError, match="oldest version, 0, is of 2026-01-01T00:00:00"):
        log.snapshot(timestamp="2025-12-31")
    for bad in ("yesterday", "2026-13-01"):
        with pytest.raises(ConfigError, match=bad):
            log.snapshot(timestamp=bad)
    with pytest.raises(ConfigError, match="at once"):
        log.snapshot(version=1, timestamp="2026-01-01")
    for bad in ("3", 1.5, True):
        with pytest.raises(ConfigError, match="whole number"):
            log.snapshot(version=bad)
    with pytest.raises(ConfigError, match="counted from 0"):
        log.snapshot(version=-1)


def test_versions_without_a_commit_line_are_dated_by_their_files(hourly, tmp_path) -> None:
    import os

    from tests.log.test_log_hostile import add_line

    from indextables.protocol.names import version_key

    log, _ = hourly
    path = tmp_path / "t" / version_key(11)
    path.write_bytes(add_line("foreign.split"))
    moment = (START_MS + 20 * HOUR_MS) / 1000
    os.utime(path, (moment, moment))
    reopened = it.TransactionLog(log.url)
    assert reopened.snapshot().timestamp_ms == START_MS + 20 * HOUR_MS
    assert reopened.snapshot(timestamp=START_MS + 19 * HOUR_MS).version == 10
    assert reopened.snapshot(timestamp=START_MS + 21 * HOUR_MS).version == 11
    newest = reopened.history(limit=1).to_pylist()[0]
    assert (newest["operation"], newest["txn_id"], newest["files_added"]) == (None, None, 1)


def test_history_is_newest_first_and_limited(hourly) -> None:
    log, _ = hourly
    log.overwrite_files([make_add("only.split", num_records=3)])
    history = log.history(limit=2).to_pylist()
    assert [row["version"] for row in history] == [11, 10]
    assert history[0] | {"txn_id": "", "engine": "", "timestamp": None} == {
        "version": 11,
        "timestamp": None,
        "operation": "WRITE",
        "parameters": [("mode", "Overwrite")],
        "read_version": 10,
        "files_added": 1,
        "files_removed": 10,
        "records_added": 3,
        "txn_id": "",
        "engine": "",
    }
    assert log.history().num_rows == 12
    assert log.history()["operation"].to_pylist()[-1] == "CREATE"
    with pytest.raises(ConfigError):
        log.history(limit=0)


def test_describe_has_a_row_for_every_action(hourly) -> None:
    log, _ = hourly
    described = log.describe()
    assert described.num_rows == 2 + 10 * 2
    assert described["action_type"].to_pylist()[:4] == ["protocol", "metadata", "commit_info", "add"]
    assert described.filter(pa.compute.equal(described["action_type"], "add"))["path"].to_pylist() == [
        f"{number}.split" for number in range(1, 11)
    ]


def test_skips_count_and_cool_down(hourly) -> None:
    log, clock = hourly
    log.record_skipped_file("1.split", reason="footer is damaged", operation="merge", size=100)
    assert log.is_in_cooldown("1.split")
    assert log.files_in_cooldown() == {"1.split": clock.now + 24 * HOUR_MS}
    it.TransactionLog(log.url, clock=clock).record_skipped_file("1.split", reason="still damaged", cooldown_hours=1)
    (skip,) = log.skipped_files()
    assert (skip.skip_count, skip.reason) == (2, "still damaged")
    assert skip.retry_after == clock.now + 24 * HOUR_MS
    assert "1.split" in live_paths(log)
    assert log.filter_files_in_cooldown(log.list_files()).num_rows == 9
    assert log.filter_files_in_cooldown(["1.split", "2.split"]) == ["2.split"]
    assert log.filter_files_in_cooldown([make_add("1.split"), make_add("3.split")]) == [make_add("3.split")]
    clock.now += 25 * HOUR_MS
    assert not log.is_in_cooldown("1.split")
    assert len(log.skipped_files()) == 1
    log.replace_files(["1.split"], [make_add("one.split")])
    assert log.skipped_files() == []
    with pytest.raises(ConfigError):
        log.record_skipped_file("x.split", reason="r", cooldown_hours=-1)


def test_caches_hit_and_can_be_switched_off(hourly) -> None:
    log = it.TransactionLog(hourly[0].url)
    for _ in range(4):
        log.list_files()
        log.metadata()
        log.protocol()
        log.read_version(3)
    stats = log.cache_stats()
    for rate in (stats.files, stats.metadata, stats.protocol, stats.version):
        assert 0 < rate < 1
    off = it.TransactionLog(hourly[0].url, options={"transaction.cache.enabled": "false"})
    for _ in range(3):
        assert off.list_files().num_rows == 10
    assert off.cache_stats().hits == 0
    assert off.cache_stats().misses > 0


def test_a_cache_lives_as_long_as_it_is_set_to(hourly) -> None:
    class Now:
        seconds = 0.0

        def __getattr__(self, name):
            return getattr(SYSTEM_CLOCK, name)

        def monotonic(self) -> float:
            return self.seconds

    now = Now()
    options = {"transaction.cache.expirationSeconds": 60}
    log = it.TransactionLog(hourly[0].url, options=options, clock=now)
    log.read_version(3)
    log.read_version(3)
    assert log.cache_stats().version == 0.5
    now.seconds = 61
    log.read_version(3)
    assert log.cache_stats().version == pytest.approx(1 / 3)


def test_staleness_is_allowed_only_where_asked_for_and_never_for_own_commits(hourly) -> None:
    log = it.TransactionLog(hourly[0].url)
    assert log.list_files().num_rows == 10
    hourly[0].add_files([make_add("other.split")])
    assert log.list_files(max_staleness_seconds=60).num_rows == 10
    assert log.list_files().num_rows == 11
    log.add_files([make_add("own.split")])
    assert log.list_files(max_staleness_seconds=60).num_rows == 12


def test_a_handle_pickles_as_its_address_and_options(hourly) -> None:
    log = it.TransactionLog(hourly[0].url, options={"transaction.retry.maxAttempts": 3})
    copy = pickle.loads(pickle.dumps(log))
    assert copy.url == log.url
    assert live_paths(copy) == live_paths(log)


def _read_in_child(log: it.TransactionLog, answers) -> None:
    answers.put(log.snapshot().num_files)
    log.add_files([make_add("child.split")])


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_an_open_handle_works_after_a_fork(hourly) -> None:
    log, _ = hourly
    log.snapshot()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_read_in_child, args=(log, answers))
    child.start()
    assert answers.get(timeout=30) == 10
    child.join(30)
    assert child.exitcode == 0
    assert "child.split" in live_paths(log)


def test_the_hint_of_the_last_checkpoint_is_read(hourly, tmp_path) -> None:
    from indextables.errors import CheckpointCorruptionError

    log = it.TransactionLog(hourly[0].url)
    assert log.last_checkpoint() is None
    path = tmp_path / "t" / "_transaction_log" / "_last_checkpoint"
    path.write_text('{"version": 10, "future": true}')
    assert log.last_checkpoint().version == 10
    path.write_text("{")
    log.invalidate_cache()
    with pytest.raises(CheckpointCorruptionError, match="_last_checkpoint"):
        log.last_checkpoint()
    assert log.list_files().num_rows == 10


def test_options_are_checked(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"checkpoint\.interval"):
        it.TransactionLog(tmp_path, options={"checkpoint.intervall": 3})
    with pytest.raises(ConfigError, match="maxAttempts"):
        it.TransactionLog(tmp_path, options={"transaction.retry.maxAttempts": "never"})


def test_table_properties_rule_where_no_option_does(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "t")
    log.initialize(SCHEMA, configuration={"spark.indextables.transaction.compression.enabled": "false"})
    log.add_files([make_add("a.split")])
    assert (tmp_path / "t" / "_transaction_log" / "00000000000000000001.json").read_bytes().startswith(b"{")
    packed = it.TransactionLog(tmp_path / "t", options={"transaction.compression.enabled": "true"})
    packed.add_files([make_add("b.split")])
    assert (tmp_path / "t" / "_transaction_log" / "00000000000000000002.json").read_bytes().startswith(b"\x1f\x8b")


def test_the_history_of_commits_that_stand_in_states_alone(shared) -> None:
    """As the original product leaves them: a version file for version 0, and a state for every commit."""
    log = it.TransactionLog(shared / "fixtures" / "upstream-0.5.4" / "05_many_transactions")
    rows = log.history().to_pylist()
    newest = log.snapshot()
    assert [row["version"] for row in rows] == list(range(newest.version, -1, -1))
    assert sum(row["files_added"] - row["files_removed"] for row in rows) == newest.num_files
    assert sum(row["records_added"] for row in rows) >= newest.num_records
    assert all(row["operation"] is None for row in rows[:-1])
    assert [row["timestamp"] for row in rows] == sorted((row["timestamp"] for row in rows), reverse=True)
    assert log.history(limit=3).to_pylist() == rows[:3]
    dropped = it.TransactionLog(shared / "fixtures" / "upstream-0.5.4" / "12_partition_drop")
    assert sum(row["files_removed"] for row in dropped.history().to_pylist()) > 0
