"""The driver, an executor or the object store is killed in the middle of writes: the table is whole, and the next write
succeeds."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.servers import Running, missing, running
from tests.spark.jobs import start_job
from tests.spark.numbered_job import ROWS_PER_BATCH
from tests.spark_runs import needs_spark

import indextables as it
from indextables.config import Config
from indextables.errors import StorageError, TableNotFoundError
from indextables.store import open_store

pytestmark = [needs_spark, pytest.mark.slow]

_NUM_BATCHES = 4
_PATIENCE_SECONDS = 240
_EXECUTOR = b"CoarseGrainedExecutorBackend"


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    """An S3 server whose data outlive it."""
    if reason := missing("seaweedfs"):
        pytest.skip(reason)
    with running("seaweedfs", tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def url(server, request) -> str:
    return f"{server.url}/{request.node.name}/table"


class Job:
    """A job and its executors, all in one session of processes."""

    def __init__(self, server: Running, url: str, place: Path) -> None:
        self._output = place / "output"
        patient = {**server.options, "store.retry.maxAttempts": 10, "store.retry.timeoutSeconds": 60}
        self._process = start_job("numbered_job", place, url, json.dumps(patient), str(_NUM_BATCHES))

    def check_alive(self) -> None:
        assert self._process.poll() is None, self._output.read_text()[-3000:]

    def finish(self) -> None:
        assert self._process.wait(_PATIENCE_SECONDS) == 0, self._output.read_text()[-3000:]

    def executors(self) -> list[int]:
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if _EXECUTOR in (place / "cmdline").read_bytes() and os.getsid(int(place.name)) == self._process.pid:
                    found.append(int(place.name))
        return sorted(found)

    def kill(self) -> None:
        """End the driver and all that it has started, as a crash does."""
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.getsid(int(place.name)) == self._process.pid:
                    os.kill(int(place.name), signal.SIGKILL)
        self._process.wait()


@contextlib.contextmanager
def started(server: Running, url: str, place: Path) -> Iterator[Job]:
    job = Job(server, url, place)
    try:
        yield job
    finally:
        job.kill()


def until(happened: Callable[[], bool], job: Job) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not happened():
        job.check_alive()
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.1)


def is_within_a_write(server: Running, url: str) -> bool:
    """Whether splits are there that no version names yet, beside a first one that is committed."""
    try:
        table = it.Table.open(url, options=server.options)
        store = open_store(url, Config.resolve(options=server.options))
        splits = {meta.key for meta in store.list() if meta.key.endswith(".split")}
    except (StorageError, TableNotFoundError):
        return False
    return table.version > 0 and not splits <= set(table.files()["path"].to_pylist())


def check_whole(server: Running, url: str, num_batches: int) -> None:
    table = it.Table.open(url, options=server.options)
    assert sorted(table.search(columns=["id"])["id"].to_pylist()) == list(range(num_batches * ROWS_PER_BATCH))
    assert table.log.versions() == list(range(num_batches + 1))
    assert [problem for problem in table.fsck().to_pylist() if problem["severity"] == "error"] == []


def test_a_driver_is_killed(server, url, tmp_path) -> None:
    with started(server, url, tmp_path) as job:
        until(lambda: is_within_a_write(server, url), job)
        job.kill()
    done = it.Table.open(url, options=server.options).version
    assert 0 < done <= _NUM_BATCHES
    check_whole(server, url, done)
    with started(server, url, tmp_path) as job:
        job.finish()
    check_whole(server, url, _NUM_BATCHES)


def test_an_executor_is_killed(server, url, tmp_path) -> None:
    with started(server, url, tmp_path) as job:
        until(lambda: is_within_a_write(server, url), job)
        os.kill(job.executors()[0], signal.SIGKILL)
        job.finish()
    check_whole(server, url, _NUM_BATCHES)


def test_the_store_is_killed_and_started_again(server, url, tmp_path) -> None:
    with started(server, url, tmp_path) as job:
        until(lambda: is_within_a_write(server, url), job)
        server.kill()
        time.sleep(2)
        server.start()
        job.finish()
    check_whole(server, url, _NUM_BATCHES)
    next_rows = range(_NUM_BATCHES * ROWS_PER_BATCH, (_NUM_BATCHES + 1) * ROWS_PER_BATCH)
    it.Table.open(url, options=server.options).append(pa.table({"id": next_rows}))
    check_whole(server, url, _NUM_BATCHES + 1)
