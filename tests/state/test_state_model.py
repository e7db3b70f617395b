"""Random histories with checkpoints of every kind, and damage: the table from its states equals the plain replay."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.conftest import make_add

import indextables as it
from indextables.config import Config
from indextables.errors import CheckpointValidationError, CommitConflictError
from indextables.protocol.names import state_keys
from indextables.store import open_store

_names = itertools.count()


class NoStates:
    """Plain replay: no state is ever used."""

    def load(self, candidates):
        return None

    def txn_id_at(self, version):
        return None


class StateMachine(RuleBasedStateMachine):
    """One table; its states may be missing, damaged, incremental or compacted, and never change what it is."""

    def __init__(self) -> None:
        super().__init__()
        self.url = f"memory://states-{next(_names)}/table"
        self.options = {"checkpoint.interval": 10**6, "state.entriesPerManifest": 3, "cache.disk.enabled": "false"}
        self.log = it.TransactionLog(self.url, options=self.options)
        self.plain = it.TransactionLog(self.url, options={"transaction.cache.enabled": "false"}, bases=NoStates())
        self.store = open_store(self.url, Config.resolve())
        self.fresh = itertools.count()
        self.seen: list[str] = []

    @initialize(partitioned=st.booleans())
    def create(self, partitioned: bool) -> None:
        schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
        self.log.initialize(schema, partition_columns=("day",) if partitioned else ())
        self.partitioned = partitioned

    def name(self) -> str:
        self.seen.append(f"splits/split-{next(self.fresh)}.split")
        return self.seen[-1]

    def add(self, name: str, day: str | None = None, **fields) -> it.actions.Add:
        values = {"day": day} if self.partitioned and day is not None else {}
        return make_add(name, partition_values=values, **fields)

    @rule(days=st.lists(st.sampled_from(["1", "10", "2", "ü", None]), max_size=4))
    def append(self, days) -> None:
        self.log.add_files([self.add(self.name(), day, min_values={"id": "1"}) for day in days])

    @rule()
    def append_with_a_mapping(self) -> None:
        self.log.add_files([self.add(self.name(), doc_mapping_json=f'[{{"name":"c{next(self.fresh) % 3}"}}]')])

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def add_a_known_path_again(self, data) -> None:
        self.log.add_files([self.add(data.draw(st.sampled_from(self.seen)), size=data.draw(st.integers(0, 9)))])

    @rule()
    def overwrite(self) -> None:
        self.log.overwrite_files([self.add(self.name(), "1")])

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def replace(self, data) -> None:
        try:
            self.log.replace_files([data.draw(st.sampled_from(self.seen))], [self.add(self.name(), "2")])
        except CommitConflictError:
            return

    @rule(batch=st.integers(0, 3))
    def stream(self, batch: int) -> None:
        self.log.add_files([self.add(self.name())], application_id="app", batch_id=batch)

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def skip(self, data) -> None:
        self.log.record_skipped_file(data.draw(st.sampled_from(self.seen)), reason="odd")

    @rule()
    def change_a_property(self) -> None:
        self.log.set_properties({"note": str(next(self.fresh))})

    @rule()
    def write_a_state(self) -> None:
        self.write(self.log.snapshot().version)

    def write(self, version: int) -> None:
        """A damaged state in the place is refused; everything else must work."""
        damaged = any(self.is_there(key) for key in state_keys(version)) and self.state_at(version) is None
        try:
            self.log._checkpointer.write_state(version, Config.resolve(options=self.options))
        except CheckpointValidationError:
            assert damaged
        else:
            assert self.state_at(version) is not None

    def is_there(self, key: str) -> bool:
        return any(meta.key == key for meta in self.store.list("_transaction_log"))

    def state_at(self, version: int):
        return self.log._checkpointer._states.state_at(version)

    @rule(data=st.data())
    def write_a_state_of_an_old_version(self, data) -> None:
        version = data.draw(st.integers(0, self.log.snapshot().version))
        self.write(version)

    @rule()
    def compact(self) -> None:
        hint = self.log.checkpoint()
        state = self.state_at(hint.version)
        assert not state.tombstones
        assert sum(info.num_entries for info in state.manifests) == hint.num_files

    @rule(data=st.data())
    def damage_a_state(self, data) -> None:
        keys = [meta.key for meta in self.store.list("_transaction_log") if "/state-v" in meta.key]
        if keys:
            key = keys[data.draw(st.integers(0, 1000)) % len(keys)]
            content = bytearray(self.store.get(key))
            content[data.draw(st.integers(0, 100_000)) % len(content)] ^= 1 << data.draw(st.integers(0, 7))
            self.store.put(key, bytes(content))
            self.log.invalidate_cache()

    @rule(data=st.data())
    def lose_a_manifest(self, data) -> None:
        keys = [meta.key for meta in self.store.list("_transaction_log/manifests")]
        if keys:
            self.store.delete(keys[data.draw(st.integers(0, 1000)) % len(keys)])
            self.log = it.TransactionLog(self.url, options=self.options)

    @invariant()
    def states_equal_replay(self) -> None:
        if not hasattr(self, "partitioned"):
            return
        newest = self.plain.snapshot().version
        for handle in (self.log, it.TransactionLog(self.url, options=self.options)):
            for version in {newest, newest // 2, newest // 3}:
                same(handle.snapshot(version=version), self.plain.snapshot(version=version))


def same(left, right) -> None:
    assert left.version == right.version
    assert left.files.sort_by("path").to_pylist() == right.files.sort_by("path").to_pylist()
    assert left.metadata == right.metadata
    assert left.protocol == right.protocol
    assert left.skips == right.skips
    assert left.transactions == right.transactions
    assert (left.timestamp_ms, left.txn_id) == (right.timestamp_ms, right.txn_id)


TestStateMachine = StateMachine.TestCase
TestStateMachine.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


def test_states_are_named_as_the_format_says() -> None:
    assert state_keys(7)[0] == "_transaction_log/state-v00000000000000000007/_manifest.avro"
