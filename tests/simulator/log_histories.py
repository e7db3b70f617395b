"""Histories of the log: who takes part, and what must hold in the end.

Files are names alone here, which is quick; `row_histories.py` is about rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tests.doubles.faulty_store import Fault
from tests.simulator.actors import (
    PARTITION_COLUMNS,
    SCHEMA,
    SHORT_RETENTION,
    Book,
    cleaner,
    keeper,
    open_log,
    reader,
    writer,
)
from tests.simulator.world import Archive, World, _decoded, lineage

from indextables.errors import CheckpointError, CorruptLogError, IndexTablesError, RetentionError
from indextables.log.store_clock import TOLERANCE_MS
from indextables.protocol.actions import Add, Metadata, Remove, Skip
from indextables.protocol.names import parse_version_key, version_key
from indextables.protocol.version_file import commit_info, identity_of

OVERWRITES = ["overwrite", "overwrite where", "overwrite partitions"]
ALL_KINDS = ["append"] * 3 + [*OVERWRITES, "replace", "properties", "skip", "mapping", "stream"]
NETWORK = {
    Fault.UNAVAILABLE: 0.03,
    Fault.DROPPED: 0.04,
    Fault.ANSWER_LOST: 0.05,
    Fault.DELAYED: 0.04,
    Fault.RETRIED: 0.05,
    Fault.FALSE_CONFLICT: 0.05,
}
DEATHS = {Fault.DIES_BEFORE: 0.01, Fault.DIES_AFTER: 0.02}
STALE = {Fault.STALE: 0.15}
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


def contention(world: World, book: Book) -> None:
    """Appends only, many writers."""
    for number in range(4):
        world.spawn(f"w{number}", writer(world, book, f"w{number}", 4, ["append"]))
    world.spawn("r", reader(world, book, "r", 6))


def crowd(world: World, book: Book) -> None:
    """Many writers that commit as fast as they can, on a quick network: each loses often."""
    world.pause_probability = 0.0
    world.options = {"transaction.retry.maxAttempts": 10**6, "transaction.retry.timeoutSeconds": 120}
    for number in range(12):
        name = f"w{number:02}"
        world.spawn(name, writer(world, book, name, 12, ["append"], pause_seconds=0.004))


def mixed(world: World, book: Book) -> None:
    """Every operation at once."""
    for number in range(3):
        world.spawn(f"w{number}", writer(world, book, f"w{number}", 4, ALL_KINDS))
    world.spawn("r", reader(world, book, "r", 6))


def contested(world: World, book: Book) -> None:
    """Writers that replace the same files."""
    for number in range(4):
        world.spawn(f"w{number}", writer(world, book, f"w{number}", 4, ["append", "replace", "replace"]))


def skewed(world: World, book: Book) -> None:
    """Writers whose clocks are hours and days ahead, beside one whose clock is right."""
    world.ahead_ms = {"w1": 6 * _HOUR_MS, "w2": 5 * _DAY_MS}
    for number in range(3):
        world.spawn(f"w{number}", writer(world, book, f"w{number}", 4, ["append", "append", "skip", "properties"]))


def cleaned(world: World, book: Book) -> None:
    """Writers that sleep for hours while old versions are cleaned away by age."""
    world.pause_probability = 0.06
    for number in range(3):
        kinds = ["append", "append", *OVERWRITES, "stream"]
        world.spawn(f"w{number}", writer(world, book, f"w{number}", 5, kinds))
    world.spawn("c", cleaner(world, "c", 6, truncates=False))
    world.spawn("r", reader(world, book, "r", 5))


def truncated(world: World, book: Book) -> None:
    """Writers that sleep while all old versions are cut away at once, by two cleaners."""
    world.pause_probability = 0.06
    for number in range(3):
        world.spawn(f"w{number}", writer(world, book, f"w{number}", 4, ["append", "append", "replace", "skip"]))
    world.spawn("c", cleaner(world, "c", 5, truncates=True))
    world.spawn("d", cleaner(world, "d", 3, truncates=True))
    world.spawn("r", reader(world, book, "r", 5))


def checkpointed(world: World, book: Book) -> None:
    """Real checkpoints of every format, compacted and incremental, some damaged, made by writers and by others at once;
    and clean-up by the rules of the product, while writers sleep."""
    world.real_states = True
    world.pause_probability = 0.04
    world.options = {"checkpoint.interval": 4, **SHORT_RETENTION}
    for number in range(2):
        world.spawn(f"w{number}", writer(world, book, f"w{number}", 5, ALL_KINDS))
    world.spawn("k", keeper(world, "k", 5, damages=True))
    world.spawn("l", keeper(world, "l", 4))
    world.spawn("r", reader(world, book, "r", 5))


def bereft(world: World, book: Book) -> None:
    """Real checkpoints, of which some are damaged and others lose manifests; every version is retained."""
    world.real_states = True
    world.options = {"checkpoint.interval": 3}
    for number in range(2):
        world.spawn(f"w{number}", writer(world, book, f"w{number}", 5, ALL_KINDS))
    world.spawn("k", keeper(world, "k", 4, damages=True, loses=True))
    world.spawn("l", keeper(world, "l", 3))
    world.spawn("r", reader(world, book, "r", 5))


SCENARIOS: dict[str, tuple[Callable[[World, Book], None], dict[Fault, float], int]] = {
    "contention, quiet store": (contention, {}, 200),
    "contention, failing store": (contention, {**NETWORK, **DEATHS}, 1000),
    "mixed, failing store": (mixed, {**NETWORK, **DEATHS}, 1200),
    "mixed, stale listings": (mixed, {**NETWORK, **STALE}, 600),
    "contested, failing store": (contested, {**NETWORK, **DEATHS}, 100),
    "cleaned, failing store": (cleaned, {**NETWORK, **DEATHS}, 700),
    "cleaned, stale listings": (cleaned, {**NETWORK, **DEATHS, **STALE}, 400),
    "truncated, failing store": (truncated, {**NETWORK, **DEATHS}, 900),
    "truncated, stale listings": (truncated, {**NETWORK, **DEATHS, **STALE}, 400),
    "checkpointed, failing store": (checkpointed, {**NETWORK, **DEATHS}, 60),
    "checkpointed, stale listings": (checkpointed, {**NETWORK, **DEATHS, **STALE}, 40),
    "bereft, failing store": (bereft, {**NETWORK, **DEATHS}, 40),
}


def simulate(seed: int, cast: Callable[[World, Book], None], faults: dict[Fault, float]) -> tuple[World, Book]:
    """One seed, one run, checked. The trace is part of the failure."""
    world, book = World(seed, faults), Book()
    open_log(world, Archive(world.inner, world, "setup")).initialize(SCHEMA, partition_columns=PARTITION_COLUMNS)
    cast(world, book)
    try:
        world.run()
        check(world, book)
    except (AssertionError, IndexTablesError) as error:
        raise AssertionError(f"seed {seed}: {error}\n" + "\n".join(world.trace)) from error
    return world, book


def simulate_skewed(seed: int, cast: Callable[[World, Book], None], faults: dict[Fault, float]) -> None:
    """One run: no version claims more than a day that has not come, and time travel goes by the store's clock."""
    world, _ = simulate(seed, cast, faults)
    log = open_log(world, Archive(world.inner, world, "check"))
    for entry in world.created:
        info = commit_info(_decoded(world, entry) or ())
        if entry.deleted_by is not None or info is None:
            continue
        assert info.timestamp <= entry.at_ms + _DAY_MS + TOLERANCE_MS, (
            f"seed {seed}: version {entry.version} lies ahead"
        )
        found = log.snapshot(timestamp=entry.at_ms + TOLERANCE_MS).version
        assert found >= entry.version, f"seed {seed}: version {found}, when {entry.version} was committed"


