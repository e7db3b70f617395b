"""Many writers on one log: few requests after a lost put, limits by time, and nobody is left behind."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.conftest import SCHEMA, make_add
from tests.doubles.faulty_store import Fault, FaultyStore
from tests.doubles.metered_store import MeteredStore

import indextables as it
from indextables.config import Config
from indextables.errors import CommitConflictError
from indextables.protocol.names import version_key
from indextables.protocol.version_file import commit_info, decode_version, encode_version
from indextables.store import open_store


@pytest.fixture
def log(tmp_path):
    log = it.TransactionLog(tmp_path / "t")
    log.initialize(SCHEMA)
    return log


def metered(log) -> tuple[it.TransactionLog, MeteredStore]:
    store = MeteredStore(open_store(log.url, Config.resolve()))
    return it.TransactionLog(log.url, store=store), store


def definitions_versions(log) -> list[int | None]:
    return [commit_info(log.read_version(version)).definitions_version for version in log.versions()[1:]]


def test_commits_name_the_version_of_the_newest_definitions(log) -> None:
    log.add_files([make_add("a.split")])
    log.set_properties({"owner": "x"})
    log.add_files([make_add("b.split")])
    it.TransactionLog(log.url).add_files([make_add("c.split")])
    log.set_properties({"owner": "y"})
    log.add_files([make_add("d.split")])
    assert definitions_versions(log) == [0, 2, 2, 2, 5, 5]


def test_a_writer_that_missed_many_versions_reads_two_of_them(log) -> None:
    handle, store = metered(log)
    handle.add_files([make_add("first.split")])
    for number in range(40):
        log.add_files([make_add(f"{number}.split")])
    store.calls.clear()
    assert handle.add_files([make_add("last.split")]) == 42
    assert store.calls["get"] <= 4  # the version that won, the last two, and a state
    assert handle.snapshot().num_files == 42


def test_missed_definitions_are_read(log) -> None:
    """The newest version does not prove that nothing was defined since the last known one."""
    handle, _ = metered(log)
    handle.add_files([make_add("first.split")])
    for number in range(10):
        log.add_files([make_add(f"{number}.split")])
    log.set_properties({"owner": "x"})
    for number in range(10, 20):
        log.add_files([make_add(f"{number}.split")])
    handle.add_files([make_add("last.split")])
    assert handle.reader.head()[1].metadata.configuration["owner"] == "x"
    assert definitions_versions(log)[-1] == 12


@pytest.mark.parametrize("claimed", [None, 10**6])
def test_a_version_without_a_proof_is_no_proof(log, claimed) -> None:
    """Of an older release, or with a number that says nothing: all missed versions are read."""
    handle, store = metered(log)
    handle.add_files([make_add("first.split")])
    for number in range(5):
        log.add_files([make_add(f"{number}.split")])
    inner = open_store(log.url, Config.resolve())
    key = version_key(6)
    info, *others = decode_version(inner.get(key), 6, inner.location)
    changed = {name: getattr(info, name) for name in info.__struct_fields__} | {"definitions_version": claimed}
    inner.put(key, encode_version((type(info)(**changed), *others), compress=True))
    store.calls.clear()
    assert handle.reader.head()[1].version == 6
    assert store.calls["get"] == 5


def test_a_newest_version_that_does_not_follow_is_refused(log) -> None:
    handle, _ = metered(log)
    handle.add_files([make_add("first.split")])
    for number in range(5):
        log.add_files([make_add(f"{number}.split")])
    inner = open_store(log.url, Config.resolve())
    inner.put(version_key(6), inner.get(version_key(4)))
    with pytest.raises(it.errors.CorruptLogError, match="version"):
        handle.add_files([make_add("last.split")])


class Rival:
    """A store before which another writer always commits first."""

    def __init__(self, log, losses: int) -> None:
        self.rival = it.TransactionLog(log.url)
        self.losses = losses
        self.calls: Counter[str] = Counter()
        self.store = FaultyStore(open_store(log.url, Config.resolve()), self.script)

    def script(self, call) -> Fault:
        self.calls[call.verb] += 1
        if call.verb == "put_if_absent" and self.losses:
            self.losses -= 1
            self.rival.add_files([make_add(f"rival-{self.losses}.split")])
        return Fault.NONE


def test_a_lost_put_is_followed_without_a_listing(log) -> None:
    rival = Rival(log, 2)
    handle = it.TransactionLog(log.url, store=rival.store)
    handle.reader.head()
    rival.calls.clear()
    handle.add_files([make_add("a.split")])
    assert rival.calls == Counter(put_if_absent=3, get=2, list=2)  # one look, and the listing after the commit


def test_more_than_ten_losses_are_no_reason_to_give_up(log) -> None:
    rival = Rival(log, 25)
    handle = it.TransactionLog(log.url, store=rival.store)
    assert handle.add_files([make_add("a.split")]) == 26
    assert handle.metrics().commit_retries == 25


class ImpatientClock:
    """The system's clock, but sleeping takes no time and every look at it takes a second."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __getattr__(self, name):
        from indextables.clock import SYSTEM_CLOCK

        return getattr(SYSTEM_CLOCK, name)

    def monotonic(self) -> float:
        self.seconds += 1
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def test_giving_up_after_the_set_time(log) -> None:
    rival = Rival(log, 10**6)
    options = {"transaction.retry.timeoutSeconds": 60}
    handle = it.TransactionLog(log.url, store=rival.store, options=options, clock=ImpatientClock())
    with pytest.raises(CommitConflictError, match="other writers committed first") as caught:
        handle.add_files([make_add("a.split")])
    assert "transaction.retry.timeoutSeconds" in str(caught.value)
    assert 3 <= rival.calls["put_if_absent"] < 60


def test_the_number_of_attempts_is_a_limit_if_it_is_set(log) -> None:
    rival = Rival(log, 10**6)
    handle = it.TransactionLog(log.url, store=rival.store, options={"transaction.retry.maxAttempts": 5})
    with pytest.raises(CommitConflictError, match="all 5 attempts") as caught:
        handle.add_files([make_add("a.split")])
    assert "transaction.retry.maxAttempts" in str(caught.value)


def test_a_far_snapshot_is_read_from_a_state(log) -> None:
    handle, store = metered(log)
    assert handle.snapshot().num_files == 0
    for number in range(100):
        log.add_files([make_add(f"{number}.split")])
    log.wait_for_checkpoint()
    store.calls.clear()
    assert handle.snapshot().num_files == 100
    assert store.calls["get"] < 40
