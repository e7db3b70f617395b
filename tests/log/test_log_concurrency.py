"""Many processes and threads on one table: every commit is there once, and no version is missing."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import random
import uuid
from collections.abc import Iterator, Mapping

import pytest
from tests.conftest import SCHEMA, make_add
from tests.servers import ATOMIC
from tests.servers.proxy import ProxyFault, fault_proxy

import indextables as it
from indextables.errors import CommitConflictError, CommitStateUnknownError, StorageError
from indextables.protocol.actions import Add, Remove
from indextables.protocol.version_file import commit_info

NUM_PROCESSES = 8
NUM_COMMITS = 50
NUM_CLIENTS = 4
NUM_REMOTE_COMMITS = 8
# Time-outs cost seconds, so they are few.
FAULTS = [
    *[ProxyFault.UNAVAILABLE, ProxyFault.THROTTLED, ProxyFault.APPLIED_RESET, ProxyFault.APPLIED_ERROR] * 5,
    *[ProxyFault.CONFLICT_409, ProxyFault.RESET, ProxyFault.SLOW] * 5,
    *[ProxyFault.APPLIED_TIMEOUT, ProxyFault.DROPPED_TIMEOUT, ProxyFault.DELAYED],
]


def _append_many(url: str, who: int) -> list[int]:
    log = it.TransactionLog(url)
    return [log.add_files([make_add(f"splits/split-{who}-{number}.split")]) for number in range(NUM_COMMITS)]


def _do_anything(url: str, who: int) -> list[tuple[str, int, list[str], list[str]]]:
    """What this process committed: operation, version, removed (of replaces), added."""
    log, chance, done = it.TransactionLog(url), random.Random(who), []
    for number in range(NUM_COMMITS // 2):
        name = f"splits/split-{who}-{number}.split"
        kind = chance.choice(["append", "append", "append", "overwrite", "replace"])
        if kind == "append":
            done.append((kind, log.add_files([make_add(name)]), [], [name]))
        elif kind == "overwrite":
            done.append((kind, log.overwrite_files([make_add(name)]), [], [name]))
        else:
            live = log.list_files()["path"].to_pylist()
            sources = chance.sample(live, k=min(2, len(live)))
            try:
                if sources:
                    done.append((kind, log.replace_files(sources, [make_add(name)]), sources, [name]))
            except CommitConflictError:
                done.append(("lost", -1, sources, [name]))
    return done


def _append_to_server(url: str, options: Mapping[str, object], who: int) -> list[tuple[str, int | None]]:
    """What this process committed: files with their versions, and with None where nobody knows."""
    log, done = it.TransactionLog(url, options=options), []
    for number in range(NUM_REMOTE_COMMITS):
        name = f"splits/split-{who}-{number}.split"
        try:
            done.append((name, log.add_files([make_add(name)])))
        except CommitStateUnknownError:
            done.append((name, None))
        except StorageError:
            continue
    return done


def _in_processes(work, url: str) -> list:
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(NUM_PROCESSES, mp_context=context) as pool:
        return list(pool.map(work, [url] * NUM_PROCESSES, range(NUM_PROCESSES)))


@pytest.mark.slow
def test_eight_processes_append_fifty_times_each(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "t")
    log.initialize(SCHEMA)
    versions = [version for answers in _in_processes(_append_many, log.url) for version in answers]
    total = NUM_PROCESSES * NUM_COMMITS
    assert sorted(versions) == list(range(1, total + 1))
    assert log.versions() == list(range(total + 1))
    added = [
        action.path for version in log.versions() for action in log.read_version(version) if isinstance(action, Add)
    ]
    assert len(added) == len(set(added)) == total
    assert sorted(log.list_files()["path"].to_pylist()) == sorted(added)


@pytest.mark.slow
def test_eight_processes_append_overwrite_and_replace(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "t")
    log.initialize(SCHEMA)
    done = [entry for answers in _in_processes(_do_anything, log.url) for entry in answers]
    committed = sorted((entry for entry in done if entry[0] != "lost"), key=lambda entry: entry[1])
    assert [entry[1] for entry in committed] == list(range(1, len(committed) + 1))
    live: set[str] = set()
    for kind, version, removed, added in committed:
        if kind == "overwrite":
            removed = sorted(live)
        assert set(removed) <= live
        live = (live - set(removed)) | set(added)
        actions = log.read_version(version)
        assert {action.path for action in actions if isinstance(action, Remove)} == set(removed)
        assert [action.path for action in actions if isinstance(action, Add)] == added
        if version % 20 == 0:
            assert set(log.snapshot(version=version).files["path"].to_pylist()) == live
    lost = {entry[3][0] for entry in done if entry[0] == "lost"}
    assert set(log.list_files()["path"].to_pylist()) == live
    assert not lost & live


@pytest.fixture(scope="module")
def clients() -> Iterator[concurrent.futures.Executor]:
    """Processes that go on from one test to the next, because they take long to start."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(NUM_CLIENTS, mp_context=context) as pool:
        yield pool


