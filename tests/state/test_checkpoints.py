"""Checkpoints as users meet them: made by themselves, used, adopted, and never in the way of a commit."""

from __future__ import annotations

import concurrent.futures
import logging
import shutil
import subprocess
import sys

import pytest
from tests.conftest import SCHEMA, live_paths, make_add
from tests.doubles.faulty_store import Fault, FaultyStore

import indextables as it
from indextables.config import Config
from indextables.errors import CheckpointWriteError, StorageError
from indextables.protocol.names import version_key
from indextables.store import open_store


@pytest.fixture
def url(tmp_path) -> str:
    log = it.TransactionLog(tmp_path / "t")
    log.initialize(SCHEMA)
    return log.url


def states(url: str) -> list[int]:
    keys = [meta.key for meta in open_store(url, Config.resolve()).list("_transaction_log")]
    return sorted(int(key.split("state-v")[1][:20]) for key in keys if "/state-v" in key)


def commit(log: it.TransactionLog, first: int, last: int) -> None:
    for number in range(first, last + 1):
        log.add_files([make_add(f"{number}.split")])
        log.wait_for_checkpoint()


def test_a_state_is_made_every_so_many_commits(url) -> None:
    log = it.TransactionLog(url, options={"checkpoint.interval": 4})
    commit(log, 1, 13)
    assert states(url) == [4, 8, 12]
    hint = log.last_checkpoint()
    assert (hint.version, hint.num_files, hint.size, hint.size_in_bytes) == (12, 12, 12, 1200)
    assert (hint.format, hint.state_dir) == ("avro-state", f"state-v{12:020d}")
    assert len(live_paths(it.TransactionLog(url))) == 13


def test_none_is_made_where_they_are_switched_off(url) -> None:
    commit(it.TransactionLog(url, options={"checkpoint.enabled": "false"}), 1, 12)
    assert states(url) == []


def test_a_table_property_sets_the_interval(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "t")
    log.initialize(SCHEMA, configuration={"checkpoint.interval": "3"})
    commit(log, 1, 4)
    assert states(log.url) == [3]


def test_old_versions_are_not_needed_once_a_state_holds_them(url, tmp_path) -> None:
    log = it.TransactionLog(url)
    commit(log, 1, 12)
    for version in range(10):
        (tmp_path / "t" / version_key(version)).unlink()
    fresh = it.TransactionLog(url)
    assert len(live_paths(fresh)) == 12
    assert fresh.schema() == SCHEMA
    assert fresh.protocol() == log.protocol()
    assert fresh.add_files([make_add("next.split")]) == 13
    assert fresh.versions() == [10, 11, 12, 13]
    with pytest.raises(it.errors.RetentionError, match="versions 10 to 13"):
        fresh.snapshot(version=5)


def test_a_new_state_holds_only_what_is_new(url, tmp_path) -> None:
    log = it.TransactionLog(url)
    log.add_files([make_add(f"old-{number}.split") for number in range(2_000)])
    log.checkpoint()
    manifests = tmp_path / "t" / "_transaction_log" / "manifests"
    before = {path.name: path.stat().st_size for path in manifests.iterdir()}
    commit(log, 1, 9)
    after = {path.name: path.stat().st_size for path in manifests.iterdir()}
    assert set(before) < set(after)
    assert [info.num_entries for info in log._checkpointer._states.state_at(10).manifests] == [2_000, 9]
    assert states(url) == [1, 10]
    assert len(live_paths(it.TransactionLog(url))) == 2_009


def test_removals_become_tombstones_and_then_a_compaction(url) -> None:
    options = {"state.compaction.tombstoneThreshold": 0.3, "state.compaction.afterMerge": "false"}
    log = it.TransactionLog(url, options=options)
    log.add_files([make_add(f"{number}.split") for number in range(10)])
    log.checkpoint()
    reader = log._checkpointer._states
    for number, expected in [(0, 1), (1, 2), (2, 3), (3, 0)]:
        version = log.replace_files([f"{number}.split"], [make_add(f"new-{number}.split")])
        log._checkpointer.write(version, Config.resolve(options=options))
        assert len(reader.state_at(version).tombstones) == expected
    assert len(live_paths(it.TransactionLog(url))) == 10


def test_a_checkpoint_on_request_is_compact_and_has_its_own_version(url) -> None:
    log = it.TransactionLog(url)
    commit(log, 1, 12)
    log._checkpointer.write(12, Config.resolve())
    hint = log.checkpoint()
    assert hint.version == 13
    assert log.history(limit=1)["operation"].to_pylist() == ["COMPACT"]
    assert log.checkpoint().version == 13
    assert len(log._checkpointer._states.state_at(13).manifests) == 1


