"""Rows of many partitions: every row once, no more splits than the size demands, nothing left on local disk."""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from tests.doubles.faulty_store import Call, Fault, FaultyStore

import indextables as it
from indextables.config import Config
from indextables.errors import SchemaError, StorageError
from indextables.store import open_store
from indextables.writer import partitioned_rows, split_rows
from indextables.writer.partitioned_rows import SpilledRows
from indextables.writer.split_rows import write_splits

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("tags", pa.list_(pa.string())), ("none", pa.null())])

_numbers = itertools.count()


def batch(ids: list[int], parts: list[str | None]) -> pa.RecordBatch:
    tags = [None if i % 3 == 0 else [f"t{i}"] * (i % 4) for i in ids]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(ids, pa.int64()),
            pa.array(parts, pa.string()),
            pa.array(tags, SCHEMA.field("tags").type),
            pa.nulls(len(ids)),
        ],
        schema=SCHEMA,
    )


def batches_of(values: list[list[str | None]]) -> list[pa.RecordBatch]:
    ids = itertools.count()
    return [batch([next(ids) for _ in parts], parts) for parts in values]


def written(root: Path, batches: list[pa.RecordBatch], *, local: Path, **options) -> dict[str | None, list[list[int]]]:
    """The ids of each split of each partition."""
    url = str(root / str(next(_numbers)))
    log = it.TransactionLog(url, options={"indexWriter.tempDirectoryPath": str(local), **options})
    log.initialize(SCHEMA, partition_columns=("part",))
    adds = write_splits(log.reader.store, log.reader.head()[1], log.config, iter(batches))
    found: dict[str | None, list[list[int]]] = {}
    for add in adds:
        ids = pq.read_table(Path(url, add.path), partitioning=None)["id"].to_pylist()
        assert len(ids) == add.num_records
        found.setdefault(add.partition_values.get("part"), []).append(ids)
    return found


@pytest.fixture
def local(tmp_path) -> Path:
    place = tmp_path / "local"
    place.mkdir()
    return place


VALUES = st.lists(st.lists(st.sampled_from(["a", "b", "c", "d", "ü/=", "", None]), max_size=6), max_size=6)


@settings(max_examples=25)
@given(VALUES, st.integers(1, 3), st.sampled_from([1, 400, 10**9]), st.sampled_from(["1", "1G"]))
def test_every_row_is_in_one_split_and_splits_are_as_many_as_the_size_demands(
    tmp_path_factory, values, most_open, memory, target
) -> None:
    root = tmp_path_factory.mktemp("splits")
    local = root / "local"
    local.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split_rows, "_MOST_OPEN_PARTITIONS", most_open)
        patch.setattr(partitioned_rows, "_MOST_BYTES_IN_MEMORY", memory)
        found = written(root, batches_of(values), local=local, **{"write.targetSplitSize": target})
    assert list(local.iterdir()) == []
    expected: dict[str | None, list[list[int]]] = {}
    ids = itertools.count()
    for parts in values:
        for part, group in itertools.groupby(sorted(((part, next(ids)) for part in parts), key=repr), lambda x: x[0]):
            expected.setdefault(part, []).append(sorted(number for _, number in group))
    assert found.keys() == expected.keys()
    for part, splits in found.items():
        together = [i for group in expected[part] for i in group]
        assert [i for split in splits for i in split] == together
        # What comes at once is put at once; rows that waited are one batch, and whatever is below the target one split.
        assert splits in ([together], expected[part] if target == "1" else None)


def test_interleaved_partitions_do_not_shatter(tmp_path, local) -> None:
    batches = batches_of([[f"p{i % 50}" for i in range(200)] for _ in range(10)])
    found = written(tmp_path, batches, local=local)
    assert {part: len(splits) for part, splits in found.items()} == {f"p{i}": 1 for i in range(50)}
    assert sorted(i for splits in found.values() for split in splits for i in split) == list(range(2000))


def test_rows_that_waited_make_splits_of_the_target_size(tmp_path, local, monkeypatch) -> None:
    monkeypatch.setattr(split_rows, "_MOST_OPEN_PARTITIONS", 1)
    monkeypatch.setattr(partitioned_rows, "_ROWS_AT_ONCE", 100)
    batches = batches_of([["first", *["waits"] * 30] for _ in range(10)])
    found = written(tmp_path, batches, local=local, **{"write.targetSplitSize": 1})
    assert [len(split) for split in found["waits"]] == [120, 120, 60]


