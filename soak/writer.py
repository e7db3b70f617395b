"""A process that writes batches until its time is up: `python -m soak.writer JOB`.

Now and then it replaces all rows of its partition, and looks for what it has just written. It prints what it did.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import msgspec

import indextables as it
from indextables.errors import CommitConflictError, CommitStateUnknownError, StorageError
from soak.journal import (
    ACKNOWLEDGED,
    REFUSED,
    ROWS_PER_BATCH,
    UNKNOWN,
    Journal,
    Kind,
    Tried,
    rows_of,
    word_of,
)
from soak.places import Countdown, Job, job_of_this_process

_REPLACES = 0.05
_LOOKS = 0.2
_REFUSALS = (CommitConflictError, StorageError)


def main(job: Job) -> dict[str, int]:
    dice = random.Random(job.seed)
    journal = Journal(Path(job.directory, f"{job.name}.journal"))
    done: Counter[str] = Counter()
    table = _open(job)
    time_left, era, batch = Countdown(job.seconds), 0, 0
    while time_left:
        kind: Kind = "replace" if dice.random() < _REPLACES else "append"
        tried = Tried(f"{job.name}e{era}", batch, kind)
        journal.note(tried)
        _write(table, tried)
        journal.note(tried)
        done[tried.told] += 1
        batch += 1
        if tried.told == UNKNOWN:
            era += 1
        elif tried.told == ACKNOWLEDGED and dice.random() < _LOOKS:
            done["looks"] += _look(job, tried)
    metrics = table.log.metrics()
    return {**done, "commits": metrics.commits, "retries": metrics.commit_retries}


def _open(job: Job) -> it.Table:
    for _ in range(100):
        try:
            return it.Table.open(job.url, options=job.options)
        except StorageError:
            continue
    return it.Table.open(job.url, options=job.options)


def _write(table: it.Table, tried: Tried) -> None:
    rows = rows_of(tried.partition, tried.batch)
    try:
        if tried.kind == "append":
            tried.version = table.append(rows)
        else:
            tried.version = table.overwrite(rows, where=f"writer = '{tried.partition}'")
        tried.told = ACKNOWLEDGED
    except CommitStateUnknownError as error:
        tried.told, tried.error = UNKNOWN, error.message
    except _REFUSALS as error:
        tried.told, tried.error = REFUSED, error.message


def _look(job: Job, tried: Tried) -> int:
    """Find what was acknowledged, through another handle. The store may fail; what it answers must be right."""
    try:
        found = it.Table.open(job.url, options=job.options).count(f"message:{word_of(tried.partition, tried.batch)}")
    except StorageError:
        return 0
    if found != ROWS_PER_BATCH:
        raise AssertionError(f"{found} rows of {tried} are found")
    return 1


if __name__ == "__main__":
    print(msgspec.json.encode(main(job_of_this_process(Job))).decode())
