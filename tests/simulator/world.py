"""A world in one thread: actors are greenlets that switch at store calls and sleeps; one seed decides everything.

The clock is virtual. `Archive` stands under all faults and remembers every version that was ever created, by whom, and
who deleted it: what really happened, whatever the actors believe.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Sequence

import greenlet
import msgspec
from tests.aging import AgingStore
from tests.doubles.faulty_store import Call, Fault, FaultyStore, ProcessDied, SharedFate
from tests.simulator.memory import DictStore

from indextables.errors import CorruptLogError
from indextables.protocol.actions import Add, Metadata, Remove
from indextables.protocol.horizon import horizon_of
from indextables.protocol.names import parse_checkpoint_key, parse_version_key
from indextables.protocol.version_file import decode_version

MAX_STEPS = 20_000
HOUR_SECONDS = 3600.0


class Created(msgspec.Struct):
    """A version file that was created once."""

    version: int
    payload: bytes
    creator: str
    at_ms: int
    deleted_by: str | None = None


class Archive(AgingStore):
    """Remembers what was created and deleted in the store under it, seen by one actor, and dates it by the world's
    clock."""

    def __init__(self, inner, world: World, actor: str) -> None:
        super().__init__(inner, world.clock.now_ms, world.modified_ms)
        self._world = world
        self._actor = actor

    def put_if_absent(self, key: str, data: bytes, *, once: bool = False) -> None:
        super().put_if_absent(key, data, once=once)
        version = parse_version_key(key)
        if parse_checkpoint_key(key) is not None:
            self._world.kept.add(key)
        if version is not None:
            self._world.created.append(Created(version, data, self._actor, self._world.clock.now_ms()))

    def put(self, key: str, data: bytes) -> None:
        super().put(key, data)
        if key.endswith(".split"):
            self._world.splits[key] = data

    def delete(self, key: str, *, with_directory: bool = False) -> None:
        if key.endswith(".split"):
            refuse_needed(self._world, key)
        self._inner.delete(key, with_directory=with_directory)
        version = parse_version_key(key)
        who = f"{self._actor}, cleaning up" if self._actor in self._world.sweepers else self._actor
        for entry in self._world.created:
            if entry.version == version and entry.deleted_by is None:
                entry.deleted_by = who


def lineage(world: World) -> list[tuple]:
    """The versions that make up the table: of each number the first that its own creator did not take back.

    A ghost, put where a version was cleaned away, comes later than the version whose place it took. A torn file is no
    version.
    """
    chosen: dict[int, tuple] = {}
    for entry in world.created:
        if entry.deleted_by == entry.creator or entry.version in chosen:
            continue
        actions = _decoded(world, entry)
        if actions is not None:
            chosen[entry.version] = actions
    assert sorted(chosen) == list(range(len(chosen))), f"the lineage has gaps: {sorted(chosen)}"
    return [chosen[version] for version in range(len(chosen))]


def _decoded(world: World, entry: Created) -> tuple | None:
    if entry.payload not in world.decoded:
        try:
            world.decoded[entry.payload] = decode_version(entry.payload, entry.version, world.inner.location)
        except CorruptLogError:
            world.decoded[entry.payload] = None
    return world.decoded[entry.payload]


def refuse_needed(world: World, path: str) -> None:
    """No version from the horizon on may name a split that is deleted, at the moment when it is."""
    versions = lineage(world)
    horizon = horizon_of(_configuration(versions))
    needed = _version_with(versions, path, horizon)
    assert needed is None, f"{world.current} deletes `{path}`, which version {needed} needs; horizon {horizon}"


def _configuration(versions: Sequence[tuple]) -> dict[str, str]:
    found = (action for actions in reversed(versions) for action in actions if isinstance(action, Metadata))
    return next(found).configuration


def _version_with(versions: Sequence[tuple], path: str, first: int) -> int | None:
    """A version, this one or one above it, that has a file."""
    is_live = False
    for version, actions in enumerate(versions):
        for action in actions:
            if isinstance(action, Add | Remove) and action.path == path:
                is_live = isinstance(action, Add)
        if is_live and version >= first:
            return version
    return None


class VirtualClock:
    """Time that passes only when actors sleep or the world says so."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.seconds = 1_700_000_000.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self._world.wait(seconds)

    def uniform(self) -> float:
        return self._world.random.random()

    def uuid(self) -> str:
        return str(uuid.UUID(int=self._world.random.getrandbits(128)))


class HostClock:
    """The clock of one host, which may be ahead of the world's."""

    def __init__(self, clock: VirtualClock, ahead_ms: int) -> None:
        self._clock = clock
        self._ahead_ms = ahead_ms

    def __getattr__(self, name: str):
        return getattr(self._clock, name)

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._ahead_ms