def test_few_files_are_open_however_many_partitions_wait(tmp_path, local, monkeypatch) -> None:
    monkeypatch.setattr(partitioned_rows, "_MOST_BYTES_IN_MEMORY", 1)
    most = 0
    with SpilledRows(SCHEMA, str(local)) as waiting:
        for number in range(300):
            waiting.add({"part": str(number % 150)}, batch([number], [str(number % 150)]))
            most = max(most, _num_open_below(local))
        assert most <= 1
        (directory,) = local.iterdir()
        assert len(list(directory.iterdir())) == 150
        for values, rows in waiting.drain():
            number = int(values["part"])
            assert [i for some in rows for i in some["id"].to_pylist()] == [number, number + 150]
    assert list(local.iterdir()) == []


def _num_open_below(directory: Path) -> int:
    """The files of a directory that this process has open."""
    links = []
    for handle in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/self/fd/{handle}"))
    return sum(link.startswith(f"{directory}/") for link in links)


def test_a_slice_does_not_keep_the_batch_that_it_was_cut_from(local) -> None:
    large = batch(list(range(100_000)), ["p"] * 100_000)
    with SpilledRows(SCHEMA, str(local)) as waiting:
        before = pa.total_allocated_bytes()
        for start in range(0, 1000, 10):
            waiting.add({"part": "p"}, large.slice(start, 1))
        assert pa.total_allocated_bytes() - before < 200_000


@pytest.mark.parametrize("keep", [0, 0.5, 0.9])
def test_a_file_that_was_cut_short_is_an_error(local, monkeypatch, keep) -> None:
    monkeypatch.setattr(partitioned_rows, "_MOST_BYTES_IN_MEMORY", 1)
    with SpilledRows(SCHEMA, str(local)) as waiting:
        for number in range(10):
            waiting.add({"part": "p"}, batch([number], ["p"]))
        (directory,) = local.iterdir()
        (file,) = directory.iterdir()
        file.write_bytes(file.read_bytes()[: int(file.stat().st_size * keep)])
        ((_, rows),) = waiting.drain()
        with pytest.raises(StorageError, match="cannot read rows that wait on local disk"):
            list(rows)
    assert list(local.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_an_error_that_says_so(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(partitioned_rows, "_MOST_BYTES_IN_MEMORY", 1)
    with (
        SpilledRows(SCHEMA, str(tmp_path / "nowhere")) as waiting,
        pytest.raises(StorageError, match="cannot write rows that wait on local disk") as refused,
    ):
        waiting.add({"part": "p"}, batch([1], ["p"]))
    assert "indexWriter.tempDirectoryPath" in (refused.value.hint or "")


@pytest.mark.parametrize("bad", ["rows", "store", "partition"])
def test_what_fails_leaves_no_split_and_nothing_on_local_disk(tmp_path, local, monkeypatch, bad) -> None:
    monkeypatch.setattr(split_rows, "_MOST_OPEN_PARTITIONS", 1)
    monkeypatch.setattr(partitioned_rows, "_MOST_BYTES_IN_MEMORY", 1)
    url = str(tmp_path / "table")
    it.TransactionLog(url).initialize(SCHEMA, partition_columns=("part",))
    puts = itertools.count()

    def script(call: Call) -> Fault:
        is_third = call.verb == "put" and call.key.endswith(".split") and next(puts) == 2
        return Fault.UNAVAILABLE if is_third and bad == "store" else Fault.NONE

    def batches():
        yield batch([1, 2, 3], ["a", "b", "c"])
        assert len(list(local.iterdir())) > 0
        if bad == "rows":
            raise KeyboardInterrupt
        if bad == "partition":
            yield batch([4], ["z"])

    store = FaultyStore(open_store(url, Config.resolve()), script)
    config = Config.resolve(options={"indexWriter.tempDirectoryPath": str(local), "write.targetSplitSize": 1})
    head = it.TransactionLog(url).reader.head()[1]
    kinds = {"rows": KeyboardInterrupt, "store": StorageError, "partition": SchemaError}
    with pytest.raises(kinds[bad]):
        write_splits(store, head, config, batches(), where="part IN ('a', 'b', 'c')")
    assert list(Path(url).rglob("*.split")) == []
    assert list(local.iterdir()) == []
