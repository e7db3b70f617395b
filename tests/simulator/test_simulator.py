"""Thousands of seeded histories over a failing store: nothing acknowledged is lost, nothing is there twice.

A failing seed prints its trace. To see one again: `pytest tests/simulator -k "seeds and mixed" --seed 1234`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
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
from tests.simulator.world import Archive, World, lineage

from indextables.errors import CorruptLogError, IndexTablesError, ObjectExistsError
from indextables.log import commit
from indextables.protocol.actions import Add, Metadata, Remove, Skip
from indextables.protocol.names import version_key
from indextables.protocol.version_file import commit_info, mark_of
from indextables.state.retention import Verified
from indextables.state.verification import Verifier
from indextables.store.faulty import Fault

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


def contention(world: World, book: Book) -> None:
    """Appends only, many writers."""
    for number in range(4):
        world.spawn(f"w{number}", writer(world, book, f"w{number}", 4, ["append"]))
    world.spawn("r", reader(world, book, "r", 6))


def mixed(world: World, book: Book) -> None:
    """Every operation at once."""
    for number in range(3):
        world.spawn(f"w{number}", writer(world, book, f"w{number}", 4, ALL_KINDS))
    world.spawn("r", reader(world, book, "r", 6))


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
    "contention, quiet store": (contention, {}, 100),
    "contention, failing store": (contention, {**NETWORK, **DEATHS}, 500),
    "mixed, failing store": (mixed, {**NETWORK, **DEATHS}, 700),
    "mixed, stale listings": (mixed, {**NETWORK, **STALE}, 400),
    "cleaned, failing store": (cleaned, {**NETWORK, **DEATHS}, 600),
    "cleaned, stale listings": (cleaned, {**NETWORK, **DEATHS, **STALE}, 300),
    "truncated, failing store": (truncated, {**NETWORK, **DEATHS}, 600),
    "truncated, stale listings": (truncated, {**NETWORK, **DEATHS, **STALE}, 300),
    "checkpointed, failing store": (checkpointed, {**NETWORK, **DEATHS}, 120),
    "checkpointed, stale listings": (checkpointed, {**NETWORK, **DEATHS, **STALE}, 60),
    "bereft, failing store": (bereft, {**NETWORK, **DEATHS}, 60),
}
_SHARES = 4


@pytest.mark.parametrize("share", range(_SHARES))
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_seeds(scenario: str, share: int, request) -> None:
    cast, faults, num_seeds = SCENARIOS[scenario]
    chosen = request.config.getoption("--seed")
    seeds = [chosen] if chosen is not None else range(share, num_seeds, _SHARES)
    for seed in seeds:
        simulate(seed, cast, faults)


def simulate(seed: int, cast: Callable[[World, Book], None], faults: dict[Fault, float]) -> tuple[World, Book]:
    """One seed, one run, checked. The trace is part of the failure."""
    world, book = World(seed, faults), Book()
    open_log(world, Archive(world.inner, world, "setup")).initialize(SCHEMA, partition_columns=PARTITION_COLUMNS)
    cast(world, book)
    try:
        world.run()
        check(world, book)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}\n" + "\n".join(world.trace)) from error
    return world, book


def check(world: World, book: Book) -> None:
    """The invariants, on what really happened."""
    versions = lineage(world)
    check_chain(versions)
    check_answers(versions, book)
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
        assert info.parent_txn_id == mark_of(parent), f"version {version} stands on another version {version - 1}"
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


def marked(actions: tuple, kind: str, marker: str) -> bool:
    """Whether a version holds what an operation would write."""
    if kind == "stream":
        info = commit_info(actions)
        return info is not None and info.application_id == "stream" and str(info.batch_id) == marker
    if kind == "properties":
        info = commit_info(actions)
        ours = info is not None and info.operation == "SET PROPERTIES"
        return ours and any(
            isinstance(action, Metadata) and info.parameters["properties"] == [f"note.{marker}"] for action in actions
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
                notes = dict(action.configuration)
        models.append(set(live))
    return models


def where(shelf: str | None) -> str:
    """The predicate that is true of one partition."""
    return "shelf IS NULL" if shelf is None else f"shelf = {shelf}"


def test_one_seed_is_one_run() -> None:
    traces = [simulate(7, mixed, {**NETWORK, **DEATHS})[0].trace for _ in range(2)]
    assert traces[0] == traces[1]
    assert len(traces[0]) > 50


def test_faults_really_happen() -> None:
    """The runs above are worth nothing if they are all quiet: every fault and every answer has been seen."""
    told, faults = set(), set()
    often = {fault: 3 * probability for fault, probability in {**NETWORK, **DEATHS, **STALE}.items()}
    for seed in range(60):
        world, book = simulate(seed, mixed if seed % 2 else cleaned, often)
        told |= {entry.told.partition(":")[0] for entry in book.done}
        faults |= {line.partition("[")[2] for line in world.trace if "[" in line}
    assert {"acknowledged", "conflict", "unknown", "died", "failed"} <= told
    assert len(faults) == len(often)


def test_a_torn_version_is_an_error_until_it_is_removed() -> None:
    for seed in range(60):
        world, book = World(seed, {Fault.TORN: 0.3}), Book()
        open_log(world, Archive(world.inner, world, "setup")).initialize(SCHEMA, partition_columns=PARTITION_COLUMNS)
        contention(world, book)
        world.run()
        versions = lineage(world)
        torn = [entry.version for entry in world.created if entry.version >= len(versions)]
        if torn:
            with pytest.raises(CorruptLogError, match=version_key(torn[0])):
                open_log(world, world.inner).snapshot()
            world.inner.delete(version_key(torn[0]))
        check(world, book)


def _says_won(self, attempt, parent):
    """A committer that trusts a put that succeeded: a writer that slept wins an old version."""
    return commit._Verdict.STANDS, None


def _trusts_answers(self, attempt):
    """A committer that believes the store: "exists" is lost, and an error is a failure."""
    try:
        self._store.put_if_absent(version_key(attempt.version), attempt.payload)
    except ObjectExistsError:
        return "another"
    return attempt.mark


def _never_doubts(self, name, value):
    """A committer that forgets that an earlier try may have been applied."""
    object.__setattr__(self, name, False if name == "_in_doubt" else value)


def _believes_every_checkpoint(self, version, keys, objects=None):
    """A clean-up that relies on checkpoints without reading them back."""
    return Verified(version, needs_version_0=False, manifests=frozenset())


MUTATIONS = {
    "no look after the put": (commit.Committer, "_look", _says_won, truncated),
    "no settling by transaction id": (commit.Committer, "_put_once", _trusts_answers, contention),
    "no doubt after an unclear try": (commit.Committer, "__setattr__", _never_doubts, truncated),
    "no verification before a clean-up": (Verifier, "verify", _believes_every_checkpoint, checkpointed),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_the_simulator_notices_a_missing_protection(mutation: str, monkeypatch) -> None:
    kind, name, replacement, cast = MUTATIONS[mutation]
    monkeypatch.setattr(kind, name, replacement)
    for seed in range(1500):
        try:
            simulate(seed, cast, {**NETWORK, **DEATHS})
        except (AssertionError, IndexTablesError):
            return
    pytest.fail(f"{mutation}: 1,500 seeds, and nobody noticed")
