"""Splits combined into one hold the rows of all, in order, and answer every query as one split written at once does."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import pickle
import tempfile
from collections.abc import Iterator, Sequence
from unittest import mock

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doubles.faulty_store import Fault, FaultyStore
from tests.doubles.metered_store import MeteredStore
from tests.split.query.query_oracle import evaluate
from tests.split.query.test_query_rows import ROWS, TREES

from indextables.config import Config
from indextables.errors import ConfigError, CorruptSplitError, ObjectNotFoundError, SchemaError, StorageError
from indextables.protocol.actions import Add
from indextables.protocol.statistics_tags import FOOTER_TAG
from indextables.split import combine, writer
from indextables.split.combine import BadSourcesError, combine_splits
from indextables.split.index.index_cache import IndexCache
from indextables.split.query import parse_query
from indextables.split.search.searcher import SplitSearcher
from indextables.split.split_file import SplitFile
from indextables.split.writer import SplitWriter
from indextables.store import ObjectStore, open_store

SCHEMA = pa.schema(
    [
        ("message", pa.string()),
        ("note", pa.string()),
        ("host", pa.string()),
        ("odd name", pa.string()),
        ("status", pa.int64()),
        ("seconds", pa.float64()),
        ("ok", pa.bool_()),
    ]
)
OPTIONS = {
    "indexing.typemap.message": "text",
    "indexing.typemap.note": "text",
    "indexing.tokenizer.note": "whitespace",
    "indexing.fastfields": "seconds,odd name",
}
SOME_ROWS = [
    {"message": f"disk {number} full", "host": f"web-{number % 5}", "status": number, "seconds": number / 2}
    for number in range(90)
]


class Place:
    """A store and a cache below one directory."""

    def __init__(self, root: str, **options: str) -> None:
        self.building = os.path.join(root, "building")
        os.makedirs(self.building, exist_ok=True)
        paths = {"cache.disk.path": os.path.join(root, "cache"), "indexWriter.tempDirectoryPath": self.building}
        self.config = Config.resolve(options={**OPTIONS, **paths, **options})
        self.root = os.path.join(root, "t")
        self.store = open_store(self.root, self.config)
        self.cache = IndexCache(self.config)

    def write(self, rows: Sequence[dict], config: Config | None = None) -> Add:
        with SplitWriter(self.store, SCHEMA, config or self.config) as new:
            new.write(pa.RecordBatch.from_pylist(list(rows), schema=SCHEMA))
            (add,) = new.finish()
        return add

    def combine(self, *adds: Add, store: ObjectStore | None = None) -> Add:
        return combine_splits(store or self.store, adds, SCHEMA, self.config)

    def open(self, add: Add) -> SplitFile:
        offsets = {"footer_start_offset": add.footer_start_offset, "footer_end_offset": add.footer_end_offset}
        return SplitFile.open(self.store, add.path, size=add.size, **offsets)

    def rows(self, add: Add) -> list[dict]:
        return [
            {name: value for name, value in row.items() if value is not None}
            for batch in self.open(add).rows()
            for row in batch.to_pylist()
        ]

    def search(self, add: Add, query) -> list[int]:
        searcher = SplitSearcher(self.open(add), add.path, self.cache)
        found = searcher.row_numbers(parse_query(query) if isinstance(query, str) else query).to_pylist()
        assert searcher.count(parse_query(query) if isinstance(query, str) else query) == len(found)
        return found

    def segments(self, add: Add) -> list[tuple[int, int]]:
        return [(one.first_row, one.num_rows) for one in self.open(add).directory.segments]

    def paths(self) -> list[str]:
        return sorted(found.key for found in self.store.list(""))


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(str(tmp_path))


@contextlib.contextmanager
def any_segments() -> Iterator[None]:
    """Segments are kept however small they are."""
    with mock.patch.multiple(combine, ROWS_PER_SEGMENT=1):
        yield


@settings(max_examples=12)
@given(
    st.lists(ROWS, min_size=2, max_size=14),
    st.lists(st.integers(1, 13), min_size=1, max_size=4, unique=True),
    st.integers(1, 3),
    st.lists(TREES, min_size=8, max_size=16),
)
def test_combined_splits_answer_as_one_that_was_written_at_once(rows, cuts, first, trees) -> None:
    with tempfile.TemporaryDirectory() as root:
        place = Place(root)
        ends = [0, *sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
        pieces = [place.write(rows[low:high]) for low, high in itertools.pairwise(ends)]
        whole = place.write(rows)
        indexed_again = place.combine(*pieces)
        with any_segments():
            by_segments = place.combine(*pieces)
            in_two_steps = place.combine(place.combine(*pieces[:first]), *pieces[first:])
        assert len(place.segments(by_segments)) == len(place.segments(in_two_steps)) == len(pieces)
        assert len(place.segments(indexed_again)) == 1
        expected = [rows, *[[n for n, row in enumerate(rows) if evaluate(tree, row)] for tree in trees]]
        for add in (whole, by_segments, in_two_steps, indexed_again):
            assert [place.rows(add), *[place.search(add, tree) for tree in trees]] == expected


def test_the_segments_are_told_where_their_rows_are(place) -> None:
    pieces = [place.write(SOME_ROWS[:30]), place.write(SOME_ROWS[30:40]), place.write(SOME_ROWS[40:])]
    with any_segments():
        both = place.combine(pieces[1], pieces[0])
        everything = place.combine(pieces[2], both)
    assert place.segments(both) == [(0, 10), (10, 30)]
    assert place.segments(everything) == [(0, 50), (50, 10), (60, 30)]
    assert place.rows(everything) == [*SOME_ROWS[40:], *SOME_ROWS[30:40], *SOME_ROWS[:30]]
    assert place.search(everything, "status:[29 TO 40]") == [0, *range(50, 60), 89]
    assert place.search(everything, "*") == list(range(90))


def test_the_add_action_says_what_that_of_one_split_says(tmp_path) -> None:
    place = Place(str(tmp_path))
    whole = place.write(SOME_ROWS)
    first = place.write(SOME_ROWS[:40])
    with any_segments():
        once = place.combine(first, place.write(SOME_ROWS[40:60]))
        twice = place.combine(once, place.write(SOME_ROWS[60:]))
    assert (once.num_merge_ops, twice.num_merge_ops) == (1, 2)
    assert twice.tags.pop(FOOTER_TAG) == str(twice.footer_start_offset)
    assert whole.tags.pop(FOOTER_TAG) == str(whole.footer_start_offset)
    told = ("stats", "min_values", "max_values", "num_records", "tags", "doc_mapping_json", "has_footer_offsets")
    assert {name: getattr(twice, name) for name in told} == {name: getattr(whole, name) for name in told}
    assert twice.uncompressed_size_bytes == whole.uncompressed_size_bytes
    assert twice.size == os.path.getsize(os.path.join(place.root, twice.path))
    assert pq.read_table(os.path.join(place.root, twice.path)) == pq.read_table(os.path.join(place.root, whole.path))
    assert _filter_size(place, twice) == _filter_size(place, whole)


def test_a_partition_is_kept(place) -> None:
    adds: list[Add] = []
    sources = [place.write(SOME_ROWS[:3]), place.write(SOME_ROWS[3:5])]
    found = combine_splits(
        place.store,
        sources,
        SCHEMA,
        place.config,
        partition_columns=("host", "note"),
        partition_values={"host": "web-1", "note": None},
        adds=adds,
    )
    assert adds == [found]
    assert found.path.startswith("host=web-1/note=__HIVE_DEFAULT_PARTITION__/")
    assert found.partition_values == {"host": "web-1"}


def test_one_put_and_nothing_else_is_written(place) -> None:
    sources = [place.write(SOME_ROWS[:30]), place.write(SOME_ROWS[30:])]
    before = place.paths()
    store = MeteredStore(place.store)
    store.calls.clear()
    with any_segments():
        found = place.combine(*sources, store=store)
    assert {verb: count for verb, count in store.calls.items() if not verb.startswith("get")} == {"put_file": 1}
    assert place.paths() == sorted([*before, found.path])
    assert os.listdir(place.building) == []


@pytest.mark.parametrize("by_segments", [True, False])
def test_damaged_rows_are_named_and_leave_nothing(place, by_segments) -> None:
    sources = [place.write(SOME_ROWS[:30]), place.write(SOME_ROWS[30:])]
    before = place.paths()
    _flip(place, sources[1], 10)
    adds: list[Add] = []
    with any_segments() if by_segments else contextlib.nullcontext(), pytest.raises(BadSourcesError) as error:
        combine_splits(place.store, sources, SCHEMA, place.config, adds=adds)
    assert sources[1].path in str(error.value)
    assert {path: type(cause) for path, cause in error.value.causes.items()} == {sources[1].path: CorruptSplitError}
    assert pickle.loads(pickle.dumps(error.value)).causes.keys() == {sources[1].path}
    assert (adds, place.paths(), os.listdir(place.building)) == ([], before, [])


def test_a_damaged_index_is_made_again_from_the_rows(place, caplog) -> None:
    sources = [place.write(SOME_ROWS[:30]), place.write(SOME_ROWS[30:])]
    _flip(place, sources[1], place.open(sources[1]).directory.index_range[0])
    with any_segments(), caplog.at_level(logging.WARNING):
        found = place.combine(*sources)
    assert "an index is damaged" in caplog.text
    assert sources[1].path in caplog.text
    assert place.segments(found) == [(0, 90)]
    assert place.search(found, "disk AND status:>85") == [86, 87, 88, 89]


def test_an_index_of_another_engine_is_made_again(place, caplog) -> None:
    with mock.patch.multiple(writer, ENGINE_VERSION="0.1"):
        old = place.write(SOME_ROWS[:30])
    with any_segments(), caplog.at_level(logging.INFO):
        found = place.combine(old, place.write(SOME_ROWS[30:]))
    assert "was written by tantivy 0.1" in caplog.text
    assert len(place.segments(found)) == 1
    assert place.open(found).directory.engine_version == writer.ENGINE_VERSION


def test_the_settings_of_the_table_decide_how_it_is_indexed(place) -> None:
    other = Config.resolve(options={**OPTIONS, "indexing.typemap.host": "text"})
    sources = [place.write(SOME_ROWS[:30], other), place.write(SOME_ROWS[30:], other)]
    with any_segments():
        found = place.combine(*sources)
        mixed = place.combine(sources[0], place.write(SOME_ROWS[30:]))
    for add in (found, mixed):
        assert len(place.segments(add)) == 1
        assert place.search(add, "host:web") == []
        assert place.search(add, "host:web-3") == list(range(3, 90, 5))


def test_too_many_segments_become_one(place) -> None:
    sources = [place.write(SOME_ROWS[start : start + 10]) for start in range(0, 90, 10)]
    with mock.patch.multiple(combine, ROWS_PER_SEGMENT=1, MOST_SEGMENTS=8):
        assert len(place.segments(place.combine(*sources[:8]))) == 8
        assert len(place.segments(place.combine(*sources))) == 1
    with mock.patch.multiple(combine, ROWS_PER_SEGMENT=45):
        assert len(place.segments(place.combine(*sources[:2]))) == 1
        assert len(place.segments(place.combine(place.combine(*sources[:4]), place.combine(*sources[4:])))) == 2


def test_a_split_may_be_named_twice(place) -> None:
    source = place.write(SOME_ROWS[:30])
    with any_segments():
        found = place.combine(source, source)
    assert place.rows(found) == SOME_ROWS[:30] * 2
    assert place.search(found, "status:7") == [7, 37]


def test_what_cannot_be_combined_is_refused(place) -> None:
    with pytest.raises(ConfigError, match="the list is empty"):
        combine_splits(place.store, [], SCHEMA, place.config)
    source = place.write(SOME_ROWS[:3])
    with pytest.raises(BadSourcesError, match=source.path) as error:
        combine_splits(place.store, [source], SCHEMA.remove(0), Config.resolve())
    assert [type(cause) for cause in error.value.causes.values()] == [SchemaError]


def test_all_sources_that_cannot_be_opened_are_named_at_once(place) -> None:
    sources = [place.write(SOME_ROWS[start : start + 10]) for start in range(0, 50, 10)]
    os.remove(os.path.join(place.root, sources[0].path))
    os.truncate(os.path.join(place.root, sources[2].path), 100)
    miscounted = msgspec.structs.replace(sources[4], num_records=11)
    with pytest.raises(BadSourcesError, match="and 2 more") as error:
        place.combine(*sources[:4], miscounted)
    assert {path: type(cause) for path, cause in error.value.causes.items()} == {
        sources[0].path: ObjectNotFoundError,
        sources[2].path: CorruptSplitError,
        sources[4].path: CorruptSplitError,
    }
    assert "it has 10 rows and the log says 11" in str(error.value.causes[sources[4].path])


def test_a_count_that_the_log_does_not_know_is_no_error(place) -> None:
    sources = [msgspec.structs.replace(place.write(rows), num_records=None) for rows in (SOME_ROWS[:5], SOME_ROWS[5:9])]
    assert place.combine(*sources).num_records == 9


def test_an_index_that_cannot_be_fetched_is_made_again(place) -> None:
    sources = [place.write(SOME_ROWS[:30]), place.write(SOME_ROWS[30:])]
    pieces = place.open(sources[1]).directory.pieces
    starts = {pieces.offset, pieces.tails_offset}

    class Failing(MeteredStore):
        def get_ranges(self, key, ranges):
            if key == sources[1].path and starts & {start for start, _ in ranges}:
                raise StorageError("the store is busy")
            return super().get_ranges(key, ranges)

    with any_segments():
        found = place.combine(*sources, store=Failing(place.store))
    assert place.segments(found) == [(0, 90)]
    assert place.rows(found) == SOME_ROWS


def test_a_lock_file_that_comes_back_is_removed_too(place, monkeypatch) -> None:
    """A thread of the engine watches the directory of an index, and makes its lock file there when it looks."""
    remove, seen = os.rmdir, set()

    def remove_late(path, *, dir_fd=None) -> None:
        if dir_fd is None and path not in seen:
            seen.add(path)
            with open(os.path.join(path, ".tantivy-meta.lock"), "wb"):
                pass
        remove(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", remove_late)
    sources = [place.write(SOME_ROWS[:3]), place.write(SOME_ROWS[3:5])]
    assert place.rows(place.combine(*sources)) == SOME_ROWS[:5]
    assert len(seen) == 6
    assert os.listdir(place.building) == []


def test_a_failing_put_leaves_nothing(place) -> None:
    source = place.write(SOME_ROWS[:3])
    failing = FaultyStore(place.store, lambda call: Fault.UNAVAILABLE if call.verb.startswith("put") else Fault.NONE)
    before = place.paths()
    with pytest.raises(StorageError):
        place.combine(source, store=failing)
    assert (place.paths(), os.listdir(place.building)) == (before, [])


def _flip(place: Place, add: Add, offset: int) -> None:
    with open(os.path.join(place.root, add.path), "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0xFF]))


def _filter_size(place: Place, add: Add) -> int:
    return place.open(add).directory.term_filter.raw_length
