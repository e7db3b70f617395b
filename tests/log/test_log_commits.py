"""What each operation commits, and how it stands beside what others committed meanwhile."""

from __future__ import annotations

import errno
import json
import os

import pyarrow as pa
import pytest
from tests.conftest import SCHEMA, live_paths, make_add
from tests.doubles.faulty_store import Call, Fault, FaultyStore, SharedFate

import indextables as it
from indextables.config import Config
from indextables.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    ConfigError,
    ProtocolError,
    SchemaError,
    StorageRefusedError,
)
from indextables.protocol.actions import Add, CommitInfo, Metadata, Remove
from indextables.protocol.doc_mapping import doc_mapping_hash
from indextables.protocol.names import version_key
from indextables.store import open_store, parse_location
from indextables.store.local.disk import Disk
from indextables.store.local.store import LocalStore

UNCLEAR = [Fault.ANSWER_LOST, Fault.RETRIED, Fault.DELAYED, Fault.FALSE_CONFLICT, Fault.DROPPED, Fault.UNAVAILABLE]


def other(log: it.TransactionLog) -> it.TransactionLog:
    return it.TransactionLog(log.url)


def test_every_version_starts_with_one_commit_line(log) -> None:
    log.add_files([make_add("a.split", num_records=7)])
    info, add = log.read_version(1)
    assert isinstance(info, CommitInfo)
    assert isinstance(add, Add)
    assert (info.operation, info.read_version, info.num_actions) == ("WRITE", 0, 1)
    assert info.engine.startswith("indextables/")
    assert info.metrics == {"filesAdded": 1, "recordsAdded": 7, "bytesAdded": 100}
    assert len(info.txn_id) == 36


def test_times_of_versions_never_go_back(log) -> None:
    class Backwards:
        def __init__(self) -> None:
            self.now = 10**13

        def __getattr__(self, name):
            from indextables.clock import SYSTEM_CLOCK

            return getattr(SYSTEM_CLOCK, name)

        def now_ms(self) -> int:
            self.now -= 10**9
            return self.now

    for _ in range(3):
        it.TransactionLog(log.url, clock=Backwards()).add_files([])
        log.add_files([])
    times = [log.read_version(version)[0].timestamp for version in range(1, 7)]
    assert times == sorted(times)


def test_removes_come_before_adds_in_an_overwrite(log) -> None:
    log.add_files([make_add("a.split"), make_add("b.split")])
    log.overwrite_files([make_add("a.split", size=5)])
    kinds = [type(action) for action in log.read_version(2)]
    assert kinds == [CommitInfo, Remove, Remove, Add]
    assert live_paths(log) == ["a.split"]
    assert log.list_files()["size"].to_pylist() == [5]


def test_a_replace_changes_no_data(log) -> None:
    log.add_files([make_add("a.split"), make_add("b.split", partition_values={})])
    log.replace_files(["a.split", "b.split"], [make_add("ab.split")])
    actions = log.read_version(2)
    assert [action.data_change for action in actions[1:]] == [False, False, False]
    assert live_paths(log) == ["ab.split"]


def test_a_group_that_lost_a_source_is_dropped_and_the_others_commit(log) -> None:
    log.add_files([make_add(f"{name}.split") for name in "abcd"])
    other(log).replace_files(["a.split"], [make_add("a2.split")])
    result = log.replace_groups(
        [(["a.split", "b.split"], [make_add("ab.split")]), (["c.split", "d.split"], [make_add("cd.split")])]
    )
    assert result.dropped_groups == (0,)
    assert live_paths(log) == ["a2.split", "b.split", "cd.split"]


def test_an_overwrite_replaces_what_was_committed_before_it(log) -> None:
    log.add_files([make_add("a.split")])
    log.list_files()
    other(log).add_files([make_add("b.split")])
    log.overwrite_files([make_add("c.split")])
    assert live_paths(log) == ["c.split"]


def test_an_append_needs_no_list_of_files(log) -> None:
    """A version with a file list that cannot be read does not stop an append of a handle that knows the head."""
    log.add_files([make_add("a.split")])
    counted = _Counting(open_store(log.url, Config.resolve()))
    handle = it.TransactionLog(log.url, store=counted)
    handle.add_files([make_add("b.split")])
    read = [key for verb, key in counted.calls if verb == "get"]
    assert version_key(1) in read
    counted.calls.clear()
    handle.add_files([make_add("c.split")])
    assert [verb for verb, _ in counted.calls] == ["put_if_absent", "list"]


