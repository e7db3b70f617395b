"""Tasks of a scan: packed by size, small when pickled, and together exactly what a search gives."""

from __future__ import annotations

import os
import pickle
import shutil

import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import ConfigError, CorruptSplitError, QueryError, SchemaError
from indextables.scan import scan_tasks
from indextables.scan.scan_tasks import BATCH_ROWS, PlannedScan, pack_splits
from indextables.scan.search import Projection
from indextables.scan.split_scan import Split
from indextables.split.search.snippets import Snippet

MB = 1 << 20
SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string()), ("day", pa.string())])


def split(position: int, size: int) -> Split:
    return Split(position, f"s{position}", size, 1, size - 10, size)


def sizes(tasks: list[tuple[Split, ...]]) -> list[int]:
    return [len(task) for task in tasks]


@pytest.fixture
def options(tmp_path) -> dict[str, str]:
    return {"cache.disk.path": str(tmp_path / "cache")}


@pytest.fixture
def table(tmp_path, options) -> it.Table:
    table = it.Table.create(
        tmp_path / "t", SCHEMA, partition_by=("day",), indexing={"message": "text"}, options=options
    )
    for day in range(4):
        rows = [
            {"id": day * 50 + row, "message": f"word{row % 5} {'rare' if row == day else 'plain'}", "day": f"d{day}"}
            for row in range(50)
        ]
        table.append(pa.Table.from_pylist(rows, SCHEMA))
    return table


def planned(table: it.Table, options: dict[str, str], wanted: Projection | None = None, **asked) -> PlannedScan:
    return PlannedScan(table.log, table.log.snapshot(), wanted or Projection(), settings=options, **asked)


def run(scan: PlannedScan) -> pa.Table:
    """The rows of all tasks; each is sent to another process and so is the scan."""
    shared = pickle.loads(pickle.dumps(scan.scan_of(scan.wanted.columns)))
    tasks = pickle.loads(pickle.dumps(scan.tasks()))
    batches = [batch for task in tasks for batch in shared.read(task)]
    return pa.Table.from_batches(batches, scan.schema)


def test_splits_are_packed_one_behind_the_other() -> None:
    splits = [split(number, 30 * MB) for number in range(10)]
    tasks = pack_splits(splits, max_bytes=100 * MB, min_tasks=1)
    assert sizes(tasks) == [3, 3, 3, 1]
    assert [one for task in tasks for one in task] == splits


def test_a_split_larger_than_a_task_is_a_task() -> None:
    assert sizes(pack_splits([split(0, MB), split(1, 900 * MB), split(2, MB)], max_bytes=10 * MB, min_tasks=1)) == [
        1,
        1,
        1,
    ]


def test_small_tables_are_still_spread_over_cores() -> None:
    splits = [split(number, 100) for number in range(40)]
    assert sizes(pack_splits(splits, max_bytes=128 * MB, min_tasks=4)) == [10, 10, 10, 10]
    assert len(pack_splits(splits[:3], max_bytes=128 * MB, min_tasks=4)) == 3


def test_many_tiny_splits_are_not_all_opened_by_one_task() -> None:
    assert max(sizes(pack_splits([split(n, 100) for n in range(2_000)], max_bytes=128 * MB, min_tasks=1))) <= 128


def test_a_search_packs_more_splits_into_a_task() -> None:
    splits = [split(number, 100 * MB) for number in range(64)]
    scanned = pack_splits(splits, max_bytes=128 * MB, min_tasks=1)
    assert len(pack_splits(splits, max_bytes=128 * MB, min_tasks=1, share=8)) < len(scanned) / 4


def test_nothing_makes_no_task() -> None:
    assert pack_splits([], max_bytes=MB, min_tasks=4) == []


@pytest.mark.parametrize(
    ("query", "where", "wanted"),
    [
        (None, None, Projection()),
        ("rare", None, Projection()),
        ("plain", "id > 20 AND id < 130", Projection(columns=["message"])),
        (None, "day = 'd2'", Projection(columns=["id"])),
        ("word1", "id <> 6", Projection(columns=["id"], score=True)),
        (None, None, Projection(columns=[], score=True)),
        ("rare OR word3", "id < 160", Projection(columns=["id"], snippet="message", score=True)),
        ("word2", None, Projection(limit=17)),
        ("rare OR word3", "id > 3", Projection(limit=9, score=True, snippet=Snippet("message", before="[", after="]"))),
        ("nowhere", None, Projection()),
    ],
)
def test_all_tasks_together_find_what_a_search_finds(table, options, query, where, wanted) -> None:
    found = run(planned(table, {**options, "read.minPartitions": "3"}, wanted, query=query, where=where))
    expected = table.search(query, where=where, **{k: v for k, v in wanted._asdict().items() if k != "order_by"})
    assert found.schema.names == expected.schema.names
    key = [(name, "ascending") for name in expected.schema.names]
    assert found.sort_by(key).to_pylist() == expected.sort_by(key).to_pylist()


