"""Errors as programs read them: fields instead of messages, also after pickling; and what the log says of skips."""

from __future__ import annotations

import inspect
import logging
import pickle
import threading

import pytest
from tests.conftest import SCHEMA, make_add
from tests.doubles.faulty_store import Call, Fault, FaultyStore

import indextables as it
from indextables import errors
from indextables.errors import (
    CheckpointCorruptionError,
    CheckpointError,
    CommitConflictError,
    CommitStateUnknownError,
    CorruptLogError,
    IndexTablesError,
    ObjectNotFoundError,
    RetentionError,
    StorageError,
    TableNotFoundError,
)
from indextables.protocol.names import state_keys, version_key

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.IndexTablesError)]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_keeps_its_fields_when_it_is_pickled(kind) -> None:
    try:
        raise kind("cannot do it", hint="do this", version=0, path="a/b") from CorruptLogError("below", version=7)
    except kind as error:
        found = pickle.loads(pickle.dumps(error))
    assert type(found) is kind
    assert (found.message, found.hint, found.version, found.path) == ("cannot do it", "do this", 0, "a/b")
    assert str(found) == "cannot do it\nhint: do this"
    assert (type(found.cause), found.cause.version) == (CorruptLogError, 7)


def test_fields_are_none_where_nothing_is_known() -> None:
    error = pickle.loads(pickle.dumps(IndexTablesError("cannot do it")))
    assert (error.version, error.path, error.cause, error.hint) == (None, None, None, None)


class _HoldingError(Exception):
    """An error that cannot be pickled, as those of clients that hold a connection."""

    def __init__(self) -> None:
        super().__init__("token=secret")
        self.lock = threading.Lock()


@pytest.mark.parametrize("cause", [OSError(28, "No space left on device"), _HoldingError()])
def test_a_cause_of_another_library_does_not_stop_an_error_from_travelling(cause) -> None:
    error = StorageError("cannot write")
    error.__cause__ = cause
    found = pickle.loads(pickle.dumps(error))
    assert found.message == "cannot write"
    if isinstance(cause, OSError):
        assert (type(found.cause), found.cause.errno) == (OSError, 28)
    else:
        assert found.cause.message == "an error of class `_HoldingError`"


def _log(log, script=None, **options) -> it.TransactionLog:
    store = log.reader.store if script is None else FaultyStore(log.reader.store, script)
    return it.TransactionLog(log.url, store=store, options={"transaction.retry.baseDelayMs": 1, **options})


def test_a_lost_race_names_its_version(log) -> None:
    def script(call: Call) -> Fault:
        if call.verb == "put_if_absent":
            _log(log).add_files([make_add("other.split")])
        return Fault.NONE

    racer = _log(log, script, **{"transaction.retry.maxAttempts": 3})
    with pytest.raises(CommitConflictError, match="in all 3 attempts, last at version 3") as raised:
        racer.add_files([make_add("a.split")])
    assert (raised.value.version, raised.value.path) == (3, log.url)


def test_a_conflict_names_the_version_that_was_to_be_written(log) -> None:
    log.add_files([make_add("a.split")])
    with pytest.raises(CommitConflictError, match="cannot commit version 2") as raised:
        log.replace_files(["gone.split"], [make_add("b.split")])
    assert (raised.value.version, raised.value.path) == (2, log.url)


def test_a_commit_that_cannot_be_settled_names_its_version(log) -> None:
    def script(call: Call) -> Fault:
        return Fault.UNAVAILABLE if call.key == version_key(1) else Fault.NONE

    with pytest.raises(CommitStateUnknownError) as raised:
        _log(log, script, **{"transaction.retry.maxAttempts": 2}).add_files([make_add("a.split")])
    assert (raised.value.version, raised.value.path) == (1, version_key(1))
    assert isinstance(raised.value.cause, IndexTablesError)


def test_damage_and_absence_name_what_they_are_about(tmp_path) -> None:
    log = it.TransactionLog(tmp_path)
    with pytest.raises(TableNotFoundError) as nothing:
        log.snapshot()
    log.initialize(SCHEMA)
    log.add_files([make_add("a.split")])
    with pytest.raises(RetentionError) as too_new:
        log.snapshot(version=9)
    with pytest.raises(ObjectNotFoundError) as absent:
        log.reader.store.get("nothing/there")
    (tmp_path / version_key(1)).write_bytes(b"{")
    with pytest.raises(CorruptLogError) as damaged:
        it.TransactionLog(tmp_path).snapshot()
    assert nothing.value.path == log.url
    assert (too_new.value.version, too_new.value.path) == (9, log.url)
    assert absent.value.path == "nothing/there"
    assert isinstance(absent.value.cause, FileNotFoundError)
    assert (damaged.value.version, damaged.value.path) == (1, version_key(1))


def test_a_damaged_state_names_its_file(log) -> None:
    version = log.checkpoint().version
    store, key = log.reader.store, state_keys(version)[0]
    store.put(key, store.get(key)[:-1] + b"x")
    from indextables.protocol.avro.state_manifest import verify_state_manifest

    with pytest.raises(CheckpointCorruptionError) as raised:
        verify_state_manifest(store.get(key), key)
    assert raised.value.path == key
    assert isinstance(raised.value, CheckpointError)


def test_skips_are_told_when_they_are_recorded_and_when_they_count(log, caplog) -> None:
    log.add_files([make_add("good.split"), make_add("bad.split")])
    with caplog.at_level(logging.DEBUG, logger="indextables"):
        log.record_skipped_file("bad.split", reason="damaged", operation="merge")
        version = log.record_skipped_file("bad.split", reason="damaged", operation="merge")
        assert log.filter_files_in_cooldown(["good.split", "bad.split"]) == ["good.split"]
        assert log.filter_files_in_cooldown(["good.split"]) == ["good.split"]
    said = [
        (record.levelname, record.message)
        for record in caplog.records
        if "split" in record.message or "cooldown" in record.message
    ]
    recorded = [text for level, text in said if level == "INFO" and "was skipped" in text]
    assert len(recorded) == 2
    assert f"at version {version} (skip count: 2, retry after: 20" in recorded[1]
    assert [text for level, text in said if level == "INFO" and "are skipped" in text] == [
        "1 files are skipped because their cooldown has not ended"
    ]
    assert [text[:34] for level, text in said if level == "DEBUG" and "in cooldown" in text] == [
        "`bad.split` is in cooldown until 2"
    ]