class World:
    """A store, a clock, actors, and a seed."""

    def __init__(self, seed: int, faults: dict[Fault, float]) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.clock = VirtualClock(self)
        self.faults = faults
        self.trace: list[str] = []
        self.current = "setup"
        self.modified_ms: dict[str, int] = {}
        self.fate = SharedFate()
        self.created: list[Created] = []
        self.inner = DictStore("memory://simulation/table", is_remote=bool(seed % 2))
        self.decoded: dict[bytes, tuple | None] = {}
        self.num_calls = 0
        self.injected: Counter[str] = Counter()
        self._actors: dict[str, greenlet.greenlet] = {}
        self._wakes: dict[str, float] = {}
        self._main = greenlet.getcurrent()
        self.pause_probability = 0.02
        self.real_states = False
        self.options: dict[str, object] = {}
        self.sweepers: set[str] = set()
        self.splits: dict[str, bytes] = {}
        self.kept: set[str] = set()
        self.ahead_ms: dict[str, int] = {}

    def host_clock(self) -> HostClock:
        """The clock of the actor that is at work."""
        return HostClock(self.clock, self.ahead_ms.get(self.current, 0))

    def store(self, name: str, allowed: set[Fault] | None = None) -> FaultyStore:
        """A store for one actor. Every call is a place where others may go on."""

        def script(call: Call) -> Fault:
            if threading.current_thread() is not threading.main_thread():
                return Fault.NONE  # a part of a split, read beside others: it never changes
            self.wait(0.001)
            fault = self._choose(call, allowed)
            self.num_calls += 1
            self.injected[fault.name] += fault is not Fault.NONE
            said = "" if fault is Fault.NONE else f"  [{fault.value}]"
            self.trace.append(f"{self.clock.seconds:.3f} {name}: {call.verb} {call.key[-40:]}{said}")
            return fault

        return FaultyStore(Archive(self.inner, self, name), script, self.fate)

    def _choose(self, call: Call, allowed: set[Fault] | None) -> Fault:
        for fault, probability in self.faults.items():
            if allowed is not None and fault not in allowed:
                continue
            if fault in _POSSIBLE.get(call.verb, _EVERYWHERE) and self.random.random() < probability:
                return fault
        return Fault.NONE

    def say(self, what: str) -> None:
        """Note something in the trace."""
        self.trace.append(f"{self.clock.seconds:.3f} {what}")

    def spawn(self, name: str, run: Callable[[], None]) -> None:
        def body() -> None:
            try:
                run()
            except ProcessDied:
                self.trace.append(f"{self.clock.seconds:.3f} {name}: died")

        self._actors[name] = greenlet.greenlet(body)
        self._wakes[name] = self.clock.seconds

    def wait(self, seconds: float) -> None:
        """Let others go on; come back when the time has passed. Outside of a run, time just passes."""
        if greenlet.getcurrent() is self._main:
            self.clock.seconds += seconds
            return
        if self.random.random() < self.pause_probability:
            seconds += self.random.choice([1.0, 30.0, 2 * HOUR_SECONDS])
        self._wakes[self.current] = self.clock.seconds + seconds
        self._main.switch()

    def run(self) -> None:
        """Run all actors to their end, one step of one actor at a time."""
        for _ in range(MAX_STEPS):
            alive = [name for name, actor in self._actors.items() if not actor.dead]
            if not alive:
                break
            self._deliver_late_puts()
            self._step(alive)
        else:
            raise AssertionError("the simulation does not end")
        while self.fate.pending:
            self.current = "network"
            self.fate.deliver()
        self.current = "check"

    def _deliver_late_puts(self) -> None:
        if self.fate.pending and self.random.random() < 0.1:
            self.current = "network"
            self.fate.deliver(self.random.randrange(len(self.fate.pending)))

    def _step(self, alive: list[str]) -> None:
        ready = [name for name in alive if self._wakes[name] <= self.clock.seconds]
        if not ready:
            self.clock.seconds = min(self._wakes[name] for name in alive)
            ready = [name for name in alive if self._wakes[name] <= self.clock.seconds]
        self.current = self.random.choice(ready)
        self._actors[self.current].switch()


_READ = {Fault.UNAVAILABLE, Fault.DIES_BEFORE}
_EVERYWHERE = _READ
_POSSIBLE = {
    "put_if_absent": {
        Fault.UNAVAILABLE,
        Fault.DROPPED,
        Fault.ANSWER_LOST,
        Fault.DELAYED,
        Fault.RETRIED,
        Fault.FALSE_CONFLICT,
        Fault.DIES_BEFORE,
        Fault.DIES_AFTER,
        Fault.TORN,
    },
    "put": {Fault.UNAVAILABLE, Fault.ANSWER_LOST, Fault.DIES_BEFORE, Fault.DIES_AFTER},
    "list": _READ | {Fault.STALE},
    "delete": {Fault.UNAVAILABLE, Fault.ANSWER_LOST, Fault.DIES_BEFORE, Fault.DIES_AFTER},
}
