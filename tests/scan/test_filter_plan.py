"""Plans of plain filters: no split with a match is left out, and counts are those of the rows."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from tests.doubles.metered_store import MeteredStore

import indextables as it
from indextables.config import Config
from indextables.scan.aggregate.planned import Measure, planned_answer
from indextables.scan.filter_plan import FilterLimits, plan_filter
from indextables.scan.split_scan import TableScan
from indextables.split.search.open_splits import OpenSplits

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("ok", pa.bool_()),
        ("message", pa.string()),
        ("day", pa.string()),
    ]
)
NAMES = ("anna", "bert", "carl", "dora", None)
LEAVES = (
    *("name = 'anna'", "name IN ('bert', 'zoe')", "name <> 'carl'", "name LIKE 'do%'", "name IS NULL"),
    *(
        "n < 3",
        "n = 7",
        "n >= 9",
        "n IS NOT NULL",
        "x > 4.5",
        "x <= 0",
        "ok = true",
        "day = '1'",
        "id BETWEEN 20 AND 40",
    ),
    *("message = 'word 3'", "name = 'anna' AND name IS NOT NULL"),
)
LIMITS = FilterLimits(max_splits=64, max_seconds=60, max_index_bytes=1 << 30, max_rows=1_000, max_row_bytes=1 << 30)


class FarStore(MeteredStore):
    """A store behind a network, by its own word."""

    is_remote = True


def rows(chance: random.Random, first: int, count: int) -> list[dict[str, object]]:
    return [
        {
            "id": first + number,
            "name": chance.choice(NAMES),
            "n": chance.choice([None, *range(10)]),
            "x": chance.choice([None, float("nan"), -0.0, 0.5, 5.0]),
            "ok": chance.choice([True, False, None]),
            "message": f"word {chance.randint(0, 9)}",
            "day": str(number % 2),
        }
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> it.Table:
    place = tmp_path_factory.mktemp("filters") / "table"
    table = it.Table.create(place, SCHEMA, partition_by=["day"], indexing={"message": "text"})
    chance = random.Random(3)
    for start in range(0, 120, 30):
        table.append(pa.Table.from_pylist(rows(chance, start, 30), SCHEMA))
    return table


def scan_of(table: it.Table, where: str | None, query: str | None = None) -> TableScan:
    opened = OpenSplits(table.log.reader.store, table.log.config)
    return TableScan(table.snapshot, table.log.config, opened, where=where, query=query)


def test_plans_of_random_filters_lose_no_row(table, one_seed) -> None:
    chance = random.Random(one_seed)
    for _ in range(150):
        where = f" {chance.choice(['AND', 'OR'])} ".join(chance.sample(LEAVES, chance.randint(1, 3)))
        plan = plan_filter(scan_of(table, where), LIMITS)
        matching = table.search(where=where, columns=["id"]).num_rows
        kept = {split.path for split in plan.splits}
        assert plan.num_rows is None or plan.num_rows >= matching, where
        assert sum(_matches(table, path, where) for path in kept) == matching, where


def _matches(table: it.Table, path: str, where: str) -> int:
    scan = scan_of(table, where)
    return sum(scan.count(split) for split in scan.splits if split.path == path)


@pytest.mark.parametrize(
    ("where", "num_rows"), [("name = 'anna'", None), ("n = 7", None), ("id = 5", 1), ("name = 'nobody'", 0)]
)
def test_the_index_counts_exactly(table, where, num_rows) -> None:
    plan = plan_filter(scan_of(table, where), LIMITS)
    assert plan.is_small
    assert plan.num_rows == (table.count(where=where) if num_rows is None else num_rows)


def test_equality_is_decided_without_the_null_check_that_spark_adds(table) -> None:
    assert plan_filter(scan_of(table, "name = 'anna' AND name IS NOT NULL"), LIMITS).num_rows == table.count(
        where="name = 'anna'"
    )


def test_filters_that_no_index_decides_are_left_to_spark(table) -> None:
    plan = plan_filter(scan_of(table, "message = 'word 3'"), LIMITS)
    assert not plan.by_index
    assert not plan.is_small


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (LIMITS._replace(max_splits=1), "too many"),
        (LIMITS._replace(max_seconds=-1), "time"),
        (LIMITS._replace(max_rows=3), "the index finds"),
        (LIMITS._replace(max_row_bytes=1), "the index finds"),
    ],
)
def test_bounds_leave_a_filter_to_spark_and_say_why(table, limits, reason) -> None:
    plan = plan_filter(scan_of(table, "ok = true"), limits)
    assert not plan.is_small
    assert reason in plan.reason
    assert len(plan.splits) == 8


def test_planning_fetches_no_index_over_a_network(tmp_path) -> None:
    """Filters leave one of the splits; its index is not fetched to count the row."""
    url, cache = str(tmp_path / "table"), {"cache.disk.path": str(tmp_path / "cache")}
    table = it.Table.create(url, SCHEMA, options=cache)
    for start in range(0, 90, 30):
        table.append(pa.Table.from_pylist(rows(random.Random(start), start, 30), SCHEMA))
    config = Config.resolve(options=cache)
    scan = TableScan(
        table.snapshot, config, OpenSplits(FarStore(table.log.reader.store), config), where="name = 'anna'"
    )
    plan = plan_filter(scan, FilterLimits.of(config)._replace(max_seconds=60))
    assert plan.num_rows is None
    assert "not on local disk" in plan.reason
    assert not list(Path(tmp_path / "cache").rglob("*.term"))


def expected(rows: list[dict[str, object]], function: str, column: str) -> object:
    values = [row[column] for row in rows if row[column] is not None]
    if function == "count":
        return len(values)
    if not values:
        return None
    if function == "avg":
        return sum(values) / len(values)
    return {"min": min, "max": max, "sum": sum}[function](values)


def test_planned_measures_are_those_of_the_rows(table, one_seed) -> None:
    chance = random.Random(one_seed)
    num_answered = 0
    for _ in range(100):
        where = chance.choice([None, chance.choice(LEAVES), " AND ".join(chance.sample(LEAVES, 2))])
        query = chance.choice([None, "message:word", "message:3"])
        measures = [
            Measure("count"),
            *(Measure(chance.choice(["count", "min", "max", "sum", "avg"]), "n") for _ in "12"),
        ]
        found = planned_answer(scan_of(table, where, query), None, measures, LIMITS)
        if found is None:
            continue
        num_answered += 1
        matching = table.search(query, where=where).to_pylist()
        assert found.column(0)[0].as_py() == len(matching), (where, query)
        for number, measure in enumerate(measures[1:], 1):
            assert found.column(number)[0].as_py() == expected(matching, measure.function, "n"), (where, query, measure)
    assert num_answered > 20


@pytest.mark.parametrize("column", ["name", "n", "ok", "id"])
@pytest.mark.parametrize("where", [None, "n < 5", "name = 'anna'", "day = '1'"])
def test_planned_groups_are_those_of_the_rows(table, column, where) -> None:
    found = planned_answer(scan_of(table, where), column, [Measure("count")], LIMITS)
    rows = table.search(where=where).to_pylist()
    counts = {value: sum(row[column] == value for row in rows) for value in {row[column] for row in rows}}
    assert found is not None
    assert dict(zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True)) == counts


def test_floats_and_words_are_left_to_spark(table) -> None:
    for column in ("x", "message"):
        assert planned_answer(scan_of(table, None), None, [Measure("max", column)], LIMITS) is None
    assert planned_answer(scan_of(table, None), "x", [Measure("count")], LIMITS) is None


def test_sums_that_doubles_would_round_are_left_to_spark(tmp_path) -> None:
    schema = pa.schema([("n", pa.int64())])
    table = it.Table.create(tmp_path / "table", schema)
    table.append(pa.table({"n": [2**53 - 1, 2, 3]}, schema))
    for function in ("sum", "avg"):
        found = planned_answer(scan_of(table, None), None, [Measure(function, "n")], LIMITS)
        assert function == "sum" or found is None
        assert found is None or found.column(0)[0].as_py() == 2**53 + 4


def test_splits_that_are_indexed_otherwise_are_not_indexed_again_to_plan(tmp_path) -> None:
    options = {"cache.disk.path": str(tmp_path / "cache")}
    table = it.Table.create(tmp_path / "table", SCHEMA, options=options)
    table.append(pa.Table.from_pylist(rows(random.Random(1), 0, 30), SCHEMA))
    table.set_properties({"indexing.message": "text"})
    table.append(pa.Table.from_pylist(rows(random.Random(2), 30, 30), SCHEMA))
    plan = plan_filter(scan_of(table, "name = 'anna'"), LIMITS)
    assert plan.num_rows is None
    assert len(plan.splits) == 2
    assert len(list((tmp_path / "cache").rglob("*.term"))) <= 1
