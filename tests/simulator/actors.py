"""Who lives in the world: writers, readers, and those who make checkpoints and clean up.

Where states are not what is simulated, they hold a pickled snapshot under the name of a real one, which is quick, and
obey the same rules: put if absent, derived from the log, and standing for one transaction.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Sequence

import msgspec
import pyarrow as pa
from tests.doubles.faulty_store import Fault
from tests.simulator.world import World

import indextables as it
from indextables.config import settings
from indextables.errors import (
    CheckpointWriteError,
    CommitConflictError,
    CommitStateUnknownError,
    CorruptLogError,
    ObjectExistsError,
    ObjectNotFoundError,
    RetentionError,
    StorageError,
    TableNotFoundError,
)
from indextables.log.snapshot import Snapshot
from indextables.protocol.names import LOG_DIRECTORY, parse_checkpoint_key, parse_version_key, state_keys, version_key
from indextables.runtime.pools import InlinePools

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string()), ("shelf", pa.int32())])
PARTITION_COLUMNS = ("shelf",)
SHELVES = (1, 2, None)
OPTIONS = {"transaction.retry.maxAttempts": 6, "checkpoint.interval": 10**6, "cache.disk.enabled": "false"}
_FLOOR_MS = 3_600_000
SHORT_RETENTION = {
    "logRetention.duration": "0",
    "state.retention.hours": 0,
    "state.retention.versions": 1,
    "checkpointRetention.duration": "0",
}
_KEEPERS_FAULTS = {
    Fault.DIES_BEFORE,
    Fault.DIES_AFTER,
    Fault.UNAVAILABLE,
    Fault.ANSWER_LOST,
    Fault.DELAYED,
    Fault.STALE,
}


class Done(msgspec.Struct):
    """What an actor tried, what it was told, and the newest version when it began. `told` stays `died` where no answer
    came."""

    actor: str
    kind: str
    marker: str
    told: str = "died"
    version: int | None = None
    began_at: int = 0


class Seen(msgspec.Struct):
    """A snapshot that was read, and the newest version that was acknowledged before the reading began."""

    version: int
    paths: frozenset[str]
    acknowledged: int


class Book:
    """What all actors did and saw."""

    def __init__(self) -> None:
        self.done: list[Done] = []
        self.seen: list[Seen] = []

    @property
    def acknowledged(self) -> int:
        return max((entry.version or 0 for entry in self.done if entry.told == "acknowledged"), default=0)

    def batch(self, world: World) -> int:
        """The batch that a stream tries: the last one acknowledged once more, or the one after it."""
        known = [int(entry.marker) for entry in self.done if entry.kind == "stream" and entry.told == "acknowledged"]
        return max(known) + world.random.randrange(2) if known else 0


class PickledStates:
    """A source of bases that reads the states of this world."""

    def __init__(self, store) -> None:
        self._store = store

    def load(self, candidates) -> Snapshot | None:
        for version in sorted(candidates, reverse=True):
            if (snapshot := self._snapshot(version)) is not None:
                return snapshot
        return None

    def txn_id_at(self, version: int) -> str | None:
        snapshot = self._snapshot(version)
        return None if snapshot is None else snapshot.txn_id or ""

    def hinted_version(self) -> int | None:
        return None

    def _snapshot(self, version: int) -> Snapshot | None:
        try:
            return pickle.loads(self._store.get(state_keys(version)[0]))
        except ObjectNotFoundError:
            return None


class SearchingPools(InlinePools):
    """Does at once what else is done meanwhile, so that the world decides about it."""

    is_parallel = True


def open_log(world: World, store, **options) -> it.TransactionLog:
    """A handle as a process would have it, with real states or with the quick ones of this world."""
    log = it.TransactionLog(
        "memory://unused",
        options={**OPTIONS, **world.options, **options},
        store=store,
        clock=world.host_clock(),
        pools=SearchingPools() if world.seed % 3 == 0 else InlinePools(),
        bases=None if world.real_states else PickledStates(store),
    )
    if world.real_states:
        _note_clean_ups(world, log)
    return log


def _note_clean_ups(world: World, log: it.TransactionLog) -> None:
    """A version that its own creator cleans up is not one that it takes back."""
    cleaner = log.checkpointer.cleaner
    carry_out = cleaner._carry_out

    def noted(*arguments, **options):
        actor = world.current
        world.sweepers.add(actor)
        try:
            return carry_out(*arguments, **options)
        finally:
            world.sweepers.discard(actor)

    cleaner._carry_out = noted


def writer(world: World, book: Book, name: str, num_operations: int, kinds: Sequence[str], *, pause_seconds: float = 0):
    """An actor that commits one thing after another, with one handle, as a process would."""

    def run() -> None:
        log = open_log(world, world.store(name))
        for number in range(num_operations):
            if pause_seconds:
                world.wait(2 * pause_seconds * world.random.random())
            kind = world.random.choice(kinds)
            entry = Done(name, kind, str(book.batch(world)) if kind == "stream" else f"{name}-{number}")
            entry.began_at = max(created.version for created in world.created)
            book.done.append(entry)
            try:
                entry.version = _operate(world, log, entry)
                entry.told = "acknowledged"
            except CommitConflictError as error:
                entry.told = "crowded out" if "other writers committed first" in error.message else "conflict"
            except CommitStateUnknownError:
                entry.told = "unknown"
            except (StorageError, CorruptLogError, TableNotFoundError) as error:
                entry.told = f"failed: {type(error).__name__}"
            world.trace.append(f"{world.clock.seconds:.3f} {name}: {kind} {entry.marker}: {entry.told} {entry.version}")

    return run


def _operate(world: World, log: it.TransactionLog, entry: Done) -> int:
    shelf = SHELVES[zlib.crc32(entry.marker.encode()) % len(SHELVES)]
    add = it.actions.Add(
        path=f"{entry.marker}{'-' + world.clock.uuid() if entry.kind == 'stream' else ''}.split",
        partition_values={"shelf": None if shelf is None else str(shelf)},
        size=1,
        modification_time=1,
        data_change=True,
        num_records=1,
    )
    if entry.kind == "append":
        return log.add_files([add])
    if entry.kind == "overwrite":
        return log.overwrite_files([add])
    if entry.kind == "overwrite where":
        return log.overwrite_files([add], where="shelf IS NULL" if shelf is None else f"shelf = {shelf}")
    if entry.kind == "overwrite partitions":
        return log.overwrite_files([add], dynamic=True)
    if entry.kind == "replace":
        return _replace(world, log, add)
    if entry.kind == "properties":
        return log.set_properties({f"note.{entry.marker}": entry.marker, "owner": entry.marker})
    if entry.kind == "skip":
        return log.record_skipped_file("bad.split", reason=entry.marker)
    if entry.kind == "mapping":
        return log.add_files([msgspec.structs.replace(add, doc_mapping_json=f'[{{"name":"{entry.marker}"}}]')])
    return log.add_files([add], application_id="stream", batch_id=int(entry.marker))


def _replace(world: World, log: it.TransactionLog, add: it.actions.Add) -> int:
    live = log.list_files()["path"].to_pylist()
    if not live:
        return log.add_files([add])
    return log.replace_files(world.random.sample(live, k=min(2, len(live))), [add])


def reader(world: World, book: Book, name: str, num_reads: int):
    """An actor that reads snapshots, the newest ones and older ones."""

    def run() -> None:
        store = world.store(name, allowed={Fault.UNAVAILABLE, Fault.STALE})
        log = open_log(world, store, **{"transaction.useOptimized": world.random.random() < 0.7})
        for _ in range(num_reads):
            world.wait(world.random.random() * 0.05)
            acknowledged = book.acknowledged
            try:
                snapshot = log.snapshot()
            except (StorageError, CorruptLogError, TableNotFoundError) as error:
                world.trace.append(f"{world.clock.seconds:.3f} {name}: {error.message[:90]}")
                continue
            _note(book, snapshot, acknowledged)
            _travel(world, book, log, world.random.randint(0, snapshot.version))
            world.trace.append(f"{world.clock.seconds:.3f} {name}: saw version {snapshot.version}")

    return run


def _note(book: Book, snapshot: Snapshot, acknowledged: int) -> None:
    book.seen.append(Seen(snapshot.version, frozenset(snapshot.files["path"].to_pylist()), acknowledged))


def _travel(world: World, book: Book, log: it.TransactionLog, version: int) -> None:
    try:
        _note(book, log.snapshot(version=version), 0)
    except (StorageError, RetentionError, TableNotFoundError, CorruptLogError) as error:
        world.trace.append(f"{world.clock.seconds:.3f} no travel to {version}: {error.message[:90]}")


def cleaner(world: World, name: str, num_rounds: int, *, truncates: bool):
    """An actor that writes states and cleans versions up: the rules of automatic clean-up, or of a truncation.

    Automatic: up to the second-newest state, an hour old at least. Truncation: everything before the newest state, and
    old states too; the version of that state stays, as it does in the product. Both go upwards.
    """

    def run() -> None:
        store = world.store(name, allowed={Fault.DIES_BEFORE, Fault.DIES_AFTER})
        sweeping = world.store(f"{name}-sweep", allowed={Fault.DIES_BEFORE, Fault.DIES_AFTER})
        log = open_log(world, store)
        for _ in range(num_rounds):
            world.wait(world.random.choice([0.01, 0.1, 2 * 3600.0]))
            _write_state(world, log, store)
            _clean_up(world, sweeping, truncates=truncates)

    return run


def _write_state(world: World, log: it.TransactionLog, store) -> None:
    snapshot = log.snapshot()
    try:
        store.put_if_absent(state_keys(snapshot.version)[0], pickle.dumps(snapshot))
    except ObjectExistsError:
        return


def _clean_up(world: World, store, *, truncates: bool) -> None:
    keys = [meta.key for meta in store.list(LOG_DIRECTORY)]
    states = sorted(at for key in keys if (at := parse_checkpoint_key(key)) is not None)
    versions = sorted(at for key in keys if (at := parse_version_key(key)) is not None)
    if not versions or len(states) < (1 if truncates else 2):
        return
    bound = states[-1] if truncates else states[-2]
    for version in versions[:-1]:
        old_enough = world.clock.now_ms() - world.modified_ms[version_key(version)] > _FLOOR_MS
        if version >= bound or not (truncates or old_enough):
            break
        store.delete(version_key(version))
    if truncates:
        for state in states[:-1]:
            store.delete(state_keys(state)[0])


def keeper(world: World, name: str, num_rounds: int, *, damages: bool = False, loses: bool = False):
    """An actor that makes real checkpoints of all formats, compacts, and cleans up by the rules of the product.

    `damages`: sometimes a bit of what it has just written flips; `loses`: a manifest goes missing.
    """

    def run() -> None:
        store = world.store(name, allowed=_KEEPERS_FAULTS)
        # A listing that is stale may not show a version that was seen a moment ago.
        unseen = (RetentionError,) if Fault.STALE in world.faults else ()
        for _ in range(num_rounds):
            world.wait(world.random.choice([0.01, 0.1, 1800.0, 2 * 3600.0]))
            options = {"state.format": world.random.choice(["avro", "avro", "json", "parquet"])}
            log = open_log(world, store, **options, **{"checkpoint.maxFileSize": world.random.choice([100, 10**6])})
            try:
                _keep(world, log, store, damages=damages)
            except (StorageError, CommitConflictError, CommitStateUnknownError, CheckpointWriteError, *unseen) as error:
                world.trace.append(f"{world.clock.seconds:.3f} {name}: {error.message[:90]}")
            if loses:
                _lose_a_manifest(world)

    return run


def _keep(world: World, log: it.TransactionLog, store, *, damages: bool) -> None:
    checkpointer = log._checkpointer
    kind = world.random.choice(["incremental", "incremental", "compacted"])
    if kind == "compacted":
        version = log.checkpoint().version
    else:
        written = checkpointer.write(log.snapshot().version, log.config)
        version = written.hint.version
        # What clean-up may rely on already is left alone: of two checkpoints one stays whole.
        if damages and written.is_new and world.random.random() < 0.4:
            kind = "damaged"
            _flip_a_bit(world, store, version, log.config[settings.STATE_FORMAT])
        world.wait(world.random.choice([0.01, 2 * 3600.0]))
        checkpointer.clean_up(log.config)
    world.trace.append(f"{world.clock.seconds:.3f} {kind} checkpoint of version {version}")


def _flip_a_bit(world: World, store, version: int, kind: str) -> None:
    directory = {"avro": f"{LOG_DIRECTORY}/state-v", "json": f"{LOG_DIRECTORY}/0", "parquet": "parquet"}[kind]
    keys = [
        meta.key
        for meta in store.list(LOG_DIRECTORY)
        if parse_checkpoint_key(meta.key) == version and directory in meta.key
    ]
    if keys:
        key = world.random.choice(keys)
        content = bytearray(store.get(key))
        content[world.random.randrange(len(content))] ^= 1 << world.random.randrange(8)
        store.put(key, bytes(content))


def _lose_a_manifest(world: World) -> None:
    keys = [meta.key for meta in world.inner.list(f"{LOG_DIRECTORY}/manifests")]
    if keys and world.random.random() < 0.3:
        world.inner.delete(world.random.choice(keys))
