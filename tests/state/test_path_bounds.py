"""Bounds of paths: what they exclude is not there, and incremental states list what whole states list."""

from __future__ import annotations

import itertools
import re

import hypothesis.strategies as st
import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.conftest import make_add

import indextables as it
from indextables.clock import SYSTEM_CLOCK, timed_uuid
from indextables.config import Config
from indextables.protocol.avro.state_manifest import ManifestInfo
from indextables.protocol.paths import split_path
from indextables.state.changes import NO_CHANGES
from indextables.state.manifests import ManifestReader
from indextables.state.path_bounds import SoughtPaths, path_bounds
from indextables.store import open_store

_tables = itertools.count()
_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

# Few names of every kind, so that the same one is drawn again: timed, of other UUIDs, and of users.
names = st.one_of(
    st.integers(0, 40).map(lambda at: f"split-{at:08x}-0000-7000-8000-000000000000.split"),
    st.integers(0, 40).map(lambda at: f"split-{at:08x}-0000-4000-8000-000000000000.split"),
    st.sampled_from(["part-1", "part-10.split", "a", "ü.split", "\U0001f600", "split-.split", "SPLIT-1"]),
)
folders = st.sampled_from(["", "splits/", "day=1/splits/", "day=10/splits/", "day=2/", "day=ü/"])
paths = st.builds(lambda folder, name: folder + name, folders, names)


def info_of(files: list[str]) -> ManifestInfo:
    bounds = path_bounds(pa.chunked_array([pa.array(files, pa.string())]))
    return ManifestInfo(
        path="manifests/m", num_entries=len(files), min_added_at_version=1, max_added_at_version=1, path_bounds=bounds
    )


@given(st.lists(paths, max_size=8), st.lists(paths, max_size=8))
def test_what_is_excluded_is_not_there(files, sought) -> None:
    if not SoughtPaths(sought).may_be_in(info_of(files)):
        assert set(files).isdisjoint(sought)


def test_later_files_are_excluded_and_earlier_ones_by_partition() -> None:
    def timed(day: int, at: int) -> str:
        return f"day={day}/splits/split-{at:08x}-0000-7000-8000-000000000000.split"

    first, second = (info_of([timed(day, at) for day in days for at in range(5)]) for days in ((10, 11), (12, 13)))
    assert not SoughtPaths([timed(10, 9), timed(12, 7)]).may_be_in(first)
    assert not SoughtPaths([timed(12, 3), timed(14, 3)]).may_be_in(first)
    assert SoughtPaths([timed(12, 3)]).may_be_in(second)
    assert not SoughtPaths([]).may_be_in(msgspec.structs.replace(first, path_bounds=None))
    assert SoughtPaths(["x"]).may_be_in(msgspec.structs.replace(first, path_bounds=None))
    # A name of another kind widens the bounds of its own kind alone.
    mixed = info_of([timed(10, 1), "zzz", "day=10/splits/split-ffffffff-0000-4000-8000-000000000000.split"])
    assert not SoughtPaths([timed(10, 9)]).may_be_in(mixed)
    assert SoughtPaths(["zz"]).may_be_in(mixed)


def test_long_paths_have_no_bounds() -> None:
    info = info_of(["x" * 2000])
    assert info.path_bounds is None
    assert SoughtPaths(["y"]).may_be_in(info)


def test_new_splits_are_named_by_the_time() -> None:
    class Later:
        def now_ms(self) -> int:
            return SYSTEM_CLOCK.now_ms() + 5

        def uuid(self) -> str:
            return SYSTEM_CLOCK.uuid()

    first, second = timed_uuid(SYSTEM_CLOCK), timed_uuid(Later())
    assert _UUID7.fullmatch(first)
    assert first < second
    assert set(path_bounds(pa.chunked_array([[split_path((), {}, first)]]))) == {"path", "timed"}


