"""Versions that were cleaned up, and replaced by that of a writer that slept: a ghost."""

from __future__ import annotations

import pytest
from tests.conftest import SCHEMA, make_add
from tests.doubles.faulty_store import Call, Fault, FaultyStore
from tests.simulator.memory import DictStore

import indextables as it
from indextables.errors import CommitStateUnknownError, RetentionError
from indextables.protocol.names import version_key
from indextables.runtime.pools import InlinePools

URL = "memory://ghosts/table"


def open_log(store) -> it.TransactionLog:
    return it.TransactionLog(URL, store=store, pools=InlinePools())


@pytest.mark.parametrize("is_remote", [True, False])
def test_what_a_ghost_hides_is_not_committed_again(is_remote) -> None:
    store = DictStore(URL, is_remote=is_remote)
    open_log(store).initialize(SCHEMA)
    elsewhere = DictStore(URL)
    elsewhere.objects = dict(store.objects)
    open_log(elsewhere).add_files([make_add("ghost.split")])

    def others_go_on() -> None:
        log = open_log(store)
        log.add_files([make_add("other.split")])
        it.Table(log, log.snapshot()).truncate_time_travel()
        store.put_if_absent(version_key(1), elsewhere.get(version_key(1)))

    def script(call: Call) -> Fault:
        if call == Call("get", version_key(1)) and version_key(2) not in store.objects:
            others_go_on()
        is_put = call == Call("put_if_absent", version_key(1))
        return Fault.ANSWER_LOST if is_put and version_key(1) not in store.objects else Fault.NONE

    with pytest.raises(CommitStateUnknownError):
        open_log(FaultyStore(store, script)).add_files([make_add("ours.split")])
    store.delete(version_key(1))
    snapshot = open_log(store).snapshot()
    assert snapshot.version == 2
    assert sorted(snapshot.files["path"].to_pylist()) == ["other.split", "ours.split"]


def test_who_lost_without_an_answer_commits_on_top() -> None:
    """Where the other version stands in its place, nothing is in doubt."""
    store = DictStore(URL)
    open_log(store).initialize(SCHEMA)

    def script(call: Call) -> Fault:
        if call == Call("put_if_absent", version_key(1)):
            open_log(store).add_files([make_add("other.split")])
            return Fault.DROPPED
        return Fault.NONE

    assert open_log(FaultyStore(store, script)).add_files([make_add("ours.split")]) == 2
    assert sorted(open_log(store).snapshot().files["path"].to_pylist()) == ["other.split", "ours.split"]


def test_time_travel_does_not_read_a_ghost_that_came_after_the_listing() -> None:
    store = DictStore(URL)
    open_log(store).initialize(SCHEMA)
    elsewhere = DictStore(URL)
    elsewhere.objects = dict(store.objects)
    open_log(elsewhere).add_files([make_add("ghost.split")])
    log = open_log(store)
    for name in ("a", "b", "c"):
        log.add_files([make_add(f"{name}.split")])
    log.checkpoint()

    def script(call: Call) -> Fault:
        if call == Call("get", version_key(1)) and version_key(0) in store.objects:
            for version in range(3):
                store.delete(version_key(version))
            store.put_if_absent(version_key(1), elsewhere.get(version_key(1)))
        return Fault.NONE

    with pytest.raises(RetentionError):
        open_log(FaultyStore(store, script)).snapshot(version=1)


@pytest.mark.parametrize("keeps_newest", [True, False])
def test_a_ghost_that_another_ghost_names_is_no_commit(keeps_newest) -> None:
    """A writer that slept puts an old version, and another one that lost against it goes on from it."""
    store = DictStore(URL)
    sleeper = open_log(store)
    sleeper.initialize(SCHEMA)
    sleeper.add_files([make_add("first.split")])
    elsewhere = DictStore(URL)
    elsewhere.objects = dict(store.objects)

    def others_go_on() -> None:
        log = open_log(store)
        for name in ("a", "b", "c"):
            log.add_files([make_add(f"{name}.split")])
        log.checkpoint()
        for version in range(4 if keeps_newest else 5):
            store.delete(version_key(version))
        if not keeps_newest:
            log.add_files([make_add("d.split")])

    def another_ghost_follows() -> None:
        elsewhere.put(version_key(2), store.get(version_key(2)))
        open_log(elsewhere).add_files([make_add("follower.split")])
        store.put_if_absent(version_key(3), elsewhere.get(version_key(3)))

    steps: list[str] = []

    def script(call: Call) -> Fault:
        if call == Call("put_if_absent", version_key(2)) and not steps:
            steps.append("slept")
            others_go_on()
        elif call.verb == "list" and steps == ["slept"]:
            steps.append("put")
            another_ghost_follows()
        return Fault.NONE

    version = open_log(FaultyStore(store, script)).add_files([make_add("ours.split")])
    assert steps == ["slept", "put"]
    assert version == (5 if keeps_newest else 6)
    store.delete(version_key(3))
    paths = sorted(open_log(store).snapshot().files["path"].to_pylist())
    assert paths == sorted(
        [*(["d.split"] if not keeps_newest else []), "a.split", "b.split", "c.split", "first.split", "ours.split"]
    )
