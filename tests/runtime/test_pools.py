"""Reading side by side: faster on a store with latency, bounded in time, and the first error comes out."""

from __future__ import annotations

import threading
import time

import pytest
import tenacity
from tests.conftest import SCHEMA, make_add

import indextables as it
from indextables.config import Config, settings
from indextables.errors import StorageError
from indextables.log.commit.put import commit_backoff
from indextables.protocol.names import parse_version_key
from indextables.runtime.pools import VERSION_READING, InlinePools, ThreadPools
from indextables.store import open_store

LATENCY_SECONDS = 0.02
NUM_VERSIONS = 40


class Distant:
    """A store behind a network: every read takes its time."""

    is_remote = True

    def __init__(self, inner, latency_seconds: float = LATENCY_SECONDS) -> None:
        self._inner = inner
        self._latency_seconds = latency_seconds
        self.threads: set[str] = set()
        self.most_at_once = 0
        self._under_way: set[int] = set()

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def get(self, key: str, *, e_tag: str | None = None) -> bytes:
        if parse_version_key(key) is not None:
            self._under_way.add(threading.get_ident())
            self.most_at_once = max(self.most_at_once, len(self._under_way))
            time.sleep(self._latency_seconds)
            self._under_way.discard(threading.get_ident())
            self.threads.add(threading.current_thread().name)
        return self._inner.get(key, e_tag=e_tag)


@pytest.fixture
def url() -> str:
    url = f"memory://pools-{time.perf_counter_ns()}/t"
    log = it.TransactionLog(url, options={"checkpoint.enabled": "false"})
    log.initialize(SCHEMA)
    for number in range(NUM_VERSIONS):
        log.add_files([make_add(f"{number}.split")])
    return url


def _open(url: str, **options) -> Distant:
    store = Distant(open_store(url, Config.resolve()))
    files = it.TransactionLog(url, store=store, options=options).list_files()
    assert files["path"].to_pylist() == [f"{number}.split" for number in range(NUM_VERSIONS)]
    return store


def test_versions_are_read_side_by_side(url) -> None:
    store = _open(url, **{"checkpoint.parallelism": 8})
    alone = _open(url, **{"transaction.useOptimized": "false"})
    assert alone.most_at_once == 1
    assert 4 < store.most_at_once <= 8
    assert len(store.threads) == 8
    assert all(name.startswith("indextables-version-reading") for name in store.threads)


def test_reading_is_bounded_in_time(url) -> None:
    store = Distant(open_store(url, Config.resolve()), latency_seconds=0.4)
    log = it.TransactionLog(
        url, store=store, options={"checkpoint.read.timeoutSeconds": 1, "checkpoint.parallelism": 2}
    )
    begin = time.perf_counter()
    with pytest.raises(StorageError, match="within 1 seconds"):
        log.list_files()
    assert time.perf_counter() - begin < 3


def test_results_come_in_order_and_the_first_error_comes_out() -> None:
    pools = ThreadPools()
    for count in (0, 1, 2, 3, 7, 100):
        items = list(range(count))
        for either in (pools, InlinePools()):
            assert either.map(VERSION_READING, lambda item: item * 2, items, workers=3) == [item * 2 for item in items]

    def fail(item: int) -> int:
        if item == 5:
            raise KeyError(item)
        return item

    with pytest.raises(KeyError):
        pools.map(VERSION_READING, fail, list(range(10)), workers=3)
    pools.shutdown()
    assert pools.map(VERSION_READING, str, [1, 2], workers=2) == ["1", "2"]
    pools.shutdown()


def test_shut_down_pools_have_no_threads() -> None:
    pools = ThreadPools()
    pools.map("a-purpose-of-its-own", str, [1, 2, 3], workers=3)
    named = [thread for thread in threading.enumerate() if "a-purpose-of-its-own" in thread.name]
    assert named
    pools.shutdown()
    assert not any(thread.is_alive() for thread in named)


def test_waits_grow_to_a_limit_with_full_jitter() -> None:
    config = Config.resolve(options={"transaction.retry.baseDelayMs": 100, "transaction.retry.maxDelayMs": 900})

    class Dice:
        def __init__(self, value: float) -> None:
            self.value = value

        def uniform(self) -> float:
            return self.value

    def waits(value: float) -> list[float]:
        wait, state = commit_backoff(config, Dice(value)), tenacity.RetryCallState(None, None, (), {})
        answers = []
        for attempt in range(1, 7):
            state.attempt_number = attempt
            answers.append(wait(state))
        return answers

    assert waits(1.0) == [0.1, 0.2, 0.4, 0.8, 0.9, 0.9]
    assert waits(0.5) == [0.05, 0.1, 0.2, 0.4, 0.45, 0.45]
    assert config[settings.TRANSACTION_RETRY_MAX_ATTEMPTS] == 10