def simulate_exchanged(seed: int, cast: Callable[[World, Book], None], faults: dict[Fault, float]) -> Counter[str]:
    """One run, and then version files that are copied over others: what is read is right, or an error."""
    world, _ = simulate(seed, cast, faults)
    models = replay(lineage(world))
    told: Counter[str] = Counter()
    there = sorted(at for key in world.inner.objects if (at := parse_version_key(key)) is not None)
    for _ in range(6):
        source, target = world.random.choice([0, world.random.choice(there)]), world.random.choice(there)
        if source not in there or source == target or target == 0:
            continue
        whole = dict(world.inner.objects)
        world.inner.put(version_key(target), world.inner.get(version_key(source)))
        for wanted in (None, target, world.random.choice(there)):
            told[_read_exchanged(world, models, wanted, f"seed {seed}: {source} over {target}, reading {wanted}")] += 1
        world.inner.objects = whole
    return told


def _read_exchanged(world: World, models: list[set[str]], wanted: int | None, case: str) -> str:
    plain = world.random.random() < 0.5
    log = open_log(world, world.inner, **{"transaction.useOptimized": not plain})
    try:
        version = log.reader.head()[1].version if wanted is None else wanted
        snapshot = log.snapshot(version=wanted)
    except (CorruptLogError, RetentionError, CheckpointError):
        return "refused"
    assert snapshot.version == version == (len(models) - 1 if wanted is None else wanted), case
    assert set(snapshot.files["path"].to_pylist()) == models[version], case
    return "right"


