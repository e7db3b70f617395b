"""Histories over rows: who takes part, and what must hold in the end.

With real splits a history takes a third of a second, with tiny ones a tenth of that; see `tiny.py` for what stands in.

What must hold: versions have no gaps and each does to the rows what its operation says; an acknowledged row is there
once, from its version on until an operation removed it; a refused one is nowhere; one whose fate is unknown is there
whole or not at all; every version that can be read has its rows; readers and streams saw nothing else; fsck is clean;
and no split goes that a version from the horizon on needs, at the moment when it is deleted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from tests.doubles.faulty_store import Fault
from tests.simulator.actors import SHORT_RETENTION, open_log
from tests.simulator.log_histories import DEATHS, NETWORK, check_chain
from tests.simulator.maintenance import (
    MAINTAINED,
    Diary,
    Rows,
    Written,
    checker,
    contents_of,
    everything,
    ids_of,
    keeper,
    models,
    reader,
    writer,
)
from tests.simulator.streams import check_followed, stream_reader, stream_writer
from tests.simulator.tiny import SCHEMA, tiny_splits
from tests.simulator.world import Archive, World, lineage

import indextables as it
from indextables.errors import IndexTablesError, RetentionError
from indextables.maintain.fsck.fsck import fsck
from indextables.protocol.actions import Add
from indextables.protocol.horizon import horizon_of
from indextables.protocol.version_file import commit_info

Cast = Callable[[World, Diary], None]
ALL_WRITES = ["append", "append", "append", "overwrite where", "overwrite partitions", "overwrite"]
# Where less fails, more chores come to their end.
OFTEN = {**NETWORK, **DEATHS}
RARELY = {fault: probability / 4 for fault, probability in OFTEN.items()}


def daily(world: World, diary: Diary) -> None:
    """A table that is written to all day, merged, checkpointed and purged."""
    world.spawn("w", writer(world, diary, "w", 6, ALL_WRITES))
    world.spawn("v", writer(world, diary, "v", 4, ["append", "overwrite where"]))
    world.spawn("m", keeper(world, diary, "m", 4, ["merge", "reindex", "checkpoint"]))
    world.spawn("p", keeper(world, diary, "p", 4, ["purge"]))
    world.spawn("r", reader(world, diary, "r", 4))


def undone(world: World, diary: Diary) -> None:
    """Partitions are dropped and versions restored, while others merge and purge."""
    world.spawn("w", writer(world, diary, "w", 6, ALL_WRITES))
    world.spawn("u", keeper(world, diary, "u", 5, ["restore", "restore", "drop"]))
    world.spawn("m", keeper(world, diary, "m", 3, ["merge", "checkpoint"]))
    world.spawn("p", keeper(world, diary, "p", 4, ["purge", "purge", "truncate"]))
    world.spawn("r", reader(world, diary, "r", 3))


def crowded(world: World, diary: Diary) -> None:
    """Two of each chore at once."""
    world.spawn("w", writer(world, diary, "w", 5, ["append", "append", "overwrite where"]))
    for number in range(2):
        world.spawn(f"m{number}", keeper(world, diary, f"m{number}", 3, ["merge"]))
        world.spawn(f"p{number}", keeper(world, diary, f"p{number}", 3, ["purge", "truncate"]))
    world.spawn("r", reader(world, diary, "r", 3))


def aged(world: World, diary: Diary) -> None:
    """Purges for several days, so that they find what to delete, while others merge, drop and restore."""
    world.spawn("w", writer(world, diary, "w", 7, ALL_WRITES))
    world.spawn("u", keeper(world, diary, "u", 5, ["restore", "restore", "drop"]))
    world.spawn("m", keeper(world, diary, "m", 4, ["merge"]))
    world.spawn("p", keeper(world, diary, "p", 8, ["purge"]))
    world.spawn("q", keeper(world, diary, "q", 4, ["purge"]))


def alone(world: World, diary: Diary) -> None:
    """Everything, one after the other; what really happened is checked after each."""
    world.spawn("a", everything(world, diary, "a", 14, lambda: check(world, diary)))


def streamed(world: World, diary: Diary) -> None:
    """Two streams into the table and one out of it, while it is merged, checkpointed and purged."""
    for name in ("s", "t"):
        world.spawn(name, stream_writer(world, diary, name, 2))
    world.spawn("w", writer(world, diary, "w", 1, ALL_WRITES))
    world.spawn("f", stream_reader(world, diary, "f", 4))
    world.spawn("m", keeper(world, diary, "m", 2, ["merge", "reindex", "checkpoint", "purge"]))


def together(world: World, diary: Diary) -> None:
    """A little of everything at once."""
    world.spawn("w", writer(world, diary, "w", 3, ALL_WRITES))
    world.spawn("s", stream_writer(world, diary, "s", 1))
    world.spawn("f", stream_reader(world, diary, "f", 2))
    world.spawn("m", keeper(world, diary, "m", 1, ["merge", "reindex", "checkpoint"]))
    world.spawn("p", keeper(world, diary, "p", 1, ["purge", "purge", "truncate"]))
    world.spawn("u", keeper(world, diary, "u", 1, ["restore", "drop"]))
    world.spawn("r", reader(world, diary, "r", 1))


def watched(world: World, diary: Diary) -> None:
    """Chores that delete, and somebody who looks whether everything is there all the while."""
    world.spawn("w", writer(world, diary, "w", 3, ALL_WRITES))
    world.spawn("u", keeper(world, diary, "u", 1, ["restore", "drop", "merge", "reindex"]))
    world.spawn("p", keeper(world, diary, "p", 2, ["purge", "purge", "truncate"]))
    world.spawn("c", checker(world, diary, "c", 1))


def swept(world: World, diary: Diary) -> None:
    """Checkpoints after every third commit, by the writers too, and clean-ups that keep as little as they may."""
    world.options |= {"checkpoint.interval": 3, **SHORT_RETENTION}
    world.pause_probability = 0.03
    world.spawn("w", writer(world, diary, "w", 3, ALL_WRITES))
    world.spawn("s", stream_writer(world, diary, "s", 1))
    world.spawn("k", keeper(world, diary, "k", 2, ["checkpoint", "checkpoint", "truncate", "merge"]))
    world.spawn("f", stream_reader(world, diary, "f", 1))


REAL: dict[str, tuple[Cast, dict[Fault, float], int]] = {
    "daily, quiet store": (daily, {}, 12),
    "daily, failing store": (daily, OFTEN, 40),
    "undone, failing store": (undone, OFTEN, 40),
    "crowded, failing store": (crowded, OFTEN, 32),
    "aged, rarely failing store": (aged, RARELY, 20),
    "alone, failing store": (alone, OFTEN, 12),
    "streamed, failing store": (streamed, OFTEN, 32),
}
TINY: dict[str, tuple[Cast, dict[Fault, float], int]] = {
    "together, quiet store": (together, {}, 100),
    "together, failing store": (together, OFTEN, 1200),
    "together, rarely failing store": (together, RARELY, 600),
    "streamed, failing store": (streamed, OFTEN, 800),
    "watched, rarely failing store": (watched, RARELY, 800),
    "swept, failing store": (swept, OFTEN, 600),
    "crowded, failing store": (crowded, OFTEN, 100),
    "undone, failing store": (undone, OFTEN, 100),
    "alone, rarely failing store": (alone, RARELY, 20),
}


def simulate(seed: int, cast: Cast, faults: dict[Fault, float], *, tiny: bool = True) -> tuple[World, Diary]:
    """One seed, one run, checked. The trace is part of the failure."""
    world, diary = World(seed, faults), Diary()
    world.real_states = True
    world.options = dict(MAINTAINED)
    world.pause_probability = 0.01
    with tiny_splits(world.clock) if tiny else contextlib.nullcontext():
        open_log(world, Archive(world.inner, world, "setup")).initialize(SCHEMA, partition_columns=("shelf",))
        cast(world, diary)
        try:
            world.run()
            check(world, diary)
        except (AssertionError, IndexTablesError) as error:
            raise AssertionError(f"seed {seed}: {error}\n" + "\n".join(world.trace)) from error
    return world, diary


def check(world: World, diary: Diary) -> None:
    """The invariants, on what really happened."""
    versions = lineage(world)
    check_chain(versions)
    contents = contents_of(world)
    rows = models(contents, versions)
    check_answers(diary, rows, _written(versions, contents))
    for version, seen in diary.seen:
        assert seen == rows[version], f"version {version} was read as {seen} instead of {rows[version]}"
    for kept in diary.followed:
        check_followed(world, kept, versions, rows, contents)
    log = open_log(world, Archive(world.inner, world, "check"))
    assert log.snapshot().version == len(versions) - 1
    check_readable(log, rows)
    problems = [problem for problem in fsck(log).to_pylist() if problem["severity"] == "error"]
    assert not problems, problems


def check_readable(log: it.TransactionLog, rows: Sequence[Rows]) -> None:
    """Every version that can be read has its rows, and the newest one can be."""
    horizon = horizon_of(log.metadata().configuration)
    for version, expected in enumerate(rows):
        try:
            table = it.Table(log, log.snapshot(version=version))
        except RetentionError:
            assert version < len(rows) - 1, "the newest version can always be read"
            continue
        assert version >= horizon, f"version {version} is read in spite of the horizon {horizon}"
        assert ids_of(table) == expected, f"version {version} has lost rows"


def check_answers(diary: Diary, rows: Sequence[Rows], written: Sequence[set[int]]) -> None:
    """What was acknowledged was written once, where it was said to be; what was refused never was; and nothing twice,
    or by halves."""
    for entry in diary.written:
        ids = set(entry.ids)
        where = [version for version, added in enumerate(written) if ids & added]
        assert len(where) <= 1, f"{entry} is written at {where}"
        assert all(ids <= rows[version].keys() for version in where), f"half of {entry} is at {where}"
        if entry.told == "acknowledged":
            assert where, f"{entry} is nowhere"
            assert _fits(entry, where[0]), f"{entry} is at {where}"
        elif entry.told not in ("unknown", "died"):
            assert not where, f"{entry} is at {where}"


def _fits(entry: Written, version: int) -> bool:
    """A batch that was there already is answered with the version of the last batch of its stream."""
    return version <= entry.version if entry.kind == "stream" else version == entry.version


def _written(versions: Sequence[tuple], contents: Mapping[str, list[int]]) -> list[set[int]]:
    """The rows that each version brings into the table for the first time."""
    found = []
    for actions in versions:
        info = commit_info(actions)
        is_write = info is not None and info.operation == "WRITE"
        paths = [action.path for action in actions if is_write and isinstance(action, Add)]
        found.append({row for path in paths for row in contents[path]})
    return found
