"""A process that searches until its time is up: `python -m soak.searcher JOB`.

Whatever version it reads, a batch is there whole or not at all, and never twice.
"""

from __future__ import annotations

import random
from collections import Counter

import msgspec

import indextables as it
from indextables.errors import ObjectNotFoundError, RetentionError, StorageError
from soak.journal import ROWS_PER_BATCH
from soak.places import Countdown, Job, job_of_this_process


def main(job: Job) -> dict[str, int]:
    dice, done, time_left = random.Random(job.seed), Counter[str](), Countdown(job.seconds)
    while time_left:
        try:
            table = it.Table.open(job.url, options=job.options)
            done[_search(table, dice)] += 1
            done[_search_back(table, job, dice)] += 1
        except ObjectNotFoundError:
            raise  # the newest version has all its files
        except StorageError:
            done["store failed"] += 1
    return done


def _search_back(table: it.Table, job: Job, dice: random.Random) -> str:
    try:
        older = it.Table.open(job.url, version=dice.randint(0, table.version), options=job.options)
        return f"{_search(older, dice)}, back in time"
    except (RetentionError, ObjectNotFoundError):
        return "version purged"


def _search(table: it.Table, dice: random.Random) -> str:
    if dice.random() < 0.5:
        found, expected = table.count("message:error"), table.search("message:error", columns=["id"])
        _check(found == expected.num_rows, f"a count says {found}, and a search finds {expected.num_rows} rows")
        _check(all(number % 7 == 0 for number in expected["id"].to_pylist()), "a search finds rows without its word")
        return "searches"
    rows = table.search(columns=["writer", "batch"])
    sizes = rows.group_by(["writer", "batch"]).aggregate([([], "count_all")])["count_all"]
    _check(all(size == ROWS_PER_BATCH for size in sizes.unique().to_pylist()), "half a batch, or one twice")
    return "scans"


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


if __name__ == "__main__":
    print(msgspec.json.encode(main(job_of_this_process(Job))).decode())
