"""How states are written: their numbers without loading the files, what they reuse kept young, errors told apart."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest
from tests.conftest import SCHEMA, live_paths, make_add
from tests.doubles.faulty_store import Fault, FaultyStore
from tests.doubles.metered_store import MeteredStore

import indextables as it
from indextables.clock import SYSTEM_CLOCK
from indextables.config import Config
from indextables.errors import CheckpointValidationError, CheckpointWriteError, StorageError
from indextables.log.commit.operations import Replace, Replacement
from indextables.log.replay import fold
from indextables.log.snapshot import Snapshot
from indextables.protocol.avro.state_manifest import StateManifest, decode_state_manifest, encode_state_manifest
from indextables.protocol.doc_mapping import doc_mapping_hash
from indextables.protocol.names import state_keys
from indextables.prune.files import partition_bounds
from indextables.state.writer import StateWriter
from indextables.state.written import PlaceTakenError, WrittenCheckpoint

OPTIONS = {"checkpoint.interval": 10**6, "cache.disk.enabled": "false", "state.compaction.tombstoneThreshold": 1.0}
HOUR_SECONDS = 3600


@pytest.fixture
def log(tmp_path) -> it.TransactionLog:
    log = it.TransactionLog(tmp_path / "t", options=OPTIONS)
    log.initialize(SCHEMA)
    return log


def lazy(log: it.TransactionLog) -> Snapshot:
    """The newest version, its files not loaded."""
    segment = log.reader.segment()
    base = log._checkpointer._states.load(segment.checkpoints)
    start = 0 if base is None else base.version + 1
    return fold(base, log.reader.read_versions(range(start, segment.newest + 1)))


def write(log: it.TransactionLog, *, snapshot: Snapshot | None = None, options=None, **arguments) -> WrittenCheckpoint:
    """The state of the newest version."""
    states = log._checkpointer._states
    config = Config.resolve(options={**OPTIONS, **(options or {})})
    writer = StateWriter(log._store, config, log._clock, states, partition_bounds)
    return writer.write(log.reader, log.reader.segment(), snapshot or lazy(log), **arguments)


def numbers(state: StateManifest) -> tuple[int, int]:
    return state.num_files, state.total_bytes


def manifests_of(log: it.TransactionLog) -> dict[str, Path]:
    place = Path(log._store.location.path) / "_transaction_log" / "manifests"
    return {path.name: path for path in place.iterdir()}


def test_an_incremental_state_is_counted_without_loading_the_files(log) -> None:
    log.add_files([make_add(f"{number}", size=number) for number in range(100)])
    assert numbers(write(log).state) == (100, 4950)
    log.add_files([make_add("new", size=7), make_add("gone", size=1_000)])
    log.commit(Replace([Replacement(("99", "gone"), ())], name="DELETE"))
    snapshot = lazy(log)
    written = write(log, snapshot=snapshot)
    assert "table" not in snapshot.live_files.__dict__
    assert [info.num_entries for info in written.state.manifests] == [100, 1]
    assert written.state.tombstones == ("99",)
    assert numbers(written.state) == (100, 4950 - 99 + 7)
    log.set_properties({"note": "nothing but this"})
    assert numbers(write(log).state) == (100, 4950 - 99 + 7)
    fresh = it.TransactionLog(log.url, options=OPTIONS).snapshot()
    assert (fresh.num_files, fresh.total_bytes) == (100, 4950 - 99 + 7)


def test_only_properties_changed_so_no_manifest_is_read(log) -> None:
    log.add_files([make_add("a")])
    write(log)
    log.set_properties({"note": "x"})
    snapshot = lazy(log)
    metered = MeteredStore(log._store)
    log._store = metered
    write(log, snapshot=snapshot)
    assert metered.calls["get"] == 1


def rewrite_as_foreign(log: it.TransactionLog, version: int, **changed) -> None:
    """Let a state look as if another writer had made it."""
    key = state_keys(version)[0]
    state = decode_state_manifest(log._store.get(key), key)
    foreign = msgspec.structs.replace(state, version_timestamp=None, version_txn_id=None, **changed)
    log._store.put(key, encode_state_manifest(foreign, codec="zstd"))


def test_the_numbers_of_other_writers_are_not_built_on(log) -> None:
    log.add_files([make_add(f"{number}", size=10) for number in range(5)])
    write(log)
    rewrite_as_foreign(log, 1, num_files=77, total_bytes=1, tombstones=("never-there", "0"))
    log.add_files([make_add("new", size=3)])
    assert numbers(write(log).state) == (5, 43)
    log.set_properties({"note": "x"})
    rewrite_as_foreign(log, 2, num_files=0, total_bytes=0)
    assert numbers(write(log).state) == (5, 43)


@pytest.mark.parametrize("name", ["04_partitioned", "05_many_transactions", "12_partition_drop"])
def test_tables_of_other_writers_are_counted(shared, tmp_path, name) -> None:
    source = shared / "fixtures" / "upstream-0.5.4"
    expected = json.loads((source / "expected.json").read_text())[name]
    shutil.copytree(source / name, tmp_path / "t")
    log = it.TransactionLog(tmp_path / "t", options=OPTIONS)
    log.upgrade_protocol()
    log.add_files([make_add("splits/new.split", size=5)])
    state = write(log).state
    assert numbers(state) == (expected["num_files"] + 1, expected["total_bytes"] + 5)
    assert len(live_paths(it.TransactionLog(tmp_path / "t", options=OPTIONS))) == state.num_files


def test_a_path_that_comes_back_compacts(log) -> None:
    log.add_files([make_add("a", size=1), make_add("b", size=2)])
    write(log)
    log.add_files([make_add("a", size=5)])
    state = write(log).state
    assert (len(state.manifests), state.tombstones, numbers(state)) == (1, (), (2, 7))


def test_many_new_files_fill_several_manifests(log) -> None:
    log.add_files([make_add("a")])
    write(log)
    log.add_files([make_add(f"new-{number}") for number in range(25)])
    written = write(log, options={"state.entriesPerManifest": 10})
    assert [info.num_entries for info in written.state.manifests] == [1, 10, 10, 5]


def test_a_base_of_an_earlier_table_is_not_built_on(log, caplog) -> None:
    log.add_files([make_add("a")])
    write(log)
    key = state_keys(1)[0]
    state = decode_state_manifest(log._store.get(key), key)
    log._store.put(key, encode_state_manifest(msgspec.structs.replace(state, version_txn_id="another"), codec="zstd"))
    log.add_files([make_add("b")])
    written = write(log, snapshot=it.TransactionLog(log.url, options={"checkpoint.enabled": "false"}).snapshot())
    assert "not building on the state of version 1" in caplog.text
    assert len(written.state.manifests) == 1


def test_times_of_added_files_never_go_back(log, tmp_path) -> None:
    log.add_files([make_add("a")])
    write(log)
    late = dataclasses.replace(lazy(log), timestamp_ms=2**50)
    key = state_keys(1)[0]
    state = decode_state_manifest(log._store.get(key), key)
    moved = msgspec.structs.replace(state, version_timestamp=late.timestamp_ms)
    log._store.put(key, encode_state_manifest(moved, codec="zstd"))
    log.add_files([make_add("b")])
    write(log)
    files = it.TransactionLog(log.url, options=OPTIONS).snapshot().files
    assert dict(zip(files["path"].to_pylist(), files["added_at_timestamp"].to_pylist(), strict=True))["b"] == 2**50


# When a state is compacted


def test_the_largest_commit_decides_not_their_sum(log) -> None:
    options = {"state.compaction.largeRemoveThreshold": 3, "state.compaction.afterMerge": "false"}
    log.add_files([make_add(f"{number}") for number in range(20)])
    write(log)
    for start in (0, 3):
        log.replace_files([str(number) for number in range(start, start + 3)], [])
    assert len(write(log, options=options).state.tombstones) == 6
    log.replace_files([str(number) for number in range(10, 14)], [])
    assert write(log, options=options).state.tombstones == ()


@pytest.mark.parametrize(("after_merge", "num_tombstones"), [("true", 0), ("false", 1)])
def test_a_merge_compacts_where_that_is_wanted(log, after_merge, num_tombstones) -> None:
    log.add_files([make_add("a"), make_add("b")])
    write(log)
    log.replace_files(["a"], [make_add("merged")])
    log.add_files([make_add("c")])
    state = write(log, options={"state.compaction.afterMerge": after_merge}).state
    assert len(state.tombstones) == num_tombstones
    assert state.num_files == 3


# What is reused stays young


def aged(log: it.TransactionLog, hours: float) -> None:
    """Let all manifests have been put so long ago."""
    for path in manifests_of(log).values():
        moment = path.stat().st_mtime - hours * HOUR_SECONDS
        os.utime(path, (moment, moment))


def ages_seconds(log: it.TransactionLog) -> list[float]:
    moments = [path.stat().st_mtime for path in manifests_of(log).values()]
    return [max(moments) - moment for moment in moments]


def grown(log: it.TransactionLog, num_manifests: int) -> None:
    for number in range(num_manifests):
        log.add_files([make_add(f"{number}-{at}") for at in range(number + 1)])
        write(log)


@pytest.mark.parametrize("num_manifests", [2, 6])
@pytest.mark.parametrize("adds", [[make_add("new")], []])
def test_old_manifests_are_put_again(log, num_manifests, adds) -> None:
    grown(log, num_manifests)
    before = {name: path.read_bytes() for name, path in manifests_of(log).items()}
    aged(log, 0.6)
    log.add_files(adds)
    write(log)
    assert max(ages_seconds(log)) < 60
    assert {name: manifests_of(log)[name].read_bytes() for name in before} == before


def test_young_manifests_are_left_alone(log) -> None:
    grown(log, 3)
    aged(log, 0.4)
    log.add_files([make_add("new")])
    write(log)
    assert sorted(round(age / HOUR_SECONDS, 1) for age in ages_seconds(log)) == [0.0, 0.4, 0.4, 0.4]


def test_the_age_at_which_they_are_put_again_is_half_that_of_garbage(log) -> None:
    grown(log, 2)
    aged(log, 1.4)
    log.add_files([make_add("new")])
    write(log, options={"state.gc.minManifestAgeHours": 3})
    assert max(ages_seconds(log)) > HOUR_SECONDS


class LateClock:
    """A host whose clock is a day ahead of the store's."""

    def __getattr__(self, name):
        return getattr(SYSTEM_CLOCK, name)

    def now_ms(self) -> int:
        return SYSTEM_CLOCK.now_ms() + 24 * HOUR_SECONDS * 1000


