"""A split that cannot be merged: it is noted and stays as it is, the others are merged, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow.compute as pc
import pytest
from tests.doubles.faulty_store import Call, Fault, FaultyStore
from tests.maintain.merge_tables import (
    HOUR_MS,
    OwnClock,
    append,
    failing,
    flip,
    ids,
    memory_store,
    new_log,
    open_log,
    paths,
    seen,
    split_keys,
    table_of,
)

import indextables as it
from indextables.errors import (
    BadSplitWarning,
    CommitStateUnknownError,
    CorruptSplitError,
    StorageError,
)
from indextables.maintain.merge.merge_splits import merge_splits
from indextables.protocol.actions import Skip
from indextables.split.split_file import SplitFile
from indextables.store import ObjectStore


def merged(log: it.TransactionLog, **how) -> dict:
    return merge_splits(log, **how).to_pylist()[0]


class Damaged:
    """Four splits of one day, the third of them damaged in some way."""

    def __init__(self) -> None:
        self.clock = OwnClock()
        self.store: ObjectStore = memory_store()
        self.log = new_log(self.store, self.clock)
        self.paths = [append(self.log, range(number * 3, number * 3 + 3)) for number in range(4)]
        self.bad = self.paths[2]
        self.whole = self.store.get(self.bad)


@pytest.fixture
def damaged() -> Damaged:
    return Damaged()


def flip_rows(store: ObjectStore, path: str) -> None:
    flip(store, path, 10)


def cut_off(store: ObjectStore, path: str) -> None:
    store.put(path, store.get(path)[:-100])


def remove(store: ObjectStore, path: str) -> None:
    store.delete(path)


def put_foreign_bytes(store: ObjectStore, path: str) -> None:
    store.put(path, b"\x00not a split" * 400)


def put_another_split(store: ObjectStore, path: str) -> None:
    other = new_log(memory_store())
    store.put(path, other.reader.store.get(append(other, range(50))))


DAMAGES = [flip_rows, cut_off, remove, put_foreign_bytes, put_another_split]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_split_is_skipped_and_the_others_are_merged(damaged, damage) -> None:
    damage(damaged.store, damaged.bad)
    version = damaged.log.snapshot().version
    found = merged(damaged.log)
    assert (found["status"], found["merged_files"], found["merge_groups"]) == ("PARTIAL", 3, 1)
    assert found["skipped_files"] == 1
    assert found["message"].startswith("1 split was skipped for 24 hours: cannot")
    assert damaged.bad in found["message"]
    (skip,) = [action for action in damaged.log.read_version(version + 1) if isinstance(action, Skip)]
    assert (skip.path, skip.operation, skip.skip_count) == (damaged.bad, "merge", 1)
    assert skip.partition_values == {"day": "1"}
    assert skip.size == len(damaged.whole)
    assert skip.retry_after == skip.skip_timestamp + 24 * HOUR_MS
    assert damaged.bad in skip.reason
    assert damaged.bad in paths(damaged.log)
    assert len(paths(damaged.log)) == 2
    damaged.store.put(damaged.bad, damaged.whole)
    assert ids(damaged.log) == list(range(12))


def test_the_table_is_as_readable_as_before(damaged) -> None:
    flip_rows(damaged.store, damaged.bad)
    with pytest.warns(BadSplitWarning):
        before = seen(damaged.log, bad_splits="skip")
    merged(damaged.log)
    with pytest.warns(BadSplitWarning):
        assert seen(damaged.log, bad_splits="skip") == before
    with pytest.raises(CorruptSplitError):
        ids(damaged.log)


def test_a_skipped_split_is_left_alone_and_tried_again_after_its_cooldown(damaged) -> None:
    flip_rows(damaged.store, damaged.bad)
    merged(damaged.log)
    append(damaged.log, [12])
    damaged.clock.now += 23 * HOUR_MS
    again = merged(damaged.log)
    assert (again["status"], again["merged_files"], again["skipped_files"]) == ("SUCCESS", 2, 0)
    assert again["message"] == "1 split was left alone, as the cooldown has not ended"
    damaged.clock.now += 2 * HOUR_MS
    third = merged(damaged.log)
    assert (third["status"], third["merged_files"], third["skipped_files"]) == ("PARTIAL", 0, 1)
    (skip,) = damaged.log.skipped_files()
    assert (skip.skip_count, skip.retry_after) == (2, damaged.clock.now + 24 * HOUR_MS)
    damaged.store.put(damaged.bad, damaged.whole)
    damaged.clock.now += 25 * HOUR_MS
    last = merged(damaged.log)
    assert (last["status"], last["merged_files"]) == ("SUCCESS", 2)
    assert ids(damaged.log) == list(range(13))
    assert damaged.log.snapshot().num_files == 1


def test_a_damaged_index_is_made_again_from_the_rows(damaged) -> None:
    before = seen(damaged.log)
    split = SplitFile.open(damaged.store, damaged.bad)
    for place in (split.directory.pieces.offset, split.directory.pieces.table.offset):
        flip(damaged.store, damaged.bad, place)
    found = merged(damaged.log)
    assert (found["status"], found["merged_files"]) == ("SUCCESS", 4)
    assert seen(damaged.log) == before


def test_several_damaged_splits_are_all_named(damaged) -> None:
    for path, damage in zip(damaged.paths, [flip_rows, remove, cut_off], strict=False):
        damage(damaged.store, path)
    found = merged(damaged.log)
    assert (found["status"], found["merged_files"], found["skipped_files"]) == ("PARTIAL", 0, 3)
    assert sorted(skip.path for skip in damaged.log.skipped_files()) == sorted(damaged.paths[:3])
    assert all(path in found["message"] for path in damaged.paths[:3])
    assert paths(damaged.log) == sorted(damaged.paths)
    assert split_keys(damaged.store) == sorted({*damaged.paths} - {damaged.paths[1]})


def test_other_partitions_are_merged_whatever_happens_to_one(damaged) -> None:
    for path in damaged.paths:
        put_foreign_bytes(damaged.store, path)
    for number in (20, 21):
        append(damaged.log, [number], "2")
    found = merged(damaged.log)
    assert (found["status"], found["merge_groups"], found["skipped_files"]) == ("PARTIAL", 1, 4)
    assert found["message"].endswith("; and 1 more")


def test_a_split_with_other_rows_than_the_log_says_is_skipped(damaged) -> None:
    split = damaged.log.snapshot().files.filter(pc.field("path") == damaged.bad).to_pylist()[0]
    add = it.actions.Add(
        path=split["path"],
        partition_values=dict(split["partition_values"]),
        size=split["size"],
        modification_time=split["modification_time"],
        data_change=True,
        num_records=7,
    )
    damaged.log.add_files([add])
    found = merged(damaged.log)
    assert (found["merged_files"], found["skipped_files"]) == (3, 1)
    assert "it has 3 rows and the log says 7" in found["message"]


def test_a_store_that_fails_for_a_split_is_its_failure(damaged) -> None:
    store = failing(damaged.store, Fault.UNAVAILABLE, lambda call: call.key == damaged.bad)
    found = merged(open_log(store, damaged.clock))
    assert (found["status"], found["merged_files"], found["skipped_files"]) == ("PARTIAL", 3, 1)
    assert ids(damaged.log) == list(range(12))


def test_a_reason_holds_no_secrets(damaged, monkeypatch) -> None:
    def refuse(store, key, **_where):
        raise StorageError(f"cannot read `{key}`: https://bucket/x?X-Amz-Signature=abcdef12345 is denied")

    monkeypatch.setattr(SplitFile, "open", refuse)
    found = merged(damaged.log)
    assert "abcdef12345" not in found["message"]
    assert all("abcdef12345" not in skip.reason for skip in damaged.log.skipped_files())


def puts_a_split_of(day: str) -> Callable[[Call], bool]:
    return lambda call: call.verb == "put" and call.key.startswith(f"day={day}/")


def test_a_group_that_cannot_be_written_fails_alone(damaged) -> None:
    for number in (20, 21):
        append(damaged.log, [number], "2")
    before = seen(damaged.log)
    store = failing(damaged.store, Fault.UNAVAILABLE, puts_a_split_of("1"))
    found = merged(open_log(store, damaged.clock))
    assert (found["status"], found["merge_groups"], found["skipped_files"]) == ("PARTIAL", 1, 0)
    assert found["message"].startswith("1 group was not merged: injected: put")
    assert damaged.log.skipped_files() == []
    assert seen(damaged.log) == before
    assert damaged.log.snapshot().num_files == 5


def test_an_error_of_all_groups_is_raised(damaged) -> None:
    before, version = split_keys(damaged.store), damaged.log.snapshot().version
    store = failing(damaged.store, Fault.UNAVAILABLE, puts_a_split_of("1"))
    with pytest.raises(StorageError, match="injected: put"):
        merge_splits(open_log(store, damaged.clock))
    assert split_keys(damaged.store) == before
    assert damaged.log.snapshot().version == version


def test_rows_that_got_lost_on_the_way_are_never_committed(damaged, monkeypatch) -> None:
    rows = SplitFile.rows
    monkeypatch.setattr(SplitFile, "rows", lambda split: (batch.slice(1) for batch in rows(split)))
    before = paths(damaged.log)
    found = merged(damaged.log)
    assert (found["merged_files"], found["skipped_files"]) == (0, 3)
    assert "it holds only 2 of its 3 rows" in found["message"]
    assert paths(damaged.log) == before


def test_an_unforeseen_error_leaves_nothing_behind(damaged) -> None:
    for number in (20, 21):
        append(damaged.log, [number], "2")
    before = split_keys(damaged.store)

    def script(call: Call) -> Fault:
        if puts_a_split_of("2")(call):
            raise KeyboardInterrupt
        return Fault.NONE

    with pytest.raises(KeyboardInterrupt):
        merge_splits(open_log(FaultyStore(damaged.store, script), damaged.clock))
    assert split_keys(damaged.store) == before
    assert len(table_of(damaged.log).files()) == 6


def test_a_commit_that_may_have_happened_deletes_nothing(damaged) -> None:
    before = split_keys(damaged.store)
    store = failing(
        damaged.store,
        Fault.UNAVAILABLE,
        lambda call: call.verb == "put_if_absent" and call.key.startswith("_transaction_log/0"),
    )
    with pytest.raises(CommitStateUnknownError):
        merge_splits(open_log(store, damaged.clock, **{"transaction.retry.maxAttempts": "2"}))
    assert ids(damaged.log) == list(range(12))
    assert set(paths(damaged.log)) <= set(split_keys(damaged.store))
    assert set(before) < set(split_keys(damaged.store)), "the new split stays for a purge"
