"""Work that is spread: over a Spark cluster where there is a session, otherwise over processes of this host.

What is spread is a function of a module, or a `functools.partial` of one, and values that pickle. It answers with what
went wrong instead of raising where that is to be told apart.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from indextables.clock import SYSTEM_CLOCK
from indextables.errors import IndexTablesError
from indextables.transaction_log import TransactionLog

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_SECONDS_BETWEEN_LOOKS = 1
_BYTES_PER_SHARE = 64 << 20
_MOST_ITEMS_PER_SHARE = 256


class Workers(Protocol):
    """Those who do the work."""

    def run(
        self, work: Callable[[_Item], _Result], items: Sequence[_Item], *, at_once: int | None = None
    ) -> Iterator[tuple[int, _Result]]:
        """The place of each item and its result, as they come; at most so many at once. What is not begun when the
        iterator is closed is left undone."""


class InlineWorkers:
    """Nobody else: one after the other, in this thread."""

    def run(
        self, work: Callable[[_Item], _Result], items: Sequence[_Item], *, at_once: int | None = None
    ) -> Iterator[tuple[int, _Result]]:
        for place, item in enumerate(items):
            yield place, work(item)


class LocalWorkers:
    """Processes of this host. A single item is worked on here."""

    def run(
        self, work: Callable[[_Item], _Result], items: Sequence[_Item], *, at_once: int | None = None
    ) -> Iterator[tuple[int, _Result]]:
        num_processes = min(len(items), at_once or os.cpu_count() or 1)
        if num_processes <= 1:
            yield from InlineWorkers().run(work, items)
            return
        import loky

        executor = loky.ProcessPoolExecutor(num_processes, initializer=_end_with, initargs=(os.getpid(),))
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


def _end_with(parent: int) -> None:
    """Let this process end soon after its parent, which may be killed and cannot say so: nobody would take its results,
    and it would wait for more to do for ever."""

    def watch() -> None:
        while os.getppid() == parent:
            SYSTEM_CLOCK.sleep(_SECONDS_BETWEEN_LOOKS)
        os._exit(1)

    threading.Thread(target=watch, name="indextables-parent", daemon=True).start()


def shares(items: Iterable[_Item], num_bytes: Callable[[_Item], int]) -> Iterator[list[_Item]]:
    """Items in shares that are worth a worker each, by the bytes that are to be read of them."""
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
    """Ask a provider whenever there is work, as that of Spark, which has workers while there is a session."""
    if provider not in _providers:
        _providers.append(provider)


@contextlib.contextmanager
def working_with(workers: Workers) -> Iterator[None]:
    """Give all work to these, for a while."""
    token = _chosen.set(workers)
    try:
        yield
    finally:
        _chosen.reset(token)


def workers_for(log: TransactionLog) -> Workers:
    """Who works on the splits of a table. What is in memory, or behind a store of the caller's own, is out of reach for
    everybody else."""
    if not log.is_portable or log.url.startswith("memory:"):
        return InlineWorkers()
    if (chosen := _chosen.get()) is not None:
        return chosen
    offered = (provider() for provider in _providers)
    return next((workers for workers in offered if workers is not None), LocalWorkers())