def test_the_clock_of_the_host_says_nothing_of_their_age(log) -> None:
    grown(log, 2)
    aged(log, 0.2)
    late = it.TransactionLog(log.url, options=OPTIONS, clock=LateClock())
    late.add_files([make_add("new")])
    write(late)
    assert max(ages_seconds(log)) > 600


def test_many_manifests_are_looked_at_in_one_call(log) -> None:
    grown(log, 8)
    log.add_files([make_add("new")])
    snapshot = lazy(log)
    metered = MeteredStore(log._store)
    log._store = metered
    write(log, snapshot=snapshot)
    assert metered.calls["list"] == 1
    assert metered.calls["head"] <= 2


def test_a_manifest_that_a_listing_misses_is_asked_for_by_name(log, monkeypatch) -> None:
    grown(log, 6)
    log.add_files([make_add("new")])
    snapshot = lazy(log)
    listed = log._store.list
    monkeypatch.setattr(log._store, "list", lambda *a, **k: (m for m in listed(*a, **k) if "manifest-" not in m.key))
    assert len(write(log, snapshot=snapshot).state.manifests) == 7


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"x"), None])
def test_a_base_whose_manifest_is_lost_or_damaged_is_not_built_on(log, caplog, damage) -> None:
    grown(log, 3)
    log.add_files([make_add("new")])
    whole = log.snapshot()
    aged(log, 0.9)
    for path in manifests_of(log).values() if damage else []:
        age = path.stat().st_mtime
        damage(path)
        if path.exists():
            os.utime(path, (age, age))
    state = write(log, snapshot=whole).state
    assert len(state.manifests) == (1 if damage else 4)
    assert ("not building on the state" in caplog.text) is bool(damage)
    assert len(live_paths(it.TransactionLog(log.url, options=OPTIONS))) == 7


