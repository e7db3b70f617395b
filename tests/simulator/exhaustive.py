"""Every interleaving of two or three actors, one operation each, with at most one crash or fault anywhere.

The unit is the call of the store. From a table that is prepared once, schedules are tried depth first, each replayed
from the start; time stands still, and ids depend on who asks alone. So what follows from a state is decided by it: by
what the store holds, what was put and deleted by whom, and what every actor has been answered so far. A state that was
reached before is not entered again. This loses nothing: two calls that only read lead to one state in either order.

A process that dies is noticed by what it has put or deleted alone, so it dies before its first write or after any one.
A put may lose its answer, arrive later or never, or be told of a conflict that is none: one of these, or one death, in
a schedule. With a bound on preemptions a schedule takes an actor off that could go on at most so often; which scenarios
have one is in the table of `test_exhaustive.py`.

Splits are tiny, everything else is real; the invariants are those of `row_histories.py`, checked at every end.
"""

from __future__ import annotations

import functools
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import greenlet
import msgspec
from tests.doubles.faulty_store import Call, Fault, FaultyStore, ProcessDied
from tests.simulator.actors import open_log
from tests.simulator.maintenance import MAINTAINED, Diary
from tests.simulator.row_histories import check
from tests.simulator.tiny import SCHEMA, tiny_splits
from tests.simulator.world import Archive, VirtualClock, World

from indextables.errors import IndexTablesError, StorageError

Act = Callable[["SteppedWorld", Diary, str], None]
NETWORK = "network"
_LOST = {
    "put_if_absent": (Fault.ANSWER_LOST, Fault.DELAYED, Fault.FALSE_CONFLICT),
    "put": (Fault.ANSWER_LOST,),
}
_WRITES = ("put_if_absent", "put", "delete")
_MOST_STEPS = 400


class Scenario(NamedTuple):
    """A table that is prepared, and who then meets there."""

    prepare: Callable[[World, Diary], None]
    actors: Sequence[Act]
    options: Mapping[str, object] = MappingProxyType({})


class Choice(NamedTuple):
    """Who goes on, and what goes wrong with the call."""

    actor: str
    fault: Fault = Fault.NONE


class Explored(NamedTuple):
    """How much was tried. `schedules` counts the interleavings that the states stand for, `ends` those that were run to
    their end and checked."""

    runs: int
    states: int
    ends: int
    schedules: int
    calls: int
    is_complete: bool


class SteppedClock(VirtualClock):
    """Time stands still while actors run, and ids depend on who asks, and how often."""

    def sleep(self, seconds: float) -> None:
        if self._world.current == "setup":
            super().sleep(seconds)

    def uniform(self) -> float:
        return 0.5

    def uuid(self) -> str:
        world = self._world
        world.num_ids[world.current] += 1
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{world.current} {world.num_ids[world.current]}"))


