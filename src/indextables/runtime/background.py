"""Background work of this process, at most one run at a time for each table.

It runs in threads that the interpreter waits for at exit. A run that exceeds its waiting time is cancelled, and an
interrupt of the waiting cancels all runs. At exit no pool of threads or processes accepts work, so this module uses
none.
"""

from __future__ import annotations

import atexit
import dataclasses
import logging
import os
import threading
from collections.abc import Callable

from indextables.runtime.cancellation import Cancellation, WorkCancelled

logger = logging.getLogger(__name__)

Work = Callable[[Cancellation], None]

_SECONDS_TO_END = 10


@dataclasses.dataclass
class _Run:
    """Run on one table, and the work requested during the run."""

    cancellation: Cancellation
    wait_seconds: float
    is_here: bool = False
    next_work: Work | None = None


class Background:
    """Background runs of one process."""

    _is_watched: bool

    def __init__(self) -> None:
        self._forget()

    def begin(self, table: str, work: Work, *, wait_seconds: float) -> None:
        """Start work in a thread and return.

        If the table has a background run, this work runs once after it, for any number of requests. If the table has a
        run in a caller's thread, this work is skipped. The interpreter waits `wait_seconds` for it at exit, then
        cancels it.
        """
        with self._changed:
            if (busy := self._runs.get(table)) is not None:
                if not busy.is_here:
                    busy.next_work, busy.wait_seconds = work, wait_seconds
                return
            run = self._runs[table] = _Run(Cancellation(), wait_seconds)
        try:
            self._watch_exit()
            threading.Thread(target=self._work_off, args=(table, run, work), name="indextables-background").start()
        except BaseException:
            self._end(table)
            raise

    def run_here(self, table: str, work: Work) -> None:
        """Run work in this thread, unless the table has a run."""
        with self._changed:
            if table in self._runs:
                return
            run = self._runs[table] = _Run(Cancellation(), 0, is_here=True)
        try:
            work(run.cancellation)
        finally:
            self._end(table)

    def wait(self, table: str, timeout_seconds: float | None = None) -> bool:
        """Wait until the table has no run; return False after `timeout_seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: table not in self._runs, timeout_seconds)

    def _work_off(self, table: str, run: _Run, work: Work | None) -> None:
        try:
            while work is not None:
                work(run.cancellation)
                work = self._next_work(table, run)
        except WorkCancelled:
            logger.warning("the background work on `%s` was cancelled", table)
            self._end(table)
        except BaseException:
            self._end(table)
            raise

    def _next_work(self, table: str, run: _Run) -> Work | None:
        with self._changed:
            work, run.next_work = run.next_work, None
            if work is None or run.cancellation.is_cancelled:
                del self._runs[table]
                self._changed.notify_all()
                return None
            return work

    def _end(self, table: str) -> None:
        with self._changed:
            del self._runs[table]
            self._changed.notify_all()

    def _watch_exit(self) -> None:
        with self._changed:
            is_watched, self._is_watched = self._is_watched, True
        if not is_watched:
            atexit.register(self._cancel_rest)
            threading.Thread(target=self._await_exit, name="indextables-exit", daemon=True).start()

    def _await_exit(self) -> None:
        """Cancel runs that exceed their waiting time.

        The main thread ends before the interpreter waits for other threads. Waiting times start at its end.
        """
        threading.main_thread().join()
        with self._changed:
            longest = max((run.wait_seconds for run in self._runs.values()), default=0.0)
            self._changed.wait_for(lambda: not self._runs, longest)
            late = list(self._runs.values())
        for run in late:
            run.cancellation.cancel()

    def _cancel_rest(self) -> None:
        """Cancel the remaining runs after an interrupted wait; give them time to clean up."""
        with self._changed:
            left = [run for run in self._runs.values() if not run.is_here]
        for run in left:
            run.cancellation.cancel()
        with self._changed:
            self._changed.wait_for(lambda: all(run.is_here for run in self._runs.values()), _SECONDS_TO_END)

    def _forget(self) -> None:
        """Reset after a fork: the threads are gone, and one may have held the lock."""
        self._changed = threading.Condition()
        self._runs: dict[str, _Run] = {}
        self._is_watched = False


BACKGROUND = Background()
os.register_at_fork(after_in_child=BACKGROUND._forget)
