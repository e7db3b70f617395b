"""Who lives with rows: writers of splits, readers, and those who merge, purge, truncate, restore, drop and check.

Splits are real or tiny, as the history wants it. Every split that was ever put is remembered, so that the rows of any
version are known whatever became of its files.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec
import pyarrow.parquet as pq
from tests.doubles.faulty_store import Fault, ProcessDied
from tests.simulator.actors import OPTIONS, open_log
from tests.simulator.tiny import SHELVES, decode, is_tiny, rows, shelf_of
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
from indextables.maintain.fsck.fsck import fsck
from indextables.maintain.repair.repair import repair_log
from indextables.protocol.actions import Add, Remove
from indextables.protocol.version_file import commit_info
from indextables.scan.added_rows import Position
from indextables.writer.append import append, overwrite
from indextables.writer.split_rows import commit_splits, write_splits

MAINTAINED = {
    **OPTIONS,
    "indexWriter.heapSize": "15M",
    "purge.retentionCheckEnabled": "false",
    "state.retention.hours": 24,
    "logRetention.duration": "1d",
}
RETENTION = "24 hours"
FORMATS = ["avro", "avro", "avro", "avro", "json", "parquet"]
DAY_SECONDS = 24 * 3600.0
# A purge that meets a truncation may say that the log cannot be read whole. Whether it can is looked at in the end.
_EXPECTED = (StorageError, CommitConflictError, CommitStateUnknownError, RetentionError, CheckpointError)
Rows = Counter[int]


class Written(msgspec.Struct):
    """Rows that a writer tried to commit, and what it was told."""

    actor: str
    kind: str
    ids: tuple[int, ...]
    told: str = "died"
    version: int | None = None


class Followed:
    """What the checkpoint of a query holds that follows the table, and what its sink was given by each batch.

    `begin` is where it began, `position` how far it came, `planned` the batch that is under way.
    """

    def __init__(self) -> None:
        self.begin: Position | None = None
        self.position: Position | None = None
        self.planned: tuple[Position, Position] | None = None
        self.sink: list[Rows] = []
        self.is_cut_off = False


class Diary:
    """What all actors did, and what readers saw."""

    def __init__(self) -> None:
        self.written: list[Written] = []
        self.done: Counter[str] = Counter()
        self.seen: list[tuple[int, Rows]] = []
        self.followed: list[Followed] = []
        self._next = 0

    def fresh(self, shelf_at: int, count: int) -> tuple[int, ...]:
        """Ids that no row has had; one that is congruent to the place of a shelf modulo three stands on it."""
        numbers = range(self._next, self._next + count)
        self._next += count
        return tuple(3 * number + shelf_at for number in numbers)


def where(shelf: int | None) -> str:
    return "shelf IS NULL" if shelf is None else f"shelf = {shelf}"


def open_table(world: World, name: str, allowed: set[Fault] | None = None, **options: object) -> it.Table:
    log = open_log(world, world.store(name, allowed=allowed), **options)
    return it.Table(log, log.snapshot())


def ids_of(table: it.Table) -> Rows:
    return Counter(table.search(columns=["id"])["id"].to_pylist())


def _append(log: it.TransactionLog, ids: tuple[int, ...]) -> int:
    return append(log, rows(ids))


def _overwrite(log: it.TransactionLog, ids: tuple[int, ...]) -> int:
    return overwrite(log, rows(ids))


def _overwrite_shelf(log: it.TransactionLog, ids: tuple[int, ...]) -> int:
    return overwrite(log, rows(ids), where=where(shelf_of(ids[0])))


def _overwrite_partitions(log: it.TransactionLog, ids: tuple[int, ...]) -> int:
    """A dynamic overwrite, as Spark asks for it."""
    head, store = log.reader.head()[1], log.reader.store
    adds = write_splits(store, head, log.config, rows(ids).to_batches())
    return commit_splits(store, adds, lambda: log.overwrite_files(adds, dynamic=True, made_for=head))


WRITES: dict[str, Callable[[it.TransactionLog, tuple[int, ...]], int]] = {
    "append": _append,
    "overwrite": _overwrite,
    "overwrite where": _overwrite_shelf,
    "overwrite partitions": _overwrite_partitions,
}


def writer(world: World, diary: Diary, name: str, num_writes: int, kinds: Sequence[str]):
    """An actor that writes rows, one split after the other."""

    def run() -> None:
        log = None
        for _ in range(num_writes):
            world.wait(world.random.choice([0.01, 60.0, DAY_SECONDS / 2]))
            entry = begin_write(world, diary, name, world.random.choice(kinds))
            try:
                log = log or open_log(world, world.store(name))
                entry.version = WRITES[entry.kind](log, entry.ids)
                entry.told = "acknowledged"
            except CommitConflictError:
                entry.told = "conflict"
            except CommitStateUnknownError:
                entry.told = "unknown"
            except (StorageError, CorruptLogError) as error:
                entry.told = f"failed: {error.message[:80]}"
            world.say(f"{name}: {entry.kind} {entry.ids}: {entry.told} {entry.version}")

    return run


def begin_write(world: World, diary: Diary, name: str, kind: str) -> Written:
    """New rows that somebody is about to write: on one shelf where the write is about that one, else on some."""
    num_shelves = 1 if kind == "overwrite where" else world.random.choice([1, 1, 2])
    shelves = world.random.sample(range(3), num_shelves)
    ids = [row for shelf_at in shelves for row in diary.fresh(shelf_at, world.random.randint(1, 2))]
    entry = Written(name, kind, tuple(ids))
    diary.written.append(entry)
    return entry


def _merge(world: World, table: it.Table) -> None:
    table.merge_splits(target_size="100M", max_source_splits_per_merge=world.random.choice([2, 3, 1000]))


def _reindex(world: World, table: it.Table) -> None:
    table.reindex(where=world.random.choice([None, where(world.random.choice(SHELVES))]))


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
    "reindex": _reindex,
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
                options = {"state.format": world.random.choice(FORMATS)}
                CHORES[kind](world, open_table(world, name, **options))
                told = "done"
            except _EXPECTED as error:
                told = type(error).__name__
                world.say(f"{name}: {error.message[:120]}")
            diary.done[f"{kind}: {told}"] += 1
            world.say(f"{name}: {kind}: {told}")

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
                world.say(f"{name}: died, and starts again")
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


def checker(world: World, diary: Diary, name: str, num_checks: int):
    """An actor that looks whether the table is whole, while others change it: it is, at every moment."""

    def run() -> None:
        for _ in range(num_checks):
            world.wait(world.random.choice([0.01, 60.0, DAY_SECONDS]))
            log = open_log(world, world.store(name, allowed=set()))
            if world.random.random() < 0.3:
                status = repair_log(log, None)["status"][0].as_py()
                assert status == "VALID", f"a repair that writes nothing says {status}"
            else:
                problems = [problem for problem in fsck(log).to_pylist() if problem["severity"] == "error"]
                assert not problems, f"fsck, while others go on: {problems}"
            diary.done["check: done"] += 1

    return run


def contents_of(world: World) -> dict[str, list[int]]:
    """The ids in every split that was ever put."""
    return {key: decode(data) if is_tiny(data) else _ids(data) for key, data in world.splits.items()}


def models(contents: Mapping[str, Sequence[int]], versions: Sequence[tuple]) -> list[Rows]:
    """The rows at each version, by the splits that it names; and every version does what its operation says."""
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
    if parameters.get("partitionOverwriteMode") == "dynamic":
        shelves = {shelf_of(row) for row in added}
        return Counter(row for row in before if shelf_of(row) not in shelves) + added
    if parameters.get("mode") == "Overwrite":
        return added
    return before + added if parameters.get("mode") == "Append" else before


def _ids(data: bytes) -> list[int]:
    return pq.read_table(io.BytesIO(data), columns=["id"])["id"].to_pylist()
