"""What searches keep open: found again by the next search, by threads and by forked processes, until it is flushed."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import warnings

import pyarrow as pa
import pytest

import indextables as it
from indextables.runtime.caching import BoundedCache
from indextables.split.split_file import SplitFile

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("message", pa.string())])
ROWS = [
    {"id": number, "part": "abc"[number % 3], "message": "an error" if number % 4 else "no fault"}
    for number in range(300)
]
ERRORS = sum("error" in row["message"] for row in ROWS)


def make_table(place, **options) -> it.Table:
    options = {"cache.disk.path": str(place / "cache"), **options}
    table = it.Table.create(place / "t", SCHEMA, partition_by=["part"], indexing={"message": "text"}, options=options)
    table.append(pa.Table.from_pylist(ROWS, schema=SCHEMA))
    return table


@pytest.fixture
def table(tmp_path) -> it.Table:
    return make_table(tmp_path)


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """The splits that are opened, in order."""
    found: list[str] = []
    whole = SplitFile.open.__func__

    def open_split(cls, store, key, **more):
        found.append(key)
        return whole(cls, store, key, **more)

    monkeypatch.setattr(SplitFile, "open", classmethod(open_split))
    return found


def test_splits_are_opened_once(table, opened) -> None:
    for _ in range(3):
        assert table.count("error") == ERRORS
        assert table.search("error", limit=1).num_rows == 1
        assert table.aggregate("part", query="error").num_rows == 3
    assert len(opened) == 3
    table.append(pa.Table.from_pylist(ROWS[:1], schema=SCHEMA))
    assert table.count() == 301
    assert table.count("fault") == 301 - ERRORS
    assert len(opened) == 4


@pytest.mark.parametrize("forget", ["flush_search_cache", "invalidate_cache"])
def test_what_is_open_is_let_go_of_on_request(table, opened, forget) -> None:
    assert table.count("error") == ERRORS
    getattr(table, forget)()
    assert table.count("error") == ERRORS
    assert len(opened) == 6


def test_only_so_many_indexes_stay_open(tmp_path, opened, monkeypatch) -> None:
    monkeypatch.setattr("indextables.split.search.open_indexes._open_indexes", BoundedCache(1))
    table = make_table(tmp_path)
    for _ in range(2):
        assert table.count("error") == ERRORS
    assert len(opened) == 3
    assert sum(searcher.is_open for searcher in table._opened._known.values()) <= 2


def test_only_so_many_footers_are_kept(tmp_path, opened, monkeypatch) -> None:
    monkeypatch.setattr("indextables.split.search.open_splits._MOST_TAIL_BYTES", 2 << 16)
    table = make_table(tmp_path)
    for _ in range(2):
        assert table.count("error") == ERRORS
    assert len(opened) > 3
    assert len(table._opened._known) == 2


def test_footers_of_any_size_can_be_opened(tmp_path, opened, monkeypatch) -> None:
    monkeypatch.setattr("indextables.split.search.open_splits._MOST_TAIL_BYTES", 1)
    table = make_table(tmp_path)
    for _ in range(2):
        assert table.count("error") == ERRORS
    assert len(opened) == 6


def test_the_files_of_an_open_index_are_held_in_the_cache(tmp_path) -> None:
    table = make_table(tmp_path)
    held = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    assert table.count("error") == ERRORS
    if held is not None:
        assert len(os.listdir("/proc/self/fd")) == held + 3
        table.flush_search_cache()
        assert len(os.listdir("/proc/self/fd")) == held


def test_an_index_that_is_open_outlives_its_files(tmp_path) -> None:
    table = make_table(tmp_path)
    assert table.count("error") == ERRORS
    for place, _, names in os.walk(tmp_path / "cache"):
        for name in names:
            os.unlink(os.path.join(place, name))
    assert table.count("error") == ERRORS
    assert table.search('"no fault"', columns=["id"]).num_rows == 300 - ERRORS
    table.flush_search_cache()
    assert table.count("error") == ERRORS


def test_without_a_cache_on_disk_an_index_is_extracted_once(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    table = make_table(tmp_path, **{"cache.disk.enabled": "false"})
    for _ in range(2):
        assert table.count("error") == ERRORS
    assert len(list(tmp_path.glob("indextables-*"))) == 3
    table.flush_search_cache()
    assert not list(tmp_path.glob("indextables-*"))
    assert table.count("error") == ERRORS


def test_threads_share_a_table(table) -> None:
    found: list[int] = []

    def ask() -> None:
        for _ in range(5):
            found.append(table.count("error"))
            table.flush_search_cache()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [ERRORS] * 40


def test_a_forked_process_goes_on_with_what_is_open(table, opened) -> None:
    """Also where another thread was about to open something."""
    assert table.count("error") == ERRORS
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        """Extract an index, and wait while it is this thread's turn."""
        with table._opened._cache.directory("another index", lambda into: held.set() or done.wait()):
            assert done.is_set()

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        good = table.count("error") == ERRORS and table.search("error").num_rows == ERRORS and len(opened) == 3
        with table._opened._cache.directory("another index", lambda into: None):
            table.flush_search_cache()
        os._exit(0 if good and table.count("error") == ERRORS else 1)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert table.count("error") == ERRORS
    assert len(opened) == 3


def test_a_table_that_is_open_can_be_pickled(table) -> None:
    assert table.count("error") == ERRORS
    again = pickle.loads(pickle.dumps(table))
    assert again.version == table.version
    assert again.count("error") == ERRORS
