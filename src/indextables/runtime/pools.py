"""Thread pools by purpose: made on first use, dropped after forks, closed at exit.

`InlinePools` runs everything in the calling thread; sequential reading and the simulator use it.
"""

from __future__ import annotations

import concurrent.futures
import contextvars
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from indextables.errors import StorageError

VERSION_READING = "version-reading"
NEXT_VERSION = "next-version"
CHECKPOINT_CREATION = "checkpoint-creation"

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Pools(Protocol):
    """Executor of parallel work."""

    @property
    def is_parallel(self) -> bool:
        """True if work runs in other threads, beside the caller's."""

    def map(
        self,
        purpose: str,
        work: Callable[[_Item], _Result],
        items: Sequence[_Item],
        *,
        workers: int,
        timeout_seconds: float | None = None,
    ) -> list[_Result]:
        """Return the results in order; raise the first error, `StorageError` on time-out."""

    def submit(self, purpose: str, work: Callable[[], None], *, workers: int) -> concurrent.futures.Future[None]:
        """Start work and return its future."""

    def shutdown(self) -> None:
        """Wait for running work and end the threads."""


class InlinePools:
    """Executor without threads."""

    is_parallel = False

    def map(
        self,
        purpose: str,
        work: Callable[[_Item], _Result],
        items: Sequence[_Item],
        *,
        workers: int,
        timeout_seconds: float | None = None,
    ) -> list[_Result]:
        return [work(item) for item in items]

    def submit(self, purpose: str, work: Callable[[], None], *, workers: int) -> concurrent.futures.Future[None]:
        work()
        done: concurrent.futures.Future[None] = concurrent.futures.Future()
        done.set_result(None)
        return done

    def shutdown(self) -> None:
        """Do nothing: no thread runs."""


class ThreadPools:
    """One pool for each purpose and size."""

    is_parallel = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executors: dict[tuple[str, int], concurrent.futures.ThreadPoolExecutor] = {}
        _all_pools.add(self)

    def map(
        self,
        purpose: str,
        work: Callable[[_Item], _Result],
        items: Sequence[_Item],
        *,
        workers: int,
        timeout_seconds: float | None = None,
    ) -> list[_Result]:
        if len(items) <= 1 or workers <= 1:
            return [work(item) for item in items]
        executor = self._executor(purpose, workers)
        try:
            futures = [
                executor.submit(contextvars.copy_context().run, _run_share, work, share)
                for share in _shares(items, workers)
            ]
        except RuntimeError:  # the interpreter is exiting: threads that outlive the main thread do the work themselves
            return [work(item) for item in items]
        done, late = concurrent.futures.wait(
            futures, timeout=timeout_seconds, return_when=concurrent.futures.FIRST_EXCEPTION
        )
        failed = next((future for future in futures if future in done and future.exception() is not None), None)
        for future in late:
            future.cancel()
        if failed is not None:
            failed.result()
        if late:
            raise StorageError(f"cannot finish {purpose.replace('-', ' ')} within {timeout_seconds} seconds")
        return _in_order([future.result() for future in futures], len(items))

    def submit(self, purpose: str, work: Callable[[], None], *, workers: int) -> concurrent.futures.Future[None]:
        try:
            return self._executor(purpose, workers).submit(work)
        except RuntimeError:  # the interpreter is exiting
            return InlinePools().submit(purpose, work, workers=workers)

    def shutdown(self) -> None:
        with self._lock:
            executors, self._executors = list(self._executors.values()), {}
        for executor in executors:
            executor.shutdown(wait=True, cancel_futures=True)

    def _executor(self, purpose: str, workers: int) -> concurrent.futures.ThreadPoolExecutor:
        with self._lock:
            if (purpose, workers) not in self._executors:
                executor = concurrent.futures.ThreadPoolExecutor(workers, thread_name_prefix=f"indextables-{purpose}")
                self._executors[purpose, workers] = executor
            return self._executors[purpose, workers]

    def _forget(self) -> None:
        """Reset after a fork: the threads are gone, and one may have held the lock."""
        self._lock = threading.Lock()
        self._executors = {}


def _run_share(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    return [work(item) for item in items]


def _shares(items: Sequence[_Item], workers: int) -> list[Sequence[_Item]]:
    """Deal items to workers in turn, so that no worker gets only large ones."""
    return [items[start::workers] for start in range(min(workers, len(items)))]


def _in_order(shares: list[list[_Result]], total: int) -> list[_Result]:
    return [shares[at % len(shares)][at // len(shares)] for at in range(total)]


_all_pools: weakref.WeakSet[ThreadPools] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for pools in _all_pools:
        pools._forget()


os.register_at_fork(after_in_child=_after_fork_in_child)

SHARED_POOLS = ThreadPools()
