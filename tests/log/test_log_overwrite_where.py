"""A part of a table replaced: the partitions that a predicate is true of, as they stand at the commit."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from tests.conftest import live_paths, make_add
from tests.doubles.faulty_store import Call, Fault, FaultyStore, SharedFate
from tests.predicate.predicate_oracle import SCHEMA, evaluate, predicates, random_row, to_sql

import indextables as it
from indextables.config import Config
from indextables.errors import CommitConflictError, QueryError, SchemaError
from indextables.protocol.actions import Add, CommitInfo, Remove
from indextables.protocol.names import parse_version_key
from indextables.store import open_store

COLUMNS = ("i", "s", "Day")
Row = dict[str, Any]

_numbers = itertools.count()


def add_of(row: Row, name: str | None = None) -> Add:
    texts = {
        key: value.isoformat() if isinstance(value, dt.date) else None if value is None else str(value)
        for key, value in row.items()
    }
    return make_add(name or f"{next(_numbers)}.split", partition_values=texts)


def in_the_middle(url: str, script: Callable[[], None]) -> it.TransactionLog:
    """A handle in whose next commit something happens: after all that it reads, before its version is put."""
    pending = [script]

    def run(call: Call) -> Fault:
        if pending and call.verb == "put_if_absent" and parse_version_key(call.key) is not None:
            pending.pop()()
        return Fault.NONE

    store = FaultyStore(open_store(url, Config.resolve()), run, SharedFate())
    return it.TransactionLog(url, store=store, options={"transaction.retry.baseDelayMs": 1})


@pytest.fixture
def log(tmp_path) -> it.TransactionLog:
    log = it.TransactionLog(tmp_path / "table")
    log.initialize(SCHEMA, partition_columns=COLUMNS)
    return log


ROWS = st.randoms(use_true_random=False).map(lambda chosen: random_row(chosen, COLUMNS))
MANY = st.lists(ROWS, max_size=6)
STEPS = st.lists(
    st.tuples(predicates(COLUMNS), MANY, MANY, st.sampled_from(["none", "append", "overwrite"])), max_size=6
)


@settings(max_examples=120)
@given(MANY, STEPS)
def test_the_log_holds_what_a_plain_model_holds(first: list[Row], steps) -> None:
    url = f"memory://where-{next(_numbers)}/table"
    log = it.TransactionLog(url)
    log.initialize(SCHEMA, partition_columns=COLUMNS)
    live: dict[str, Row] = {}

    def append(rows: list[Row]) -> None:
        adds = [add_of(row) for row in rows]
        it.TransactionLog(url).add_files(adds)
        live.update(zip((add.path for add in adds), rows, strict=True))

    def replace(handle: it.TransactionLog, predicate, rows: list[Row]) -> None:
        fitting = [row for row in rows if evaluate(predicate, row) is True]
        adds = [add_of(row) for row in fitting]
        handle.overwrite_files(adds, where=to_sql(predicate))
        for path in [path for path, row in live.items() if evaluate(predicate, row) is True]:
            del live[path]
        live.update(zip((add.path for add in adds), fitting, strict=True))

    append(first)
    for predicate, rows, others, meanwhile in steps:
        script = {
            "none": lambda: None,
            "append": lambda others=others: append(others),
            "overwrite": lambda p=predicate, others=others: replace(it.TransactionLog(url), p, others),
        }[meanwhile]
        replace(in_the_middle(url, script), predicate, rows)
        assert live_paths(log) == sorted(live)
        outside = [row for row in others if evaluate(predicate, row) is not True]
        if outside:
            with pytest.raises(SchemaError, match="is not true of it"):
                log.overwrite_files([add_of(row) for row in (*rows, *outside)], where=to_sql(predicate))
            assert live_paths(log) == sorted(live)


def test_each_replaced_file_is_removed_by_name_and_the_history_says_why(log) -> None:
    log.add_files([add_of({"i": i}, f"{i}.split") for i in range(3)])
    assert log.overwrite_files([add_of({"i": 2}, "new.split")], where="i >= 1") == 2
    info, *actions = log.read_version(2)
    assert isinstance(info, CommitInfo)
    assert (info.operation, info.parameters) == ("WRITE", {"mode": "Overwrite", "predicate": "i >= 1"})
    assert [type(action) for action in actions] == [Remove, Remove, Add]
    assert {action.path for action in actions[:2]} == {"1.split", "2.split"}
    assert all(action.data_change for action in actions)
    assert live_paths(log) == ["0.split", "new.split"]


def test_what_others_add_meanwhile_is_replaced_where_it_fits_and_stays_where_not(log) -> None:
    log.add_files([add_of({"i": 1}, "old.split"), add_of({"i": 2}, "far.split")])

    def others() -> None:
        it.TransactionLog(log.url).add_files([add_of({"i": 1}, "fits.split"), add_of({"i": 3}, "stays.split")])

    handle = in_the_middle(log.url, others)
    assert handle.overwrite_files([add_of({"i": 1}, "new.split")], where="i = 1") == 3
    assert live_paths(log) == ["far.split", "new.split", "stays.split"]


def test_a_table_that_moved_is_not_overwritten_where_its_version_was_named(log) -> None:
    log.add_files([add_of({"i": 1}, "old.split")])
    handle = in_the_middle(log.url, lambda: it.TransactionLog(log.url).add_files([add_of({"i": 9}, "other.split")]))
    with pytest.raises(CommitConflictError, match="not at version 1"):
        handle.overwrite_files([], where="i = 1", if_version=1)
    assert live_paths(log) == ["old.split", "other.split"]


@pytest.mark.parametrize(
    ("where", "gone"),
    [
        ("i IS NULL", ["none.split"]),
        ("i < 10", ["2.split", "9.split"]),
        ("i <> 9", ["10.split", "2.split", "day.split"]),
        ("Day = '2026-01-02'", ["day.split"]),
        ("day > DATE '2026-01-01' AND i IS NULL", []),
        ("s = 'nowhere'", []),
        ("true", ["10.split", "2.split", "9.split", "day.split", "none.split"]),
        ("false", []),
    ],
)
def test_values_are_compared_as_their_types_say_and_no_files_delete_partitions(log, where, gone) -> None:
    log.add_files([add_of({"i": i}, f"{i}.split") for i in (2, 9, 10)])
    log.add_files([add_of({}, "none.split"), add_of({"i": 77, "Day": dt.date(2026, 1, 2)}, "day.split")])
    before = live_paths(log)
    assert log.overwrite_files([], where=where) == 3
    assert live_paths(log) == sorted(set(before) - set(gone))


def test_a_predicate_on_other_columns_is_refused(log) -> None:
    log.add_files([add_of({"i": 1}, "old.split")])
    with pytest.raises(SchemaError, match="`l` is not a partition column") as refused:
        log.overwrite_files([], where="i = 1 AND l = 2")
    assert refused.value.hint == "the partition columns are `i`, `s`, `Day`"
    with pytest.raises(QueryError, match="no such column"):
        log.overwrite_files([], where="nothing = 1")
    assert log.snapshot().version == 1


def test_a_table_without_partitions_has_no_part_to_replace(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "plain")
    log.initialize(SCHEMA)
    with pytest.raises(SchemaError, match="`i` is not a partition column") as refused:
        log.overwrite_files([], where="i = 1")
    assert refused.value.hint == "the table has no partition columns"


def test_the_first_file_outside_is_named(log) -> None:
    adds = [add_of({"i": 1}), add_of({"i": None, "s": "x"}), add_of({"i": 3})]
    with pytest.raises(SchemaError, match=r"the partition `i=NULL, s=x, Day=NULL` because `i = 1` is not true of it"):
        log.overwrite_files(adds, where="i = 1")
    assert log.snapshot().version == 0


def test_a_value_that_cannot_be_read_decides_nothing(log) -> None:
    log.add_files([make_add("odd.split", partition_values={"i": "one"})])
    with pytest.raises(QueryError, match=r"`one` in file `odd.split` is not a `int32`"):
        log.overwrite_files([], where="i = 1")
    assert live_paths(log) == ["odd.split"]
