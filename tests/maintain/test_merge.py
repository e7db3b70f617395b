"""A merge leaves fewer splits with the same rows, of which every search finds what it found before."""

from __future__ import annotations

import datetime as dt
import logging
from collections import Counter

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.doubles.faulty_store import Fault
from tests.maintain.merge_tables import (
    HOUR_MS,
    SCHEMA,
    OwnClock,
    append,
    failing,
    ids,
    memory_store,
    new_log,
    open_log,
    paths,
    seen,
    split_keys,
    table_of,
)

import indextables as it
from indextables.commands import COMMANDS
from indextables.errors import ConfigError, SchemaError
from indextables.maintain.merge.merge_splits import MERGED_SCHEMA, merge_splits
from indextables.maintain.workers import LocalWorkers, working_with
from indextables.protocol.actions import Add, Remove
from indextables.runtime.progress import reporting_to

WORDS = ["disk", "full", "error", "Übung", "7", ""]
WIDE = pa.schema(
    [
        ("id", pa.int64()),
        ("message", pa.string()),
        ("host", pa.string()),
        ("seconds", pa.float64()),
        ("moment", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
        ("day", pa.date32()),
        ("zone", pa.int32()),
    ]
)
ROWS = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(-5, 5),
        "message": st.none() | st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join),
        "host": st.none() | st.sampled_from(["web-1", "web-2", ""]),
        "seconds": st.none() | st.sampled_from([-1.5, 0.0, 2.25, float("inf")]),
        "moment": st.none() | st.integers(0, 3).map(lambda day: dt.datetime(2026, 1, 1 + day, tzinfo=dt.UTC)),
        "tags": st.none() | st.lists(st.sampled_from(WORDS), max_size=2),
        "day": st.none() | st.just(dt.date(2026, 1, 2)),
        "zone": st.none() | st.just(1),
    }
)
LEAVES = {
    "message:disk": lambda row: "disk" in _words(row),
    "message:übung": lambda row: "übung" in _words(row),
    'message:"error full"': lambda row: ("error", "full") in list(zip(_words(row), _words(row)[1:], strict=False)),
    "host:web-1": lambda row: row["host"] == "web-1",
    "id:[-2 TO 3]": lambda row: row["id"] is not None and -2 <= row["id"] <= 3,
    "seconds:>0": lambda row: row["seconds"] is not None and row["seconds"] > 0,
    "day:2026-01-02": lambda row: row["day"] == dt.date(2026, 1, 2),
}
PREDICATES = {
    "zone = 1": lambda row: row["zone"] == 1,
    "day IS NULL": lambda row: row["day"] is None,
    "id >= 2": lambda row: row["id"] is not None and row["id"] >= 2,
    "moment < '2026-01-03T00:00:00Z'": lambda row: row["moment"] is not None and row["moment"].day < 3,
    "host IS NULL": lambda row: row["host"] is None,
}


def _words(row: dict) -> list[str]:
    return (row["message"] or "").lower().split()


def merged(log: it.TransactionLog, **how) -> dict:
    found = merge_splits(log, **how)
    assert found.schema == MERGED_SCHEMA
    return found.to_pylist()[0]


