"""Merges beside other writers, and merges that die half way: no row is lost, and none is there twice."""

from __future__ import annotations

import threading

import pytest
from tests.doubles.faulty_store import Call, Fault, FaultyStore, ProcessDied
from tests.maintain.merge_tables import (
    OwnClock,
    append,
    failing,
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
from indextables.errors import CommitConflictError, CommitStateUnknownError
from indextables.log.commit.conflict import with_configuration
from indextables.log.commit.operations import DropPartitions, Plan
from indextables.maintain.merge import merge_splits as merging
from indextables.maintain.merge.merge_plan import MergeLimits, plan_merge
from indextables.maintain.merge.merge_splits import merge_groups, merge_splits
from indextables.maintain.workers import InlineWorkers, working_with
from indextables.prune.scopes import scope_of_predicate
from indextables.store import ObjectStore

LIMITS = MergeLimits(10**9, 0.45, 1_000)


def merged(log: it.TransactionLog, **how) -> dict:
    return merge_splits(log, **how).to_pylist()[0]


@pytest.fixture
def store() -> ObjectStore:
    """A table of two days, of three splits each."""
    store = memory_store()
    log = new_log(store)
    for number in range(6):
        append(log, [number, number + 10], "12"[number % 2])
    return store


ALL_IDS = [*range(6), *range(10, 16)]


def version_put(call: Call) -> bool:
    return call.verb == "put_if_absent" and call.key.startswith("_transaction_log/0") and call.key.endswith(".json")


def split_put(call: Call) -> bool:
    return call.verb == "put" and call.key.endswith(".split")


@pytest.mark.parametrize("fails", [split_put, version_put])
@pytest.mark.parametrize("fault", [Fault.DIES_BEFORE, Fault.DIES_AFTER])
def test_a_process_that_dies_leaves_the_table_as_it_was_or_as_it_should_be(store, fails, fault) -> None:
    before = open_log(store)
    expected, sources = seen(before), paths(before)
    with pytest.raises(ProcessDied):
        merge_splits(open_log(failing(store, fault, fails)))
    after = open_log(store)
    assert seen(after) == expected
    is_committed = fails is version_put and fault is Fault.DIES_AFTER
    assert (paths(after) == sources) is not is_committed
    assert set(paths(after)) | set(sources) <= set(split_keys(store))
    assert merged(after)["merge_groups"] == (0 if is_committed else 2)
    assert seen(after) == expected
    assert after.snapshot().num_files == 2


@pytest.mark.parametrize("fault", [Fault.DIES_BEFORE, Fault.DIES_AFTER])
def test_a_process_that_dies_between_commit_and_compaction_has_merged(store, fault) -> None:
    expected = seen(open_log(store))
    with pytest.raises(ProcessDied):
        merge_splits(open_log(failing(store, fault, lambda call: call.verb.startswith("put") and "state" in call.key)))
    after = open_log(store)
    assert (seen(after), after.snapshot().num_files) == (expected, 2)
    assert merged(after)["status"] == "NO_ACTION"
    after.checkpoint()
    assert seen(open_log(store)) == expected


def test_an_answer_that_is_lost_deletes_nothing(store) -> None:
    expected = seen(open_log(store))
    dead = []

    def script(call: Call) -> Fault:
        if version_put(call):
            dead.append(call)
            return Fault.ANSWER_LOST
        return Fault.DROPPED if dead and call.verb != "delete" else Fault.NONE

    with pytest.raises(CommitStateUnknownError):
        merge_splits(open_log(FaultyStore(store, script), OwnClock()))
    after = open_log(store)
    assert (seen(after), after.snapshot().num_files) == (expected, 2)


def test_two_merges_at_once_lose_no_row_and_double_none(store) -> None:
    """Both have planned before either commits."""
    expected, before = seen(open_log(store)), split_keys(store)
    barrier = threading.Barrier(2)
    answers: list[dict] = []

    def meet(call: Call) -> Fault:
        if version_put(call) and not barrier.broken:
            try:
                barrier.wait(timeout=20)
            except threading.BrokenBarrierError:
                return Fault.NONE
            barrier.abort()
        return Fault.NONE

    def run() -> None:
        answers.append(merged(open_log(FaultyStore(store, meet), **{"state.compaction.afterMerge": "false"})))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    after = open_log(store)
    assert (seen(after), after.snapshot().num_files) == (expected, 2)
    assert sorted(answer["status"] for answer in answers) == ["NO_ACTION", "SUCCESS"]
    (loser,) = [answer for answer in answers if answer["status"] == "NO_ACTION"]
    assert loser["message"] == "2 groups were given up because other writers removed splits to be merged"
    assert sorted([*before, *paths(after)]) == split_keys(store)


def planned(store: ObjectStore):
    """A merge that has planned and not begun."""
    log = open_log(store)
    snapshot = log.snapshot()
    return log, snapshot, plan_merge(snapshot.files, LIMITS)


def test_a_merge_that_lost_some_of_its_groups_commits_the_others(store) -> None:
    log, snapshot, groups = planned(store)
    other = open_log(store)
    merge_splits(other, where="day = '1'")
    found = merge_groups(log, snapshot, groups)
    assert (found.merge_groups, found.merged_files) == (1, 3)
    assert found.messages == ("1 group was given up because other writers removed splits to be merged",)
    assert ids(open_log(store)) == ALL_IDS
    assert open_log(store).snapshot().num_files == 2
    assert len(split_keys(store)) == 8


def test_a_merge_against_an_overwrite_gives_way(store) -> None:
    log, snapshot, groups = planned(store)
    table = table_of(open_log(store))
    table.overwrite(table.search(where="id < 2"))
    before = split_keys(store)
    found = merge_groups(log, snapshot, groups)
    assert (found.version, found.merge_groups, found.merged_files) == (None, 0, 0)
    assert "2 groups were given up" in found.messages[0]
    assert ids(open_log(store)) == [0, 1]
    assert split_keys(store) == before


def test_a_merge_against_an_overwrite_of_a_partition_merges_the_others(store) -> None:
    log, snapshot, groups = planned(store)
    table = table_of(open_log(store))
    table.overwrite(table.search(where="id = 0"), where="day = '1'")
    found = merge_groups(log, snapshot, groups)
    assert found.merge_groups == 1
    assert ids(open_log(store)) == [0, 1, 3, 5, 11, 13, 15]


def test_a_merge_against_an_append_keeps_both(store) -> None:
    log, snapshot, groups = planned(store)
    append(open_log(store), [99])
    assert merge_groups(log, snapshot, groups).merge_groups == 2
    assert ids(open_log(store)) == [*ALL_IDS, 99]
    assert open_log(store).snapshot().num_files == 3


def test_a_merge_against_a_dropped_partition_does_not_bring_it_back(store) -> None:
    log, snapshot, groups = planned(store)
    open_log(store).commit(DropPartitions(scope_of_predicate("day = '1'", [])))
    found = merge_groups(log, snapshot, groups)
    assert (found.merge_groups, len(found.messages)) == (1, 1)
    assert ids(open_log(store)) == [1, 3, 5, 11, 13, 15]


class Rename:
    """Gives the table another schema, as a writer of another library may do."""

    name, needs_files = "ALTER", False

    def plan(self, start, now, timestamp_ms):
        metadata = with_configuration(now.metadata, dict(now.metadata.configuration))
        return Plan([type(metadata)(**{**_fields(metadata), "schema_string": _wider(metadata.schema_string)})])


def _fields(metadata) -> dict:
    return {name: getattr(metadata, name) for name in metadata.__struct_fields__}


def _wider(text: str) -> str:
    return text.replace('"fields":[', '"fields":[{"name":"new","type":"string","nullable":true,"metadata":{}},', 1)


def test_a_merge_against_another_schema_is_refused_and_leaves_nothing(store) -> None:
    log, snapshot, groups = planned(store)
    before = split_keys(store)
    open_log(store).commit(Rename())
    with pytest.raises(CommitConflictError, match="the schema was changed"):
        merge_groups(log, snapshot, groups)
    assert split_keys(store) == before


def test_a_damaged_split_that_is_gone_meanwhile_is_not_noted(store) -> None:
    log, snapshot, groups = planned(store)
    bad = groups[0].sources[0].path
    table = table_of(open_log(store))
    rows = table.search(where="id = 1")
    store.put(bad, b"no split")
    table.overwrite(rows)
    found = merge_groups(log, snapshot, groups)
    assert found.version is None
    assert open_log(store).skipped_files() == []


def test_later_batches_are_undone_where_one_is_refused(store) -> None:
    """The first batch is committed and stays; the second one is refused, and its new split deleted."""
    log = open_log(store, **{"merge.batchSize": "1"})
    snapshot = log.snapshot()
    groups = plan_merge(snapshot.files, LIMITS)
    before = split_keys(store)

    def change(done: int) -> None:
        if done == 1:
            open_log(store).commit(Rename())

    with pytest.raises(CommitConflictError):
        merge_groups(log, snapshot, groups, on_done=change)
    assert open_log(store).snapshot().num_files == 4
    assert len(split_keys(store)) == len(before) + 1


class OutOfOrder(InlineWorkers):
    """Workers of whom the last is ready first."""

    def run(self, work, items, *, at_once=None):
        yield from reversed([*super().run(work, items)])


def test_batches_are_committed_in_order_whoever_is_ready_first(store, monkeypatch) -> None:
    monkeypatch.setattr(merging, "_workers", lambda log, groups: OutOfOrder())
    log = open_log(store, **{"merge.batchSize": "1", "state.compaction.afterMerge": "false"})
    version = log.snapshot().version
    assert merged(log)["merge_groups"] == 2
    adds = [log.read_version(version + step)[-1] for step in (1, 2)]
    assert [add.partition_values for add in adds] == [{"day": "1"}, {"day": "2"}]
    assert ids(log) == ALL_IDS


def test_a_log_with_a_store_of_its_own_never_goes_to_other_processes(store) -> None:
    class Elsewhere(InlineWorkers):
        def run(self, work, items, *, at_once=None):
            raise AssertionError("this store cannot be reached from another process")

    log = open_log(store)
    assert not log.is_portable
    with working_with(Elsewhere()):
        assert merged(log)["merge_groups"] == 2
