"""Rows into tables: every row once, in its partition; what could not be committed leaves no file."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from tests.doubles.faulty_store import Call, Fault, FaultyStore

import indextables as it
from indextables.config import Config
from indextables.errors import CommitConflictError, CommitStateUnknownError, SchemaError, StorageError
from indextables.protocol.names import version_key
from indextables.store import open_store
from indextables.writer.partitioned_rows import by_partition

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("day", pa.date32()), ("message", pa.string())])


def rows(*numbers: int) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": n, "day": None if n % 5 == 4 else dt.date(2026, 1, 1 + n % 5), "message": f"row {n}"} for n in numbers],
        schema=SCHEMA,
    )


@pytest.fixture
def table(tmp_path) -> it.Table:
    return it.Table.create(tmp_path / "t", SCHEMA, partition_by=("day",), indexing={"message": "text"})


def content(table: it.Table) -> list[int]:
    paths = [Path(table.url, path) for path in table.files()["path"].to_pylist()]
    return sorted(number for path in paths for number in pq.read_table(path, partitioning=None)["id"].to_pylist())


def splits(table: it.Table) -> list[Path]:
    return list(Path(table.url).rglob("*.split"))


def test_rows_are_appended_by_partition(table) -> None:
    assert table.append(rows(*range(10))) == 1
    assert table.append(rows(10, 11).to_reader()) == 2
    assert (table.version, table.num_records, table.num_files) == (2, 12, 7)
    assert content(table) == list(range(12))
    for row in table.files().to_pylist():
        found = pq.read_table(Path(table.url, row["path"]), partitioning=None)["day"].to_pylist()
        assert {None if day is None else day.isoformat() for day in found} == {dict(row["partition_values"]).get("day")}
    assert table.files("day = DATE '2026-01-02' AND id >= 10")["num_records"].to_pylist() == [1]


def test_an_overwrite_takes_the_place_of_everything(table) -> None:
    table.append(rows(1, 2, 3))
    assert table.overwrite(rows(7)) == 2
    assert content(table) == [7]
    with pytest.raises(CommitConflictError):
        table.overwrite(rows(8), if_version=1)
    assert content(table) == [7]
    assert len(splits(table)) == 4, "what was not committed is deleted; what was replaced stays for time travel"
    assert content(it.Table.open(table.url, version=1)) == [1, 2, 3]


def test_what_does_not_fit_leaves_nothing(table) -> None:
    def batches():
        yield rows(*range(10)).to_batches()[0]
        yield pa.RecordBatch.from_pydict({"id": ["not a number"]})

    with pytest.raises(SchemaError, match="column `id`"):
        table.append(batches())
    assert splits(table) == []
    assert table.refresh().version == 0


def test_nothing_is_deleted_where_the_commit_may_have_happened(table, monkeypatch) -> None:
    def unknown(self, adds, **_):
        raise CommitStateUnknownError("nobody knows")

    monkeypatch.setattr(it.TransactionLog, "add_files", unknown)
    with pytest.raises(CommitStateUnknownError):
        table.append(rows(1))
    assert len(splits(table)) == 1


def test_a_store_that_fails_after_the_commit_makes_it_no_error(table) -> None:
    committed, calls = False, 0

    def script(call: Call) -> Fault:
        nonlocal committed, calls
        committed = committed or call == Call("put_if_absent", version_key(1))
        calls += committed
        return Fault.UNAVAILABLE if calls > 2 else Fault.NONE  # the put and the look at it go well

    store = FaultyStore(open_store(table.url, Config.resolve()), script)
    # Without a cache the new version is asked for after the commit.
    options = {"checkpoint.enabled": False, "transaction.cache.enabled": False}
    log = it.TransactionLog(table.url, store=store, options=options)
    handle = it.Table(log, log.snapshot())
    assert handle.append(rows(1, 2)) == 1
    with pytest.raises(StorageError, match="injected"):
        handle.count()
    assert content(table.refresh()) == [1, 2]
    committed, calls = False, -100
    assert (handle.version, handle.num_records) == (1, 2)


def test_no_rows_are_an_empty_version(table) -> None:
    assert table.append(SCHEMA.empty_table()) == 1
    assert content(table) == []


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["a", "b", "ü", "", None]), st.sampled_from([1, 10, 2, None])), max_size=30))
def test_every_row_is_in_one_group_and_in_order(values) -> None:
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([one for one, _ in values], pa.string()),
            pa.array([two for _, two in values], pa.int64()),
            pa.array(range(len(values)), pa.int64()),
        ],
        names=["one", "two", "row"],
    )
    seen = []
    keys = []
    for partition, rows in by_partition(batch, ("one", "two")):
        keys.append(tuple(partition.values()))
        numbers = rows["row"].to_pylist()
        assert numbers == sorted(numbers)
        for number in numbers:
            one, two = values[number]
            assert partition == {"one": one, "two": None if two is None else str(two)}
        seen += numbers
    assert sorted(seen) == list(range(len(values)))
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, RuntimeError])
def test_an_interrupt_after_the_commit_deletes_no_row(table, monkeypatch, kind) -> None:
    real = it.TransactionLog.add_files

    def interrupted(self, adds, **options):
        real(self, adds, **options)
        raise kind

    monkeypatch.setattr(it.TransactionLog, "add_files", interrupted)
    with pytest.raises(kind):
        table.append(rows(1, 2, 3))
    assert table.refresh().version == 1
    assert content(table) == [1, 2, 3]


def test_splits_that_were_put_before_a_later_one_failed_are_deleted(tmp_path) -> None:
    table = it.Table.create(tmp_path / "t", SCHEMA, options={"write.targetSplitSize": 1})

    def batches():
        yield from rows(1, 2, 3).to_batches()
        assert len(splits(table)) == 1, "the first split was put"
        yield pa.RecordBatch.from_pydict({"id": ["not a number"]})

    with pytest.raises(SchemaError):
        table.append(batches())
    assert splits(table) == []