@settings(max_examples=6)
@given(
    st.lists(st.lists(ROWS, min_size=1, max_size=5), min_size=2, max_size=4),
    st.sampled_from(["5G", "30K"]),
    st.integers(2, 4),
)
def test_rows_and_searches_are_those_of_a_plain_model(writes, target, most) -> None:
    store = memory_store()
    log = open_log(store)
    indexing = {"spark.indextables.indexing.typemap.message": "text"}
    log.initialize(WIDE, partition_columns=("day", "zone"), configuration=indexing)
    table = table_of(log)
    for rows in writes:
        table.append(pa.Table.from_pylist(rows, schema=WIDE))
    model = [row for rows in writes for row in rows]
    partitions = Counter(tuple(map(tuple, values)) for values in table.files()["partition_values"].to_pylist())
    found = table.merge_splits(target_size=target, max_source_splits_per_merge=most).to_pylist()[0]
    assert found["status"] == ("SUCCESS" if max(partitions.values()) > 1 else "NO_ACTION")
    _check(table, model)
    if target == "5G":
        assert table.num_files == sum(-(-count // most) for count in partitions.values())
    while table.merge_splits(target_size="5G").to_pylist()[0]["status"] == "SUCCESS":
        pass
    assert table.num_files == len(partitions)
    _check(table, model)


def _check(table: it.Table, model: list[dict]) -> None:
    assert _multiset(table.search().to_pylist()) == _multiset(model)
    for query, holds in LEAVES.items():
        assert table.count(query) == sum(map(holds, model)), query
    for where, holds in PREDICATES.items():
        assert _multiset(table.search(where=where).to_pylist()) == _multiset(filter(holds, model)), where


def _multiset(rows) -> Counter:
    return Counter(
        tuple(tuple(value) if isinstance(value, list) else value for _, value in sorted(row.items())) for row in rows
    )


def test_searches_by_segments_and_by_new_indexes_find_the_same(monkeypatch) -> None:
    monkeypatch.setattr("indextables.split.combine.ROWS_PER_SEGMENT", 1)
    log = new_log(memory_store())
    for number in range(5):
        append(log, range(number * 3, number * 3 + 3))
    before = seen(log)
    assert merged(log)["merged_files"] == 5
    assert seen(log) == before


@pytest.fixture
def log() -> it.TransactionLog:
    """Three splits of day 1, two of day 2, one of no day."""
    log = new_log(memory_store())
    for number, day in enumerate(["1", "2", "1", None, "2", "1"]):
        append(log, range(number * 10, number * 10 + 4), day)
    return log


def test_a_merge_is_one_version_that_changes_no_data(log) -> None:
    before, sources = seen(log), log.snapshot()
    version = sources.version
    found = merged(log)
    snapshot = log.snapshot()
    assert found == {
        "table_path": log.url,
        "status": "SUCCESS",
        "merged_files": 5,
        "merge_groups": 2,
        "original_size_bytes": _size(sources) - _size(sources, lambda file: not file["partition_values"]),
        "merged_size_bytes": _size(snapshot) - _size(snapshot, lambda file: not file["partition_values"]),
        "skipped_files": 0,
        "message": "",
    }
    assert seen(log) == before
    actions = log.read_version(version + 1)
    adds = [action for action in actions if isinstance(action, Add)]
    removes = [action for action in actions if isinstance(action, Remove)]
    assert (len(adds), len(removes)) == (2, 5)
    assert not any(action.data_change for action in (*adds, *removes))
    assert [add.num_merge_ops for add in adds] == [1, 1]
    assert [add.partition_values for add in adds] == [{"day": "1"}, {"day": "2"}]
    assert [add.num_records for add in adds] == [12, 8]
    assert [(add.min_values["id"], add.max_values["id"]) for add in adds] == [("0", "53"), ("10", "43")]
    assert log.history(limit=1)["operation"].to_pylist() == ["MERGE"]
    assert len(set(snapshot.files["doc_mapping_ref"].to_pylist())) == 1
    assert snapshot.describe(snapshot.files)["doc_mapping_json"].null_count == 0
    assert seen(log, where="day = '1'")[0].total() == 12


def _size(snapshot, holds=lambda file: True) -> int:
    return sum(file["size"] for file in snapshot.files.to_pylist() if holds(file))


def test_rows_come_in_the_order_of_their_age(log) -> None:
    merged(log, where="day = '1'")
    found = table_of(log).search(where="day = '1'")["id"].to_pylist()
    assert found == [0, 1, 2, 3, 20, 21, 22, 23, 50, 51, 52, 53]


def test_merges_of_merged_splits_are_counted(log) -> None:
    merged(log, where="day = '1'", max_source_splits_per_merge=2)
    assert max(log.snapshot().files["num_merge_ops"].to_pylist()) == 1
    append(log, [99])
    merged(log, where="day = '1'")
    assert sorted(log.snapshot().files["num_merge_ops"].to_pylist()) == [0, 0, 0, 2]


def test_where_chooses_partitions(log) -> None:
    before = seen(log)
    assert merged(log, where="day = '2'")["merged_files"] == 2
    assert merged(log, where="day IS NULL")["status"] == "NO_ACTION"
    assert seen(log) == before
    assert log.snapshot().num_files == 5
    with pytest.raises(SchemaError, match="`id` is not a partition column"):
        merge_splits(log, where="id > 3")


def test_the_number_of_new_splits_can_be_limited(log) -> None:
    before = seen(log)
    found = merged(log, max_dest_splits=1)
    assert (found["merge_groups"], found["merged_files"]) == (1, 3)
    assert merged(log, max_dest_splits=1)["merged_files"] == 2
    assert merged(log, max_dest_splits=1)["status"] == "NO_ACTION"
    assert seen(log) == before


def test_the_number_of_sources_can_be_limited(log) -> None:
    before = seen(log)
    found = merged(log, max_source_splits_per_merge=2)
    assert (found["merge_groups"], found["merged_files"]) == (2, 4)
    assert seen(log) == before


def test_splits_of_the_target_size_are_left_alone(log) -> None:
    assert merged(log, target_size=1_000)["status"] == "NO_ACTION"
    assert merged(log, target_size="1K")["message"] == "there is nothing to merge"
    sizes = log.snapshot().files["size"].to_pylist()
    assert merged(log, target_size=max(sizes) * 3, where="day = '1'")["merged_files"] == 3


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"target_size": "many"}, "targetSize"),
        ({"target_size": 0}, "targetSize"),
        ({"max_dest_splits": 0}, "cannot merge into `0` splits"),
        ({"max_source_splits_per_merge": 1}, "maxSourceSplitsPerMerge"),
    ],
)
def test_wrong_limits_are_refused(log, how, message) -> None:
    with pytest.raises(ConfigError, match=message):
        merge_splits(log, **how)


