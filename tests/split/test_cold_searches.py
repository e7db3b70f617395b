"""Searches that fetch parts of an index answer like those that fetch it whole, whatever becomes of the parts."""

from __future__ import annotations

import os
import random
import shutil

import pyarrow as pa
import pytest
from tests.doubles.metered_store import MeteredStore
from tests.split.partial.poisoned import OPTIONS, SCHEMA, WORDS, random_rows, random_tree

import indextables as it
from indextables.config import Config
from indextables.errors import CorruptSplitError
from indextables.protocol.actions import Add
from indextables.split import split_file
from indextables.split.index.builder import IndexBuilder
from indextables.split.index.index_cache import IndexCache
from indextables.split.partial import packing, partial_index, tantivy_files
from indextables.split.query import tree as t
from indextables.split.search import cold_indexes
from indextables.split.search.cold_indexes import ColdIndexes
from indextables.split.search.searcher import SplitSearcher
from indextables.split.split_file import SplitFile
from indextables.split.writer import SplitWriter
from indextables.store import open_store


class CountingStore(MeteredStore):
    """Counts the bytes that are read."""

    bytes_read = 0

    def get_ranges(self, key, ranges):
        self.bytes_read += sum(end - start for start, end in ranges)
        return super().get_ranges(key, ranges)


class Place:
    """A split in small pieces, and searchers of it with caches of their own."""

    def __init__(self, root, monkeypatch, rng: random.Random, *, num_rows: int = 400) -> None:
        monkeypatch.setattr(packing, "_SMALL_PIECE", 300)
        monkeypatch.setattr(packing, "_LARGE_PIECE", 600)
        monkeypatch.setattr(tantivy_files, "_SMALL_DICTIONARY_BYTES", 100)
        monkeypatch.setattr(partial_index, "_SMALL_DICTIONARY_BYTES", 1_000)
        monkeypatch.setattr(cold_indexes, "SMALL_INDEX_BYTES", 0)
        whole = IndexBuilder._new_part

        def new_part(self):
            self._bytes_per_part = 8_000
            return whole(self)

        monkeypatch.setattr(IndexBuilder, "_new_part", new_part)
        self.root = root
        config = Config.resolve(options=OPTIONS)
        self.store = CountingStore(open_store(str(root / "t"), config))
        rows = random_rows(rng, num_rows)
        with SplitWriter(self.store, SCHEMA, config) as writer:
            for start in range(0, num_rows, 50):
                writer.write(rows.slice(start, 50))
            (self.add,) = writer.finish()
        self.traces = [trace for trace in rows["trace"].to_pylist() if trace][:5]

    def config(self, cache: str) -> Config:
        return Config.resolve(options={**OPTIONS, "cache.disk.path": str(self.root / cache), "search.cold.gap": "0"})

    def open(self) -> SplitFile:
        return opened(self.store, self.add)

    def searcher(self, cache: str, *, cold: bool = True) -> SplitSearcher:
        config = self.config(cache)
        return SplitSearcher(self.open(), "id", IndexCache(config), cold=ColdIndexes(config) if cold else None)

    def parts(self, cache: str) -> list[str]:
        return [str(path) for path in (self.root / cache).rglob("*.idx") if "partial" in str(path)]


def opened(store, add: Add) -> SplitFile:
    offsets = {"footer_start_offset": add.footer_start_offset, "footer_end_offset": add.footer_end_offset}
    return SplitFile.open(store, add.path, size=add.size, **offsets)


def answers(searcher: SplitSearcher, tree: t.Node, kind: str) -> object:
    if kind == "rows":
        return searcher.row_numbers(tree, limit=20).to_pylist()
    if kind == "best":
        rows, scores = searcher.best(tree, limit=10)
        return rows.to_pylist(), scores.to_pylist()
    if kind == "count":
        return searcher.count(tree)
    field = searcher.fast_field("number", tree)
    return field and searcher.aggregate(tree, "", {"x": {"stats": {"field": field.name}}})


def ask_both(cold: SplitSearcher, whole: SplitSearcher, rng: random.Random, traces: list[str], times: int) -> None:
    for _ in range(times):
        tree = random_tree(rng, traces)
        kind = rng.choice(["rows", "best", "count", "aggregate"])
        assert answers(cold, tree, kind) == answers(whole, tree, kind), (tree, kind)


