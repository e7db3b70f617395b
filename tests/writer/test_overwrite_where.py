"""Partitions of a table replaced by rows: against a plain list of rows, alone and while others write."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.predicate.predicate_oracle import evaluate, predicates, to_sql

import indextables as it
from indextables.errors import CommitConflictError, QueryError, SchemaError

SCHEMA = pa.schema([("id", pa.int64()), ("i", pa.int32()), ("Day", pa.date32()), ("message", pa.string())])
COLUMNS = ("i", "Day")
DAYS = [dt.date(2024, 2, 29), dt.date(2024, 9, 30), dt.date(2024, 10, 1), None]
Row = dict[str, Any]


def rows_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([{"message": f"row {row['id']}", **row} for row in rows], schema=SCHEMA)


def new_table(root: str | Path, **options: Any) -> it.Table:
    options["cache.disk.path"] = str(Path(root, "cache"))
    return it.Table.create(Path(root, "t"), SCHEMA, partition_by=COLUMNS, indexing={"message": "text"}, options=options)


def ids(table: it.Table) -> list[int]:
    assert table.count("row") == table.num_records, "the index knows every row"
    return sorted(table.search(columns=["id"])["id"].to_pylist())


def splits(table: it.Table) -> set[str]:
    return {str(path.relative_to(table.url)) for path in Path(table.url).rglob("*.split")}


def meanwhile(table: it.Table, work: Callable[[], None]) -> pa.RecordBatchReader:
    """No rows, and something that happens while they are asked for."""

    def batches():
        work()
        yield from SCHEMA.empty_table().to_batches()

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


ROWS = st.lists(
    st.fixed_dictionaries({"i": st.sampled_from([-1, 2, 10, 100, None]), "Day": st.sampled_from(DAYS)}), max_size=5
)


@settings(max_examples=15)
@given(ROWS, st.lists(st.tuples(predicates(COLUMNS), ROWS, ROWS), min_size=1, max_size=3))
def test_the_table_holds_what_a_plain_list_holds(first, steps) -> None:
    numbers = iter(range(10**6))

    def numbered(rows: list[Row]) -> list[Row]:
        return [{"id": next(numbers), **row} for row in rows]

    with tempfile.TemporaryDirectory() as root:
        table, other = new_table(root), it.Table.open(Path(root, "t"))
        live = numbered(first)
        table.append(rows_of(live))
        for predicate, rows, late in steps:
            late, new = numbered(late), [row for row in numbered(rows) if evaluate(predicate, row) is True]

            def batches(late=late, new=new):
                other.append(rows_of(late))
                yield from rows_of(new).to_batches()

            table.overwrite(batches(), where=to_sql(predicate))
            live = [row for row in live + late if evaluate(predicate, row) is not True] + new
            assert ids(table) == sorted(row["id"] for row in live)
            assert ids(other.refresh()) == ids(table)


@pytest.fixture
def table(tmp_path) -> it.Table:
    table = new_table(tmp_path)
    days = [dt.date(2026, 1, 1), dt.date(2026, 1, 2), None]
    table.append(rows_of([{"id": n, "i": n // 3, "Day": days[n % 3]} for n in range(6)]))
    return table


def test_partitions_are_replaced_and_the_rest_stays(table) -> None:
    before = table.files()
    assert table.overwrite(rows_of([{"id": 50, "i": 0, "Day": dt.date(2026, 1, 2)}]), where="Day = '2026-01-02'") == 2
    assert ids(table) == [0, 2, 3, 5, 50]
    kept = set(before["path"].to_pylist()) & set(table.files()["path"].to_pylist())
    assert len(kept) == 4
    assert ids(it.Table.open(table.url, version=1)) == [0, 1, 2, 3, 4, 5]
    assert dict(table.history(limit=1)["parameters"][0].as_py()) == {
        "mode": "Overwrite",
        "predicate": "Day = '2026-01-02'",
    }


def test_null_is_a_partition_and_no_rows_delete(table) -> None:
    table.overwrite(SCHEMA.empty_table(), where="Day IS NULL")
    assert ids(table) == [0, 1, 3, 4]
    table.overwrite(SCHEMA.empty_table(), where="Day <> DATE '2026-01-01'")
    assert ids(table) == [0, 3]
    table.overwrite(SCHEMA.empty_table(), where="i = 77")
    assert ids(table) == [0, 3]
    assert table.version == 4


def test_a_row_outside_is_refused_and_nothing_is_left_of_the_others(table) -> None:
    before = splits(table)
    rows = rows_of([{"id": 50, "i": 1, "Day": None}, {"id": 51, "i": 2, "Day": None}])
    with pytest.raises(SchemaError, match=r"the partition `i=2, Day=NULL` because `i < 2` is not true of it"):
        table.overwrite(rows.to_batches(max_chunksize=1), where="i < 2")
    assert splits(table) == before
    assert ids(table.refresh()) == [0, 1, 2, 3, 4, 5]
    assert table.version == 1


def test_a_split_that_was_put_before_a_row_outside_came_is_deleted(tmp_path) -> None:
    table = new_table(tmp_path, **{"write.targetSplitSize": 1})

    def batches():
        yield from rows_of([{"id": 1, "i": 1}]).to_batches()
        assert len(splits(table)) == 1
        yield from rows_of([{"id": 2, "i": None}]).to_batches()
        pytest.fail("more rows were asked for after one that is refused")

    with pytest.raises(SchemaError, match="i=NULL"):
        table.overwrite(batches(), where="i = 1")
    assert splits(table) == set()
    assert table.refresh().version == 0


@pytest.mark.parametrize(
    ("where", "error", "message"),
    [
        ("id = 1", SchemaError, "`id` is not a partition column"),
        ("i = 1 OR message = 'x'", SchemaError, "`message` is not a partition column"),
        ("nothing = 1", QueryError, "no such column"),
        ("i =", QueryError, "cannot"),
    ],
)
def test_a_bad_predicate_is_told_before_a_row_is_read(table, where, error, message) -> None:
    def batches():
        pytest.fail("a row was asked for")
        yield

    with pytest.raises(error, match=message):
        table.overwrite(batches(), where=where)
    assert table.refresh().version == 1


def test_rows_that_others_append_meanwhile_go_only_where_the_predicate_is_true(table) -> None:
    other = it.Table.open(table.url)
    late = [{"id": 60, "i": 0, "Day": None}, {"id": 61, "i": 1, "Day": None}]
    table.overwrite(meanwhile(table, lambda: other.append(rows_of(late))), where="i = 0")
    assert ids(table) == [3, 4, 5, 61]


def test_a_table_that_moved_on_is_left_alone_where_its_version_was_named(table) -> None:
    other = it.Table.open(table.url)
    before = splits(table)
    with pytest.raises(CommitConflictError, match="not at version 1"):
        table.overwrite(rows_of([{"id": 50, "i": 0}]), where="i = 0", if_version=other.append(rows_of([])) - 1)
    assert splits(table) == before
