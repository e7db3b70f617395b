"""List the merges that writes of this process started: running and recent ones.

A forked child starts with an empty list, since the jobs of its parent do not run in it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from indextables.arrow_values import to_table
from indextables.clock import Clock
from indextables.errors import IndexTablesError
from indextables.location import redact
from indextables.runtime.cancellation import WorkCancelled
from indextables.transaction_log import TransactionLog

MERGE_JOBS_SCHEMA = pa.schema(
    [
        pa.field("job_id", pa.string(), nullable=False),
        pa.field("table_path", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("total_groups", pa.int64(), nullable=False),
        pa.field("completed_groups", pa.int64(), nullable=False),
        pa.field("progress_pct", pa.float64(), nullable=False),
        pa.field("duration_ms", pa.int64(), nullable=False),
        pa.field("error_message", pa.string()),
    ]
)
RUNNING = "RUNNING"
SUCCESS = "SUCCESS"
PARTIAL = "PARTIAL"
NO_ACTION = "NO_ACTION"
FAILED = "FAILED"
CANCELLED = "CANCELLED"
_MOST_KEPT = 100


class MergeJob:
    """One merge and its progress; listed once it has begun or failed."""

    def __init__(self, table_path: str, clock: Clock) -> None:
        self._id = clock.uuid()
        self._table_path = table_path
        self._clock = clock
        self._started = clock.monotonic()
        self._ended: float | None = None
        self._status = RUNNING
        self._total_groups = 0
        self._completed_groups = 0
        self._error_message: str | None = None

    def begin(self, total_groups: int) -> None:
        """List the job with its number of groups."""
        self._total_groups = total_groups
        _jobs.add(self)

    def complete(self, num_groups: int) -> None:
        """Record the number of finished groups."""
        with _jobs.lock:
            self._completed_groups = num_groups

    def end(self, status: str, error_message: str | None = None) -> None:
        """End the job; later calls have no effect."""
        with _jobs.lock:
            if self._ended is None:
                self._status, self._error_message, self._ended = status, error_message, self._clock.monotonic()

    def fail(self, status: str, error_message: str) -> None:
        """End the job with an error, and list it even if it has not begun."""
        self.end(status, error_message)
        _jobs.add(self)

    def row(self) -> dict[str, Any]:
        """Return the current state of the job as a row."""
        is_done = self._status in (SUCCESS, NO_ACTION)
        share = 1.0 if is_done else self._completed_groups / max(self._total_groups, 1)
        ended = self._clock.monotonic() if self._ended is None else self._ended
        return {
            "job_id": self._id,
            "table_path": self._table_path,
            "status": self._status,
            "total_groups": self._total_groups,
            "completed_groups": self._completed_groups,
            "progress_pct": round(100 * share, 1),
            "duration_ms": round(1000 * (ended - self._started)),
            "error_message": self._error_message,
        }


class _Jobs:
    """The jobs of this process, newest first."""

    def __init__(self) -> None:
        self.forget()

    def add(self, job: MergeJob) -> None:
        with self.lock:
            if job not in self._known:
                self._known.appendleft(job)

    def rows(self) -> list[dict[str, Any]]:
        with self.lock:
            return [job.row() for job in self._known]

    def forget(self) -> None:
        self.lock = threading.Lock()
        self._known: deque[MergeJob] = deque(maxlen=_MOST_KEPT)


_jobs = _Jobs()
os.register_at_fork(after_in_child=_jobs.forget)


@contextlib.contextmanager
def merge_job(log: TransactionLog) -> Iterator[MergeJob]:
    """Track a merge of a table as a job; record an error and raise it again."""
    job = MergeJob(log.url, log.clock)
    try:
        yield job
    except WorkCancelled:
        job.fail(CANCELLED, "cancelled because the process ended before it was done")
        raise
    except BaseException as error:
        job.fail(FAILED, _message(error))
        raise
    job.end(SUCCESS)


def list_merge_jobs() -> pa.Table:
    """Return the last jobs of this process, newest first."""
    return to_table(_jobs.rows(), schema=MERGE_JOBS_SCHEMA)


def _message(error: BaseException) -> str:
    return error.message if isinstance(error, IndexTablesError) else redact(f"{type(error).__name__}: {error}")
