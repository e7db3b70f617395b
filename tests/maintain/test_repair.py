"""Repair writes a clean log elsewhere, and never touches one that is there."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from tests.doubles.faulty_store import Fault, FaultyStore, ProcessDied
from tests.maintain.whole_tables import (
    contents,
    directory_of,
    flip,
    make_table,
    merge_all,
    one_split,
    rows,
    sorted_rows,
    the_split,
)

import indextables as it
from indextables.config import Config
from indextables.errors import ConfigError, CorruptLogError, StorageError, TableExistsError, TableNotFoundError
from indextables.log.commit.operations import MoveHorizon
from indextables.maintain.fsck.fsck import fsck
from indextables.maintain.repair.clean_log import LogPlace
from indextables.maintain.repair.repair import REPAIR_SCHEMA, repair_log, table_url
from indextables.protocol.horizon import HORIZON_KEY
from indextables.protocol.names import version_key
from indextables.store import open_store

LOG = "_transaction_log"


def answer(found: pa.Table) -> dict:
    assert found.schema == REPAIR_SCHEMA
    (row,) = found.to_pylist()
    return row


def in_place(table: it.Table, target: Path) -> it.Table:
    """The table with the clean log where its own was."""
    place = Path(table.url)
    (place / LOG).rename(place.parent / "old log")
    shutil.copytree(target, place / LOG)
    return it.Table.open(table.url)


def rich_table(place) -> it.Table:
    """Partitions, merges, properties, skips, streams, checkpoints and a horizon."""
    table = make_table(place, properties={"owner": "me", "spark.indextables.checkpoint.interval": "3"})
    merge_all(table)
    for batch in range(3):
        table.log.add_files([], application_id="one", batch_id=batch)
    table.log.add_files([], application_id="two", batch_id=41)
    table.append(rows(200))
    table.log.record_skipped_file(table.files()["path"][0].as_py(), reason="too large", cooldown_hours=5)
    table.log.commit(MoveHorizon(2, table.refresh().version))
    table.log.wait_for_checkpoint()
    return table.refresh()


def same_table(found: it.Table, expected: it.Table) -> None:
    assert found.metadata.id == expected.metadata.id
    assert found.schema == expected.schema
    assert found.partition_columns == expected.partition_columns
    properties = {key: value for key, value in expected.metadata.configuration.items() if key != HORIZON_KEY}
    assert found.metadata.configuration == properties
    columns = [name for name in expected.files().column_names if not name.startswith(("added_at", "data_change"))]
    for name in columns:
        assert found.files().sort_by("path")[name].to_pylist() == expected.files().sort_by("path")[name].to_pylist()
    assert found.search().to_pydict().keys() == expected.search().to_pydict().keys()
    assert sorted_rows(found) == sorted_rows(expected)
    for query in ("needle3", "message:hay", "id:201"):
        assert found.count(query) == expected.count(query) > 0
    assert found.count(where="day = '2026-01-01'") == expected.count(where="day = '2026-01-01'")
    batches = {name: batch for name, (batch, _) in expected.snapshot.transactions.items()}
    assert {name: batch for name, (batch, _) in found.snapshot.transactions.items()} == batches
    assert found.snapshot.skips == expected.snapshot.skips


def test_a_clean_log_stands_for_the_same_table(tmp_path) -> None:
    table = rich_table(tmp_path / "t")
    before = contents(tmp_path / "t")
    done = answer(it.repair(table.url, str(tmp_path / "mended")))
    assert done == {
        "source_path": table.url,
        "target_path": str(tmp_path / "mended"),
        "source_version": table.version,
        "total_splits": table.num_files,
        "valid_splits": table.num_files,
        "missing_splits": 0,
        "status": "SUCCESS",
    }
    assert contents(tmp_path / "t") == before
    repaired = in_place(table, tmp_path / "mended")
    same_table(repaired, table)
    assert fsck(repaired.log).to_pylist() == []
    operations = repaired.history()["operation"].to_pylist()
    assert set(operations[:-1]) == {"REPAIR"}
    assert repaired.log.last_checkpoint().version == repaired.version


def test_a_repaired_table_goes_on(tmp_path) -> None:
    table = rich_table(tmp_path / "t")
    it.repair(table.url, str(tmp_path / "mended"))
    repaired = in_place(table, tmp_path / "mended")
    version = repaired.version
    assert repaired.log.add_files([], application_id="two", batch_id=41) <= version
    assert repaired.log.add_files([], application_id="one", batch_id=1) <= version
    repaired.append(rows(300))
    assert repaired.version == version + 1
    assert repaired.count("needle300") == 1
    merge_all(repaired)
    assert len(sorted_rows(repaired)) == len(sorted_rows(it.Table.open(table.url)))
    assert repaired.fsck().to_pylist() == []


def test_in_memory() -> None:
    table = make_table("memory://repair/t")
    done = answer(it.repair("memory://repair/t/_transaction_log", "memory://repair/other/_transaction_log"))
    assert (done["status"], done["target_path"]) == ("SUCCESS", "memory://repair/other/_transaction_log")
    store = open_store("memory://repair/t", Config.resolve())
    other = open_store("memory://repair/other", Config.resolve())
    for path in table.files()["path"].to_pylist():
        other.put(path, store.get(path))
    same = it.Table.open("memory://repair/other")
    assert sorted_rows(same) == sorted_rows(table)
    assert same.fsck().num_rows == 0


def test_an_empty_table(tmp_path) -> None:
    table = make_table(tmp_path / "t", appends=0)
    assert answer(it.repair(table.url, str(tmp_path / "mended")))["status"] == "SUCCESS"
    assert in_place(table, tmp_path / "mended").num_files == 0


def test_bad_splits_are_left_out_and_counted(tmp_path, caplog) -> None:
    table = make_table(tmp_path / "t", partition_by=())
    missing, damaged, whole = (Path(table.url) / path for path in table.files()["path"].to_pylist())
    table.log.record_skipped_file(str(missing.relative_to(table.url)), reason="gone")
    missing.unlink()
    flip(damaged, damaged.stat().st_size - 100)
    before = contents(tmp_path / "t")
    done = answer(it.repair(table.url, str(tmp_path / "mended")))
    assert (done["total_splits"], done["valid_splits"], done["missing_splits"]) == (3, 1, 2)
    assert done["status"] == "PARTIAL"
    assert contents(tmp_path / "t") == before
    assert missing.name in caplog.text
    repaired = in_place(table, tmp_path / "mended")
    assert repaired.files()["path"].to_pylist() == [str(whole.relative_to(table.url))]
    assert repaired.snapshot.skips == {}
    assert [row["id"] for row in sorted_rows(repaired)] == [20, 21, 22, 23]
    assert repaired.fsck().num_rows == 0


def test_a_split_whose_rows_are_damaged_is_left_out(tmp_path) -> None:
    table = make_table(tmp_path / "t", partition_by=())
    flip(the_split(table), 40)
    assert answer(it.repair(table.url))["status"] == "DAMAGED"
    done = answer(it.repair(table.url, str(tmp_path / "clean")))
    assert (done["status"], done["total_splits"], done["valid_splits"]) == ("PARTIAL", 3, 2)
    found = in_place(table, tmp_path / "clean")
    assert (found.num_files, found.fsck().num_rows) == (2, 0)
    assert len(sorted_rows(found)) == found.num_records


def test_a_split_whose_index_alone_is_damaged_keeps_its_rows(tmp_path) -> None:
    table = make_table(tmp_path / "t", partition_by=())
    expected = sorted_rows(table)
    flip(the_split(table), directory_of(table.log).index_range[0])
    done = answer(it.repair(table.url, str(tmp_path / "clean")))
    assert (done["status"], done["valid_splits"], done["missing_splits"]) == ("PARTIAL", 3, 0)
    found = in_place(table, tmp_path / "clean")
    assert found.fsck()["check"].to_pylist() == ["index"]
    found.merge_splits()
    assert (sorted_rows(found), found.fsck().num_rows) == (expected, 0)


def test_wrong_statistics_are_left_out(tmp_path) -> None:
    log = one_split(tmp_path / "t", max_values={"id": "5"})
    assert it.Table.open(log.url).count(where="id = 9") == 0, "the log hides a row"
    done = answer(it.repair(log.url, str(tmp_path / "clean")))
    assert (done["status"], done["valid_splits"]) == ("PARTIAL", 1)
    found = in_place(it.Table.open(log.url), tmp_path / "clean")
    assert (found.count(where="id = 9"), found.fsck().num_rows) == (1, 0)


@pytest.mark.parametrize("damage", ["flip", "remove"])
def test_the_last_version_before_the_damage_is_taken(tmp_path, caplog, damage) -> None:
    table = make_table(tmp_path / "t", appends=5)
    path = tmp_path / "t" / version_key(4)
    if damage == "flip":
        flip(path, 30)
    else:
        path.unlink()
    done = answer(it.repair(table.url, str(tmp_path / "mended")))
    assert (done["source_version"], done["status"]) == (3, "PARTIAL")
    assert "is read at version 3" in caplog.text
    repaired = in_place(table, tmp_path / "mended")
    assert [row["id"] for row in sorted_rows(repaired)] == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]


def test_damaged_states_do_no_harm(tmp_path) -> None:
    table = make_table(tmp_path / "t")
    table.checkpoint()
    expected = sorted_rows(table)
    for path in (tmp_path / "t" / LOG).rglob("_manifest.avro"):
        flip(path, 500)
    assert answer(it.repair(table.url, str(tmp_path / "mended")))["status"] == "SUCCESS"
    assert sorted_rows(in_place(table, tmp_path / "mended")) == expected


def test_a_log_that_cannot_be_read_at_all_is_refused(tmp_path) -> None:
    table = make_table(tmp_path / "t")
    flip(tmp_path / "t" / version_key(0), 30)
    with pytest.raises(CorruptLogError, match="no version of its log can be read") as caught:
        it.repair(table.url, str(tmp_path / "mended"))
    assert "rebuilt from its splits" in caught.value.hint
    assert not (tmp_path / "mended").exists()
    done = answer(it.repair(table.url))
    assert (done["status"], done["source_version"]) == ("DAMAGED", -1)


def test_without_a_target_a_log_is_only_checked(tmp_path) -> None:
    table = make_table(tmp_path / "t")
    before = contents(tmp_path / "t")
    done = answer(it.repair(f"{table.url}/{LOG}/"))
    assert (done["status"], done["target_path"], done["source_path"]) == ("VALID", "", table.url)
    assert contents(tmp_path / "t") == before
    the_split(table).unlink()
    done = answer(it.repair(table.url))
    assert (done["status"], done["missing_splits"]) == ("DAMAGED", 1)


def test_a_gap_is_damage(tmp_path) -> None:
    table = make_table(tmp_path / "t")
    (tmp_path / "t" / version_key(2)).unlink()
    assert answer(it.repair(table.url))["status"] == "DAMAGED"


@pytest.mark.parametrize("name", ["thesis.txt", "00000000000000000000.json", "sub/file"])
def test_a_target_that_holds_something_is_refused(tmp_path, name) -> None:
    table = make_table(tmp_path / "t", appends=1)
    (tmp_path / "full" / name).parent.mkdir(parents=True)
    (tmp_path / "full" / name).write_text("precious")
    with pytest.raises(TableExistsError, match=f"`{tmp_path}/full` because it is not empty: it holds `{name}`"):
        it.repair(table.url, str(tmp_path / "full"))
    assert contents(tmp_path / "full") == {name: b"precious"}


def test_a_place_that_cannot_be_written_is_told(tmp_path) -> None:
    table = make_table(tmp_path / "t", appends=1)
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(StorageError, match=f"cannot write a log to `{tmp_path / 'file'}`: "):
        it.repair(table.url, str(tmp_path / "file"))


def test_a_finished_target_is_not_written_again(tmp_path) -> None:
    table = make_table(tmp_path / "t", appends=1)
    it.repair(table.url, str(tmp_path / "mended"))
    with pytest.raises(TableExistsError):
        it.repair(table.url, str(tmp_path / "mended"))


@pytest.mark.parametrize("where", ["", f"/{LOG}", f"/{LOG}/", f"/{LOG}/inside"])
def test_the_source_is_no_target(tmp_path, where) -> None:
    table = make_table(tmp_path / "t", appends=1)
    before = contents(tmp_path / "t")
    with pytest.raises(ConfigError, match="the log to be repaired is there"):
        it.repair(table.url, table.url + where)
    assert contents(tmp_path / "t") == before


def test_nothing_there(tmp_path) -> None:
    with pytest.raises(TableNotFoundError, match="neither a log nor a split"):
        it.repair(str(tmp_path / "t"), str(tmp_path / "mended"))
    assert not (tmp_path / "mended").exists()


def test_the_table_of_a_log_directory() -> None:
    assert table_url("s3://b/t/_transaction_log") == "s3://b/t"
    assert table_url("/data/_transaction_log/") == "/data"
    assert table_url(LOG) == "."
    assert table_url("/data/my_transaction_log") == "/data/my_transaction_log"


# Crashes and races


def test_a_repair_that_dies_leaves_nothing_or_the_whole(tmp_path) -> None:
    table = rich_table(tmp_path / "t")
    expected = sorted_rows(table)
    number, finished = 0, False
    while not finished:
        place = tmp_path / f"other{number}"
        target = open_store(str(place / LOG), Config.resolve())
        calls = 0

        def script(call, dies_at=number):
            nonlocal calls
            calls += call.verb.startswith("put")
            return Fault.DIES_AFTER if call.verb.startswith("put") and calls == dies_at + 1 else Fault.NONE

        try:
            repair_log(table.log, LogPlace(FaultyStore(target, script), is_log_directory=True))
        except ProcessDied:
            pass
        else:
            finished = True
        for path in table.files()["path"].to_pylist():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(Path(table.url) / path, place / path)
        if (place / version_key(0)).exists():
            assert sorted_rows(it.Table.open(place)) == expected
            assert it.Table.open(place).fsck().num_rows == 0
        else:
            with pytest.raises(CorruptLogError, match="version 0 is missing"):
                it.Table.open(place)
            with pytest.raises(CorruptLogError):
                it.TransactionLog(place).initialize(table.schema)
            repair_log(table.log, LogPlace(target, is_log_directory=True))
            assert sorted_rows(it.Table.open(place)) == expected
        number += 1
    assert number > 6


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.DROPPED, Fault.UNAVAILABLE, Fault.RETRIED, Fault.TORN])
def test_a_put_that_fails_can_be_followed_by_another_try(tmp_path, fault) -> None:
    table = make_table(tmp_path / "t", appends=2)
    target = open_store(str(tmp_path / "o" / LOG), Config.resolve())
    pending = [fault]

    def script(call):
        return (
            pending.pop() if call.key == "00000000000000000000.json" and call.verb != "get" and pending else Fault.NONE
        )

    try:
        repair_log(table.log, LogPlace(FaultyStore(target, script), is_log_directory=True))
    except (OSError, ProcessDied):
        if fault in (Fault.DROPPED, Fault.UNAVAILABLE):
            repair_log(table.log, LogPlace(target, is_log_directory=True))
    else:
        assert fault is Fault.RETRIED
    if fault is Fault.TORN:
        with pytest.raises(CorruptLogError):
            it.Table.open(tmp_path / "o")
        with pytest.raises(TableExistsError):
            repair_log(table.log, LogPlace(target, is_log_directory=True))
    else:
        assert it.TransactionLog(tmp_path / "o").snapshot().num_files == table.num_files


def test_what_another_interrupted_repair_left_is_not_mixed_in(tmp_path) -> None:
    table = make_table(tmp_path / "t", appends=2)
    target = open_store(str(tmp_path / "mended"), Config.resolve())
    with pytest.raises(ProcessDied):
        repair_log(table.log, LogPlace(FaultyStore(target, _die_after_a_put), is_log_directory=True))
    table.append(rows(90))
    before = contents(tmp_path / "mended")
    assert len(before) == 1
    with pytest.raises(TableExistsError, match="other contents") as caught:
        it.repair(table.url, str(tmp_path / "mended"))
    assert "was interrupted" in caught.value.hint
    assert contents(tmp_path / "mended") == before


def _die_after_a_put(call) -> Fault:
    return Fault.DIES_AFTER if call.verb == "put_if_absent" else Fault.NONE


def test_two_repairs_of_one_place_at_once(tmp_path) -> None:
    table = rich_table(tmp_path / "t")
    outcomes: list[object] = []
    start = threading.Barrier(2)

    def run() -> None:
        start.wait()
        try:
            outcomes.append(answer(it.repair(table.url, str(tmp_path / "mended")))["status"])
        except TableExistsError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "SUCCESS" in outcomes
    assert len(outcomes) == 2
    same_table(in_place(table, tmp_path / "mended"), table)


# Other writers


def test_tables_of_other_writers_keep_their_splits(shared, tmp_path) -> None:
    for place in sorted(path for path in (shared / "fixtures/upstream-0.5.4").iterdir() if path.is_dir()):
        shutil.copytree(place, tmp_path / place.name)
        log = it.TransactionLog(tmp_path / place.name)
        before, snapshot = contents(tmp_path / place.name), log.snapshot()
        target = tmp_path / f"{place.name} mended"
        assert answer(it.repair(log.url, str(target)))["status"] == "SUCCESS"
        assert contents(tmp_path / place.name) == before
        shutil.rmtree(tmp_path / place.name / LOG)
        shutil.copytree(target, tmp_path / place.name / LOG)
        repaired = it.TransactionLog(tmp_path / place.name).snapshot()
        assert repaired.described_files["path"].to_pylist() == snapshot.described_files["path"].to_pylist()
        for name in ("size", "num_records", "partition_values", "doc_mapping_json", "min_values", "max_values"):
            assert repaired.described_files[name].to_pylist() == snapshot.described_files[name].to_pylist()
        assert (repaired.metadata.id, repaired.schema) == (snapshot.metadata.id, snapshot.schema)
        assert repaired.skips == snapshot.skips
