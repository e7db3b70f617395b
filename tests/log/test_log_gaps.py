"""Missing versions, tables that are made anew, and listings that miss what is there."""

from __future__ import annotations

import logging
import shutil

import pytest
from tests.conftest import SCHEMA, live_paths, make_add
from tests.doubles.faulty_store import Fault, FaultyStore, SharedFate

import indextables as it
from indextables.config import Config
from indextables.errors import CommitConflictError, CorruptLogError, TableNotFoundError
from indextables.protocol.names import version_key
from indextables.store import open_store


@pytest.fixture
def five(log) -> it.TransactionLog:
    for number in range(1, 6):
        log.add_files([make_add(f"{number}.split")])
    return log


def test_a_gap_stops_readers_with_a_warning_and_refuses_writers(five, tmp_path, caplog) -> None:
    (tmp_path / "table" / version_key(3)).unlink()
    log = it.TransactionLog(five.url)
    with caplog.at_level(logging.WARNING, logger="indextables"):
        assert live_paths(log) == ["1.split", "2.split"]
    assert "version 3" in caplog.text
    assert "reading stops at version 2" in caplog.text
    with pytest.raises(CorruptLogError, match=r"version 3 .* is missing") as caught:
        log.add_files([make_add("x.split")])
    assert "REPAIR INDEXFILES TRANSACTION LOG" in str(caught.value)
    assert not (tmp_path / "table" / version_key(3)).exists()
    assert log.versions() == [0, 1, 2]


def test_a_restored_version_closes_the_gap(five, tmp_path) -> None:
    path = tmp_path / "table" / version_key(3)
    kept = path.read_bytes()
    path.unlink()
    log = it.TransactionLog(five.url)
    assert len(live_paths(log)) == 2
    path.write_bytes(kept)
    assert len(live_paths(log)) == 5
    assert log.add_files([make_add("x.split")]) == 6


def test_version_0_missing_is_corrupt_never_empty(five, tmp_path) -> None:
    (tmp_path / "table" / version_key(0)).unlink()
    with pytest.raises(CorruptLogError, match="version 0 is missing"):
        it.TransactionLog(five.url).list_files()


def test_a_listing_that_misses_a_version_is_no_gap(five) -> None:
    inner, fate = open_store(five.url, Config.resolve()), SharedFate(num_recent=2)
    for version in (2, 4):
        fate.created(version_key(version))
    store = FaultyStore(inner, lambda call: Fault.STALE if call.verb == "list" else Fault.NONE, fate)
    log = it.TransactionLog(five.url, store=store)
    assert len(live_paths(log)) == 5
    assert log.add_files([make_add("x.split")]) == 6


def _make_anew(url: str, num_versions: int) -> it.TransactionLog:
    shutil.rmtree(url)
    log = it.TransactionLog(url)
    log.initialize(SCHEMA)
    for number in range(num_versions):
        log.add_files([make_add(f"anew-{number}.split")])
    return log


@pytest.mark.parametrize("num_versions", [0, 2, 5, 8])
def test_an_open_handle_notices_a_table_made_anew(five, num_versions) -> None:
    assert len(live_paths(five)) == 5
    _make_anew(five.url, num_versions)
    assert live_paths(five) == [f"anew-{number}.split" for number in range(num_versions)]


@pytest.mark.parametrize("num_versions", [0, 2, 4, 5, 6, 8])
def test_a_writer_does_not_commit_to_another_table(five, num_versions) -> None:
    anew = _make_anew(five.url, num_versions)
    with pytest.raises(CommitConflictError, match="was recreated"):
        five.add_files([make_add("stray.split")])
    assert anew.versions() == list(range(num_versions + 1))
    assert "stray.split" not in live_paths(anew)


def test_a_table_that_is_gone_stays_gone(five) -> None:
    shutil.rmtree(five.url)
    with pytest.raises(TableNotFoundError):
        five.add_files([make_add("stray.split")])
    with pytest.raises(TableNotFoundError):
        it.TransactionLog(five.url).list_files()


def test_other_files_in_the_log_are_ignored(five, tmp_path) -> None:
    directory = tmp_path / "table" / "_transaction_log"
    for name in (".00000000000000000009.json.crc", "00000000000000000009.json.tmp", "9.json", "readme.txt", "_probe-x"):
        (directory / name).write_bytes(b"junk")
    (directory / "00000000000000000007.json.d").mkdir()
    log = it.TransactionLog(five.url)
    assert log.versions() == list(range(6))
    assert log.add_files([make_add("x.split")]) == 6
