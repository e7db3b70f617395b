"""A split that stands under the name of another is refused by every reader, however much they are alike."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from tests.maintain.merge_tables import append, memory_store, new_log, open_log, paths, table_of

from indextables.errors import BadSplitWarning, CorruptSplitError
from indextables.maintain.fsck.fsck import fsck
from indextables.maintain.merge.merge_splits import merge_splits
from indextables.maintain.repair.repair import repair_log
from indextables.protocol.actions import Add
from indextables.protocol.file_table import adds_of
from indextables.store import ObjectStore


class Replaced:
    """Splits of three rows, one of which was overwritten by another: but for its name the log says the same of both."""

    def __init__(self) -> None:
        self.store: ObjectStore = memory_store()
        self.log = new_log(self.store)
        known: dict[tuple[object, ...], Add] = {}
        for number in itertools.count():
            append(self.log, range(3 * number, 3 * number + 3))
            other = self.adds()[-1]
            if facts_of(other) in known and number >= 2:  # two splits are left, and a merge has work
                break
            known[facts_of(other)] = other
        self.bad = known[facts_of(other)].path
        whole = table_of(self.log).search()["id"].to_pylist()
        lost = table_of(self.log).search(where=f"id >= {self.first(self.bad)} AND id < {self.first(self.bad) + 3}")
        self.left = sorted(set(whole) - set(lost["id"].to_pylist()))
        self.store.put(self.bad, self.store.get(other.path))

    def adds(self) -> list[Add]:
        snapshot = self.log.snapshot()
        return sorted(adds_of(snapshot.describe(snapshot.files)), key=lambda add: int((add.min_values or {})["id"]))

    def first(self, path: str) -> int:
        return next(int((add.min_values or {})["id"]) for add in self.adds() if add.path == path)


def facts_of(add: Add) -> tuple[object, ...]:
    return add.size, add.num_records, add.footer_start_offset, add.footer_end_offset


@pytest.fixture
def replaced() -> Replaced:
    return Replaced()


QUESTIONS = {
    "search": lambda table: table.search("disk"),
    "scan": lambda table: table.search(),
    "predicate": lambda table: table.search(where="id >= 0"),
    "count": lambda table: table.count("disk"),
    "aggregate": lambda table: table.aggregate("message", query="disk"),
    "stats": lambda table: table.stats("id", query="disk"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_refuses_it(replaced, question) -> None:
    with pytest.raises(CorruptSplitError, match=r"it is the split `.*`, put in the place of another") as raised:
        QUESTIONS[question](table_of(replaced.log))
    assert replaced.bad in str(raised.value)


def test_it_can_be_left_out(replaced) -> None:
    with pytest.warns(BadSplitWarning, match="in the place of another"):
        found = table_of(replaced.log).search("disk", bad_splits="skip")
    assert sorted(found["id"].to_pylist()) == replaced.left


@pytest.mark.parametrize("deep", [True, False])
def test_fsck_tells_it(replaced, deep) -> None:
    (problem,) = fsck(replaced.log, deep=deep).to_pylist()
    assert (problem["severity"], problem["check"], problem["path"]) == ("error", "split", replaced.bad)
    assert "in the place of another" in problem["problem"]


def test_a_merge_leaves_it_alone(replaced) -> None:
    (found,) = merge_splits(replaced.log).to_pylist()
    assert (found["status"], found["merged_files"], found["skipped_files"]) == ("PARTIAL", len(replaced.left) // 3, 1)
    assert replaced.bad in paths(replaced.log)


def test_a_rebuilt_table_does_not_hold_its_rows_twice(replaced) -> None:
    for meta in list(replaced.store.list("_transaction_log")):
        replaced.store.delete(meta.key)
    log = open_log(replaced.store)
    (answer,) = repair_log(log, None).to_pylist()
    assert (answer["status"], answer["total_splits"] - answer["valid_splits"]) == ("REBUILT", 1)
    assert sorted(table_of(log).search()["id"].to_pylist()) == replaced.left


def test_a_log_that_counts_other_rows_is_refused(replaced) -> None:
    add = replaced.adds()[-1]
    store = memory_store()
    store.put(add.path, replaced.store.get(add.path))
    log = new_log(store)
    log.add_files([msgspec.structs.replace(add, num_records=2)])
    with pytest.raises(CorruptSplitError, match="it has 3 rows and the log says 2"):
        table_of(log).search("disk")
