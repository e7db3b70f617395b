"""A process that looks after the table until its time is up: merges, checkpoints, compactions, purges and truncations.

`python -m soak.keeper JOB` prints how often each was done, and how often it gave up to a fault or another writer.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

import msgspec

import indextables as it
from indextables.errors import (
    CheckpointWriteError,
    CommitConflictError,
    CommitStateUnknownError,
    RetentionError,
    StorageError,
)
from indextables.maintain.purge import retention_ages
from soak.places import Countdown, Job, job_of_this_process

# Ages come in whole hours; here an hour is a minute. The retention is longer than any write of the soak takes from its
# first split to its commit, however often it is tried again.
_HOUR_MS = 60_000
_RETENTION = "3 hours"
RETENTION_MINUTES = 3
_CHORES: dict[str, Callable[[it.Table], object]] = {
    "merge": lambda table: table.merge_splits(),
    "checkpoint": lambda table: table.checkpoint(),
    "compact": lambda table: table.compact(),
    "purge": lambda table: table.purge(older_than=_RETENTION),
    "truncate": lambda table: table.truncate_time_travel(),
}
_WEIGHTS = (6, 3, 2, 2, 1)
_PAUSE_SECONDS = 2.0
_MAY_HAPPEN = (StorageError, CheckpointWriteError, CommitConflictError, CommitStateUnknownError, RetentionError)


def main(job: Job) -> dict[str, int]:
    retention_ages.HOUR_MS = _HOUR_MS
    dice, done, time_left = random.Random(job.seed), Counter[str](), Countdown(job.seconds)
    while time_left:
        (chore,) = dice.choices(list(_CHORES), _WEIGHTS)
        try:
            _CHORES[chore](it.Table.open(job.url, options={**job.options, "purge.retentionCheckEnabled": False}))
            done[chore] += 1
        except _MAY_HAPPEN as error:
            done[f"{chore} gave up: {type(error).__name__}"] += 1
        time.sleep(_PAUSE_SECONDS * dice.random())
    return done


if __name__ == "__main__":
    print(msgspec.json.encode(main(job_of_this_process(Job))).decode())