def test_an_append_reads_no_manifest(tmp_path, monkeypatch) -> None:
    """The state after it knows from the bounds of the others that its splits are new."""
    rows = pa.table({"id": [1, 2], "day": [1, 2]})
    options = {"checkpoint.enabled": "false", "cache.disk.enabled": "false", "cleanup.enabled": "false"}
    table = it.write(tmp_path / "t", rows, partition_by=["day"], options=options)
    table.compact()
    table.append(rows)
    read: list[str] = []
    whole = ManifestReader.tables

    def counted(self, infos, *rest):
        read.extend(info.path for info in infos)
        return whole(self, infos, *rest)

    monkeypatch.setattr(ManifestReader, "tables", counted)
    log = it.TransactionLog(tmp_path / "t", options=options)
    written = log._checkpointer.write(table.version, log.config)
    assert written.state.num_files == 4
    assert len(written.state.manifests) == 2
    assert read == []


class _Log:
    """A table whose states are written incrementally where possible, beside its plain set of live paths."""

    def __init__(self, *, partitioned: bool, old: bool) -> None:
        store = open_store(f"memory://bounds-{next(_tables)}/t", Config.resolve())
        options = {
            "checkpoint.enabled": "false",
            "cache.disk.enabled": "false",
            "cleanup.enabled": "false",
            "state.entriesPerManifest": 3,
            "state.compaction.afterMerge": "false",
            "state.compaction.tombstoneThreshold": "0.9",
        }
        self.log = it.TransactionLog("memory://unused", options=options, store=store)
        self.log.initialize(
            pa.schema([("id", pa.int64()), ("day", pa.string())]), partition_columns=("day",) if partitioned else ()
        )
        self.live: set[str] = set()
        self.old = old

    def commit(self, removed: list[str], added: list[str]) -> None:
        gone = [path for path in dict.fromkeys(removed) if path in self.live and path not in added]
        adds = [make_add(path, partition_values={}, size=len(path)) for path in dict.fromkeys(added)]
        if gone:
            self.log.replace_files(gone, adds)
        else:
            self.log.add_files(adds)
        self.live = (self.live - set(gone)) | set(added)

    def checkpoint(self) -> None:
        log = it.TransactionLog("memory://unused", options=self.log.options, store=self.log.reader.store)
        states = log._checkpointer._states
        if self.old:  # as of a release that knew no bounds
            find = states.find_state

            def without(version: int, key: str):
                state = find(version, key)
                infos = (
                    ()
                    if state is None
                    else tuple(
                        msgspec.structs.replace(info, path_bounds=None, doc_mapping_refs=None, run=None)
                        for info in state.manifests
                    )
                )
                return state and msgspec.structs.replace(state, manifests=infos)

            states.find_state = without
        state = log._checkpointer.write(log.reader.segment().newest, log.config).state
        fresh = it.TransactionLog("memory://unused", options=self.log.options, store=self.log.reader.store)
        listed = fresh.list_files().to_pylist()
        assert sorted(file["path"] for file in listed) == sorted(self.live)
        assert state.num_files == len(self.live)
        assert state.total_bytes == sum(file["size"] for file in listed)
        for info in state.manifests:
            assert info.live_entry_count + info.tombstone_count == info.num_entries
            assert self.old or info.path_bounds is not None


steps = st.lists(
    st.tuples(st.lists(paths, max_size=4), st.lists(paths, max_size=4), st.booleans()), min_size=1, max_size=6
)


@pytest.mark.parametrize("old", [False, True])
@given(steps=steps, partitioned=st.booleans())
@settings(max_examples=25, deadline=None)
def test_incremental_states_list_what_whole_states_list(steps, partitioned, old) -> None:
    table = _Log(partitioned=partitioned, old=old)
    for removed, added, is_checkpoint in steps:
        table.commit(removed, added)
        if is_checkpoint:
            table.checkpoint()
    table.checkpoint()


def test_nothing_has_changed() -> None:
    assert not SoughtPaths((*NO_CHANGES.added, *NO_CHANGES.removed))