class _Counting:
    def __init__(self, inner) -> None:
        self._inner = inner
        self.calls: list[tuple[str, str]] = []

    def __getattr__(self, name):
        attribute = getattr(self._inner, name)
        if not callable(attribute):
            return attribute

        def call(key="", *args, **kwargs):
            self.calls.append((name, key))
            return attribute(key, *args, **kwargs)

        return call


def test_a_refresh_with_nothing_new_is_one_list_call(log) -> None:
    for number in range(5):
        log.add_files([make_add(f"{number}.split")])
    counted = _Counting(open_store(log.url, Config.resolve()))
    handle = it.TransactionLog(log.url, store=counted)
    handle.snapshot()
    counted.calls.clear()
    handle.snapshot()
    assert [verb for verb, _ in counted.calls] == ["list"]
    counted.calls.clear()
    handle.list_files(max_staleness_seconds=60)
    assert counted.calls == []


def _change_metadata_by_hand(log, **fields) -> None:
    """Another writer changes what this library has no verb for."""
    metadata = json.loads(_encode(log.metadata())) | fields
    version = log.versions()[-1] + 1
    (_path(log, version)).write_bytes(json.dumps({"metaData": metadata}).encode())


def _encode(metadata: Metadata) -> bytes:
    import msgspec

    return msgspec.json.encode(metadata)


def _path(log, version: int):
    from pathlib import Path

    return Path(log.url) / version_key(version)


def test_an_append_fails_where_the_schema_moved(log) -> None:
    log.add_files([make_add("a.split")])
    schema = {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]}
    _change_metadata_by_hand(log, schemaString=json.dumps(schema))
    with pytest.raises(CommitConflictError, match="schema"):
        log.add_files([make_add("b.split")])
    assert log.schema() == pa.schema([("x", pa.int64())])
    assert log.add_files([make_add("b.split")]) == 3


def test_an_append_fails_where_the_partitioning_moved(log) -> None:
    log.add_files([make_add("a.split")])
    _change_metadata_by_hand(log, partitionColumns=["day"])
    with pytest.raises(CommitConflictError, match="partitioning"):
        log.add_files([make_add("b.split")])


def test_a_handle_that_stayed_behind_sets_properties(log) -> None:
    log.metadata()
    for key, value in [("a", "1"), ("b", "1"), ("a", "2")]:
        other(log).set_properties({key: value})
    log.set_properties({"b": "2"})
    assert log.metadata().configuration == {"a": "2", "b": "2"}
    other(log).set_properties({"a": "3"})
    log.set_properties({"a": None})
    assert log.metadata().configuration == {"b": "2"}


def _set_while_another_sets(log, theirs: dict, ours: dict) -> dict:
    """Set properties while another writer commits first, and the properties that the table has then."""
    waiting = [theirs]

    def script(call: Call) -> Fault:
        if call.verb == "put_if_absent" and waiting:
            other(log).set_properties(waiting.pop())
        return Fault.NONE

    it.TransactionLog(log.url, store=FaultyStore(log.reader.store, script)).set_properties(ours)
    return other(log).metadata().configuration


def test_concurrent_changes_of_other_properties_are_merged(log) -> None:
    log.set_properties({"a": "1", "gone": "1"})
    assert _set_while_another_sets(log, {"b": "2", "gone": None}, {"a": "3"}) == {"a": "3", "b": "2"}
    assert _set_while_another_sets(log, {"a": "4"}, {"a": "4", "c": "5"}) == {"a": "4", "b": "2", "c": "5"}
    assert _set_while_another_sets(log, {"a": None}, {"a": None}) == {"b": "2", "c": "5"}


@pytest.mark.parametrize(("theirs", "ours"), [("2", "3"), ("2", None), (None, "3")])
def test_concurrent_changes_of_one_property_conflict(log, theirs, ours) -> None:
    log.set_properties({"a": "1"})
    with pytest.raises(CommitConflictError, match="another writer has changed the property `a` concurrently"):
        _set_while_another_sets(log, {"a": theirs}, {"a": ours, "b": "x"})
    assert other(log).metadata().configuration == ({} if theirs is None else {"a": theirs})