def _append_from(clients, log: it.TransactionLog, options: Mapping[str, object]) -> list[tuple[str, int | None]]:
    """Let every client append, and hold what they say against the log."""
    chosen = {**options, "transaction.retry.maxAttempts": 100, "transaction.retry.maxDelayMs": 500}
    work = [clients.submit(_append_to_server, log.url, chosen, who) for who in range(NUM_CLIENTS)]
    done = [entry for future in work for entry in future.result(300)]
    versions = log.versions()
    assert versions == list(range(len(versions)))
    adds = {
        version: [action.path for action in log.read_version(version) if isinstance(action, Add)]
        for version in versions
    }
    for name, version in done:
        holders = [at for at, paths in adds.items() if name in paths]
        assert holders == [version] or (version is None and len(holders) < 2)
    assert {path for paths in adds.values() for path in paths} <= {name for name, _ in done}
    return done


@pytest.mark.slow
@pytest.mark.parametrize("kind", ATOMIC)
def test_processes_append_on_a_server(servers, clients, kind) -> None:
    server = servers(kind)
    log = it.TransactionLog(f"{server.url}/{uuid.uuid4()}", options=server.options)
    log.initialize(SCHEMA)
    done = _append_from(clients, log, server.options)
    assert sorted(version for _, version in done) == list(range(1, NUM_CLIENTS * NUM_REMOTE_COMMITS + 1))


@pytest.mark.slow
def test_processes_append_among_faults(servers, clients) -> None:
    server, chance = servers("ministack"), random.Random(20)
    log = it.TransactionLog(f"{server.url}/{uuid.uuid4()}", options=server.options)
    log.initialize(SCHEMA)

    def script(_method: str, _path: str, _headers: Mapping[str, str]) -> ProxyFault:
        return chance.choice(FAULTS) if chance.random() < 0.2 else ProxyFault.NONE

    with fault_proxy(server.endpoint, script) as proxy:
        quick = {"store.timeoutSeconds": 2, "store.retry.maxAttempts": 3}
        done = _append_from(clients, log, {**server.behind(proxy.endpoint), **quick})
        assert proxy.num_faults >= NUM_CLIENTS * NUM_REMOTE_COMMITS // 2
    assert len([version for _, version in done if version is not None]) >= NUM_CLIENTS * NUM_REMOTE_COMMITS // 2


def test_threads_share_one_handle(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "t", options={"transaction.retry.baseDelayMs": 5})
    log.initialize(SCHEMA)

    def work(who: int) -> list[int]:
        versions = []
        for number in range(10):
            versions.append(log.add_files([make_add(f"splits/{who}-{number}.split")]))
            assert f"splits/{who}-{number}.split" in log.list_files()["path"].to_pylist()
            assert log.snapshot(version=versions[-1]).version == versions[-1]
        return versions

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        versions = [version for answers in pool.map(work, range(4)) for version in answers]
    assert sorted(versions) == list(range(1, 41))
    assert log.snapshot().num_files == 40


def test_every_version_names_its_parent(log) -> None:
    for number in range(3):
        it.TransactionLog(log.url).add_files([make_add(f"{number}.split")])
    infos = [commit_info(log.read_version(version)) for version in (1, 2, 3)]
    assert infos[0].parent_txn_id == log.metadata().id
    assert [info.parent_txn_id for info in infos[1:]] == [info.txn_id for info in infos[:-1]]


def test_lost_races_are_counted(log) -> None:
    quick = {"transaction.retry.baseDelayMs": 1}
    mine, other = it.TransactionLog(log.url, options=quick), it.TransactionLog(log.url)
    mine.add_files([make_add("first.split")])
    other.add_files([make_add("other.split")])
    mine.add_files([make_add("second.split")])
    assert (mine.metrics().commits, mine.metrics().commit_retries) == (2, 1)
    assert (other.metrics().commits, other.metrics().commit_retries) == (1, 0)
