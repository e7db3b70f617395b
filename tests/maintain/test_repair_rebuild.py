"""Where no log is left, one is made of the splits alone."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from tests.doubles.faulty_store import Fault, FaultyStore, ProcessDied
from tests.maintain.test_repair import LOG, answer
from tests.maintain.whole_tables import SCHEMA, contents, flip, make_table, merge_all, rows, sorted_rows, the_split

import indextables as it
from indextables.config import Config
from indextables.errors import CorruptLogError, SchemaError, TableExistsError
from indextables.maintain.repair.clean_log import LogPlace
from indextables.maintain.repair.repair import repair_log
from indextables.protocol.file_table import adds_of
from indextables.protocol.names import version_key
from indextables.scan.indexed_fields import fields_of_settings, table_fields
from indextables.split.combine import combine_splits
from indextables.store import open_store


def lose_log(table: it.Table) -> None:
    shutil.rmtree(Path(table.url) / LOG)


def rebuilt(table: it.Table) -> it.Table:
    lose_log(table)
    assert answer(it.repair(table.url))["status"] == "REBUILT"
    return it.Table.open(table.url)


def without_unknown(files: pa.Table) -> list[dict]:
    lost = ["modification_time", "added_at_version", "added_at_timestamp", "num_merge_ops", "uncompressed_size_bytes"]
    return files.drop_columns(lost).sort_by("path").to_pylist()


@pytest.mark.parametrize("partition_by", [(), ("day",), ("day", "id")])
def test_a_rebuilt_table_is_the_same(tmp_path, partition_by) -> None:
    table = make_table(tmp_path / "t", partition_by=partition_by)
    expected, files = sorted_rows(table), table.files()
    schema, counts = table.schema, {query: table.count(query) for query in ("needle3", "message:hay", "id:21")}
    where = ["day = '2026-01-01'", "id > 15", "day IS NULL", "score < 3 AND message < 'needle11'"]
    pruned = {text: sorted(table.files(where=text)["path"].to_pylist()) for text in where}
    found = rebuilt(table)
    assert found.schema == schema
    assert found.partition_columns == partition_by
    assert without_unknown(found.files()) == without_unknown(files)
    assert sorted_rows(found) == expected
    assert {query: found.count(query) for query in counts} == counts
    assert {text: sorted(found.files(where=text)["path"].to_pylist()) for text in where} == pruned
    assert found.fsck().to_pylist() == []


def test_the_answer_and_the_warning(tmp_path, caplog) -> None:
    table = make_table(tmp_path / "t", partition_by=())
    lose_log(table)
    assert answer(it.repair(f"{table.url}/{LOG}")) == {
        "source_path": table.url,
        "target_path": f"{table.url}/{LOG}",
        "source_version": -1,
        "total_splits": 3,
        "valid_splits": 3,
        "missing_splits": 0,
        "status": "REBUILT",
    }
    assert "merged, overwritten or dropped" in caplog.text
    assert answer(it.repair(table.url))["status"] == "VALID"


def test_appends_go_on_and_index_alike(tmp_path) -> None:
    table = make_table(tmp_path / "t")
    before = fields_of_settings(table.snapshot, table.log.config)
    found = rebuilt(table)
    assert fields_of_settings(found.snapshot, found.log.config) == before
    found.append(rows(60))
    assert found.count("needle60") == 1
    assert table_fields(found.snapshot, found.log.config) == before
    merge_all(found)
    assert found.count("needle60") == found.count("needle1") == 1


@pytest.mark.parametrize(
    "properties",
    [
        {"indexing.tokenizer.message": "whitespace"},
        {"indexing.text.indexRecordOption": "basic"},
        {"indexing.text.maxTokenLength": "40"},
        {"indexing.fastfields": "day,score"},
        {"indexing.typemap.day": "json", "indexing.json.mode": "minimal"},
        {"indexing.typemap.day": "json"},
        {"indexing.typemap.message": "string"},
        {},
    ],
)
def test_how_columns_are_indexed_is_told_by_the_splits(tmp_path, properties) -> None:
    given = {f"spark.indextables.{key}": value for key, value in properties.items()}
    indexing = {} if "indexing.typemap.message" in properties else None
    data = {"id": [1], "message": ["a b"], "day": ['{"a": 1}'], "score": [1.0]}
    table = make_table(tmp_path / "t", appends=0, partition_by=(), properties=given, indexing=indexing)
    table.append(pa.table(data, schema=SCHEMA))
    before = fields_of_settings(table.snapshot, table.log.config)
    found = rebuilt(table)
    assert fields_of_settings(found.snapshot, found.log.config) == before


def test_odd_partition_values_come_back(tmp_path) -> None:
    table = make_table(tmp_path / "t", appends=0)
    days = ["a/b=c%", "", None, "ü ?", "__HIVE_DEFAULT_PARTITION__"]
    data = {"id": list(range(5)), "message": ["x"] * 5, "day": days, "score": [0.0] * 5}
    table.append(pa.table(data, schema=SCHEMA))
    files = without_unknown(table.files())
    found = rebuilt(table)
    assert without_unknown(found.files()) == files
    for number, day in enumerate(days):
        where = "day IS NULL" if day is None else f"day = '{day}'"
        assert found.search(where=where)["id"].to_pylist() == [number]


def test_splits_in_every_layout_are_found(tmp_path) -> None:
    table = make_table(tmp_path / "t", appends=3, partition_by=())
    expected = sorted_rows(table)
    first, second, _ = (Path(table.url) / path for path in table.files()["path"].to_pylist())
    first.rename(Path(table.url) / "part-1.split")
    (Path(table.url) / "deep" / "er").mkdir(parents=True)
    second.rename(Path(table.url) / "deep" / "er" / "x.split")
    (Path(table.url) / "notes.txt").write_text("no split")
    assert sorted_rows(rebuilt(table)) == expected


def test_damaged_splits_are_left_out_and_counted(tmp_path, caplog) -> None:
    table = make_table(tmp_path / "t", partition_by=())
    for place, path in zip([40, -100], table.files()["path"].to_pylist()[:2], strict=True):
        flip(Path(table.url) / path, place)
    lose_log(table)
    done = answer(it.repair(table.url))
    assert (done["total_splits"], done["valid_splits"], done["missing_splits"]) == (3, 1, 2)
    assert caplog.text.count("leaving out a split") == 2
    found = it.Table.open(table.url)
    assert [row["id"] for row in sorted_rows(found)] == [20, 21, 22, 23]
    assert found.fsck().num_rows == 0


def test_only_damaged_splits(tmp_path) -> None:
    table = make_table(tmp_path / "t", appends=1, partition_by=())
    flip(the_split(table), -100)
    lose_log(table)
    with pytest.raises(CorruptLogError, match="none of its 1 splits can be read"):
        it.repair(table.url)
    assert not (Path(table.url) / LOG).exists()


def test_a_split_in_a_wrong_partition_is_left_out(tmp_path, caplog) -> None:
    table = make_table(tmp_path / "t", appends=1)
    path = next(path for path in Path(table.url).rglob("*.split") if "2026-01-01" in str(path))
    (Path(table.url) / "day=2030-01-01").mkdir()
    path.rename(Path(table.url) / "day=2030-01-01" / path.name)
    lose_log(table)
    assert answer(it.repair(table.url))["missing_splits"] == 1
    assert "are not all of the partition `day=2030-01-01`" in caplog.text


def test_splits_of_different_tables_are_refused(tmp_path) -> None:
    table = make_table(tmp_path / "t", appends=1, partition_by=())
    other = it.Table.create(tmp_path / "o", pa.schema([("id", pa.int64())]))
    other.append(pa.table({"id": [1]}))
    shutil.copy(the_split(other), Path(table.url) / "other.split")
    lose_log(table)
    with pytest.raises(SchemaError, match=r"`other.split`.*different columns"):
        it.repair(table.url)
    (Path(table.url) / "other.split").unlink()
    (Path(table.url) / "day=2026-01-01").mkdir()
    one_day = make_table(tmp_path / "p", appends=1)
    shutil.copy(next(Path(one_day.url).glob("day=2026-01-01/splits/*")), Path(table.url) / "day=2026-01-01" / "x.split")
    with pytest.raises(SchemaError, match="partitioned in different"):
        it.repair(table.url)
    assert not (Path(table.url) / LOG).exists()


@pytest.mark.parametrize("rows_per_segment", [1, 20_000])
def test_the_sources_of_a_merge_are_left_out(tmp_path, monkeypatch, caplog, rows_per_segment) -> None:
    """Whether the merge took over their indexes or built another one."""
    monkeypatch.setattr("indextables.split.combine.ROWS_PER_SEGMENT", rows_per_segment)
    table = make_table(tmp_path / "t", partition_by=())
    merge_all(table)
    assert len(list(Path(table.url).rglob("*.split"))) == 4
    expected = sorted_rows(table)
    found = rebuilt(table)
    assert sorted_rows(found) == expected
    assert found.num_files == 1
    assert caplog.text.count("its rows are in") == 3


def test_merges_of_merges_and_those_that_were_never_committed(tmp_path) -> None:
    table = make_table(tmp_path / "t", partition_by=())
    adds = adds_of(table.files())
    store, schema, config = table.log.reader.store, table.schema, table.log.config_in_force()
    first = combine_splits(store, adds[:2], schema, config)
    combine_splits(store, adds, schema, config)
    combine_splits(store, adds, schema, config)  # another writer, or the same one after a crash
    combine_splits(store, [first, adds[2]], schema, config)
    expected = sorted_rows(table)
    found = rebuilt(table)
    assert (sorted_rows(found), found.num_files) == (expected, 1)


@pytest.mark.parametrize("gone", [None, 0, 2])
def test_merges_that_share_some_of_their_splits_double_no_row(tmp_path, gone) -> None:
    """One of them was never committed. The other is taken where a source of it was purged since."""
    table = make_table(tmp_path / "t", partition_by=())
    adds = adds_of(table.files())
    store, schema, config = table.log.reader.store, table.schema, table.log.config_in_force()
    combine_splits(store, adds[:2], schema, config)
    combine_splits(store, adds[1:], schema, config)
    expected = sorted_rows(table)
    if gone is not None:
        store.delete(adds[gone].path)
    found = rebuilt(table)
    assert (sorted_rows(found), found.num_files) == (expected, 2)


def test_splits_of_tables_below_this_one_are_left_alone(tmp_path) -> None:
    table = make_table(tmp_path / "t")
    make_table(tmp_path / "t" / "below")
    expected = sorted_rows(table)
    assert sorted_rows(rebuilt(table)) == expected


def test_into_another_place(tmp_path) -> None:
    table = make_table(tmp_path / "t")
    expected = sorted_rows(table)
    lose_log(table)
    before = contents(tmp_path / "t")
    done = answer(it.repair(table.url, str(tmp_path / "mended")))
    assert (done["status"], done["target_path"]) == ("REBUILT", str(tmp_path / "mended"))
    assert contents(tmp_path / "t") == before
    shutil.copytree(tmp_path / "mended", Path(table.url) / LOG)
    assert sorted_rows(it.Table.open(table.url)) == expected


def test_in_memory() -> None:
    table = make_table("memory://rebuild/t")
    expected = sorted_rows(table)
    store = table.log.reader.store
    store.delete_many([meta.key for meta in store.list(LOG)])
    assert answer(it.repair("memory://rebuild/t"))["status"] == "REBUILT"
    assert sorted_rows(it.Table.open("memory://rebuild/t")) == expected


def test_what_is_left_of_a_lost_log_does_no_harm(tmp_path) -> None:
    table = make_table(tmp_path / "t")
    table.checkpoint()
    expected = sorted_rows(table)
    log = Path(table.url) / LOG
    for path in [*log.glob("0*.json"), *log.rglob("_manifest.avro")]:
        path.unlink()
    assert (log / "_last_checkpoint").exists()
    assert answer(it.repair(table.url))["status"] == "REBUILT"
    found = it.Table.open(table.url)
    assert sorted_rows(found) == expected
    assert found.fsck().num_rows == 0


def test_splits_of_another_product_cannot_be_rebuilt(shared, tmp_path) -> None:
    shutil.copytree(shared / "fixtures/upstream-0.5.4/01_single_write", tmp_path / "t")
    shutil.rmtree(tmp_path / "t" / LOG)
    with pytest.raises(CorruptLogError, match="none of its 2 splits can be read"):
        it.repair(str(tmp_path / "t"))


def test_a_rebuild_that_dies_leaves_no_half_table_and_can_be_finished(tmp_path) -> None:
    table = make_table(tmp_path / "t", appends=2)
    expected = sorted_rows(table)
    lose_log(table)
    store = open_store(table.url, Config.resolve())
    number, finished = 0, False
    while not finished:
        calls = 0

        def script(call, dies_at=number):
            nonlocal calls
            calls += call.verb.startswith("put")
            return Fault.DIES_AFTER if call.verb.startswith("put") and calls == dies_at + 1 else Fault.NONE

        log = it.TransactionLog(table.url, store=FaultyStore(store, script))
        try:
            repair_log(log, None)
        except ProcessDied:
            pass
        else:
            finished = True
        if not (Path(table.url) / version_key(0)).exists():
            with pytest.raises(CorruptLogError, match="version 0 is missing"):
                it.Table.open(table.url)
            assert answer(it.repair(table.url))["status"] == "REBUILT"
        found = it.Table.open(table.url)
        assert sorted_rows(found) == expected
        assert [row for row in found.fsck().to_pylist() if row["severity"] == "error"] == []
        lose_log(found)
        number += 1
    assert number > 3


def test_what_another_rebuild_left_is_not_mixed_in(tmp_path) -> None:
    table = make_table(tmp_path / "t", appends=2, partition_by=())
    lose_log(table)
    store = open_store(table.url, Config.resolve())

    def script(call):
        return Fault.DIES_AFTER if call.verb == "put_if_absent" else Fault.NONE

    with pytest.raises(ProcessDied):
        repair_log(it.TransactionLog(table.url, store=FaultyStore(store, script)), None)
    next(Path(table.url).rglob("*.split")).unlink()
    before = contents(Path(table.url))
    with pytest.raises(TableExistsError, match="other contents"):
        it.repair(table.url)
    assert contents(Path(table.url)) == before


def test_a_log_that_goes_on_after_a_repair_is_never_taken_for_a_cut_off_one(tmp_path) -> None:
    table = make_table(tmp_path / "t", appends=1)
    found = rebuilt(table)
    found.append(rows(50))
    log = Path(table.url) / LOG
    (log / "00000000000000000000.json").unlink()
    shutil.rmtree(next(log.glob("state-v*")))
    before = contents(Path(table.url))
    with pytest.raises((CorruptLogError, TableExistsError)):
        it.repair(table.url)
    assert contents(Path(table.url)) == before


def test_two_rebuilds_at_once(tmp_path) -> None:
    table = make_table(tmp_path / "t")
    expected = sorted_rows(table)
    lose_log(table)
    outcomes: list[str] = []
    start = threading.Barrier(2)

    def run() -> None:
        start.wait()
        outcomes.append(answer(it.repair(table.url))["status"])

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(outcomes) <= {"REBUILT", "VALID"}
    assert len(outcomes) == 2
    assert sorted_rows(it.Table.open(table.url)) == expected
    assert it.Table.open(table.url).fsck().num_rows == 0


def test_the_same_splits_give_the_same_log(tmp_path) -> None:
    table = make_table(tmp_path / "t")
    lose_log(table)
    store = open_store(str(tmp_path / "one"), Config.resolve())
    repair_log(it.TransactionLog(table.url), LogPlace(store, is_log_directory=True))
    it.repair(table.url, str(tmp_path / "two"))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
