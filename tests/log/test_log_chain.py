"""Version files that were copied over others: every version stands on the one before it, or is not read."""

from __future__ import annotations

import msgspec
import pytest
from tests.conftest import SCHEMA, make_add
from tests.simulator.memory import DictStore

import indextables as it
from indextables.errors import CorruptLogError, IndexTablesError
from indextables.maintain.fsck.fsck import fsck
from indextables.maintain.fsck.last_readable import last_readable
from indextables.protocol.actions import CommitInfo, Metadata, Protocol
from indextables.protocol.avro.state_manifest import decode_state_manifest, encode_state_manifest
from indextables.protocol.features import PARQUET_SPLITS
from indextables.protocol.names import state_keys, version_key
from indextables.protocol.version_file import decode_version, encode_version
from indextables.runtime.pools import InlinePools
from indextables.scan.added_rows import AddedRows, Limit, Position

URL = "memory://chain/table"
NUM_VERSIONS = 6


def open_log(store, **options) -> it.TransactionLog:
    return it.TransactionLog(URL, store=store, pools=InlinePools(), options={"checkpoint.enabled": "false", **options})


@pytest.fixture
def store() -> DictStore:
    store = DictStore(URL)
    log = open_log(store)
    log.initialize(SCHEMA)
    for version in range(1, NUM_VERSIONS):
        log.add_files([make_add(f"{version}.split")])
    return store


def copy_over(store, source: int, target: int) -> None:
    store.objects.pop(version_key(target))
    store.put_if_absent(version_key(target), store.get(version_key(source)))


def actions_at(store, version: int) -> tuple:
    return decode_version(store.get(version_key(version)), version, store.location)


def put(store, version: int, actions) -> None:
    store.objects.pop(version_key(version), None)
    store.put_if_absent(version_key(version), encode_version(actions, compress=False))


def nameless(store, version: int) -> tuple:
    """A version as writers leave it that have no commit line."""
    return tuple(action for action in actions_at(store, version) if not isinstance(action, CommitInfo))


def paths(log) -> list[str]:
    return sorted(log.snapshot().files["path"].to_pylist())


@pytest.mark.parametrize("target", range(1, NUM_VERSIONS))
@pytest.mark.parametrize("source", range(NUM_VERSIONS))
@pytest.mark.parametrize("options", [{}, {"transaction.useOptimized": "false"}])
def test_a_version_copied_over_another_is_no_part_of_the_table(store, source, target, options) -> None:
    if source == target:
        return
    copy_over(store, source, target)
    for read in (
        lambda log: log.snapshot(),
        lambda log: log.list_files(),
        lambda log: log.snapshot(version=NUM_VERSIONS - 1),
    ):
        with pytest.raises(CorruptLogError, match="another file has taken its place"):
            read(open_log(store, **options))


def test_version_0_over_the_newest_is_not_built_on(store) -> None:
    copy_over(store, 0, NUM_VERSIONS - 1)
    for change in (
        lambda log: log.add_files([make_add("new.split")]),
        lambda log: log.set_properties({"a": "b"}),
        lambda log: log.metadata(),
        lambda log: log.overwrite_files([make_add("new.split")]),
    ):
        with pytest.raises(CorruptLogError, match=f"version {NUM_VERSIONS - 1} because it begins a table"):
            change(open_log(store))
    assert version_key(NUM_VERSIONS) not in store.objects


def test_a_handle_that_was_open_notices_the_copy(store) -> None:
    log = open_log(store)
    log.snapshot()
    copy_over(store, 0, NUM_VERSIONS - 1)
    with pytest.raises(CorruptLogError, match="begins a table"):
        log.snapshot()


def test_a_copy_is_found_by_fsck_and_passed_by_repair(store) -> None:
    copy_over(store, 0, 4)
    log = open_log(store)
    problems = [row for row in fsck(log).to_pylist() if row["severity"] == "error" and row["check"] == "version"]
    assert [row["version"] for row in problems] == [4]
    assert last_readable(open_log(store)).snapshot.version == 3


def test_a_state_above_a_copy_still_answers(store) -> None:
    log = open_log(store)
    log.checkpoint()
    log.add_files([make_add("last.split")])
    expected = paths(open_log(store, **{"checkpoint.enabled": "true"}))
    copy_over(store, 0, 3)
    assert paths(open_log(store, **{"checkpoint.enabled": "true"})) == expected
    for version in (3, 4):
        with pytest.raises(IndexTablesError):
            open_log(store).snapshot(version=version)


