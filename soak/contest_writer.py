"""A process that appends batches to one table as fast as it can, by indextables or by delta-rs, with their defaults.

`python -m soak.contest_writer JOB`: the job's name starts with `ours` or `theirs`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import msgspec
from deltalake.exceptions import DeltaError

import indextables as it
from indextables.errors import CommitConflictError, CommitStateUnknownError, StorageError
from soak.journal import ACKNOWLEDGED, REFUSED, UNKNOWN, Journal, Tried, rows_of
from soak.places import Countdown, Job, job_of_this_process

_Append = Callable[[Tried], None]


def main(job: Job) -> dict[str, float]:
    journal = Journal(Path(job.directory, f"{job.name}.journal"))
    append = _ours(job) if job.name.startswith("ours") else _theirs(job)
    begun, time_left, batch, longest = time.monotonic(), Countdown(job.seconds), 0, 0.0
    while time_left:
        tried = Tried(job.name.replace("-", ""), batch, "append")
        journal.note(tried)
        started = time.monotonic()
        append(tried)
        longest = max(longest, time.monotonic() - started)
        journal.note(tried)
        batch += 1
    return {"seconds": time.monotonic() - begun, "longest": longest}


def _ours(job: Job) -> _Append:
    table = it.Table.open(job.url, options=job.options)

    def append(tried: Tried) -> None:
        try:
            tried.version = table.append(rows_of(tried.partition, tried.batch))
            tried.told = ACKNOWLEDGED
        except CommitStateUnknownError as error:
            tried.told, tried.error = UNKNOWN, error.message
        except (CommitConflictError, StorageError) as error:
            tried.told, tried.error = REFUSED, error.message

    return append


def _theirs(job: Job) -> _Append:
    options = delta_options(job.options)

    def append(tried: Tried) -> None:
        rows = rows_of(tried.partition, tried.batch)
        try:
            deltalake.write_deltalake(job.url, rows, mode="append", storage_options=options)
            tried.told = ACKNOWLEDGED
        except (DeltaError, OSError) as error:
            tried.told, tried.error = REFUSED, str(error)[:300]

    return append


def delta_options(options: dict[str, Any]) -> dict[str, str]:
    """The same server, by the names of delta-rs."""
    return {
        "AWS_ENDPOINT_URL": options["aws.endpoint"],
        "AWS_ACCESS_KEY_ID": options["aws.accessKey"],
        "AWS_SECRET_ACCESS_KEY": options["aws.secretKey"],
        "AWS_REGION": options["aws.region"],
        "AWS_ALLOW_HTTP": "true",
        "aws_conditional_put": "etag",
    }


if __name__ == "__main__":
    print(msgspec.json.encode(main(job_of_this_process(Job))).decode())
