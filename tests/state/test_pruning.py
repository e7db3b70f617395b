"""`list_files(where=...)`: manifests are left unread, and no file that could match is lost."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.conftest import make_add

import indextables as it
from indextables.errors import QueryError

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.int32()), ("message", pa.string())])
OPTIONS = {"state.entriesPerManifest": 10, "cache.disk.enabled": "false", "checkpoint.interval": 10**6}


@pytest.fixture
def log(tmp_path) -> it.TransactionLog:
    """120 files of twelve days, ten a day, in a compacted state; file `d-n` holds the ids 100 d + n."""
    log = it.TransactionLog(tmp_path / "t", options=OPTIONS)
    log.initialize(SCHEMA, partition_columns=("day",))
    adds = [
        make_add(
            f"day={day}/{number}.split",
            partition_values={"day": str(day)},
            min_values={"id": str(100 * day + number)},
            max_values={"id": str(100 * day + number)},
            tags={"indextables.stats": "typed"},
        )
        for day in range(1, 13)
        for number in range(10)
    ]
    log.add_files(adds)
    log.checkpoint()
    return log


def paths(table: pa.Table) -> list[str]:
    return sorted(table["path"].to_pylist())


def test_partitions_and_statistics_prune(log) -> None:
    fresh = it.TransactionLog(log.url, options=OPTIONS)
    assert paths(fresh.list_files(where="day = 9")) == [f"day=9/{number}.split" for number in range(10)]
    assert paths(fresh.list_files(where="day > 9 AND day <= 10 AND id = 1003")) == ["day=10/3.split"]
    assert paths(fresh.list_files(where="id BETWEEN 204 AND 205")) == ["day=2/4.split", "day=2/5.split"]
    assert fresh.list_files(where="day IS NULL").num_rows == 0
    assert fresh.list_files(where="message LIKE 'x%'").num_rows == 120
    assert fresh.list_files(where="NOT (day < 100)").num_rows == 0
    table = it.Table.open(log.url)
    assert paths(table.files("day = 9")) == paths(fresh.list_files(where="day = 9"))


def test_manifests_that_cannot_match_are_not_read(log, tmp_path) -> None:
    state = log._checkpointer._states.state_at(log.last_checkpoint().version)
    assert len(state.manifests) == 12
    wanted = [info for info in state.manifests if info.partition_bounds["day"] == ("9", "9")]
    assert len(wanted) == 1
    for info in state.manifests:
        if info not in wanted:
            (tmp_path / "t" / "_transaction_log" / info.path).unlink()
    fresh = it.TransactionLog(log.url, options=OPTIONS)
    assert fresh.list_files(where="day = 9").num_rows == 10


def test_later_versions_count_too(log) -> None:
    log.replace_files(["day=9/0.split"], [make_add("day=9/new.split", partition_values={"day": "9"})])
    log.add_files([make_add("null.split")])
    fresh = it.TransactionLog(log.url, options=OPTIONS)
    assert paths(fresh.list_files(where="day = 9")) == sorted(
        ["day=9/new.split", *(f"day=9/{number}.split" for number in range(1, 10))]
    )
    assert paths(fresh.list_files(where="day IS NULL")) == ["null.split"]


def test_bad_predicates_are_refused(log) -> None:
    for where in ("dya = 3", "day = ", "day = 'tuesday'", "length(message) > 3", "message"):
        with pytest.raises(QueryError):
            log.list_files(where=where)


def test_files_can_be_had_manifest_by_manifest(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "s", options={"state.entriesPerManifest": 4})
    schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
    log.initialize(schema, partition_columns=("day",))
    log.add_files([make_add(f"{n}.split", partition_values={"day": str(n // 4)}) for n in range(20)])
    log.checkpoint()
    log.add_files([make_add("late.split", partition_values={"day": "3"})])
    fresh = it.TransactionLog(log.url)
    tables = list(fresh.scan_files())
    assert [table.num_rows for table in tables] == [4, 4, 4, 4, 4, 1]
    assert pa.concat_tables(tables).equals(fresh.list_files())
    found = [path for table in fresh.scan_files(where="day = '3'") for path in table["path"].to_pylist()]
    assert sorted(found) == sorted(fresh.list_files(where="day = '3'")["path"].to_pylist())
    assert len(found) == 5


def test_damage_in_the_middle_of_a_scan_is_an_error_and_the_next_scan_goes_on(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "s", options={"state.entriesPerManifest": 4, "cache.disk.enabled": "false"})
    log.initialize(pa.schema([("id", pa.int64())]))
    log.add_files([make_add(f"{n}.split") for n in range(20)])
    log.checkpoint()
    fresh = it.TransactionLog(log.url, options={"cache.disk.enabled": "false", "state.read.parallelism": 1})
    last = fresh.states.state_at(1).manifests[-1]
    (tmp_path / "s" / "_transaction_log" / last.path).unlink()
    with pytest.raises(it.errors.CheckpointCorruptionError):
        list(fresh.scan_files())
    assert fresh.list_files().num_rows == 20
    assert sum(table.num_rows for table in fresh.scan_files()) == 20
