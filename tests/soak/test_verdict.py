"""The verdict of a soak notices what it is there to notice."""

from __future__ import annotations

import pyarrow as pa
import pytest
from soak.journal import ACKNOWLEDGED, DIED, REFUSED, UNKNOWN, Journal, Tried, read_journals, rows_of
from soak.verdict import FAULTLESS, verdict

import indextables as it
from indextables.errors import IndexTablesError


@pytest.fixture
def table(tmp_path) -> it.Table:
    return it.Table.create(
        tmp_path / "t", rows_of("w", 0).schema, partition_by=("writer",), indexing={"message": "text"}
    )


def append(table: it.Table, batch: int, told: str = ACKNOWLEDGED) -> Tried:
    return Tried("w", batch, "append", told, table.append(rows_of("w", batch)))


def faults(table: it.Table, *tried: Tried) -> dict[str, int]:
    found = verdict(table.url, {}, tried)
    return {name: found[name] for name in FAULTLESS if found[name]}


def test_a_whole_table_has_no_faults(table) -> None:
    first, second = append(table, 0), append(table, 1)
    assert faults(table, first, second) == {}
    replaced = Tried("w", 2, "replace", ACKNOWLEDGED, table.overwrite(rows_of("w", 2), where="writer = 'w'"))
    assert faults(table, first, second, replaced) == {}


@pytest.mark.parametrize("told", [UNKNOWN, DIED])
def test_what_is_in_doubt_may_be_there_or_not(table, told) -> None:
    first = append(table, 0)
    assert faults(table, first, Tried("w", 1, "append", told)) == {}
    assert faults(table, first, append(table, 1, told)) == {}


def test_a_lost_batch_is_noticed(table) -> None:
    assert faults(table, append(table, 0), Tried("w", 1, "append", ACKNOWLEDGED, 9)) == {"lost": 20}


def test_a_batch_that_was_refused_and_is_there_is_noticed(table) -> None:
    assert faults(table, append(table, 0), append(table, 1, REFUSED)) == {"wrong": 20}


def test_a_doubled_batch_is_noticed(table) -> None:
    first = append(table, 0)
    append(table, 0)
    assert faults(table, first) == {"doubled": 20}


def test_half_a_batch_in_doubt_is_noticed(table) -> None:
    first = append(table, 0)
    table.append(rows_of("w", 1).slice(0, 5))
    assert faults(table, first, Tried("w", 1, "append", UNKNOWN)) == {"lost": 15}


def test_changed_rows_are_noticed(table) -> None:
    rows = rows_of("w", 0)
    changed = rows.set_column(3, "message", pa.array(["other"] * rows.num_rows))
    tried = Tried("w", 0, "append", ACKNOWLEDGED, table.append(changed))
    assert faults(table, tried) == {"lost": 20, "wrong": 20}


def test_a_damaged_split_is_noticed(table) -> None:
    tried = [append(table, batch) for batch in range(2)]
    store, path = table.log.reader.store, table.files()["path"][0].as_py()
    content = bytearray(store.get(path))
    content[len(content) // 2] ^= 1
    store.put(path, bytes(content))
    try:
        assert faults(table, *tried) == {"problems": 1}
    except IndexTablesError:
        return  # the rows themselves cannot be read


def test_a_version_that_two_writers_got_is_noticed(table) -> None:
    tried = [append(table, batch) for batch in range(2)]
    tried[1].version = tried[0].version
    assert faults(table, *tried) == {"versions_acknowledged_twice": 1}


def test_a_journal_keeps_what_was_noted_last(tmp_path) -> None:
    journal, tried = Journal(tmp_path / "w.journal"), Tried("w", 0, "append")
    journal.note(tried)
    assert read_journals(tmp_path)[0].told == DIED
    tried.told, tried.version = ACKNOWLEDGED, 5
    journal.note(tried)
    assert [(entry.told, entry.version) for entry in read_journals(tmp_path)] == [(ACKNOWLEDGED, 5)]