class SteppedWorld(World):
    """A world whose actors go on one call at a time, as they are told."""

    def __init__(self, options: Mapping[str, object]) -> None:
        super().__init__(1, {})
        self.clock = SteppedClock(self)
        self.real_states = True
        self.options = {**MAINTAINED, **options}
        self.num_ids: Counter[str] = Counter()
        self.offers: dict[str, Call] = {}
        self.has_written: set[str] = set()
        self.is_over = False
        self._answer = Fault.NONE
        self._heard: dict[str, int] = {}

    def take_over(self, prepared: SteppedWorld) -> None:
        """Start with what another world holds."""
        self.inner.objects = dict(prepared.inner.objects)
        self.modified_ms = dict(prepared.modified_ms)
        self.created = [msgspec.structs.replace(entry) for entry in prepared.created]
        self.splits = dict(prepared.splits)
        self.decoded = prepared.decoded
        self.clock.seconds = prepared.clock.seconds

    def store(self, name: str, allowed: set[Fault] | None = None) -> _Heard:
        def script(call: Call) -> Fault:
            if self.is_over:
                raise ProcessDied
            self.offers[name] = call
            self._main.switch()
            if self.is_over:
                raise ProcessDied
            fault = self._answer
            self.num_calls += 1
            self.note(name, (call.verb, fault.name))
            said = "" if fault is Fault.NONE else f"  [{fault.value}]"
            self.trace.append(f"{name}: {call.verb} {call.key[-40:]}{said}")
            return fault

        return _Heard(FaultyStore(Archive(self.inner, self, name), script, self.fate), self, name)

    def wait(self, seconds: float) -> None:
        if greenlet.getcurrent() is self._main:
            self.clock.seconds += seconds

    def note(self, name: str, answer: object) -> None:
        """What an actor was told is part of its state."""
        self._heard[name] = hash((self._heard.get(name, 0), answer))

    def begin(self, name: str, run: Callable[[], None]) -> None:
        """Let an actor go up to its first call."""
        self.spawn(name, run)
        self._switch(name)

    def is_alive(self, name: str) -> bool:
        return name in self._actors and not self._actors[name].dead

    def choices(self, last: str, *, may_fail: bool) -> list[Choice]:
        """What can happen next; first of all, that the same actor goes on."""
        ready = sorted((name for name in self._actors if not self._actors[name].dead), key=lambda name: name != last)
        found = [Choice(name) for name in ready]
        if self.fate.pending:
            found += [Choice(NETWORK), Choice(NETWORK, Fault.DROPPED)]
        if may_fail:
            found += [Choice(name, fault) for name in ready for fault in self._faults(name)]
        return found

    def _faults(self, name: str) -> list[Fault]:
        verb = self.offers[name].verb
        if verb not in _WRITES:
            return []
        before = [] if name in self.has_written else [Fault.DIES_BEFORE]
        return [*before, Fault.DIES_AFTER, *_LOST.get(verb, ())]

    def step(self, choice: Choice) -> None:
        """Let one thing happen."""
        if choice.actor == NETWORK:
            self._arrive(choice.fault)
            return
        if self.offers[choice.actor].verb in _WRITES:
            self.has_written.add(choice.actor)
        self._answer = choice.fault
        self._switch(choice.actor)
        if choice.fault in (Fault.DIES_BEFORE, Fault.DIES_AFTER):
            self._heard[choice.actor] = hash("died")

    def _arrive(self, fault: Fault) -> None:
        self.current = NETWORK
        self.trace.append(f"network: a late put {'is lost' if fault is Fault.DROPPED else 'arrives'}")
        if fault is Fault.DROPPED:
            self.fate.pending.clear()
        else:
            self.fate.deliver()

    def _switch(self, name: str) -> None:
        self.current = name
        self._actors[name].switch()

    def key(self, last: str, budget: tuple[int, int | None]) -> tuple:
        """The state: whatever has the same key goes on in the same way."""
        objects = hash(frozenset((key, e_tag) for key, (_, e_tag) in self.inner.objects.items()))
        created = hash(tuple((entry.version, entry.payload, entry.creator, entry.deleted_by) for entry in self.created))
        actors = tuple(sorted((name, self._heard.get(name, 0), actor.dead) for name, actor in self._actors.items()))
        return objects, created, actors, len(self.fate.pending), budget, last if budget[1] is not None else ""

    def end(self) -> None:
        """Take everybody off who is still there."""
        self.is_over = True
        for name, actor in self._actors.items():
            self.current = name
            while not actor.dead:
                actor.throw(ProcessDied)


class _Heard:
    """A store that notes what it answers."""

    def __init__(self, inner: FaultyStore, world: SteppedWorld, name: str) -> None:
        self._inner = inner
        self._world = world
        self._name = name

    def __getattr__(self, verb: str):
        call = getattr(self._inner, verb)
        if not callable(call):
            return call

        def heard(*arguments, **options):
            try:
                answer = call(*arguments, **options)
            except StorageError as error:
                self._world.note(self._name, type(error).__name__)
                raise
            if verb in ("list", "pages"):
                answer = [*answer]
            self._world.note(self._name, repr(answer))
            return iter(answer) if verb in ("list", "pages") else answer

        return heard


class _Branch(NamedTuple):
    """A schedule so far, and the state that its last choice leaves from."""

    choices: tuple[Choice, ...]
    parent: tuple | None