def test_settings_of_the_table_are_the_limits(log) -> None:
    log.set_properties({"spark.indextables.merge.maxSourceSplitsPerMerge": "2"})
    assert merged(log)["merged_files"] == 4
    log.set_properties({"spark.indextables.merge.targetSize": "1K"})
    assert merged(log)["status"] == "NO_ACTION"


def test_a_dry_run_changes_nothing_in_the_store(log) -> None:
    store = log.reader.store
    before = [*store.list("")]
    found = merged(log, dry_run=True)
    assert (found["status"], found["merged_files"], found["merge_groups"]) == ("DRY_RUN", 5, 2)
    assert (found["merged_size_bytes"], found["message"]) == (0, "nothing was changed")
    real = memory_store_calls(log)
    assert real == []
    assert [*store.list("")] == before
    assert merged(log)["original_size_bytes"] == found["original_size_bytes"]


def memory_store_calls(log) -> list[str]:
    """The calls of a dry run that could write."""
    writing: list[str] = []
    inner = log.reader.store
    store = failing(inner, Fault.NONE, lambda call: call.verb.startswith(("put", "delete")) and _note(writing, call))
    merge_splits(open_log(store), dry_run=True)
    return writing


def _note(writing: list[str], call) -> bool:
    writing.append(call.verb)
    return True


