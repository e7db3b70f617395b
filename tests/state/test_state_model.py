"""Random histories with checkpoints of every format, clean-ups and damage: the table from its checkpoints equals the
plain replay, at every version that can be reached; and what is retained can be reached."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.aging import AgingStore
from tests.conftest import make_add

import indextables as it
from indextables.config import Config
from indextables.errors import CommitConflictError, RetentionError
from indextables.log.replay import fold
from indextables.protocol.names import LOG_DIRECTORY, parse_checkpoint_key, state_keys
from indextables.state.cleanup.retention import Listing, Retention
from indextables.state.cleanup.verification import Verifier
from indextables.store import open_store

_names = itertools.count()
HOUR_MS = 3_600_000
BASE_OPTIONS = {"checkpoint.interval": 10**6, "state.entriesPerManifest": 3, "cache.disk.enabled": "false"}
RETENTIONS = [
    {"logRetention.duration": "0", "state.retention.hours": 0, "state.retention.versions": 1},
    {"checkpoint.retention": 3, "state.retention.hours": 5, "checkpointRetention.duration": "0"},
    {"purge.txLogRetentionHours": 4, "state.retention.hours": 2, "state.gc.minManifestAgeHours": 3},
    {"checkpoint.retention": 1, "logRetention.duration": "3h", "state.retention.hours": 0},
]


class StateMachine(RuleBasedStateMachine):
    """One table; its checkpoints may be missing, damaged, of any format, and never change what it is."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 10**12
        self.inner = open_store(f"memory://states-{next(_names)}/table", Config.resolve())
        self.store = AgingStore(self.inner, lambda: self.now_ms)
        self.log = self.handle()
        self.fresh = itertools.count()
        self.seen: list[str] = []
        self.expected: list = []

    def handle(self, **options) -> it.TransactionLog:
        return it.TransactionLog("memory://unused", options={**BASE_OPTIONS, **options}, store=self.store)

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

    @rule(data=st.data(), kind=st.sampled_from(["avro", "avro", "json", "parquet"]), size=st.sampled_from(["1", "1M"]))
    def write_a_checkpoint(self, data, kind: str, size: str) -> None:
        """Of any version that can be reached; where a damaged one stands, of a version of its own."""
        newest = self.log.snapshot().version
        version = data.draw(st.sampled_from([newest, newest, *self.reachable()]))
        merged = {"state.compaction.afterMerge": data.draw(st.sampled_from(["true", "false"]))}
        log = self.handle(**{"state.format": kind, "checkpoint.maxFileSize": size}, **merged)
        written = log._checkpointer.write(version, log.config)
        assert written.hint.version == version or written.hint.version > newest
        assert written.hint.version in self.verified()

    @rule(kind=st.sampled_from(["avro", "json", "parquet"]))
    def compact(self, kind: str) -> None:
        hint = self.handle(**{"state.format": kind, "cleanup.enabled": "false"}).checkpoint()
        assert hint.version in self.verified()
        if kind == "avro":
            state = self.log._checkpointer._states.state_at(hint.version)
            assert not state.tombstones
            assert sum(info.num_entries for info in state.manifests) == hint.num_files

    @rule(hours=st.integers(1, 6))
    def time_passes(self, hours: int) -> None:
        self.now_ms += hours * HOUR_MS
        self.store.put(f"{LOG_DIRECTORY}/another-file", b"")

    @rule(options=st.sampled_from(RETENTIONS), dry=st.booleans())
    def clean_up(self, options, dry: bool) -> None:
        log = self.handle(**options, **{"cleanup.dryRun": str(dry).lower()})
        retention, listing = Retention.of(log.config), self.listing()
        newest = max(listing.checkpoints, default=0)
        retained = {
            version
            for version, meta in listing.versions.items()
            if retention.keeps_version(version, listing.now_ms - meta.modified_ms, newest)
        }
        must_stay = retained & set(self.reachable())
        cleaned = log._checkpointer.clean_up(log.config)
        assert must_stay <= set(self.reachable()), "what is retained can no longer be reached"
        after = self.listing()
        if dry:
            assert after.objects == listing.objects
        elif cleaned.versions:
            assert min(after.versions) > cleaned.versions[-1] or min(after.versions) == 0
        assert len(self.verified()) >= min(2, len(self.verified(listing)))

    @precondition(lambda self: self.may_damage())
    @rule(data=st.data())
    def damage_a_checkpoint(self, data) -> None:
        keys = [key for key in self.listing().objects if parse_checkpoint_key(key) is not None]
        key = keys[data.draw(st.integers(0, 1000)) % len(keys)]
        content = bytearray(self.store.get(key))
        content[data.draw(st.integers(0, 100_000)) % len(content)] ^= 1 << data.draw(st.integers(0, 7))
        self.store.put(key, bytes(content))
        self.log.invalidate_cache()

    @rule(data=st.data())
    def lose_a_manifest(self, data) -> None:
        """One that not all states of a table whose first versions are gone need."""
        verified = self.verified().values()
        spare = [
            key
            for key in self.listing().manifests
            if 0 in self.listing().versions or any(key not in state.manifests for state in verified)
        ]
        if spare:
            self.store.delete(spare[data.draw(st.integers(0, 1000)) % len(spare)])
            self.log = self.handle()

    def listing(self) -> Listing:
        return Listing.of(self.store.list(LOG_DIRECTORY))

    def verified(self, listing: Listing | None = None) -> dict:
        listing = listing or self.listing()
        log = self.handle()
        verifier = Verifier(log.reader, log._checkpointer._states)
        found = {
            version: verifier.verify(version, keys, listing.objects) for version, keys in listing.checkpoints.items()
        }
        return {version: state for version, state in found.items() if state is not None}

    def reachable(self) -> list[int]:
        """The versions that can be read from version 0 or from a checkpoint, and the files after it."""
        found: set[int] = set()
        versions = self.listing().versions
        for start in (-1, *self.verified()):
            found |= {start} - {-1}
            for version in itertools.takewhile(versions.__contains__, itertools.count(start + 1)):
                found.add(version)
        return sorted(found)

    def may_damage(self) -> bool:
        """Of a table whose first versions are gone two states are whole, of which one may be lost."""
        if not self.expected or not self.listing().checkpoints:
            return False
        return (self.reachable()[0] == 0 and 0 in self.listing().versions) or len(self.verified()) >= 2

    def note_what_was_committed(self) -> None:
        for version in range(len(self.expected), self.log.snapshot().version + 1):
            base = self.expected[-1] if self.expected else None
            self.expected.append(fold(base, self.log.reader.read_versions([version])))

    @invariant()
    def states_equal_replay(self) -> None:
        if not hasattr(self, "partitioned"):
            return
        self.note_what_was_committed()
        newest = len(self.expected) - 1
        reachable = self.reachable()
        for handle in (self.log, self.handle()):
            same(handle.snapshot(), self.expected[newest])
            for version in {newest // 2, newest // 3, reachable[0]}:
                try:
                    snapshot = handle.snapshot(version=version)
                except RetentionError:
                    assert version not in reachable
                else:
                    same(snapshot, self.expected[version])


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
