"""Who lives with real rows: writers of splits, and those who merge, purge, truncate, restore and drop.

Every split that was ever put is remembered, so that the rows of any version are known whatever became of its files.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from tests.simulator.actors import OPTIONS, open_log
from tests.simulator.world import World

import indextables as it
from indextables.errors import (
    CheckpointError,
    CommitConflictError,
    CommitStateUnknownError,
    CorruptLogError,
    RetentionError,
    StorageError,
)
from indextables.ops.workers import InlineWorkers, working_with
from indextables.protocol.actions import Add, Remove
from indextables.protocol.version_file import commit_info
from indextables.store.faulty import Fault, ProcessDied

SCHEMA = pa.schema([("id", pa.int64()), ("shelf", pa.int32()), ("message", pa.string())])
SHELVES = (1, 2, None)
MAINTAINED = {
    **OPTIONS,
    "indexWriter.heapSize": "15M",
    "purge.retentionCheckEnabled": "false",
    "state.retention.hours": 24,
    "logRetention.duration": "1d",
}
RETENTION = "24 hours"
DAY_SECONDS = 24 * 3600.0
_EXPECTED = (StorageError, CommitConflictError, CommitStateUnknownError, RetentionError, CheckpointError)
Rows = Counter[int]


class Written(msgspec.Struct):
    """Rows that a writer tried to commit, and what it was told."""

    actor: str
    kind: str
    ids: tuple[int, ...]
    told: str = "died"
    version: int | None = None


class Diary:
    """What all actors did, and what readers saw."""

    def __init__(self) -> None:
        self.written: list[Written] = []
        self.done: Counter[str] = Counter()
        self.seen: list[tuple[int, Rows]] = []
        self._next = 0

    def fresh(self, shelf_at: int, count: int) -> tuple[int, ...]:
        """Ids that no row has had; one that is congruent to the place of a shelf modulo three stands on it."""
        numbers = range(self._next, self._next + count)
        self._next += count
        return tuple(3 * number + shelf_at for number in numbers)


def shelf_of(row: int) -> int | None:
    return SHELVES[row % 3]


def where(shelf: int | None) -> str:
    return "shelf IS NULL" if shelf is None else f"shelf = {shelf}"


def open_table(world: World, name: str, allowed: set[Fault] | None = None, **options: object) -> it.Table:
    log = open_log(world, world.store(name, allowed=allowed), **options)
    return it.Table(log, log.snapshot())


def ids_of(table: it.Table) -> Rows:
    return Counter(table.search(columns=["id"])["id"].to_pylist())


def rows(ids: Sequence[int]) -> pa.Table:
    columns = {"id": list(ids), "shelf": [shelf_of(row) for row in ids], "message": [f"row {row}" for row in ids]}
    return pa.table(columns, SCHEMA)


def _append(table: it.Table, ids: tuple[int, ...]) -> int:
    return table.append(rows(ids))


def _overwrite(table: it.Table, ids: tuple[int, ...]) -> int:
    return table.overwrite(rows(ids))


def _overwrite_shelf(table: it.Table, ids: tuple[int, ...]) -> int:
    return table.overwrite(rows(ids), where=where(shelf_of(ids[0])))


WRITES: dict[str, Callable[[it.Table, tuple[int, ...]], int]] = {
    "append": _append,
    "overwrite": _overwrite,
    "overwrite where": _overwrite_shelf,
}


def writer(world: World, diary: Diary, name: str, num_writes: int, kinds: Sequence[str]):
    """An actor that writes rows, one split after the other."""

    def run() -> None:
        table = None
        for _ in range(num_writes):
            world.wait(world.random.choice([0.01, 60.0, DAY_SECONDS / 2]))
            kind = world.random.choice(kinds)
            entry = Written(name, kind, diary.fresh(world.random.randrange(3), world.random.randint(1, 3)))
            diary.written.append(entry)
            try:
                table = table or open_table(world, name)
                entry.version = WRITES[kind](table, entry.ids)
                entry.told = "acknowledged"
            except CommitConflictError:
                entry.told = "conflict"
            except CommitStateUnknownError:
                entry.told = "unknown"
            except (StorageError, CorruptLogError) as error:
                # The commit may have been acknowledged, and the reading after it have failed.
                entry.told = f"failed: {error.message[:80]}"
            world.trace.append(f"{world.clock.seconds:.3f} {name}: {kind} {entry.ids}: {entry.told} {entry.version}")

    return run


def _merge(world: World, table: it.Table) -> None:
    table.merge_splits(target_size="100M", max_source_splits_per_merge=world.random.choice([2, 3, 1000]))


def _purge(world: World, table: it.Table) -> None:
    table.purge(older_than=RETENTION, log_retention=world.random.choice([RETENTION, "72 hours"]))


def _truncate(world: World, table: it.Table) -> None:
    table.truncate_time_travel()


def _checkpoint(world: World, table: it.Table) -> None:
    table.checkpoint()


def _drop(world: World, table: it.Table) -> None:
    table.drop_partitions(where(world.random.choice(SHELVES)))


def _restore(world: World, table: it.Table) -> None:
    table.restore(version=world.random.randint(0, table.refresh().version))


CHORES = {
    "merge": _merge,
    "purge": _purge,
    "truncate": _truncate,
    "checkpoint": _checkpoint,
    "drop": _drop,
    "restore": _restore,
}


def keeper(world: World, diary: Diary, name: str, num_chores: int, kinds: Sequence[str]):
    """An actor that looks after the table. What it is told matters little: what it did is looked at in the end."""

    def run() -> None:
        for _ in range(num_chores):
            world.wait(world.random.choice([0.01, 60.0, DAY_SECONDS / 3, 1.2 * DAY_SECONDS]))
            kind = world.random.choice(kinds)
            try:
                with working_with(InlineWorkers()):
                    CHORES[kind](world, open_table(world, name))
                told = "done"
            except _EXPECTED as error:
                told = type(error).__name__
                world.trace.append(f"{world.clock.seconds:.3f} {name}: {error.message[:120]}")
            diary.done[f"{kind}: {told}"] += 1
            world.trace.append(f"{world.clock.seconds:.3f} {name}: {kind}: {told}")

    return run


def everything(world: World, diary: Diary, name: str, num_steps: int, look: Callable[[], None]):
    """An actor that does everything, one after the other, and looks at all of it after each. Where it dies, it starts
    again."""

    def run() -> None:
        for _ in range(num_steps):
            writes = world.random.random() < 0.5
            step = (
                writer(world, diary, name, 1, list(WRITES)) if writes else keeper(world, diary, name, 1, list(CHORES))
            )
            try:
                step()
            except ProcessDied:
                world.trace.append(f"{world.clock.seconds:.3f} {name}: died, and starts again")
            look()

    return run


def reader(world: World, diary: Diary, name: str, num_reads: int):
    """An actor that reads rows: of the newest version always whole, of an older one whole or not at all."""

    def run() -> None:
        for _ in range(num_reads):
            world.wait(world.random.choice([0.01, 60.0, DAY_SECONDS / 2]))
            table = open_table(world, name, allowed=set())
            diary.seen.append((table.version, ids_of(table)))
            version = world.random.randint(0, table.version)
            try:
                log = table.log
                old = it.Table(log, log.snapshot(version=version))
                diary.seen.append((version, ids_of(old)))
            except (RetentionError, StorageError, CorruptLogError):
                continue

    return run


def models(world: World, versions: Sequence[tuple]) -> list[Rows]:
    """The rows at each version, by the splits that it names; and every version does what its operation says."""
    contents = {key: _ids(data) for key, data in world.splits.items()}
    live: dict[str, Add] = {}
    found: list[Rows] = []
    for version, actions in enumerate(versions):
        for action in actions:
            if isinstance(action, Remove):
                assert live.pop(action.path, None) is not None, f"version {version} removes what is not there"
            elif isinstance(action, Add):
                live[action.path] = action
        now = Counter(row for path in live for row in contents[path])
        added = Counter(row for action in actions if isinstance(action, Add) for row in contents[action.path])
        assert max(now.values(), default=1) == 1, f"version {version} has rows twice"
        info = commit_info(actions)
        if info is not None:
            expected = _expected(info, found, added)
            assert now == expected, f"version {version}, {info.operation}: {now} instead of {expected}"
        found.append(now)
    return found


def _expected(info: it.actions.CommitInfo, found: Sequence[Rows], added: Rows) -> Rows:
    before, parameters = found[-1], info.parameters
    if info.operation == "RESTORE":
        return found[parameters["version"]]
    if info.operation == "DROP PARTITIONS" or "predicate" in parameters:
        kept = Counter(row for row in before if where(shelf_of(row)) != parameters["predicate"])
        return kept + added if info.operation == "WRITE" else kept
    if parameters.get("mode") == "Overwrite":
        return added
    return before + added if parameters.get("mode") == "Append" else before


def _ids(data: bytes) -> list[int]:
    return pq.read_table(io.BytesIO(data), columns=["id"])["id"].to_pylist()
