"""Files that a predicate leaves are kept for one snapshot, and change no answer."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import QueryError
from indextables.scan import left_files

SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("message", pa.string())])
WHERES = [
    "day = 'd1'",
    "day >= 'd2'",
    "id < 30",
    "day = 'd1' AND id >= 10",
    "day IN ('d0', 'd3') OR id = 7",
    "id > 999",
]


def rows(first: int, number: int) -> pa.Table:
    numbers = range(first, first + number)
    columns = [[f"d{n % 4}" for n in numbers], [*numbers], [f"disk w{n % 5}" for n in numbers]]
    return pa.table(columns, schema=SCHEMA)


@pytest.fixture
def place(tmp_path):
    table = it.Table.create(tmp_path / "t", SCHEMA, partition_by=["day"], indexing={"message": "text"})
    table.append(rows(0, 40))
    return tmp_path / "t"


@pytest.fixture
def found(monkeypatch) -> list[str | None]:
    """The predicates that were decided on files."""
    decided: list[str | None] = []
    whole = left_files._find

    def noted(snapshot, config, where, hints):
        decided.append(where)
        return whole(snapshot, config, where, hints)

    monkeypatch.setattr(left_files, "_find", noted)
    return decided


def test_a_predicate_is_decided_once_for_a_snapshot(place, found) -> None:
    table = it.open(place)
    counts = [table.count(word, where="day >= 'd2'") for word in ("disk", "w1", "w2", "w3")]
    assert found == ["day >= 'd2'"]
    assert counts == [20, 4, 4, 4]
    table.append(rows(40, 4))
    assert table.count("disk", where="day >= 'd2'") == 22
    assert found == ["day >= 'd2'"] * 2
    assert len(table._opened.left_files) == 1


@pytest.mark.parametrize("seed", range(3))
def test_histories_change_no_answer(place, seed) -> None:
    """One handle stays open and moves to newer versions; a new one has nothing in memory."""
    chosen = random.Random(seed)
    table = it.open(place)
    for step in range(40):
        if chosen.random() < 0.15:
            it.open(place).append(rows(100 * step, chosen.randrange(1, 9)))
            table.refresh()
        where, word = chosen.choice(WHERES), chosen.choice(["disk", "w1", "w4", "absent"])
        fresh = it.open(place, version=table.version)
        assert table.count(word, where=where) == fresh.count(word, where=where), (where, word)
        assert table.search(word, where=where, limit=3) == fresh.search(word, where=where, limit=3)


def test_an_error_is_raised_each_time(place) -> None:
    table = it.open(place)
    for _ in range(2):
        with pytest.raises(QueryError):
            table.count(where="nowhere = 1")


def test_large_answers_are_not_kept(place, monkeypatch, found) -> None:
    monkeypatch.setattr(left_files, "_MOST_BYTES", 10)
    table = it.open(place)
    assert [table.count("disk", where="day = 'd1'") for _ in range(2)] == [10, 10]
    assert len(found) == 2


def test_explaining_counts_what_each_stage_leaves_out(place) -> None:
    table = it.open(place)
    for _ in range(2):
        table.count("disk", where="day = 'd1'")
        stages = table.explain("disk", where="day = 'd1'").to_pylist()
        assert stages[0]["left_out"] == 3
