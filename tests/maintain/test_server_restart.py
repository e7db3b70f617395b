"""Writers go on while their server crashes and comes back: every row that was acknowledged is there once."""

from __future__ import annotations

import collections
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from tests.conftest import SCHEMA
from tests.servers import Running, missing, running

import indextables as it
from indextables.errors import CommitConflictError, CommitStateUnknownError, StorageError

NUM_WRITERS = 4
OPTIONS = {"store.timeoutSeconds": 5, "store.retry.maxAttempts": 2, "transaction.retry.maxAttempts": 30}
LONGEST_SECONDS = 120


class Writers:
    """Threads that append single rows until they are told to stop, and what they were told of each row."""

    def __init__(self, url: str, options: dict[str, object]) -> None:
        self.acknowledged: list[int] = []
        self.unknown: list[int] = []
        self._url = url
        self._options = options
        self._stop = threading.Event()

    def write(self, who: int) -> None:
        number = 0
        while not self._stop.is_set():
            row = who * 1_000_000 + number
            number += 1
            try:
                it.Table.open(self._url, options=self._options).append(rows([row]))
            except CommitStateUnknownError:
                self.unknown.append(row)
            except (CommitConflictError, StorageError):
                continue  # it is not there, and the next row is tried
            else:
                self.acknowledged.append(row)

    def stop(self) -> None:
        self._stop.set()

    def wait_for_more(self, number: int) -> None:
        wanted = len(self.acknowledged) + number
        deadline = time.monotonic() + LONGEST_SECONDS
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < deadline, "no row was acknowledged any more"
            time.sleep(0.01)


def rows(numbers: list[int]) -> pa.Table:
    columns = [numbers, [f"row {number}" for number in numbers], ["monday"] * len(numbers)]
    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)


def end_and_start(server: Running, *, crash: bool) -> None:
    server.kill() if crash else server.stop()
    time.sleep(0.3)
    server.start()


# Azurite writes its data every five seconds and at an orderly end, so a crash would lose what it has acknowledged.
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "crash"), [("seaweedfs", True), ("azurite", False)])
def test_writers_go_on_after_their_server_ended(kind, crash, tmp_path) -> None:
    if reason := missing(kind):
        pytest.skip(reason)
    with running(kind, tmp_path) as server:
        options = {**server.options, **OPTIONS}
        url = it.Table.create(f"{server.url}/t", SCHEMA, options=options).url
        writers = Writers(url, options)
        with ThreadPoolExecutor(NUM_WRITERS) as pool:
            work = [pool.submit(writers.write, who) for who in range(NUM_WRITERS)]
            try:
                for _ in range(2):
                    writers.wait_for_more(6)
                    end_and_start(server, crash=crash)
                writers.wait_for_more(6)
            finally:
                writers.stop()
            for future in work:
                future.result(LONGEST_SECONDS)
        check_table(it.Table.open(url, options=options), writers)


def check_table(table: it.Table, writers: Writers) -> None:
    found = collections.Counter(table.search(columns=["id"])["id"].to_pylist())
    assert set(found.values()) == {1}
    assert set(writers.acknowledged) <= set(found) <= {*writers.acknowledged, *writers.unknown}
    assert [row for row in table.fsck().to_pylist() if row["severity"] == "error"] == []
    before = table.version
    assert table.append(rows([-1])) == before + 1
    assert table.log.versions() == list(range(table.version + 1))