MAPPING = '[{"name":"id","type":"i64"},{"name":"message","type":"text"}]'
OTHER_MAPPING = '[{"name":"id","type":"u64"}]'


def test_doc_mappings_stand_once_in_the_metadata(log) -> None:
    log.add_files([make_add("a.split", doc_mapping_json=MAPPING), make_add("b.split", doc_mapping_json=MAPPING)])
    log.add_files(
        [make_add("c.split", doc_mapping_json='[{"type":"text","name":"message"},{"type":"i64","name":"id"}]')]
    )
    reference = doc_mapping_hash(MAPPING)
    assert log.snapshot().doc_mappings == {reference: MAPPING}
    assert set(log.list_files()["doc_mapping_ref"].to_pylist()) == {reference}
    assert set(log.snapshot().files["doc_mapping_json"].to_pylist()) == {None}
    assert set(log.list_files()["doc_mapping_json"].to_pylist()) == {MAPPING}
    assert [type(action) for action in log.read_version(2)] == [CommitInfo, Add]


def test_new_doc_mappings_are_united_and_never_a_conflict(log) -> None:
    log.metadata()
    other(log).add_files([make_add("a.split", doc_mapping_json=MAPPING)])
    log.add_files([make_add("b.split", doc_mapping_json=OTHER_MAPPING)])
    assert set(log.snapshot().doc_mappings.values()) == {MAPPING, OTHER_MAPPING}
    stale = other(log)
    stale.metadata()
    log.add_files([make_add("c.split", doc_mapping_json='[{"name":"third"}]')])
    stale.set_properties({"note": "x"})
    assert len(log.snapshot().doc_mappings) == 3
    assert log.metadata().configuration["note"] == "x"


def test_the_protocol_is_raised_and_never_lowered(log) -> None:
    assert log.upgrade_protocol(min_reader=2, min_writer=2) == log.protocol()
    assert log.protocol().min_reader_version == 4
    assert log.versions() == [0]
    with pytest.raises(ProtocolError, match="99"):
        log.upgrade_protocol(min_reader=99, min_writer=4)


def test_two_upgrades_give_the_higher_of_both(tmp_path) -> None:
    from tests.log.test_log_hostile import protocol_line

    log = it.TransactionLog(tmp_path / "t")
    log.initialize(SCHEMA)
    _path(log, 1).write_bytes(protocol_line(1, 1))
    low = other(log)
    low.protocol()
    other(log).upgrade_protocol(min_reader=4, min_writer=2)
    low.upgrade_protocol(min_reader=2, min_writer=3)
    now = log.protocol()
    assert (now.min_reader_version, now.min_writer_version) == (4, 3)


def test_a_streaming_batch_is_committed_once(log) -> None:
    first = log.add_files([make_add("a.split")], application_id="app", batch_id=0)
    again = other(log).add_files([make_add("a2.split")], application_id="app", batch_id=0)
    assert first == again == 1
    assert log.add_files([make_add("b.split")], application_id="app", batch_id=1) == 2
    assert log.add_files([make_add("c.split")], application_id="another", batch_id=0) == 3
    assert log.overwrite_files([make_add("d.split")], application_id="app", batch_id=1) == 2
    assert live_paths(log) == ["a.split", "b.split", "c.split"]
    assert log.snapshot().transactions == {"app": (1, 2), "another": (0, 3)}
    with pytest.raises(ConfigError, match="batch_id"):
        log.add_files([], application_id="app")


@pytest.mark.parametrize("fault", UNCLEAR)
def test_a_lost_answer_is_settled_by_transaction_id(log, fault) -> None:
    faults, fate = iter([fault, fault]), SharedFate()
    store = FaultyStore(
        open_store(log.url, Config.resolve()),
        lambda call: next(faults, Fault.NONE) if call.verb == "put_if_absent" else Fault.NONE,
        fate,
    )
    handle = it.TransactionLog(log.url, store=store, options={"transaction.retry.baseDelayMs": 0})
    assert handle.add_files([make_add("a.split")]) == 1
    while fate.pending:
        fate.deliver()
    assert log.versions() == [0, 1]
    assert live_paths(log) == ["a.split"]


