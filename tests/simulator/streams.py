"""Streams: queries that write batches into the table, and queries that follow it, with all their restarts.

A query that died starts again from what its checkpoint holds, as Spark does: the batch that was under way is tried
again. A batch that is written again must be there once; a batch that is read again must hold the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tests.doubles.faulty_store import Fault, ProcessDied
from tests.simulator.actors import open_log
from tests.simulator.maintenance import DAY_SECONDS, Diary, Followed, Rows, begin_write, ids_of
from tests.simulator.tiny import rows
from tests.simulator.world import World

import indextables as it
from indextables.errors import CommitConflictError, CommitStateUnknownError, RetentionError, StorageError
from indextables.log.commit.operations import Append, Batch
from indextables.protocol.actions import Add
from indextables.protocol.horizon import horizon_of
from indextables.protocol.names import version_key
from indextables.scan.added_rows import IGNORE, AddedRows, Limit, Position
from indextables.writer.split_rows import commit_splits, delete_splits, write_splits

_READERS_FAULTS = {Fault.UNAVAILABLE, Fault.DIES_BEFORE}
_MOST_TRIES = 4


def stream_writer(world: World, diary: Diary, name: str, num_batches: int):
    """A query that writes batches. It goes on to the next one when the last one was acknowledged; some are tried once
    more after that, as by a query that died before it could note it."""

    def run() -> None:
        for batch_id in range(num_batches):
            world.wait(world.random.choice([0.01, 60.0, DAY_SECONDS / 2]))
            entry = begin_write(world, diary, name, "stream")
            for _ in range(_MOST_TRIES):
                try:
                    version = write_batch(open_log(world, world.store(name)), name, batch_id, entry.ids)
                except (CommitConflictError, CommitStateUnknownError, StorageError) as error:
                    told = type(error).__name__
                except ProcessDied:
                    told = "died, and starts again"
                else:
                    told = "acknowledged"
                    entry.told, entry.version = told, version if entry.version is None else entry.version
                world.say(f"{name}: batch {batch_id} {entry.ids}: {told} {entry.version}")
                diary.done[f"stream batch: {told}"] += 1
                if told == "acknowledged" and world.random.random() < 0.7:
                    break
            if entry.told != "acknowledged":
                return

    return run


def write_batch(log: it.TransactionLog, application_id: str, batch_id: int, ids: Sequence[int]) -> int:
    """Write a batch as the sink of Spark does: splits that turn out to be of a batch that is there are deleted."""
    head, store = log.reader.head()[1], log.reader.store
    adds = write_splits(store, head, log.config, rows(ids).to_batches())
    operation = Append(adds, Batch.of(application_id, batch_id), head)
    result = commit_splits(store, adds, lambda: log.commit(operation))
    if not result.committed:
        delete_splits(store, adds)
    return result.version


def stream_reader(world: World, diary: Diary, name: str, num_tries: int):
    """A query that follows the table from where it stands at the beginning, or from version 0 on."""

    def run() -> None:
        kept = Followed()
        diary.followed.append(kept)
        following = None
        for _ in range(num_tries):
            world.wait(world.random.choice([0.01, 60.0, DAY_SECONDS / 2]))
            try:
                if following is None:
                    log = open_log(world, world.store(name, allowed=_READERS_FAULTS))
                    following = AddedRows(log, on_removed_rows=IGNORE)
                told = _follow(world, kept, log, following)
            except ProcessDied:
                following, told = None, "died, and starts again"
            except RetentionError:
                kept.is_cut_off = True
                diary.done["follow: gone"] += 1
                return
            except StorageError as error:
                told = type(error).__name__
            diary.done[f"follow: {told}"] += 1
            world.say(f"{name}: {told}; at {kept.position}, planned {kept.planned}")

    return run


def _follow(world: World, kept: Followed, log: it.TransactionLog, following: AddedRows) -> str:
    """One batch: planned and noted, given to the sink, noted as done."""
    if kept.planned is None:
        newest = following.newest()
        begin = kept.position or _beginning(world, newest, following)
        kept.begin = kept.begin or begin
        kept.position = begin
        end = following.advance(begin, newest, Limit(max_files=world.random.choice([None, None, 1, 2])))
        if end == begin:
            return "nothing new"
        kept.planned = (begin, end)
        kept.sink.append(None)
    start, end = kept.planned
    files = following.files(start, end)
    given = ids_of(it.Table(log, following.snapshot_of(files))) if files.num_rows else Counter()
    assert kept.sink[-1] in (None, given), f"a batch holds {kept.sink[-1]} and then {given}"
    kept.sink[-1] = given
    if world.random.random() < 0.2:
        raise ProcessDied
    kept.position, kept.planned = end, None
    return "done"


def _beginning(world: World, newest: int, following: AddedRows) -> Position:
    return Position(newest, whole=True) if world.random.random() < 0.5 else following.at_version(0, newest)


def check_followed(
    world: World, kept: Followed, versions: Sequence[tuple], found: Sequence[Rows], contents: Mapping[str, list[int]]
) -> None:
    """A query was given every row between its beginning and its position once, and no other row; where it was cut off,
    what it needs is gone."""
    if kept.begin is None:
        return
    given = sum((batch for batch in kept.sink if batch is not None), Counter())
    done, under_way = kept.position, kept.planned[1] if kept.planned and kept.sink[-1] is not None else kept.position
    least = _added(kept.begin, done, versions, found, contents, whole_last=False)
    most = _added(kept.begin, under_way, versions, found, contents, whole_last=True)
    assert least <= given <= most, f"a query from {kept.begin} to {done} was given {given}, not {least} to {most}"
    if kept.is_cut_off:
        horizon = horizon_of(open_log(world, world.inner).metadata().configuration)
        gone = [at for at in range(done.version, len(versions)) if version_key(at) not in world.inner.objects]
        assert gone or done.version < horizon, f"a query was cut off at {done}, and everything is there"


def _added(
    begin: Position,
    end: Position,
    versions: Sequence[tuple],
    found: Sequence[Rows],
    contents: Mapping[str, list[int]],
    *,
    whole_last: bool,
) -> Rows:
    """The rows from one position to another; of a version that the end lies within, all or none."""
    last = end.version if end.passed and whole_last else end.version - 1
    rows_added: Rows = Counter()
    if begin.whole and begin.version <= last:
        rows_added += found[begin.version]
    for version in range(begin.version + begin.whole, last + 1):
        for action in versions[version]:
            if isinstance(action, Add) and action.data_change:
                rows_added.update(contents[action.path])
    return rows_added
