"""Repeated questions: the same answers as without memory, and never one of another version or question."""

from __future__ import annotations

import random
import threading
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import BadSplitWarning, ConfigError, QueryError
from indextables.table import handle
from indextables.table.answers import Answers

SCHEMA = pa.schema([("id", pa.int64()), ("level", pa.string()), ("message", pa.string()), ("day", pa.date32())])
OPTIONS = {"search.answers.maxSize": "4M"}


def rows(start: int, number: int = 20) -> pa.Table:
    numbers = range(start, start + number)
    words = ["disk", "disk full", "login"]
    columns = [[*numbers], [f"l{n % 3}" for n in numbers], [words[n % 3] for n in numbers], [n % 5 for n in numbers]]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


@pytest.fixture
def place(tmp_path):
    it.Table.create(tmp_path / "t", SCHEMA, indexing={"message": "text"}).append(rows(0))
    return tmp_path / "t"


QUESTIONS = [
    lambda t, query, where: t.count(query, where=where),
    lambda t, query, where: t.search(query, where=where, limit=3),
    lambda t, query, where: t.search(query, where=where, columns=["id"], score=True),
    lambda t, query, where: t.search(query, where=where, columns=("id",), order_by="id", descending=True),
    lambda t, query, where: t.search(query, where=where, columns=[], snippet="message"),
    lambda t, query, where: t.search(query, where=where, columns=[], snippet=it.Snippet("message", max_chars=9)),
    lambda t, query, where: t.aggregate("level", query=query, where=where),
    lambda t, query, where: t.value_counts("level", query=query, where=where, limit=1),
    lambda t, query, where: t.stats("id", query=query, where=where),
    lambda t, query, where: t.histogram("id", interval=3, query=query, where=where),
    lambda t, query, where: t.histogram("id", interval=Decimal(3), offset=1, query=query, where=where),
    lambda t, query, where: t.date_histogram("day", interval="2d", query=query, where=where),
    lambda t, query, where: t.date_histogram("day", query=query, where=where),
    lambda t, query, where: t.head(2),
    lambda t, query, where: len(t),
]


def test_answers_are_those_of_a_handle_without_memory(place) -> None:
    """Two handles see random appends, refreshes and questions, many of them twice."""
    chosen = random.Random(7)
    keeping, plain = it.open(place, options=OPTIONS), it.open(place, options={"search.answers.maxSize": "0"})
    for step in range(100):
        act = chosen.random()
        if act < 0.06:
            chosen.choice([keeping, plain]).append(rows(20 * step, chosen.randrange(1, 9)))
        elif act < 0.1:
            it.open(place).append(rows(20 * step, 2))
        elif act < 0.12:
            keeping.flush_search_cache()
        if keeping.version != plain.version or act < 0.15:
            keeping.refresh()
            plain.refresh()
        ask = chosen.choice(QUESTIONS)
        query, where = chosen.choice([None, "disk", "full"]), chosen.choice([None, "id >= 7", "level = 'l1'"])
        expected = ask(plain, query, where)
        assert [ask(keeping, query, where) for _ in range(2)] == [expected] * 2
    assert keeping.answer_stats().hits > 30
    assert plain.answer_stats() == (0, 0)


def test_a_repeated_question_opens_nothing(place, monkeypatch) -> None:
    table = it.open(place, options=OPTIONS)
    first = [ask(table, "disk", "id < 9") for ask in QUESTIONS]
    monkeypatch.setattr(type(table), "_ask", lambda *_: pytest.fail("asked again"))
    assert [ask(table, "disk", "id < 9") for ask in QUESTIONS] == first
    table.flush_search_cache()
    with pytest.raises(pytest.fail.Exception):
        table.count("disk", where="id < 9")


def test_equal_arguments_of_other_types_are_other_questions(place) -> None:
    table = it.open(place, options=OPTIONS)
    assert table.search("disk", limit=1).num_rows == 1
    with pytest.raises(ConfigError, match="`True` rows"):
        table.search("disk", limit=True)
    assert table.search("disk", columns=["id"]).num_rows == 14
    with pytest.raises(ConfigError, match="list of names"):
        table.search("disk", columns="id")


def test_an_error_is_not_kept(place) -> None:
    table = it.open(place, options=OPTIONS)
    for _ in range(2):
        with pytest.raises(QueryError):
            table.count("nowhere:1")


def test_skipped_splits_are_looked_for_each_time(place) -> None:
    table = it.open(place, options=OPTIONS)
    assert table.count("disk", bad_splits="skip") == 14
    (path,) = table.files()["path"].to_pylist()
    data = (place / path).read_bytes()
    (place / path).unlink()
    table._opened.clear()
    with pytest.warns(BadSplitWarning):
        assert table.count(where="id < 9", bad_splits="skip") == 0
    (place / path).write_bytes(data)
    assert table.count(where="id < 9", bad_splits="skip") == 9


def test_answers_take_no_more_than_their_room(place) -> None:
    table = it.open(place, options={"search.answers.maxSize": "20K"})
    for number in range(200):
        table.count(where=f"id < {number}")
        table.search(where=f"id < {number}")
    kept = table._answers._known[1]
    assert 10 < len(kept) <= 40
    assert sum(512 + getattr(one[0], "nbytes", 0) for one in kept.values()) <= 20 << 10
    off = it.open(place, options={"search.answers.maxSize": "0"})
    assert [off.count("disk") for _ in range(3)] == [14] * 3
    assert not len(off._answers._known[1])


def test_threads_never_get_an_answer_of_another_version(place) -> None:
    """Counts only grow: an answer below the version that a thread has seen would be an old one."""
    table = it.open(place, options=OPTIONS)
    wrong: list[tuple[int, int]] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            least = table.snapshot.num_records
            found = table.count(where="id >= 0 OR id IS NULL")
            if not least <= found <= table.snapshot.num_records:
                wrong.append((least, found))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for step in range(1, 12):
        table.append(rows(step * 20, 3))
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert table.count(where="id >= 0 OR id IS NULL") == table.num_records


def test_a_small_memory_is_the_default(place, monkeypatch) -> None:
    monkeypatch.setattr(handle, "Answers", Answers)
    table = it.open(place)
    assert [table.count("disk") for _ in range(3)] == [14] * 3
    assert table.answer_stats() == (2, 1)
    assert table._answers._max_bytes == 16 << 20


def test_nothing_made_of_an_answer_changes_it(place) -> None:
    """Frames, arrays and lists of an answer are copies, or cannot be written to."""
    table = it.open(place, options=OPTIONS)
    expected = table.search("disk").to_pylist()
    frame = table.to_pandas("disk")
    frame.loc[:, "id"] = 0
    table.to_polars("disk")[0, "id"] = 0
    table.search("disk").to_pylist()[0]["id"] = 0
    numbers = table.search("disk")["id"].chunk(0)
    for array in (numbers.to_numpy(), np.from_dlpack(numbers), table.to_pandas("disk")["id"].to_numpy()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert table.answer_stats() == (5, 1)
    assert table.search("disk").to_pylist() == expected == it.open(place).search("disk").to_pylist()
