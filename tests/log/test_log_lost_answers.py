"""A commit whose answer was lost is recognised on every store: it is in the log once, or nobody was told that it is."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Mapping

import pytest
from tests.conftest import SCHEMA, make_add
from tests.doubles.faulty_store import Call, Fault, FaultyStore, SharedFate
from tests.servers import KINDS, Running
from tests.servers.proxy import FaultProxy, ProxyFault, ProxyScript, fault_proxy

import indextables as it
from indextables.config import Config
from indextables.errors import CommitStateUnknownError, ObjectExistsError, StorageError
from indextables.protocol.actions import Add
from indextables.store import open_store

QUICK = {
    "store.timeoutSeconds": 2,
    "store.retry.maxAttempts": 2,
    "transaction.retry.baseDelayMs": 10,
    "transaction.retry.maxDelayMs": 100,
}
GIVES_UP = {**QUICK, "transaction.retry.maxAttempts": 1}
FAULTS = [fault for fault in ProxyFault if fault is not ProxyFault.NONE]
TIME_OUTS = [ProxyFault.APPLIED_TIMEOUT, ProxyFault.DROPPED_TIMEOUT, ProxyFault.DELAYED]
# A time-out takes its time, so they are rarer.
FAULT_MIX = [fault for fault in FAULTS if fault not in TIME_OUTS] * 6 + TIME_OUTS
STORE_FAULTS = [
    Fault.UNAVAILABLE,
    Fault.DROPPED,
    Fault.ANSWER_LOST,
    Fault.DELAYED,
    Fault.RETRIED,
    Fault.FALSE_CONFLICT,
]


@pytest.fixture(params=KINDS)
def server(request, servers) -> Running:
    return servers(request.param)


@pytest.fixture
def table(server) -> it.TransactionLog:
    """A table on a server that is spoken to directly."""
    return new_table(f"{server.url}/{uuid.uuid4()}", server.options)


def new_table(url: str, options: Mapping[str, object]) -> it.TransactionLog:
    log = it.TransactionLog(url, options=options)
    log.initialize(SCHEMA)
    return log


def through(proxy: FaultProxy, server: Running, url: str, options: Mapping[str, object] = QUICK) -> it.TransactionLog:
    return it.TransactionLog(url, options={**server.behind(proxy.endpoint), **options})


def on_creates(faults: Iterable[ProxyFault]) -> ProxyScript:
    """These faults for the first conditional puts, and none for anything else."""
    remaining = iter(faults)

    def script(_method: str, _path: str, headers: Mapping[str, str]) -> ProxyFault:
        conditions = {"if-none-match", "x-goog-if-generation-match"}
        is_create = any(name.lower() in conditions for name in headers)
        return next(remaining, ProxyFault.NONE) if is_create else ProxyFault.NONE

    return script


def added(log: it.TransactionLog) -> list[str]:
    """The path of every file that any version adds. The versions have no gap."""
    versions = log.versions()
    assert versions == list(range(len(versions)))
    actions = [action for version in versions for action in log.read_version(version)]
    return [action.path for action in actions if isinstance(action, Add)]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_commit_survives_every_fault_of_its_put(server, table, fault) -> None:
    with fault_proxy(server.endpoint, on_creates([fault]), late_seconds=60) as proxy:
        patient = {} if fault in TIME_OUTS else {"store.timeoutSeconds": 20}
        log = through(proxy, server, table.url, {**QUICK, **patient})
        names = [f"{number}.split" for number in range(2)]
        versions = [log.add_files([make_add(name)]) for name in names]
        proxy.settle()
        assert proxy.counts[fault] == 1
    assert versions == [1, 2]
    assert added(table) == names


def test_a_create_that_is_asked_for_once_is_not_repeated_by_the_client(server) -> None:
    """An answer to a repetition says nothing of what became of the first try, nor of who came in between."""
    fault = ProxyFault.APPLIED_ERROR
    with fault_proxy(server.endpoint, on_creates([fault, fault])) as proxy:
        options = Config.resolve(options={**server.behind(proxy.endpoint), **QUICK, "store.timeoutSeconds": 20})
        store = open_store(f"{server.url}/{uuid.uuid4()}", options)
        with pytest.raises(StorageError) as once:
            store.put_if_absent("once", b"x", once=True)
        assert proxy.counts[fault] == 1
        with pytest.raises(ObjectExistsError):
            store.put_if_absent("repeated", b"x")
        assert store.get("once") == store.get("repeated") == b"x"
    assert not isinstance(once.value, ObjectExistsError)


def test_a_put_that_arrives_after_its_writer_gave_up_is_in_the_log_once(server, table) -> None:
    with fault_proxy(server.endpoint, on_creates([ProxyFault.DELAYED]), late_seconds=60) as proxy:
        with pytest.raises(CommitStateUnknownError, match="version 1"):
            through(proxy, server, table.url, GIVES_UP).add_files([make_add("late.split")])
        assert added(table) == []
        proxy.settle()
        assert added(table) == ["late.split"]
        assert through(proxy, server, table.url).add_files([make_add("next.split")]) == 2
    assert added(table) == ["late.split", "next.split"]


def test_a_put_that_arrives_after_another_writer_changes_nothing(server, table) -> None:
    with fault_proxy(server.endpoint, on_creates([ProxyFault.DELAYED]), late_seconds=60) as proxy:
        with pytest.raises(CommitStateUnknownError, match="version 1"):
            through(proxy, server, table.url, GIVES_UP).add_files([make_add("late.split")])
        assert table.add_files([make_add("first.split")]) == 1
        proxy.settle()
        assert through(proxy, server, table.url).add_files([make_add("next.split")]) == 2
    assert added(table) == ["first.split", "next.split"]


def commit_many(commit: Callable[[str], object], number: int) -> tuple[list[str], list[str]]:
    """Commit so many files, one by one: those that were acknowledged, and those of which nobody knows."""
    acknowledged, unknown = [], []
    for name in (f"{at}.split" for at in range(number)):
        try:
            commit(name)
        except CommitStateUnknownError:
            unknown.append(name)
        except StorageError:
            continue
        else:
            acknowledged.append(name)
    return acknowledged, unknown


def check_log(log: it.TransactionLog, acknowledged: list[str], unknown: list[str]) -> None:
    found = added(log)
    assert len(found) == len(set(found))
    assert set(acknowledged) <= set(found) <= {*acknowledged, *unknown}
    assert sorted(log.list_files()["path"].to_pylist()) == sorted(found)


@pytest.mark.slow
def test_commits_among_faults_of_every_request(server, table) -> None:
    chance = random.Random(8)

    def script(_method: str, _path: str, _headers: Mapping[str, str]) -> ProxyFault:
        return chance.choice(FAULT_MIX) if chance.random() < 0.3 else ProxyFault.NONE

    with fault_proxy(server.endpoint, script) as proxy:
        log = through(proxy, server, table.url)
        acknowledged, unknown = commit_many(lambda name: log.add_files([make_add(name)]), 15)
        assert proxy.num_faults >= 10
    assert len(acknowledged) >= 5
    check_log(table, acknowledged, unknown)
    table.add_files([make_add("next.split")])


@pytest.fixture(params=["local", "memory"])
def place(request, tmp_path) -> str:
    return str(tmp_path / "t") if request.param == "local" else f"memory://{uuid.uuid4()}/t"


def faulty_log(url: str, script: Callable[[Call], Fault], fate: SharedFate) -> it.TransactionLog:
    store = FaultyStore(open_store(url, Config.resolve()), script, fate)
    return it.TransactionLog(url, store=store, options={"transaction.retry.baseDelayMs": 0})


@pytest.mark.parametrize("fault", STORE_FAULTS, ids=lambda fault: fault.name)
def test_a_commit_survives_every_fault_of_its_put_without_a_server(place, fault) -> None:
    table, fate, faults = new_table(place, {}), SharedFate(), iter([fault])
    log = faulty_log(place, lambda call: next(faults, Fault.NONE) if call.verb == "put_if_absent" else Fault.NONE, fate)
    assert [log.add_files([make_add(name)]) for name in ("a.split", "b.split")] == [1, 2]
    assert next(faults, None) is None
    while fate.pending:
        fate.deliver()
    assert added(table) == ["a.split", "b.split"]


@pytest.mark.parametrize("seed", range(5))
def test_commits_among_faults_of_every_call_without_a_server(place, seed) -> None:
    chance, table, fate = random.Random(seed), new_table(place, {}), SharedFate()
    log = faulty_log(place, lambda _call: chance.choice(STORE_FAULTS) if chance.random() < 0.3 else Fault.NONE, fate)
    acknowledged, unknown = commit_many(lambda name: log.add_files([make_add(name)]), 40)
    while fate.pending:
        fate.deliver()
    assert len(acknowledged) >= 10
    check_log(table, acknowledged, unknown)
