"""A writer that dies at any store call leaves a table that opens, at the old or at the new version."""

from __future__ import annotations

import itertools

import pytest
from tests.conftest import SCHEMA, live_paths, make_add
from tests.doubles.faulty_store import Fault, FaultyStore, ProcessDied

import indextables as it
from indextables.config import Config
from indextables.store import open_store

_names = itertools.count()

OPERATIONS = {
    "append": (lambda log: log.add_files([make_add("new.split")]), {"a.split", "b.split", "new.split"}),
    "append with a mapping": (
        lambda log: log.add_files([make_add("new.split", doc_mapping_json='[{"name":"id"}]')]),
        {"a.split", "b.split", "new.split"},
    ),
    "overwrite": (lambda log: log.overwrite_files([make_add("new.split")]), {"new.split"}),
    "replace": (lambda log: log.replace_files(["a.split"], [make_add("new.split")]), {"b.split", "new.split"}),
    "properties": (lambda log: log.set_properties({"note": "x"}), {"a.split", "b.split"}),
    "skip": (lambda log: log.record_skipped_file("a.split", reason="broken"), {"a.split", "b.split"}),
    "streaming batch": (
        lambda log: log.add_files([make_add("new.split")], application_id="s", batch_id=0),
        {"a.split", "b.split", "new.split"},
    ),
}


def _table() -> str:
    url = f"memory://kill-{next(_names)}/t"
    log = it.TransactionLog(url)
    log.initialize(SCHEMA)
    log.add_files([make_add("a.split"), make_add("b.split")])
    return url


def _dying_log(url: str, at: int, fault: Fault) -> it.TransactionLog:
    calls = itertools.count()
    inner = open_store(url, Config.resolve())
    return it.TransactionLog(url, store=FaultyStore(inner, lambda call: fault if next(calls) == at else Fault.NONE))


@pytest.mark.parametrize("fault", [Fault.DIES_BEFORE, Fault.DIES_AFTER])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_killed_at_every_call(operation, fault) -> None:
    work, after = OPERATIONS[operation]
    for at in itertools.count():
        url = _table()
        try:
            work(_dying_log(url, at, fault))
        except ProcessDied:
            log = it.TransactionLog(url)
            version = log.snapshot().version
            assert version in (1, 2)
            assert set(live_paths(log)) == ({"a.split", "b.split"} if version == 1 else after)
            assert log.add_files([make_add("next.split")]) == version + 1
        else:
            break
    assert at >= 3
    assert set(live_paths(it.TransactionLog(url))) == after


@pytest.mark.parametrize("fault", [Fault.DIES_BEFORE, Fault.DIES_AFTER])
def test_killed_while_creating(fault) -> None:
    for at in itertools.count():
        url = f"memory://kill-{next(_names)}/t"
        try:
            _dying_log(url, at, fault).initialize(SCHEMA)
        except ProcessDied:
            it.TransactionLog(url).initialize(SCHEMA)
            assert it.TransactionLog(url).versions() == [0]
        else:
            break
    assert at >= 4
