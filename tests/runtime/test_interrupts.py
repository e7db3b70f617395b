"""Ctrl-C at any line of the library leaves a handle that works, and nothing on local disk."""

from __future__ import annotations

import os
import random

import pyarrow as pa
import pytest
from tests.conftest import SCHEMA
from tests.interrupts import interrupted_at

import indextables as it

NUM_INTERRUPTS = 40
NUM_ROWS = 40


def _rows(number: int) -> pa.Table:
    messages = [f"common row{row}" for row in range(NUM_ROWS)]
    return pa.table({"id": range(NUM_ROWS), "message": messages, "day": [str(number)] * NUM_ROWS}, schema=SCHEMA)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where a table stands, and a temporary directory of its own."""
    room = tmp_path / "tmp"
    room.mkdir()
    monkeypatch.setenv("TMPDIR", str(room))
    monkeypatch.setattr("tempfile.tempdir", None)
    table = it.Table.create(str(tmp_path / "t"), SCHEMA, indexing={"message": "text"})
    for number in range(2):
        table.append(_rows(number))
    return tmp_path


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # an interrupt may fall into a finalizer
def test_reading_goes_on_after_an_interrupt(place):
    options = {"cache.disk.path": str(place / "cache")}
    steps = random.Random(7)
    reader, writer = it.Table.open(str(place / "t"), options=options), it.Table.open(str(place / "t"))
    total = interrupted_at(0, lambda: _read(it.Table.open(str(place / "t"), options=options)))
    for number in range(NUM_INTERRUPTS):
        if number % 15 == 10:
            writer.append(_rows(number))
        interrupted_at(steps.randrange(1, total), lambda: _read(reader))
        assert _read(reader) == it.Table.open(str(place / "t")).num_records
    assert os.listdir(place / "tmp") == []


def _read(table: it.Table) -> int:
    table.refresh()
    num_rows = table.search("common", columns=["id"]).num_rows
    assert table.count("common") == num_rows
    table.flush_search_cache()
    return num_rows


def test_writing_goes_on_after_an_interrupt(place):
    table = it.Table.open(str(place / "t"))
    steps = random.Random(11)
    total = interrupted_at(0, lambda: table.append(_rows(0)))
    for _ in range(NUM_INTERRUPTS // 4):
        before = it.Table.open(str(place / "t")).num_records
        interrupted_at(steps.randrange(1, total), lambda: table.append(_rows(1)))
        there = it.Table.open(str(place / "t")).num_records
        assert there in (before, before + NUM_ROWS)
        table.append(_rows(2))
        assert table.count("common") == there + NUM_ROWS
    assert table.fsck().num_rows == 0
    # An interrupt between making a directory and holding it leaves the directory to the sweep of the next process.
    left = os.listdir(place / "tmp")
    assert len(left) < NUM_INTERRUPTS // 8
    assert all(name.startswith("indextables-scratch-") for name in left)