@pytest.mark.parametrize("seed", range(4))
def test_answers_are_those_of_the_whole_index(seed, tmp_path, monkeypatch) -> None:
    rng = random.Random(seed)
    place = Place(tmp_path, monkeypatch, rng)
    assert place.open().directory.layout_version == 2
    assert len(place.open().directory.segments) > 1
    whole = place.searcher("whole", cold=False)
    for cache in range(3):
        for _ in range(2):  # the second finds parts in the cache
            ask_both(place.searcher(f"cache{cache}"), whole, rng, place.traces, rng.choice([2, 10]))
        assert place.parts(f"cache{cache}")
    off = Config.resolve(options={**OPTIONS, "cache.disk.enabled": "false"})
    ask_both(SplitSearcher(place.open(), "id", IndexCache(off), cold=ColdIndexes(off)), whole, rng, place.traces, 5)


def test_a_word_fetches_little_and_an_absent_one_less(tmp_path, monkeypatch) -> None:
    place = Place(tmp_path, monkeypatch, random.Random(1), num_rows=3_000)
    start, end = place.open().directory.index_range
    cold = place.searcher("cache")
    place.store.bytes_read = 0
    assert cold.count(t.Term("rare7", path=("message",))) > 0
    assert place.store.bytes_read < (end - start) / 2
    before = place.store.bytes_read
    assert cold.count(t.Term("rare7", path=("message",))) > 0
    assert place.store.bytes_read == before


def test_parts_that_vanish_while_they_are_open_are_fetched_again(tmp_path, monkeypatch) -> None:
    rng = random.Random(3)
    place = Place(tmp_path, monkeypatch, rng)
    whole, cold = place.searcher("whole", cold=False), place.searcher("cache")
    ask_both(cold, whole, rng, place.traces, 3)
    shutil.rmtree(tmp_path / "cache")
    ask_both(cold, whole, rng, place.traces, 20)


def test_a_full_disk_costs_the_parts_and_no_answer(tmp_path, monkeypatch) -> None:
    rng = random.Random(4)
    place = Place(tmp_path, monkeypatch, rng)
    whole, cold = place.searcher("whole", cold=False), place.searcher("cache")
    ask_both(cold, whole, rng, place.traces, 2)
    write = os.pwrite

    def full(handle: int, data: object, offset: int) -> int:
        if "/partial" in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(28, "No space left on device")
        return write(handle, data, offset)

    monkeypatch.setattr(os, "pwrite", full)
    ask_both(cold, whole, rng, place.traces, 20)
    ask_both(place.searcher("another"), whole, rng, place.traces, 5)


def test_a_damaged_piece_is_noticed_by_the_search_that_needs_it(tmp_path, monkeypatch) -> None:
    place = Place(tmp_path, monkeypatch, random.Random(5))
    pieces = place.open().directory.pieces
    path = tmp_path / "t" / place.add.path
    data = bytearray(path.read_bytes())
    for offset in range(pieces.offset, pieces.tails_offset, 40):
        data[offset] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptSplitError, match="checksum"):
        place.searcher("cache").count(t.Term(WORDS[0], path=("message",)))
    data[pieces.tails_offset + 3] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptSplitError, match="checksum"):
        place.searcher("cache2").count(t.All())


def test_an_index_of_another_form_keeps_the_older_layout(tmp_path, monkeypatch) -> None:
    def unknown(directory: str, names: object) -> None:
        raise ValueError("a file has no footer")

    monkeypatch.setattr(split_file, "IndexFiles", unknown)
    rng = random.Random(6)
    place = Place(tmp_path, monkeypatch, rng)
    assert place.open().directory.layout_version == 1
    ask_both(place.searcher("cache"), place.searcher("whole", cold=False), rng, place.traces, 10)
    assert not place.parts("cache")


@pytest.mark.parametrize("where", [None, "number < 3", "day = 1", "day IN (0, 2)"])
def test_a_table_answers_alike_by_parts_and_whole(where, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(cold_indexes, "SMALL_INDEX_BYTES", 0)
    monkeypatch.setattr(packing, "_SMALL_PIECE", 500)
    rng = random.Random(7)
    rows = pa.Table.from_batches([random_rows(rng, 300)])
    rows = rows.append_column("day", pa.array([row % 4 for row in range(300)]))
    table = it.Table.create(
        tmp_path / "t", rows.schema, partition_by=["day"], indexing={"message": "text", "note": "text"}
    )
    table.append(rows)
    found = []
    for cold in ("whole", "partial"):
        asked = it.Table.open(tmp_path / "t", options={"search.cold": cold, "cache.disk.path": str(tmp_path / cold)})
        found.append(
            [
                (
                    asked.count(query, where=where),
                    asked.search(query, where=where, limit=7).to_pylist(),
                    asked.search(query, where=where, score=True, limit=7).to_pylist(),
                    asked.aggregate("level", query=query, where=where).to_pylist(),
                )
                for query in ("alpha", "rare3 OR disk", '"alpha beta"', "level:INFO AND NOT x", "mess*", "number:>5")
            ]
        )
    assert found[0] == found[1]
    assert list((tmp_path / "partial").rglob("*.idx"))
