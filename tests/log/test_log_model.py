"""The log against a plain model: random histories, every reachable version, both ways of reading."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.conftest import make_add

import indextables as it
from indextables.errors import CommitConflictError

_names = itertools.count()


class LogMachine(RuleBasedStateMachine):
    """One table, two handles that know nothing of each other, and a dictionary of what should be live."""

    def __init__(self) -> None:
        super().__init__()
        self.url = f"memory://model-{next(_names)}/table"
        self.handles = [it.TransactionLog(self.url), it.TransactionLog(self.url)]
        self.history: list[set[str]] = []
        self.fresh = itertools.count()

    @initialize()
    def create(self) -> None:
        assert self.handles[0].initialize(pa.schema([("id", pa.int64())]))
        assert not self.handles[1].initialize(pa.schema([("id", pa.int64())]))
        self.history.append(set())

    def expect(self, version: int, live: set[str]) -> None:
        assert version == len(self.history)
        self.history.append(live)

    def name(self) -> str:
        return f"splits/split-{next(self.fresh)}.split"

    @rule(who=st.integers(0, 1), count=st.integers(0, 3))
    def append(self, who: int, count: int) -> None:
        names = [self.name() for _ in range(count)]
        version = self.handles[who].add_files([make_add(name) for name in names])
        self.expect(version, self.history[-1] | set(names))

    @rule(who=st.integers(0, 1), count=st.integers(0, 2), guard=st.booleans())
    def overwrite(self, who: int, count: int, guard: bool) -> None:
        names = [self.name() for _ in range(count)]
        expected = len(self.history) - 1 if guard else None
        version = self.handles[who].overwrite_files([make_add(name) for name in names], if_version=expected)
        self.expect(version, set(names))

    @rule(who=st.integers(0, 1))
    def overwrite_a_table_that_moved(self, who: int) -> None:
        with pytest.raises(CommitConflictError, match="not at version"):
            self.handles[who].overwrite_files([make_add(self.name())], if_version=len(self.history))

    @precondition(lambda self: self.history and self.history[-1])
    @rule(who=st.integers(0, 1), data=st.data())
    def replace(self, who: int, data) -> None:
        sources = data.draw(st.lists(st.sampled_from(sorted(self.history[-1])), min_size=1, max_size=3, unique=True))
        name = self.name()
        version = self.handles[who].replace_files(sources, [make_add(name)])
        self.expect(version, (self.history[-1] - set(sources)) | {name})

    @rule(who=st.integers(0, 1))
    def replace_what_is_gone(self, who: int) -> None:
        with pytest.raises(CommitConflictError, match="no longer part"):
            self.handles[who].replace_files(["splits/never.split"], [make_add(self.name())])

    @precondition(lambda self: any(self.history))
    @rule(who=st.integers(0, 1), data=st.data())
    def add_a_path_once_more(self, who: int, data) -> None:
        seen = sorted(set().union(*self.history))
        name = data.draw(st.sampled_from(seen))
        self.expect(self.handles[who].add_files([make_add(name, size=7)]), self.history[-1] | {name})

    @rule(who=st.integers(0, 1))
    def change_a_property(self, who: int) -> None:
        version = self.handles[who].set_properties({"note": str(len(self.history))})
        self.expect(version, self.history[-1])

    @rule(who=st.integers(0, 1))
    def look(self, who: int) -> None:
        """Only a handle that looks keeps up with the other one."""
        snapshot = self.handles[who].snapshot()
        assert snapshot.version == len(self.history) - 1
        assert set(snapshot.files["path"].to_pylist()) == self.history[-1]

    @rule(who=st.integers(0, 1))
    def forget(self, who: int) -> None:
        self.handles[who].invalidate_cache()

    @invariant()
    def every_version_is_as_it_was(self) -> None:
        if not self.history:
            return
        plain = it.TransactionLog(self.url, options={"transaction.useOptimized": "false"})
        for handle in (it.TransactionLog(self.url), plain):
            snapshot = handle.snapshot()
            assert snapshot.version == len(self.history) - 1
            assert set(snapshot.files["path"].to_pylist()) == self.history[-1]
            assert snapshot.num_files == len(self.history[-1])
        middle = len(self.history) // 2
        old = [sorted(handle.snapshot(version=middle).files["path"].to_pylist()) for handle in (self.handles[0], plain)]
        assert old[0] == old[1] == sorted(self.history[middle])

    @invariant()
    def both_ways_of_reading_are_equal(self) -> None:
        if not self.history:
            return
        plain = it.TransactionLog(self.url, options={"transaction.useOptimized": "false"}).snapshot()
        fast = self.handles[0].snapshot()
        assert plain.files.sort_by("path").equals(fast.files.sort_by("path"))
        assert (plain.metadata, plain.protocol, plain.timestamp_ms, plain.txn_id) == (
            fast.metadata,
            fast.protocol,
            fast.timestamp_ms,
            fast.txn_id,
        )


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