def test_manifests_of_other_writers_outside_of_the_directory_are_not_put_again(log) -> None:
    log.add_files([make_add("a")])
    write(log)
    (name,) = manifests_of(log)
    inside = Path(log._store.location.path) / Path(state_keys(1)[0]).parent / name
    manifests_of(log)[name].rename(inside)
    key = state_keys(1)[0]
    state = decode_state_manifest(log._store.get(key), key)
    moved = (msgspec.structs.replace(state.manifests[0], path=name),)
    log._store.put(key, encode_state_manifest(msgspec.structs.replace(state, manifests=moved), codec="zstd"))
    os.utime(inside, (1, 1))
    log.set_properties({"note": "x"})
    assert write(log).state.manifests[0].path == f"{inside.parent.name}/{name}"
    assert inside.stat().st_mtime == 1


# Errors


def test_a_damaged_state_in_the_place_is_told_apart(log) -> None:
    log.add_files([make_add("a")])
    snapshot = lazy(log)
    log._store.put(state_keys(1)[0], b"damaged")
    with pytest.raises(PlaceTakenError, match="because there is a damaged one"):
        write(log, snapshot=snapshot)
    write_other = dataclasses.replace(snapshot, txn_id="another")
    log._store.delete(state_keys(1)[0])
    write(log, snapshot=snapshot)
    with pytest.raises(CheckpointValidationError, match="two kinds of writers") as mixed:
        write(log, snapshot=write_other)
    assert not isinstance(mixed.value, PlaceTakenError)


