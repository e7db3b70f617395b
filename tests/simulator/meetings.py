"""Who meets in the exhaustive mode: prepared tables, and actors that do one thing each."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulator.actors import SHORT_RETENTION, open_log
from tests.simulator.exhaustive import Act, Scenario, SteppedWorld
from tests.simulator.maintenance import DAY_SECONDS, WRITES, Diary, Written, ids_of
from tests.simulator.streams import write_batch
from tests.simulator.world import Archive, World

import indextables as it
from indextables.errors import (
    CheckpointError,
    CommitConflictError,
    CommitStateUnknownError,
    RetentionError,
    StorageError,
)
from indextables.maintain.drop_partitions import drop_partitions
from indextables.maintain.merge.merge_splits import merge_splits
from indextables.maintain.purge.purge import purge
from indextables.maintain.reindex import reindex
from indextables.maintain.restore import restore
from indextables.maintain.truncate import truncate_time_travel

_EXPECTED = (StorageError, CommitConflictError, CommitStateUnknownError, RetentionError, CheckpointError)


def _log(world: World, name: str) -> it.TransactionLog:
    return open_log(world, world.store(name))


def _tell(entry: Written, write: Callable[[], int]) -> None:
    """Note what a writer was told."""
    try:
        entry.version = write()
        entry.told = "acknowledged"
    except CommitConflictError:
        entry.told = "conflict"
    except CommitStateUnknownError:
        entry.told = "unknown"
    except StorageError as error:
        entry.told = f"failed: {error.message[:80]}"


def _writes(kind: str, first: int) -> Act:
    def act(world: SteppedWorld, diary: Diary, name: str) -> None:
        entry = Written(name, kind, (first,))
        diary.written.append(entry)
        _tell(entry, lambda: WRITES[kind](_log(world, name), entry.ids))

    act.__name__ = kind
    return act


def _batch(world: SteppedWorld, diary: Diary, name: str) -> None:
    """The same batch of one stream, whoever tries it."""
    entry = Written(name, "stream", (600, 601))
    diary.written.append(entry)
    _tell(entry, lambda: write_batch(_log(world, name), "query", 0, entry.ids))
    if entry.told != "acknowledged":
        entry.told = "unknown"  # the other one may have written the same rows


def _does(work: Callable[[it.TransactionLog], object], name: str) -> Act:
    """What it is told does not matter; what it did is looked at in the end."""

    def act(world: SteppedWorld, diary: Diary, actor: str) -> None:
        try:
            work(_log(world, actor))
        except _EXPECTED as error:
            world.say(f"{actor}: {error.message[:120]}")

    act.__name__ = name
    return act


def _reads(world: SteppedWorld, diary: Diary, name: str) -> None:
    """The newest version, always; and the first one with rows, unless it is gone."""
    log = _log(world, name)
    table = it.Table(log, log.snapshot())
    diary.seen.append((table.version, ids_of(table)))
    try:
        diary.seen.append((1, ids_of(it.Table(log, log.snapshot(version=1)))))
    except (RetentionError, StorageError):
        world.say(f"{name}: version 1 is gone")


_append = _writes("append", 300)
_other_append = _writes("append", 303)
_third_append = _writes("append", 306)
_overwrite = _writes("overwrite", 309)
_overwrite_shelf = _writes("overwrite where", 312)
_merge = _does(lambda log: merge_splits(log, target_size="100M"), "merge")
_reindex = _does(reindex, "reindex")
_purge = _does(lambda log: purge(log, older_than="24 hours", log_retention="24 hours"), "purge")
_restore = _does(lambda log: restore(log, version=1), "restore")
_drop = _does(lambda log: drop_partitions(log, "shelf = 1"), "drop")
_checkpoint = _does(lambda log: log.checkpoint(), "checkpoint")
_truncate = _does(truncate_time_travel, "truncate")


def _new(world: World, diary: Diary) -> None:
    """A table without rows."""


def _prepared(*steps: tuple[str, tuple[int, ...]]) -> Callable[[World, Diary], None]:
    """Writes by somebody, a minute apart, and then three days of rest."""

    def prepare(world: World, diary: Diary) -> None:
        log = open_log(world, Archive(world.inner, world, "setup"))
        for kind, ids in steps:
            world.wait(60.0)
            diary.written.append(Written("setup", kind, ids, "acknowledged", WRITES[kind](log, ids)))
        world.wait(3 * DAY_SECONDS)

    return prepare


_two_splits = _prepared(("append", (0,)), ("append", (3,)))
_replaced = _prepared(("append", (0,)), ("overwrite", (3,)))
_replaced_twice = _prepared(("append", (0,)), ("overwrite", (3,)), ("append", (6,)))

PAIRS: dict[str, Scenario] = {
    "append, append": Scenario(_new, (_append, _other_append)),
    "append, overwrite": Scenario(_two_splits, (_append, _overwrite)),
    "overwrite where, append": Scenario(_two_splits, (_overwrite_shelf, _append)),
    "append, merge": Scenario(_two_splits, (_append, _merge)),
    "merge, merge": Scenario(_two_splits, (_merge, _merge)),
    "drop, merge": Scenario(_two_splits, (_drop, _merge)),
    "append, reindex": Scenario(_two_splits, (_append, _reindex)),
    "drop, reindex": Scenario(_two_splits, (_drop, _reindex)),
    "merge, reindex": Scenario(_two_splits, (_merge, _reindex)),
    "merge, purge": Scenario(_replaced_twice, (_merge, _purge)),
    "restore, purge": Scenario(_replaced, (_restore, _purge)),
    "append, purge": Scenario(_replaced, (_append, _purge)),
    "checkpoint and clean-up, append": Scenario(_two_splits, (_checkpoint, _append), SHORT_RETENTION),
    "truncate, append": Scenario(_two_splits, (_truncate, _append)),
    "batch, the same batch": Scenario(_new, (_batch, _batch)),
    "truncate, reader": Scenario(_two_splits, (_truncate, _reads)),
    "purge, reader": Scenario(_replaced, (_purge, _reads)),
}
TRIPLES: dict[str, Scenario] = {
    "three appends": Scenario(_new, (_append, _other_append, _third_append)),
    "append, append, truncate": Scenario(_new, (_append, _other_append, _truncate)),
    "append, merge, purge": Scenario(_replaced_twice, (_append, _merge, _purge)),
    "restore, purge, checkpoint": Scenario(_replaced, (_restore, _purge, _checkpoint), SHORT_RETENTION),
}