def check(world: World, book: Book) -> None:
    """The invariants, on what really happened."""
    versions = lineage(world)
    check_chain(versions)
    check_answers(versions, book)
    if Fault.STALE not in world.faults:
        check_conflicts(versions, book)
    models = replay(versions)
    for seen in book.seen:
        assert seen.paths == models[seen.version], f"version {seen.version} was read wrongly"
        if Fault.STALE not in world.faults:
            assert seen.version >= seen.acknowledged, f"version {seen.acknowledged} was acknowledged and not seen"
    final = open_log(world, world.inner).snapshot()
    assert final.version == len(versions) - 1, f"the table opens at {final.version}, not {len(versions) - 1}"
    assert set(final.files["path"].to_pylist()) == models[-1], "the table opens with other files"


def check_chain(versions: list[tuple]) -> None:
    """Every version stands on the one before it, and time never goes back."""
    for version in range(1, len(versions)):
        info, parent = commit_info(versions[version]), versions[version - 1]
        assert info is not None
        assert info.parent_txn_id == identity_of(version - 1, parent), (
            f"version {version} stands on another version {version - 1}"
        )
        if (before := commit_info(parent)) is not None:
            assert info.timestamp >= before.timestamp, f"version {version} is older than the one before"


def check_answers(versions: list[tuple], book: Book) -> None:
    """What was acknowledged is there once, where it was said to be; what failed is there once or not at all."""
    for entry in book.done:
        where = [at for at, actions in enumerate(versions) if marked(actions, entry.kind, entry.marker)]
        if entry.told == "acknowledged" and entry.kind == "stream":
            # A batch before the last one is answered with the version of the last one.
            assert len(where) == 1, f"{entry} is at {where}"
            assert where[0] <= entry.version, f"{entry} is at {where}"
        elif entry.told == "acknowledged":
            assert where == [entry.version], f"{entry} is at {where}"
        elif entry.told in ("unknown", "died") or entry.kind == "stream":
            assert len(where) <= 1, f"{entry} is at {where}"
        else:
            assert where == [], f"{entry} is at {where}"


def check_conflicts(versions: list[tuple], book: Book) -> None:
    """Who is told that its property was changed meanwhile met a change that was committed after it began."""
    for entry in book.done:
        if (entry.kind, entry.told) == ("properties", "conflict"):
            later = [commit_info(actions) for actions in versions[entry.began_at + 1 :]]
            assert any(info.operation == "SET PROPERTIES" for info in later), f"{entry}: no other writer was concurrent"


def marked(actions: tuple, kind: str, marker: str) -> bool:
    """Whether a version holds what an operation would write."""
    if kind == "stream":
        info = commit_info(actions)
        return info is not None and info.application_id == "stream" and str(info.batch_id) == marker
    if kind == "properties":
        info = commit_info(actions)
        ours = info is not None and info.operation == "SET PROPERTIES"
        return ours and any(
            isinstance(action, Metadata) and f"note.{marker}" in info.parameters["properties"] for action in actions
        )
    if kind == "skip":
        return any(isinstance(action, Skip) and action.reason == marker for action in actions)
    return any(isinstance(action, Add) and action.path == f"{marker}.split" for action in actions)


def replay(versions: list[tuple]) -> list[set[str]]:
    """A plain model of the table: the live paths at each version. Only what is live is ever removed."""
    live: set[str] = set()
    shelves: dict[str, str | None] = {}
    notes: dict[str, str] = {}
    models = []
    for version, actions in enumerate(versions):
        info = commit_info(actions)
        removed = {action.path for action in actions if isinstance(action, Remove)}
        assert removed <= live, f"version {version} removes what is not there: {removed - live}"
        if info is not None and info.parameters.get("mode") == "Overwrite":
            named = info.parameters.get("predicate", "all")
            new = {action.partition_values.get("shelf") for action in actions if isinstance(action, Add)}
            if info.parameters.get("partitionOverwriteMode") == "dynamic":
                wanted = {path for path in live if shelves[path] in new}
            else:
                wanted = {path for path in live if named in ("all", where(shelves[path]))}
            assert removed == wanted, f"version {version} overwrites something else than {info.parameters}"
        shelves |= {action.path: action.partition_values.get("shelf") for action in actions if isinstance(action, Add)}
        live = (live - removed) | {action.path for action in actions if isinstance(action, Add)}
        for action in actions:
            if isinstance(action, Metadata):
                assert notes.items() <= action.configuration.items(), f"version {version} loses an entry"
                notes = {key: value for key, value in action.configuration.items() if key != "owner"}
        models.append(set(live))
    return models


def where(shelf: str | None) -> str:
    """The predicate that is true of one partition."""
    return "shelf IS NULL" if shelf is None else f"shelf = {shelf}"