@pytest.mark.parametrize("part", ["/manifests/", "/state-v", "_last_checkpoint"])
@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.ANSWER_LOST])
def test_every_refused_write_is_an_error_about_the_state(log, part, fault) -> None:
    log.add_files([make_add("a")])
    snapshot = lazy(log)
    log._store = FaultyStore(
        log._store, lambda call: fault if part in call.key and call.verb.startswith("put") else Fault.NONE
    )
    with pytest.raises(CheckpointWriteError, match="checkpoint of version 1 of") as failed:
        write(log, snapshot=snapshot)
    assert isinstance(failed.value.__cause__, StorageError)


def test_a_put_that_was_retried_is_adopted_and_a_false_conflict_is_no_damage(log) -> None:
    log.add_files([make_add("a")])
    snapshot = lazy(log)
    inner = log._store
    log._store = FaultyStore(inner, _at_the_state(Fault.FALSE_CONFLICT))
    with pytest.raises(CheckpointWriteError, match="but it does not") as refused:
        write(log, snapshot=snapshot)
    assert not isinstance(refused.value, CheckpointValidationError)
    log._store = FaultyStore(inner, _at_the_state(Fault.RETRIED))
    assert not write(log, snapshot=snapshot).is_new


def _at_the_state(fault: Fault):
    return lambda call: fault if call.verb == "put_if_absent" else Fault.NONE


# Doc mappings by other references


def test_references_are_replaced_while_compacting(log) -> None:
    mapping = '[{"name":"a"},{"name":"b"}]'
    canonical = doc_mapping_hash(mapping)
    log.set_properties({"docMappingSchema.old": '[{"name":"b"},{"name":"a"}]'})
    log.add_files([make_add("x", doc_mapping_ref="old"), make_add("y", doc_mapping_json=mapping), make_add("z")])
    write(log, references={"old": canonical}, compact=True)
    snapshot = it.TransactionLog(log.url, options=OPTIONS).snapshot()
    found = dict(zip(snapshot.files["path"].to_pylist(), snapshot.files["doc_mapping_ref"].to_pylist(), strict=True))
    assert found == {"x": canonical, "y": canonical, "z": None}
    assert set(snapshot.doc_mappings) == {"old", canonical}


def test_files_never_refer_to_a_mapping_that_is_not_there(log) -> None:
    log.add_files([make_add("x", doc_mapping_ref="old")])
    with pytest.raises(CheckpointWriteError, match="doc mappings that the table does not have"):
        write(log, references={"old": "new"}, compact=True)