def test_a_copy_over_the_version_of_a_state_does_not_hide_it(store) -> None:
    log = open_log(store, **{"checkpoint.enabled": "true"})
    version = log.checkpoint().version
    expected = paths(log)
    copy_over(store, 0, version)
    assert paths(open_log(store, **{"checkpoint.enabled": "true"})) == expected


def test_a_stream_does_not_pass_over_a_copy(store) -> None:
    copy_over(store, 0, NUM_VERSIONS - 1)
    log = open_log(store)
    with pytest.raises(CorruptLogError, match="begins a table"):
        AddedRows(log).advance(Position(1), NUM_VERSIONS - 1, Limit())


def test_versions_of_other_writers_are_taken_as_they_come(store) -> None:
    """They leave no commit line: alone, below ours and on top of ours."""
    put(store, NUM_VERSIONS, [make_add("theirs.split")])
    log = open_log(store)
    log.add_files([make_add("ours.split")])
    put(store, NUM_VERSIONS + 2, [*nameless(store, 0)[1:], make_add("also-theirs.split")])
    expected = [f"{version}.split" for version in range(1, NUM_VERSIONS)]
    assert paths(open_log(store)) == sorted([*expected, "theirs.split", "ours.split", "also-theirs.split"])
    assert open_log(store).add_files([make_add("last.split")]) == NUM_VERSIONS + 3
    assert not [row for row in fsck(open_log(store)).to_pylist() if row["check"] == "version"]


def test_an_upgrade_by_another_writer_is_no_copy() -> None:
    store = DictStore(URL)
    log = open_log(store)
    log.initialize(SCHEMA)
    first = actions_at(store, 0)
    metadata = next(action for action in first if isinstance(action, Metadata))
    put(store, 0, [Protocol(min_reader_version=2, min_writer_version=2), metadata])
    put(store, 1, [make_add("a.split")])
    changed = msgspec.structs.replace(metadata, configuration={"note": "x"})
    put(store, 2, [Protocol(min_reader_version=3, min_writer_version=3), changed])
    log = open_log(store)
    assert log.metadata().configuration == {"note": "x"}
    assert log.snapshot().protocol.min_reader_version == 3
    put(store, 3, actions_at(store, 0))
    with pytest.raises(CorruptLogError, match="begins a table"):
        open_log(store).snapshot()
    with pytest.raises(CorruptLogError, match="begins a table"):
        open_log(store).metadata()


@pytest.mark.parametrize("read", [lambda log: log.snapshot(), lambda log: log.metadata()])
def test_where_only_this_library_may_write_every_version_has_a_name(read) -> None:
    """Tables with our splits declare a feature that keeps other writers out."""
    store = DictStore(URL)
    open_log(store).initialize(SCHEMA)
    protocol, metadata = actions_at(store, 0)
    put(
        store,
        0,
        [msgspec.structs.replace(protocol, reader_features=(*protocol.reader_features, PARQUET_SPLITS)), metadata],
    )
    log = open_log(store)
    for version in range(1, 4):
        log.add_files([make_add(f"{version}.split")])
    read(open_log(store))
    put(store, 3, [protocol, metadata, make_add("theirs.split")])
    with pytest.raises(CorruptLogError, match="version 3 because it has no commit line"):
        read(open_log(store))


@pytest.mark.parametrize("target", range(1, NUM_VERSIONS - 1))
def test_a_version_without_a_name_below_one_that_names_it(store, target) -> None:
    put(store, target, nameless(store, target))
    with pytest.raises(CorruptLogError, match=f"cannot read version {target + 1}"):
        open_log(store).snapshot()


def test_a_version_that_must_name_its_parent_and_does_not(store) -> None:
    info, *actions = actions_at(store, NUM_VERSIONS - 1)
    put(store, NUM_VERSIONS - 1, [msgspec.structs.replace(info, parent_txn_id=None), *actions])
    with pytest.raises(CorruptLogError, match=f"cannot read version {NUM_VERSIONS - 1}"):
        open_log(store).snapshot()


def test_a_commit_on_the_state_of_another_writer_names_the_version_file(store) -> None:
    """Such a state does not say which transaction it stands for; the version file beside it does."""
    log = open_log(store, **{"checkpoint.enabled": "true"})
    version = log.checkpoint().version
    key = state_keys(version)[0]
    state = decode_state_manifest(store.get(key), key)
    theirs = msgspec.structs.replace(state, version_txn_id=None, version_timestamp=None)
    store.put(key, encode_state_manifest(theirs, codec="zstd"))
    later = open_log(store, **{"checkpoint.enabled": "true"})
    committed = later.add_files([make_add("later.split")])
    infos = [actions_at(store, at)[0] for at in (version, committed)]
    assert infos[1].parent_txn_id == infos[0].txn_id
    assert "later.split" in paths(open_log(store))
