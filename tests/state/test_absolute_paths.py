"""Files whose add was written with an absolute path: whatever names them again is spelled like the add."""

from __future__ import annotations

import gzip
import json

import pytest
from tests.conftest import SCHEMA, live_paths, make_add
from tests.foreign_writer import StateWriter, VersionWriter

import indextables as it
from indextables.log.commit.operations import Restore
from indextables.protocol.paths import WRITTEN_PATH_TAG

OPTIONS = {
    "checkpoint.interval": 10**6,
    "cache.disk.enabled": "false",
    "state.compaction.tombstoneThreshold": 1.0,
    "state.compaction.afterMerge": "false",
}


def opened(table, **options) -> it.TransactionLog:
    return it.TransactionLog(table, options={**OPTIONS, **options})


@pytest.fixture
def table(tmp_path):
    """A table with a file that another engine has added by an absolute path, in a version and in a state."""
    log = opened(tmp_path / "t")
    log.initialize(SCHEMA)
    log.add_files([make_add("splits/ours.split")])
    VersionWriter(tmp_path / "t").commit([absolute(tmp_path / "t")])
    return tmp_path / "t"


def absolute(table) -> str:
    return f"file:{table}/splits/theirs.split"


def lines(table, version: int) -> list[dict]:
    data = (table / "_transaction_log" / f"{version:020d}.json").read_bytes()
    return [json.loads(line) for line in gzip.decompress(data).splitlines()]


def replayed(table) -> list[str]:
    """What an engine that matches paths by exact text makes of the version files."""
    live: set[str] = set()
    for path in sorted((table / "_transaction_log").glob("*.json")):
        data = path.read_bytes()
        for line in (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).splitlines():
            action = json.loads(line)
            live -= {action["remove"]["path"]} if "remove" in action else set()
            live |= {action["add"]["path"]} if "add" in action else set()
    return sorted(live)


def test_both_spellings_are_one_file(table) -> None:
    assert live_paths(opened(table)) == ["splits/ours.split", "splits/theirs.split"]


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize(
    "write",
    [
        lambda log: log.replace_files(["splits/theirs.split"], [make_add("splits/merged.split")]),
        lambda log: log.overwrite_files([make_add("splits/merged.split")]),
    ],
)
def test_a_remove_is_spelled_like_its_add(table, write, checkpoint) -> None:
    log = opened(table)
    if checkpoint:
        log.checkpoint()
    write(log)
    removed = [line["remove"] for line in lines(table, log.snapshot().version) if "remove" in line]
    assert absolute(table) in [remove["path"] for remove in removed]
    assert WRITTEN_PATH_TAG not in json.dumps(removed)
    expected = [path for path in replayed(table) if path != absolute(table)]
    assert replayed(table) == expected
    for handle in (log, opened(table), opened(table, **{"transaction.useOptimized": "false"})):
        assert live_paths(handle) == expected


def test_an_older_version_is_restored_as_it_was_spelled(table) -> None:
    log = opened(table)
    before = log.snapshot().version
    log.overwrite_files([])
    log.commit(Restore(log.snapshot(version=before), log.url))
    assert replayed(table) == sorted([absolute(table), "splits/ours.split"])
    assert live_paths(opened(table)) == ["splits/ours.split", "splits/theirs.split"]


def test_states_spell_entries_and_tombstones_like_the_add(table) -> None:
    log = opened(table)
    log.checkpoint()
    reader = StateWriter(table)
    assert reader.live() == sorted([absolute(table), "splits/ours.split"])
    log.replace_files(["splits/theirs.split"], [make_add("splits/merged.split")])
    log.checkpointer.write(log.snapshot().version, log.config)
    assert absolute(table) in reader.read_state(max(reader.states()))["tombstones"]
    assert reader.live() == ["splits/merged.split", "splits/ours.split"]
    log.add_files([make_add("splits/more.split")])
    log.checkpointer.write(log.snapshot().version, log.config)
    assert absolute(table) in reader.read_state(max(reader.states()))["tombstones"]
    assert live_paths(opened(table)) == reader.live()
    assert log.snapshot().num_files == reader.read_state(max(reader.states()))["numFiles"] == 3


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_older_checkpoints_keep_the_spelling(table, kind) -> None:
    log = opened(table, **{"state.format": kind})
    log.add_files([make_add("splits/more.split")])
    log.checkpoint()
    log.overwrite_files([])
    removed = [line["remove"]["path"] for line in lines(table, log.snapshot().version) if "remove" in line]
    assert absolute(table) in removed
    assert live_paths(opened(table)) == []


def test_a_repaired_log_is_relative(table, tmp_path) -> None:
    for name in ("ours", "theirs"):
        (table / "splits").mkdir(exist_ok=True)
        (table / "splits" / f"{name}.split").write_bytes(b"no split")
    it.repair(str(table), str(tmp_path / "clean" / "_transaction_log"))
    assert str(table) not in "".join(replayed(tmp_path / "clean"))