def test_what_cannot_be_settled_says_so_and_deletes_nothing(log) -> None:
    def script(call):
        if call.verb == "put_if_absent":
            return Fault.ANSWER_LOST
        return Fault.UNAVAILABLE if call.key == version_key(1) else Fault.NONE

    options = {"transaction.retry.baseDelayMs": 0, "transaction.retry.maxAttempts": 3}
    handle = it.TransactionLog(
        log.url, store=FaultyStore(open_store(log.url, Config.resolve()), script), options=options
    )
    with pytest.raises(CommitStateUnknownError, match="version 1") as caught:
        handle.add_files([make_add("a.split")])
    assert "transaction `" in str(caught.value)
    assert live_paths(log) == ["a.split"]


def test_giving_up_after_the_set_number_of_attempts(log) -> None:
    inner = open_store(log.url, Config.resolve())
    rival = it.TransactionLog(log.url)
    count = 0

    def script(call):
        nonlocal count
        if call.verb == "put_if_absent":
            count += 1
            rival.add_files([make_add(f"rival-{count}.split")])
        return Fault.NONE

    options = {"transaction.retry.baseDelayMs": 0, "transaction.retry.maxAttempts": 4}
    with pytest.raises(CommitConflictError, match="all 4 attempts"):
        it.TransactionLog(log.url, store=FaultyStore(inner, script), options=options).add_files([make_add("a.split")])
    assert count == 4
    assert len(live_paths(log)) == 4


@pytest.mark.parametrize(
    ("adds", "error", "what"),
    [
        ([make_add("../x.split")], ConfigError, "leaves the table"),
        ([make_add("/etc/x.split")], ConfigError, "outside the table"),
        ([make_add("a.split"), make_add("a.split")], ConfigError, "twice"),
        ([make_add("a.split", partition_values={"day": "1"})], SchemaError, "partition column"),
        ([make_add("a.split", size=-1)], ConfigError, r"add\.size"),
        ([make_add("a.split", num_records="many")], ConfigError, r"add\.numRecords"),
        ([{"path": "a.split"}], ConfigError, "expected `actions.Add`"),
        ([make_add("")], ConfigError, "expected text"),
    ],
)
def test_bad_adds_are_refused_and_nothing_is_written(log, adds, error, what) -> None:
    for write in (log.add_files, log.overwrite_files):
        with pytest.raises(error, match=what):
            write(adds)
    assert log.versions() == [0]


def test_an_absolute_path_inside_is_written_relative(log) -> None:
    log.add_files([make_add(f"{log.url}/day=1/a.split")])
    assert live_paths(log) == ["day=1/a.split"]
    log.replace_files([f"file://{log.url}/day=1/a.split"], [make_add("b.split")])
    assert live_paths(log) == ["b.split"]


def test_nothing_to_replace_is_an_error(log) -> None:
    with pytest.raises(ConfigError, match="no file to replace is given"):
        log.replace_files([], [make_add("a.split")])


class _FullDisk(Disk):
    def write_new(self, path, chunks) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class _DiskThatCannotSync(Disk):
    """Names are given, and then the directory cannot be synced, the first times that it is tried."""

    def __init__(self, num_failures: int) -> None:
        self.remaining = num_failures

    def sync_directory(self, path: str) -> None:
        if path.endswith("_transaction_log") and self.remaining > 0:
            self.remaining -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync_directory(path)


def test_a_full_disk_is_said_at_once(log) -> None:
    handle = it.TransactionLog(log.url, store=LocalStore(parse_location(log.url), disk=_FullDisk()))
    with pytest.raises(StorageRefusedError, match="No space left"):
        handle.add_files([make_add("a.split")])
    assert log.versions() == [0]


def test_a_commit_counts_only_once_it_is_synced(log) -> None:
    options = {"transaction.retry.baseDelayMs": 0, "transaction.retry.maxAttempts": 3}

    def handle(num_failures: int) -> it.TransactionLog:
        disk = _DiskThatCannotSync(num_failures)
        return it.TransactionLog(log.url, store=LocalStore(parse_location(log.url), disk=disk), options=options)

    assert handle(2).add_files([make_add("a.split")]) == 1
    with pytest.raises(CommitStateUnknownError, match="version 2"):
        handle(100).add_files([make_add("b.split")])
