"""Caches are emptied for good, and nobody who uses an entry notices."""

from __future__ import annotations

import os
import threading

import pyarrow as pa
import pytest
from tests.split.partial.stored_pieces import StoredPieces

import indextables as it
from indextables.maintain.caches import flush_searchers, invalidate_logs
from indextables.split.index.index_cache import IndexCache
from indextables.split.partial.sparse_cache import SparseCache
from indextables.split.search.split_rows import wait_for_copies


@pytest.fixture
def options(tmp_path):
    return {"cache.disk.path": str(tmp_path / "cache")}


@pytest.fixture
def table(tmp_path, options):
    table = it.Table.create(
        tmp_path / "table", pa.schema([("message", pa.string())]), indexing={"message": "text"}, options=options
    )
    for number in range(3):
        table.append(pa.table({"message": [f"error number{number}", "fine"]}))
    return table


def rows_of(answer, **wanted):
    return [row for row in answer.to_pylist() if wanted.items() <= row.items()]


def entries(options) -> list[str]:
    place = os.path.join(options["cache.disk.path"], "indexes")
    return os.listdir(place) if os.path.isdir(place) else []


def test_one_log_is_forgotten(table):
    log = it.TransactionLog(table.url)
    log.snapshot(version=1)
    log.snapshot(version=1)
    before = log.cache_stats()
    own = table.log.cache_stats()
    (row,) = invalidate_logs(table.url).to_pylist()
    assert row["table_path"] == table.url
    assert row["result"] == "INVALIDATED"
    assert row["cache_hits_before"] == before.hits + own.hits > 0
    assert row["cache_misses_before"] == before.misses + own.misses > 0
    assert row["hit_rate_before"] == pytest.approx(
        row["cache_hits_before"] / (row["cache_hits_before"] + row["cache_misses_before"])
    )
    assert len(log.reader.cache.snapshots._entries) == len(log.reader.cache.versions._entries) == 0
    assert log.snapshot().version == 3


def test_all_logs_are_forgotten(table, tmp_path):
    other = it.Table.create(tmp_path / "another", pa.schema([("a", pa.string())]))
    other.log.snapshot(version=0)
    answer = invalidate_logs()
    urls = answer["table_path"].to_pylist()
    assert {table.url, other.url} <= set(urls)
    assert len(urls) == len(set(urls))
    assert len(other.log.reader.cache.snapshots._entries) == 0


def test_a_log_that_is_not_open(tmp_path):
    (row,) = invalidate_logs(str(tmp_path / "nowhere")).to_pylist()
    assert row == {
        "table_path": str(tmp_path / "nowhere"),
        "result": "NOT OPEN",
        "cache_hits_before": 0,
        "cache_misses_before": 0,
        "hit_rate_before": 0.0,
    }


def test_a_table_is_found_however_its_place_is_written(table):
    assert rows_of(invalidate_logs(f"file://{table.url}"), table_path=table.url, result="INVALIDATED")
    assert rows_of(invalidate_logs(f"{table.url}/"), table_path=table.url, result="INVALIDATED")


def test_searchers_and_their_indexes_go(table, options):
    assert table.count("error") == 3
    assert len(entries(options)) == 3
    searchers, indexes, _ = flush_searchers(options).to_pylist()
    assert (searchers["cache_type"], searchers["status"]) == ("searchers", "FLUSHED")
    assert searchers["cleared_entries"] >= 3
    assert (indexes["cache_type"], indexes["cleared_entries"]) == ("indexes", 3)
    assert entries(options) == []
    assert table.count("error") == 3
    assert len(entries(options)) == 3


def test_copies_of_rows_go(table, options):
    for _ in range(6):
        assert table.search("error").num_rows == 3
    assert wait_for_copies(30)
    *_, rows = flush_searchers(options).to_pylist()
    assert (rows["cache_type"], rows["status"], rows["cleared_entries"]) == ("rows", "FLUSHED", 3)
    assert table.search("error").num_rows == 3
    assert flush_searchers(options).to_pylist()[2]["cleared_entries"] == 0


def test_an_index_that_is_in_use_stays(table, options):
    assert table.count("error") == 3
    first = table.files().to_pylist()[0]
    offsets = {name: first[name] for name in ("footer_start_offset", "footer_end_offset")}
    searcher = table._opened.get(first["path"], size=first["size"], **offsets)
    index = searcher._own.opened_for(None)
    assert flush_searchers(options).to_pylist()[1]["cleared_entries"] == 2
    assert len(entries(options)) == 1
    assert index.searcher.num_docs == 2
    del index, searcher
    assert flush_searchers(options).to_pylist()[1]["cleared_entries"] == 1
    assert entries(options) == []


def test_a_cache_that_is_switched_off_or_not_there(tmp_path, options):
    (indexes,) = rows_of(flush_searchers({"cache.disk.enabled": "false"}), cache_type="indexes")
    assert (indexes["status"], indexes["cleared_entries"]) == ("SWITCHED OFF", 0)
    (indexes,) = rows_of(flush_searchers(options), cache_type="indexes")
    assert (indexes["status"], indexes["cleared_entries"]) == ("FLUSHED", 0)


def test_caches_are_emptied_while_others_search_and_open(table, options):
    problems: list[BaseException] = []
    stop = threading.Event()

    def search():
        try:
            while not stop.is_set():
                opened = it.Table.open(table.url, options=options)
                assert opened.count("error") == 3
                assert opened.search("number1").num_rows == 1
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(40):
        flush_searchers(options)
        invalidate_logs()
        invalidate_logs(table.url)
    stop.set()
    for thread in threads:
        thread.join()
    assert problems == []


def test_what_is_being_made_is_left_alone(tmp_path, options):
    cache = IndexCache(it.TransactionLog(tmp_path / "t", options=options).config)

    def extract(directory):
        with open(os.path.join(directory, "a"), "w") as file:
            file.write("a")
        assert cache.clear() == 0
        return {}

    with cache.directory("x", extract) as place:
        assert cache.clear() == 0
        assert os.listdir(place) == ["a"]
    assert cache.clear() == 1


def test_parts_of_indexes_are_removed_too(tmp_path, options):
    stored = StoredPieces()
    entry = SparseCache(it.TransactionLog(tmp_path / "t", options=options).config).open("a", stored.table)
    assert entry is not None
    stored.fill(entry, [0])
    assert flush_searchers(options)["cleared_entries"].to_pylist()[1] == 0  # it is open
    entry.close()
    assert flush_searchers(options)["cleared_entries"].to_pylist()[1] == 1
    assert not os.path.exists(entry.directory)
