"""Spread work over a Spark cluster if there is a session, else over processes.

The work is a module-level function, or a `functools.partial` of one, with values that pickle. It returns errors that
the caller must distinguish, and raises all others.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from indextables.errors import IndexTablesError
from indextables.runtime.processes import end_with
from indextables.transaction_log import TransactionLog

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_BYTES_PER_SHARE = 64 << 20
_MOST_ITEMS_PER_SHARE = 256


class Workers(Protocol):
    """Workers that apply a function to items."""

    def run(
        self, work: Callable[[_Item], _Result], items: Sequence[_Item], *, at_once: int | None = None
    ) -> Iterator[tuple[int, _Result]]:
        """Yield the position and result of each item as it ends, `at_once` at a time.

        Items that have not begun when the iterator is closed are skipped.
        """


class InlineWorkers:
    """This thread; it works on one item after the other."""

    def run(
        self, work: Callable[[_Item], _Result], items: Sequence[_Item], *, at_once: int | None = None
    ) -> Iterator[tuple[int, _Result]]:
        for place, item in enumerate(items):
            yield place, work(item)


class LocalWorkers:
    """Processes of this host; a single item is done in this process."""

    def run(
        self, work: Callable[[_Item], _Result], items: Sequence[_Item], *, at_once: int | None = None
    ) -> Iterator[tuple[int, _Result]]:
        num_processes = min(len(items), at_once or os.cpu_count() or 1)
        if num_processes <= 1:
            yield from InlineWorkers().run(work, items)
            return
        import loky

        executor = loky.ProcessPoolExecutor(num_processes, initializer=end_with, initargs=(os.getpid(),))
        futures = {executor.submit(work, item): place for place, item in enumerate(items)}
        try:
            for future in loky.as_completed(futures):
                yield futures[future], future.result()
        except loky.BrokenProcessPool as error:
            raise IndexTablesError(
                "cannot finish because a process that did a part of the work has ended",
                hint="it was killed, or ran out of memory: give it less to do at once",
            ) from error
        finally:
            for future in futures:
                future.cancel()
            executor.shutdown(wait=True)


def shares(items: Iterable[_Item], num_bytes: Callable[[_Item], int]) -> Iterator[list[_Item]]:
    """Pack items into shares that are worth a worker each, by the bytes to read."""
    share: list[_Item] = []
    total = 0
    for item in items:
        share.append(item)
        total += num_bytes(item)
        if total >= _BYTES_PER_SHARE or len(share) >= _MOST_ITEMS_PER_SHARE:
            yield share
            share, total = [], 0
    if share:
        yield share


Provider = Callable[[], Workers | None]
_chosen: contextvars.ContextVar[Workers | None] = contextvars.ContextVar("workers", default=None)
_providers: list[Provider] = []


def offer_workers(provider: Provider) -> None:
    """Register a provider that is asked for workers whenever there is work.

    Spark's provider has workers while there is a session.
    """
    if provider not in _providers:
        _providers.append(provider)


@contextlib.contextmanager
def working_with(workers: Workers) -> Iterator[None]:
    """Use these workers for all work inside the `with` block."""
    token = _chosen.set(workers)
    try:
        yield
    finally:
        _chosen.reset(token)


def workers_for(log: TransactionLog) -> Workers:
    """Return the workers for the splits of a table.

    A table in memory, or in a store that the caller supplies, is out of reach of other processes.
    """
    if not log.is_portable or log.url.startswith("memory:"):
        return InlineWorkers()
    if (chosen := _chosen.get()) is not None:
        return chosen
    offered = (provider() for provider in _providers)
    return next((workers for workers in offered if workers is not None), LocalWorkers())
