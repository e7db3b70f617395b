"""Each protection is switched off in turn, and somebody must notice.

`BY_HISTORIES` are noticed by seeded histories: of the log, or of rows with tiny splits. `BY_TESTS` are noticed by a
test of their own, which is run here twice: as things are, when it passes, and without the protection, when it fails.
Both tables say who notices what.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.foreign_writer import StateWriter
from tests.simulator import log_histories, row_histories
from tests.simulator.log_histories import DEATHS, NETWORK
from tests.simulator.row_histories import OFTEN, RARELY
from tests.simulator.test_other_writers import Story

from indextables.errors import CheckpointWriteError, IndexTablesError, ObjectExistsError
from indextables.log import base, time_travel
from indextables.log.commit import conflict, operations
from indextables.log.commit import put as commit
from indextables.log.commit.operations import Done, MoveHorizon
from indextables.log.replay import VersionFile
from indextables.log.store_clock import StoreClock
from indextables.maintain.purge import purge_plan
from indextables.protocol.avro import file_entry, state_manifest
from indextables.protocol.checkpoint import json_checkpoint, parquet_checkpoint
from indextables.protocol.names import version_key
from indextables.split.format import layout, members
from indextables.split.rows import column_reader
from indextables.state.cleanup.retention import Verified
from indextables.state.cleanup.verification import Verifier
from indextables.state.manifests import ManifestReader
from indextables.store.local import disk
from indextables.store.local.store import LocalStore

_MOST_SEEDS = 1500


def _says_won(self, attempt, parent):
    """A committer that trusts a put that succeeded: a writer that slept wins an old version."""
    return commit._Verdict.STANDS, None


def _trusts_answers(self, attempt):
    """A committer that believes the store: "exists" is lost, and an error is a failure."""
    try:
        self._store.put_if_absent(version_key(attempt.version), attempt.payload)
    except ObjectExistsError:
        return "another"
    return attempt.identity


def _never_doubts(self, name, value):
    """A committer that forgets that an earlier try may have been applied."""
    object.__setattr__(self, name, False if name == "_in_doubt" else value)


def _believes_every_checkpoint(self, version, keys, objects=None):
    """A clean-up that relies on checkpoints without reading them back."""
    return Verified(version, needs_versions=False, manifests=frozenset())


def _never_moves(self, start, now, timestamp_ms):
    """A purge that tells nobody what it deletes."""
    return Done(now.version)


def _keeps_nothing(reader, files, known, version):
    """A purge that does not look at what came after its horizon."""
    return []


def _all_live(live):
    """A merge that does not look whether its splits are still part of the table."""


def _never_there(batch, now):
    """A stream that does not look whether its batch is there."""


def _host_time(self, newest):
    """A commit that does not look at the clock of the store."""
    return self._clock.now_ms()


def _as_claimed(claimed_ms, file):
    """A time travel that believes every writer."""
    return claimed_ms


def _all_or_nothing(start, properties, now):
    """A change of properties that no other change may stand beside."""
    return conflict.change_properties(start, properties, now) if start == now else conflict.Conflict("it was changed")


def _never(self):
    """A version file that never looks like the beginning of a table."""
    return False


class Mutation(NamedTuple):
    """A protection, what stands in its place, and the histories that notice."""

    place: Any
    name: str
    instead: Any
    simulate: Callable
    cast: Callable
    faults: dict


_LOG, _ROWS = log_histories.simulate, row_histories.simulate
_FAILING = {**NETWORK, **DEATHS}
BY_HISTORIES = {
    "no look after the put": Mutation(commit.Committer, "_look", _says_won, _LOG, log_histories.truncated, _FAILING),
    "no settling by transaction id": Mutation(
        commit.Committer, "_put_once", _trusts_answers, _LOG, log_histories.contention, _FAILING
    ),
    "no doubt after an unclear try": Mutation(
        commit.Committer, "__setattr__", _never_doubts, _LOG, log_histories.truncated, _FAILING
    ),
    "no look whether a version begins a table": Mutation(
        VersionFile, "begins_a_table", property(_never), log_histories.simulate_exchanged, log_histories.mixed, {}
    ),
    "commits claim the time of their host": Mutation(
        StoreClock, "now_ms", _host_time, log_histories.simulate_skewed, log_histories.skewed, {}
    ),
    "versions are dated as they claim": Mutation(
        time_travel, "credible_ms", _as_claimed, log_histories.simulate_skewed, log_histories.skewed, {}
    ),
    "properties are compared as a whole": Mutation(
        operations, "change_properties", _all_or_nothing, _LOG, log_histories.mixed, {}
    ),
    "no horizon": Mutation(MoveHorizon, "plan", _never_moves, _ROWS, row_histories.undone, OFTEN),
    "no look above the horizon": Mutation(purge_plan, "_keep_above", _keeps_nothing, _ROWS, row_histories.aged, RARELY),
    "no look at the sources of merges": Mutation(
        operations, "sources_live", _all_live, _ROWS, row_histories.crowded, {}
    ),
    "no look for the batch of a stream": Mutation(
        operations, "_committed_before", _never_there, _ROWS, row_histories.streamed, OFTEN
    ),
    "no settling by transaction id, over rows": Mutation(
        commit.Committer, "_put_once", _trusts_answers, _ROWS, row_histories.together, OFTEN
    ),
}


@pytest.mark.parametrize("mutation", BY_HISTORIES)
def test_histories_notice_a_missing_protection(mutation: str, monkeypatch) -> None:
    place, name, instead, simulate, cast, faults = BY_HISTORIES[mutation]
    monkeypatch.setattr(place, name, instead)
    for seed in range(_MOST_SEEDS):
        try:
            simulate(seed, cast, faults)
        except AssertionError:
            return
    pytest.fail(f"{mutation}: {_MOST_SEEDS} seeds, and nobody noticed")


class _NoHashes:
    """A module of hashes that fit everything."""

    @staticmethod
    def sha256(data: bytes) -> _NoHashes:
        return _NoHashes()

    def hexdigest(self) -> str:
        return "0" * 64


def _nothing(*arguments: object, **options: object) -> None:
    """A check that checks nothing."""


def _one_digest(identity: bytes, length: int, behind: bytes) -> bytes:
    """A seal that fits every footer."""
    return bytes(32)


def _put_without_sync(self, key: str, data: bytes, *, once: bool = False) -> None:
    """A put that is acknowledged before its name would survive a power cut."""
    path = self._path(key)
    with self._temporary(path, (data,)) as temporary:
        self._link(temporary, path, key)


def rows_of_two_kinds_of_writers_are_kept(tmp_path) -> None:
    """A history in which another writer takes the number of a version that it does not see."""
    Story(tmp_path / "t", 0, StateWriter).run()


def flipped_bytes_of_pages_are_noticed(written, tmp_path) -> None:
    """Damage to the rows of a split, which begin behind its first bytes."""
    _flip_each(written, tmp_path, range(8, 100, 7))


def flipped_bytes_of_the_index_are_noticed(written, tmp_path) -> None:
    """Damage to the members of its index, which stand before its footer."""
    footer = written[1].footer_start_offset
    _flip_each(written, tmp_path, range(footer - 160, footer - 1, 7))


def _flip_each(written, tmp_path, positions: range) -> None:
    root, finished, data = written
    damage = importlib.import_module("test_split_damage")
    for position in positions:
        damaged = data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
        assert damage.is_noticed(root, tmp_path / "into", finished, damaged), f"byte {position}"


class Noticed(NamedTuple):
    """A protection, what stands in its place, and the test that notices: a file and the name of a function in it, or a
    function that is here."""

    place: Any
    name: str
    instead: Any
    test: str | Callable


_GUARDED = "state/test_sandbox.py::test_damage_to_our_own_files_reaches_no_decoder"
BY_TESTS = {
    "a state is decoded whatever its hash": Noticed(state_manifest, "verify_state_manifest", _nothing, _GUARDED),
    "a state of another writer is read whatever it contains": Noticed(
        base, "check_contains", _nothing, rows_of_two_kinds_of_writers_are_kept
    ),
    "a manifest is decoded whatever its hash": Noticed(file_entry, "verify_manifest", _nothing, _GUARDED),
    "a part of a JSON checkpoint is decoded whatever its hash": Noticed(
        json_checkpoint,
        "hashlib",
        _NoHashes,
        "protocol/test_json_checkpoint.py::test_a_damaged_part_is_noticed_before_decoding",
    ),
    "a Parquet checkpoint is decoded whatever its hash": Noticed(
        parquet_checkpoint,
        "_verify",
        _nothing,
        "protocol/test_parquet_checkpoint.py::test_every_flipped_bit_is_noticed_before_decoding",
    ),
    "a split's footer is decoded whatever its seal": Noticed(
        layout, "_digest", _one_digest, "split/test_split_damage.py::test_another_split_of_the_same_length_is_noticed"
    ),
    "rows of a split are decoded whatever their checksum": Noticed(
        column_reader, "check_crc", _nothing, flipped_bytes_of_pages_are_noticed
    ),
    "the index of a split is unpacked whatever its checksum": Noticed(
        members, "check_crc", _nothing, flipped_bytes_of_the_index_are_noticed
    ),
    "a clean-up relies on checkpoints without reading them back": Noticed(
        Verifier,
        "verify",
        _believes_every_checkpoint,
        "state/test_clean_up.py::test_a_damaged_state_counts_for_nothing",
    ),
    "a clean-up relies on manifests that nobody here can decode": Noticed(
        ManifestReader,
        "check",
        _nothing,
        "state/test_clean_up.py::test_a_state_that_no_reader_here_can_decode_counts_for_nothing",
    ),
    "a new file is not synced": Noticed(
        disk, "_sync", _nothing, "store/test_local_store.py::test_disk_syncs_what_it_says"
    ),
    "the name of a new file is not synced": Noticed(
        LocalStore,
        "put_if_absent",
        _put_without_sync,
        "store/test_local_store.py::test_local_put_survives_a_power_cut_at_every_step",
    ),
}
_TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("mutation", BY_TESTS)
def test_a_test_notices_a_missing_protection(mutation: str, tmp_path_factory, monkeypatch) -> None:
    place, name, instead, test = BY_TESTS[mutation]
    for directory in ("split", "store", "state", "protocol"):
        monkeypatch.syspath_prepend(_TESTS / directory)
    _call(test, tmp_path_factory)
    monkeypatch.setattr(place, name, instead)
    with pytest.raises((AssertionError, IndexTablesError, TypeError, pytest.fail.Exception)) as noticed:
        _call(test, tmp_path_factory)
    # A decoder that must not be reached is None there; no other error of a type is one that the test has noticed.
    assert not isinstance(noticed.value, TypeError) or "'NoneType' object is not callable" in str(noticed.value)
    assert not isinstance(noticed.value, CheckpointWriteError), "nothing could be written to begin with"


def _call(test: str | Callable, tmp_path_factory) -> None:
    """Run a test with what it asks for by name."""
    if isinstance(test, str):
        file, _, name = test.partition("::")
        module = importlib.import_module(Path(file).stem)
        test = getattr(module, name)
    else:
        module = None
    place = tmp_path_factory.mktemp("noticed")
    with pytest.MonkeyPatch.context() as patch:
        given = {"tmp_path": lambda: place, "monkeypatch": lambda: patch, "written": lambda: _written(place)}
        given |= {"scenario": lambda: module.SCENARIOS[0], "place": lambda: module.Place(place / "table")}
        test(**{wanted: given[wanted]() for wanted in inspect.signature(test).parameters})


def _written(place: Path) -> tuple:
    """What the tests of damaged splits start with."""
    examples = importlib.import_module("tests.split.split_examples")
    finished = examples.write_split(str(place), examples.small_table())
    return place, finished, (place / examples.KEY).read_bytes()
