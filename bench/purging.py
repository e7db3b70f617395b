"""`purge`: listing all objects of a table in memory and deciding which may go, in a dry run by a new handle.

Half of the objects are live. Of the others one half was replaced, and one half was never committed.
"""

from __future__ import annotations

import indextables as it
from bench.files import PARTITION_COLUMN, SCHEMA
from bench.harness import OURS, Figure, Goal, Setting, alternate, checked_count, timed_ms
from bench.our_files import WITHOUT_CACHE, add
from indextables.maintain.purge.purge import purge

_GOAL = Goal(below_ms=5_000)
_URL = "memory://purging/table"
_OPTIONS = {**WITHOUT_CACHE, "purge.retentionCheckEnabled": "false"}


def run(setting: Setting) -> list[Figure]:
    count = setting.sizes.num_files
    setting.say(f"making {count} objects")
    _build(count)
    times = alternate({OURS: lambda _: [_purge_ms(count)]}, setting.sizes.num_rounds, setting.say)
    return [Figure(f"purge: list {count} objects in memory and decide", times[OURS], [], _GOAL)]


def _build(count: int) -> None:
    log = it.TransactionLog(_URL, options=_OPTIONS)
    log.initialize(SCHEMA, partition_columns=[PARTITION_COLUMN])
    adds = [add(number) for number in range(count)]
    for each in adds:
        log.reader.store.put(each.path, b"x")
    log.add_files(adds[: count // 4])
    log.overwrite_files(adds[count // 4 : count // 4 + count // 2])
    log.checkpoint()


def _purge_ms(count: int) -> float:
    found: list[int] = []
    elapsed_ms = timed_ms(lambda: found.append(_num_found()))
    checked_count(found[0], count - count // 2)
    return elapsed_ms


def _num_found() -> int:
    answer = purge(it.TransactionLog(_URL, options=_OPTIONS), older_than="0 hours", dry_run=True)
    return int(answer["orphaned_files_found"][0].as_py())