def test_batches_are_versions_of_their_own() -> None:
    log = new_log(memory_store(), **{"merge.batchSize": "2", "state.compaction.afterMerge": "false"})
    for number in range(10):
        append(log, [number], str(number % 5))
    before, version = seen(log), log.snapshot().version
    found = merged(log)
    assert (found["status"], found["merge_groups"], found["merged_files"]) == ("SUCCESS", 5, 10)
    assert [log.snapshot(version=version + step).num_files for step in (1, 2, 3)] == [8, 6, 5]
    assert log.snapshot().version == version + 3
    first = [action for action in log.read_version(version + 1) if isinstance(action, Add)]
    assert [add.partition_values["day"] for add in first] == ["0", "1"]
    assert seen(log) == before


def test_the_state_is_compacted_after_a_merge(log) -> None:
    merged(log)
    assert log.last_checkpoint().version == log.snapshot().version


@pytest.mark.parametrize("option", ["state.compaction.afterMerge", "checkpoint.enabled"])
def test_the_state_is_not_compacted_where_that_is_off(option) -> None:
    log = new_log(memory_store(), **{option: "false"})
    append(log, [1])
    append(log, [2])
    assert merged(log)["merge_groups"] == 1
    assert log.last_checkpoint() is None


def test_a_state_that_cannot_be_compacted_is_a_warning(caplog) -> None:
    store = memory_store()
    new_log(store)
    log = open_log(failing(store, Fault.UNAVAILABLE, lambda call: "state" in call.key and call.verb.startswith("put")))
    append(log, [1])
    append(log, [2])
    with caplog.at_level(logging.WARNING):
        assert merged(log)["status"] == "SUCCESS"
    assert "was not compacted after a merge" in caplog.text
    assert ids(open_log(store)) == [1, 2]


def test_progress_is_told(log) -> None:
    told = []
    with reporting_to(lambda *how: told.append(how)):
        merged(log)
    assert told == [("merging splits", done, 2) for done in range(3)]


def test_processes_of_this_host_merge_too(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("indextables.maintain.merge.merge_splits._LEAST_BYTES_FOR_PROCESSES", 0)
    table = it.Table.create(tmp_path / "t", SCHEMA, partition_by=("day",), indexing={"message": "text"})
    for number in range(4):
        append(table.log, [number], str(number % 2))
    before = seen(table.log)
    with working_with(LocalWorkers()):
        found = table.refresh().merge_splits().to_pylist()[0]
    assert (found["status"], found["merge_groups"], table.num_files) == ("SUCCESS", 2, 2)
    assert seen(table.log) == before


def test_little_is_merged_in_this_process(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(LocalWorkers, "run", None)
    table = it.Table.create(tmp_path / "t", SCHEMA, partition_by=("day",))
    for number in range(4):
        append(table.log, [number], str(number % 2))
    assert table.refresh().merge_splits()["merge_groups"].to_pylist() == [2]


def test_the_handle_moves_to_the_merged_version(log) -> None:
    table = table_of(log)
    table.merge_splits()
    assert (table.num_files, table.num_records) == (3, 24)


def test_the_command_of_sql_does_the_same(tmp_path) -> None:
    table = it.Table.create(tmp_path / "t", SCHEMA, partition_by=("day",))
    for number in range(4):
        append(table.log, [number])
    spec = COMMANDS["merge_splits"]
    assert spec.schema == MERGED_SCHEMA
    arguments = {"where": "day = '1'", "target_size": 10**9, "max_source_splits_per_merge": 3, "dry_run": False}
    assert spec.run(table.url, arguments, {}).to_pylist()[0]["merged_files"] == 3
    assert table.refresh().num_files == 2


def test_an_empty_table_has_nothing_to_merge() -> None:
    assert merged(new_log(memory_store()))["status"] == "NO_ACTION"


def test_a_merge_goes_by_the_clock_and_the_store_of_its_log() -> None:
    clock = OwnClock()
    store = memory_store()
    log = new_log(store, clock)
    append(log, [1])
    append(log, [2])
    clock.now += HOUR_MS
    merged(log)
    assert log.snapshot().files["modification_time"].to_pylist() == [clock.now]
    assert set(paths(log)) < set(split_keys(store))
