"""The horizon of purges and going back in time: what lies before it is refused, and it is never lowered or lost."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.conftest import make_add

import indextables as it
from indextables.errors import CommitConflictError, ConfigError, CorruptLogError, RetentionError
from indextables.log.commit.operations import MoveHorizon, Restore
from indextables.protocol.horizon import HORIZON_KEY, horizon_of, own_properties

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def log(tmp_path) -> it.TransactionLog:
    """Five versions: 0 is empty, 1 has a, 2 has a and b, 3 has c alone, 4 has c and d."""
    log = it.TransactionLog(tmp_path / "t")
    log.initialize(SCHEMA)
    log.add_files([make_add("a")])
    log.add_files([make_add("b")])
    log.overwrite_files([make_add("c")])
    log.add_files([make_add("d")])
    return log


def paths(log: it.TransactionLog, version: int | None = None) -> list[str]:
    return sorted(log.snapshot(version=version).files["path"].to_pylist())


def restore(log: it.TransactionLog, version: int) -> int:
    return log.commit(Restore(log.snapshot(version=version), log.url)).version


def test_versions_before_the_horizon_are_refused(log):
    assert log.commit(MoveHorizon(3, if_version=4)).version == 5
    for handle in (log, it.TransactionLog(log.url)):
        assert paths(handle, 3) == ["c"]
        assert paths(handle) == ["c", "d"]
        for version in range(3):
            with pytest.raises(RetentionError, match=f"cannot read version {version} of .*versions before 3"):
                handle.snapshot(version=version)
        moment = handle.history()["timestamp"].to_pylist()[-2]
        with pytest.raises(RetentionError):
            handle.snapshot(timestamp=moment)


def test_the_horizon_survives_checkpoints_and_clean_up(log):
    log.commit(MoveHorizon(3, if_version=4))
    log.checkpoint()
    fresh = it.TransactionLog(log.url)
    assert horizon_of(fresh.metadata().configuration) == 3
    with pytest.raises(RetentionError):
        fresh.snapshot(version=2)


def test_a_purge_that_looked_before_another_commit_does_not_move_it(log):
    log.add_files([make_add("e")])
    with pytest.raises(CommitConflictError, match="at version 5, not at version 4"):
        log.commit(MoveHorizon(3, if_version=4))
    assert horizon_of(log.metadata().configuration) == 0


def test_it_never_goes_back(log):
    log.commit(MoveHorizon(3, if_version=4))
    assert not log.commit(MoveHorizon(2, if_version=5)).committed
    assert horizon_of(log.metadata().configuration) == 3


def test_a_restore_that_looked_before_the_purge_is_refused(log):
    target = log.snapshot(version=2)
    it.TransactionLog(log.url).commit(MoveHorizon(3, if_version=4))
    with pytest.raises(RetentionError, match="versions before 3"):
        log.commit(Restore(target, log.url))
    assert paths(log) == ["c", "d"]


def test_properties_and_the_horizon_change_side_by_side(log):
    other = it.TransactionLog(log.url)
    other.snapshot()
    log.commit(MoveHorizon(3, if_version=4))
    other.set_properties({"owner": "ops"})
    configuration = it.TransactionLog(log.url).metadata().configuration
    assert (horizon_of(configuration), own_properties(configuration)) == (3, {"owner": "ops"})
    assert own_properties({**configuration, "docMappingSchema.x": "[]"}) == {"owner": "ops"}


def test_nobody_sets_it_by_hand(log):
    with pytest.raises(ConfigError, match="only a purge moves the horizon"):
        log.set_properties({HORIZON_KEY: "0"})
    with pytest.raises(CorruptLogError, match="cannot find out which versions were purged"):
        horizon_of({HORIZON_KEY: "many"})


def test_a_restore_is_a_new_version_and_can_be_undone(log):
    assert restore(log, 2) == 5
    assert paths(log) == ["a", "b"]
    assert paths(it.TransactionLog(log.url), 4) == ["c", "d"]
    assert restore(log, 4) == 6
    log.checkpoint()
    assert paths(it.TransactionLog(log.url)) == ["c", "d"]
    assert log.history()["operation"].to_pylist()[:2] == ["RESTORE", "RESTORE"]


def test_a_restore_replaces_what_others_committed_before_it(log):
    target = log.snapshot(version=1)
    it.TransactionLog(log.url).add_files([make_add("late")])
    log.commit(Restore(target, log.url))
    assert paths(log) == ["a"]


def test_a_restore_of_what_is_there_writes_nothing(log):
    assert not log.commit(Restore(log.snapshot(), log.url)).committed
    assert log.versions() == [0, 1, 2, 3, 4]


def test_a_restore_keeps_properties_batches_and_doc_mappings(log):
    log.add_files([make_add("e", doc_mapping_json='[{"name":"m"}]')], application_id="stream", batch_id=7)
    log.set_properties({"owner": "ops"})
    restore(log, 1)
    assert own_properties(log.metadata().configuration) == {"owner": "ops"}
    assert log.add_files([make_add("f")], application_id="stream", batch_id=7) == 5, "the batch is known still"
    restore(log, 5)
    (described,) = [row for row in log.list_files().to_pylist() if row["path"] == "e"]
    assert described["doc_mapping_json"] == '[{"name":"m"}]'


def test_another_table_in_the_same_place_is_no_target(log, tmp_path):
    target = log.snapshot(version=1)
    other = it.TransactionLog(tmp_path / "other")
    other.initialize(SCHEMA)
    with pytest.raises(CommitConflictError, match="was recreated"):
        other.commit(Restore(target, other.url))