class _Cursor:
    """How far a schedule has come."""

    def __init__(self) -> None:
        self.made: tuple[Choice, ...] = ()
        self.last = ""
        self.num_faults = 0
        self.num_preemptions = 0

    def make(self, world: SteppedWorld, choice: Choice) -> None:
        """Let the next thing happen."""
        assert len(self.made) < _MOST_STEPS, "a schedule does not end"
        self.made = (*self.made, choice)
        self.num_preemptions += choice.actor not in (self.last, NETWORK) and world.is_alive(self.last)
        self.num_faults += choice.fault not in (Fault.NONE, Fault.DROPPED)
        self.last = self.last if choice.actor == NETWORK else choice.actor
        world.step(choice)


class Exploration:
    """All schedules of one scenario. `max_preemptions` None is no bound, `max_faults` is 0 or 1."""

    def __init__(self, scenario: Scenario, *, max_faults: int = 1, max_preemptions: int | None = None) -> None:
        self._scenario = scenario
        self._max_faults = max_faults
        self._max_preemptions = max_preemptions
        self._children: dict[tuple, list[tuple]] = {}
        self._branches = [_Branch((), None)]
        self._num_ends = self._num_runs = self._num_calls = 0
        self._root: tuple = ()
        self._prepared = SteppedWorld(scenario.options)
        self._diary = Diary()
        with tiny_splits(self._prepared.clock):
            world = self._prepared
            open_log(world, Archive(world.inner, world, "setup")).initialize(SCHEMA, partition_columns=("shelf",))
            scenario.prepare(world, self._diary)

    def run(self, max_runs: int) -> Explored:
        """Try schedules until there are no more, or so many runs were made."""
        while self._branches and self._num_runs < max_runs:
            self._try(self._branches.pop())
            self._num_runs += 1
        return Explored(
            self._num_runs,
            len(self._children),
            self._num_ends,
            _num_paths(self._root, self._children),
            self._num_calls,
            not self._branches,
        )

    def _try(self, branch: _Branch) -> None:
        world, diary = SteppedWorld(self._scenario.options), Diary()
        diary.written = [msgspec.structs.replace(entry) for entry in self._diary.written]
        world.take_over(self._prepared)
        with tiny_splits(world.clock):
            try:
                self._follow(world, diary, branch)
            except (AssertionError, IndexTablesError) as error:
                raise AssertionError(f"{error}\n" + "\n".join(world.trace)) from error
            finally:
                world.end()
        self._num_calls += world.num_calls

    def _follow(self, world: SteppedWorld, diary: Diary, branch: _Branch) -> None:
        for number, act in enumerate(self._scenario.actors):
            name = f"{number}-{act.__name__}"
            world.begin(name, functools.partial(act, world, diary, name))
        cursor, parent = _Cursor(), branch.parent
        for choice in branch.choices:
            cursor.make(world, choice)
        while True:
            key = world.key(cursor.last, self._budget(cursor))
            self._enter(parent, key)
            if key in self._children:
                return
            self._children[key] = []
            options = self._options(world, cursor)
            if not options:
                self._children[key].append(_END)
                self._check(world, diary)
                return
            self._branches += [_Branch((*cursor.made, option), key) for option in options[1:]]
            cursor.make(world, options[0])
            parent = key

    def _budget(self, cursor: _Cursor) -> tuple[int, int | None]:
        """What of the bounds is left."""
        left = None if self._max_preemptions is None else self._max_preemptions - cursor.num_preemptions
        return self._max_faults - cursor.num_faults, left

    def _options(self, world: SteppedWorld, cursor: _Cursor) -> list[Choice]:
        num_faults, num_preemptions = self._budget(cursor)
        options = world.choices(cursor.last, may_fail=num_faults > 0)
        if num_preemptions == 0 and world.is_alive(cursor.last):
            return [option for option in options if option.actor in (cursor.last, NETWORK)]
        return options

    def _enter(self, parent: tuple | None, key: tuple) -> None:
        if parent is None:
            self._root = key
        else:
            self._children[parent].append(key)

    def _check(self, world: SteppedWorld, diary: Diary) -> None:
        self._num_ends += 1
        world.current = "check"
        check(world, diary)


_END: tuple = ("end",)


def _num_paths(root: tuple, children: dict[tuple, list[tuple]]) -> int:
    """How many ways lead from a state to an end."""

    @functools.cache
    def count(key: tuple) -> int:
        return 1 if key == _END else sum(count(child) for child in children.get(key, ()))

    return count(root)