def test_an_older_table_is_raised_in_a_commit_of_its_own(url, tmp_path) -> None:
    (tmp_path / "t" / version_key(1)).write_bytes(b'{"protocol":{"minReaderVersion":2,"minWriterVersion":2}}\n')
    log = it.TransactionLog(url)
    log.add_files([make_add("a.split")])
    assert log.protocol().min_reader_version == 2
    assert log.checkpoint().version == 3
    assert log.protocol().min_reader_version == 4
    assert log.history(limit=1)["operation"].to_pylist() == ["UPGRADE PROTOCOL"]


def test_a_checkpoint_that_fails_never_fails_the_commit(url, caplog) -> None:
    def script(call):
        return Fault.UNAVAILABLE if "manifest" in call.key else Fault.NONE

    store = FaultyStore(open_store(url, Config.resolve()), script)
    log = it.TransactionLog(url, store=store, options={"checkpoint.interval": 2})
    with caplog.at_level(logging.WARNING, logger="indextables"):
        commit(log, 1, 4)
    assert "no checkpoint" in caplog.text
    assert states(url) == []
    assert len(live_paths(it.TransactionLog(url))) == 4
    with pytest.raises(StorageError):
        log.checkpoint()


def test_two_writers_that_checkpoint_at_once_agree(url) -> None:
    it.TransactionLog(url).add_files([make_add(f"{number}.split") for number in range(50)])
    handles = [it.TransactionLog(url) for _ in range(6)]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        hints = list(pool.map(lambda log: log.checkpoint(), handles))
    assert {hint.num_files for hint in hints} == {50}
    assert len(live_paths(it.TransactionLog(url))) == 50


def test_a_process_that_ends_waits_for_its_checkpoint(url) -> None:
    script = (
        "import sys, indextables as it\n"
        "log = it.TransactionLog(sys.argv[1])\n"
        "for number in range(10):\n"
        "    log.add_files([it.actions.Add(path=f'{number}.split', partition_values={}, size=1, "
        "modification_time=1, data_change=True)])\n"
    )
    subprocess.run([sys.executable, "-c", script, url], check=True, timeout=60)
    assert states(url) == [10]


def test_reads_replay_where_checkpoints_are_switched_off(url, tmp_path) -> None:
    log = it.TransactionLog(url)
    commit(log, 1, 12)
    for manifest in (tmp_path / "t" / "_transaction_log" / "manifests").iterdir():
        manifest.unlink()
    assert len(live_paths(it.TransactionLog(url, options={"checkpoint.enabled": "false"}))) == 12
    assert len(live_paths(it.TransactionLog(url, options={"cache.disk.enabled": "false"}))) == 12


def test_a_state_of_a_former_table_is_not_taken_for_one_of_the_new(url, tmp_path) -> None:
    commit(it.TransactionLog(url), 1, 10)
    kept = tmp_path / "kept"
    shutil.copytree(tmp_path / "t" / "_transaction_log", kept)
    shutil.rmtree(tmp_path / "t")
    log = it.TransactionLog(url, options={"checkpoint.enabled": "false"})
    log.initialize(SCHEMA)
    log.add_files([make_add("new.split")])
    shutil.copytree(kept / "manifests", tmp_path / "t" / "_transaction_log" / "manifests")
    shutil.copytree(kept / f"state-v{10:020d}", tmp_path / "t" / "_transaction_log" / f"state-v{10:020d}")
    assert live_paths(it.TransactionLog(url)) == ["new.split"]
    for number in range(2, 13):
        again = it.TransactionLog(url, options={"checkpoint.enabled": "false"})
        assert again.add_files([make_add(f"{number}.split")]) == number
        assert len(live_paths(it.TransactionLog(url))) == number
    assert "1.split" not in live_paths(it.TransactionLog(url))


def test_no_state_is_written_to_a_table_that_is_gone(url, tmp_path) -> None:
    log = it.TransactionLog(url)
    commit(log, 1, 3)
    segment, snapshot = log.reader.newest_snapshot()
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(CheckpointWriteError, match="version is gone"):
        log._checkpointer._write(segment, snapshot, Config.resolve(), compact=True)
    assert states(url) == []


def test_a_handle_learns_of_states_whenever_they_were_written(url) -> None:
    log = it.TransactionLog(url, options={"checkpoint.enabled": "false"})
    commit(log, 1, 8)
    assert log.reader.segment().checkpoints == {}
    other = it.TransactionLog(url)
    other._checkpointer.write(3, other.config)
    assert set(log.reader.segment().checkpoints) == {3}
    shutil.rmtree(f"{url}/_transaction_log/state-v{3:020d}")
    assert log.reader.segment().checkpoints == {}


def test_a_checkpoint_that_comes_late_is_built_upon(url) -> None:
    """The next commits are made before a state in the background is there; the state after it is incremental."""
    log = it.TransactionLog(url, options={"checkpoint.interval": 1000})
    log.add_files([make_add(f"old-{number}.split") for number in range(500)])
    for number in range(5):
        log.add_files([make_add(f"{number}.split")])
    log._checkpointer.write(1, log.config)
    written = log._checkpointer.write(6, log.config)
    assert [info.num_entries for info in written.state.manifests] == [500, 5]