def test_a_limit_is_one_task_and_exactly_that_of_a_search(table, options) -> None:
    scan = planned(table, options, Projection(limit=70))
    assert sizes(scan.tasks()) == [4]
    assert run(scan).equals(table.search(limit=70))


def test_hints_rule_splits_out_and_never_decide_on_rows(table, options) -> None:
    pruned = planned(table, options, hints=["id = 60"])
    assert [one.path for task in pruned.tasks() for one in task] == table.files(where="id = 60")["path"].to_pylist()
    assert run(pruned).num_rows == 50
    odd = planned(table, options, hints=["nosuch = 1", "id = 60", "id LIKE", "id = 'x'"])
    assert odd.tasks() == pruned.tasks()
    both = planned(table, options, where="id > 70", hints=["day = 'd1'"])
    assert sorted(run(both)["id"].to_pylist()) == list(range(71, 100))


def test_where_no_split_is_left_there_is_no_task(table, options) -> None:
    assert planned(table, options, where="day = 'no such day'").tasks() == []
    assert planned(table, options, Projection(limit=1), where="day = 'no such day'").tasks() == []


def test_what_runs_a_task_needs_no_log(table, options, tmp_path) -> None:
    scan = planned(table, options, query="rare")
    shared, tasks = scan.scan_of(["id"]), scan.tasks()
    shutil.rmtree(tmp_path / "t" / "_transaction_log")
    assert sum(batch.num_rows for task in tasks for batch in shared.read(task)) == 4


def test_a_task_is_small_and_shows_no_secret(table, options) -> None:
    scan = planned(table, {**options, "aws.secretKey": "hush-hush"})
    (task, *_) = scan.tasks()
    assert len(pickle.dumps(task)) < 400
    assert "hush" not in repr(scan.scan_of(["id"]))


def test_batches_are_neither_tiny_nor_huge(table, options) -> None:
    small = [batch.num_rows for batch in planned(table, {**options}).scan_of(["id"]).read(_all_splits(table, options))]
    assert small == [200]
    rows = pa.table({"id": range(35_000), "message": ["x"] * 35_000, "day": ["long"] * 35_000})
    table.append(rows)
    large = [batch.num_rows for batch in planned(table, options).scan_of(["id"]).read(_all_splits(table, options))]
    assert sum(large) == 35_200
    assert max(large) <= BATCH_ROWS
    assert len(large) <= 6


def test_batches_of_long_values_hold_few_rows() -> None:
    long = pa.table({"text": ["y" * 1_000_000] * 40})
    cut = [batch.num_rows for batch in scan_tasks.in_batches([long, long])]
    assert sum(cut) == 80
    assert max(cut) <= 16


def test_splits_stay_open_from_one_task_to_the_next(table, options, monkeypatch) -> None:
    scan_tasks.shared_splits.cache_clear()
    opened = []
    original = scan_tasks.OpenSplits.__init__
    monkeypatch.setattr(
        scan_tasks.OpenSplits, "__init__", lambda self, *given: opened.append(1) or original(self, *given)
    )
    scan = planned(table, options)
    task = _all_splits(table, options)
    for _ in range(3):
        assert sum(batch.num_rows for batch in scan.scan_of(["id"]).read(task)) == 200
    assert len(opened) == 1


def test_a_damaged_split_fails_its_task(table, options, tmp_path) -> None:
    (path,) = table.files(where="day = 'd1'")["path"].to_pylist()
    file = tmp_path / "t" / path
    file.write_bytes(file.read_bytes()[:-20] + bytes(20))
    os.utime(file)
    with pytest.raises(CorruptSplitError):
        run(planned(table, options))
    assert run(planned(table, options, where="day <> 'd1'")).num_rows == 150


def test_what_is_wrong_is_said_when_a_scan_is_planned(table, options) -> None:
    with pytest.raises(QueryError, match="there is no field `nosuch`"):
        planned(table, options, query="nosuch:1")
    with pytest.raises(QueryError, match="nosuch"):
        planned(table, options, where="nosuch = 1")
    with pytest.raises(SchemaError, match="no such column"):
        planned(table, options, Projection(columns=["nosuch"]))
    with pytest.raises(SchemaError, match="not indexed as `text`"):
        planned(table, options, Projection(snippet="day"))
    with pytest.raises(ConfigError, match="no columns at all"):
        planned(table, options, Projection(columns=[]))
    with pytest.raises(ConfigError, match="at least 1"):
        planned(table, options, Projection(limit=0))


def test_a_column_that_is_called_like_the_score_is_not_hidden(tmp_path, options) -> None:
    table = it.Table.create(tmp_path / "s", pa.schema([("_Score", pa.int64())]), options=options)
    with pytest.raises(SchemaError, match="the table has a column of that name"):
        _ = planned(table, options, Projection(score=True)).schema


def _all_splits(table: it.Table, options: dict[str, str]) -> tuple[Split, ...]:
    return tuple(one for task in planned(table, options).tasks() for one in task)
