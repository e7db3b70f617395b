"""A process of writers that commit to one table as fast as they can, each thread by a handle of its own.

`python -m soak.crowd_writer JOB` prints one entry a writer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from tests.doubles.metered_store import MeteredStore

import indextables as it
from indextables.config import Config
from indextables.errors import CommitConflictError
from indextables.store import ObjectMeta, ObjectStore
from indextables.store.open import open_store
from soak.places import Countdown, Job, job_of_this_process


class CrowdJob(Job, frozen=True):
    """Part of a crowd: its number of writers, the time of a request beside the server's own, and of a split."""

    num_writers: int = 1
    pause_seconds: float = 0.0
    write_seconds: float = 0.0


class SlowStore(MeteredStore):
    """Store that takes half of a pause to receive a request, and half to answer it."""

    def __init__(self, inner: ObjectStore, pause_seconds: float) -> None:
        super().__init__(inner)
        self._half_seconds = pause_seconds / 2

    def put_if_absent(self, key: str, data: bytes, *, once: bool = False) -> None:
        time.sleep(self._half_seconds)
        try:
            super().put_if_absent(key, data, once=once)
        finally:
            time.sleep(self._half_seconds)

    def get(self, key: str, *, e_tag: str | None = None) -> bytes:
        time.sleep(self._half_seconds)
        try:
            return super().get(key, e_tag=e_tag)
        finally:
            time.sleep(self._half_seconds)

    def get_object(self, key: str) -> tuple[bytes, ObjectMeta]:
        time.sleep(self._half_seconds)
        try:
            return super().get_object(key)
        finally:
            time.sleep(self._half_seconds)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectMeta]:
        time.sleep(self._half_seconds)
        found = list(super().list(prefix, after=after))
        time.sleep(self._half_seconds)
        return iter(found)


_SPLIT = bytes(20_000)


def main(job: CrowdJob) -> dict[str, Any]:
    with ThreadPoolExecutor(job.num_writers) as pool:
        return {"writers": list(pool.map(lambda number: _write(job, number), range(job.num_writers)))}


def _write(job: CrowdJob, number: int) -> dict[str, Any]:
    store = SlowStore(open_store(job.url, Config.resolve(options=job.options)), job.pause_seconds)
    log = it.TransactionLog(job.url, options=job.options, store=store)
    seconds: list[float] = []
    gave_up = 0
    time_left = Countdown(job.seconds)
    while time_left:
        started = time.monotonic()
        store.put(f"{job.name}-{number}-{len(seconds)}.split", _SPLIT)
        time.sleep(job.write_seconds)
        try:
            log.add_files([_add(f"{job.name}-{number}-{len(seconds)}")])
            seconds.append(time.monotonic() - started)
        except CommitConflictError:
            gave_up += 1
    metrics = log.metrics()
    log.wait_for_checkpoint()
    return {
        "writer": f"{job.name}-{number}",
        "seconds": seconds,
        "gave_up": gave_up,
        "lost": metrics.commit_retries,
        "requests": dict(store.calls),
    }


def _add(name: str) -> it.actions.Add:
    return it.actions.Add(
        path=f"{name}.split",
        partition_values={},
        size=1_000_000,
        modification_time=1_790_000_000_000,
        data_change=True,
        num_records=10,
        min_values={"id": "1", "message": "aa"},
        max_values={"id": "5", "message": "zz"},
    )


if __name__ == "__main__":
    print(msgspec.json.encode(main(job_of_this_process(CrowdJob))).decode())
