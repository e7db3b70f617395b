"""Whatever the columns: rows come back as they went in, by number too, and a query for a value finds its rows."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.split.query.query_text import to_text
from tests.split.split_columns import MOMENTS, SCALARS, decimals, is_nan, literal, whole

from indextables.config import Config
from indextables.protocol.actions import Add
from indextables.split import combine
from indextables.split.combine import combine_splits
from indextables.split.index.fields import RESERVED
from indextables.split.index.index_cache import IndexCache
from indextables.split.query import parse_query
from indextables.split.query import tree as t
from indextables.split.search.searcher import SplitSearcher
from indextables.split.split_file import SplitFile
from indextables.split.writer import SplitWriter
from indextables.store import open_store

TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
KEYS = st.sampled_from(["k", "a.b", "x y", "ü"])
WORDS = st.sampled_from(["", "one", "One two", "two", "ünï"])


def ticks(unit: str) -> st.SearchStrategy[int]:
    """Moments that Python can hold too, counted."""
    return st.integers(-8 * 10**9 * TICKS[unit], 9 * 10**9 * TICKS[unit])


MORE_SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    pa.uint16(): whole(16, signed=False),
    pa.float16(): st.floats(width=16),
    pa.timestamp("ms"): ticks("ms"),
    pa.timestamp("ns"): ticks("ns"),
    pa.timestamp("s", tz="+05:30"): ticks("s"),
    pa.timestamp("ns", tz="Europe/Berlin"): ticks("ns"),
    pa.time32("ms"): st.integers(0, 86_400 * 10**3 - 1),
    pa.time64("ns"): st.integers(0, 86_400 * 10**9 - 1),
    pa.decimal256(76, 0): decimals(76, 0),
    pa.large_binary(): st.binary(max_size=5),
    pa.binary_view(): st.binary(max_size=20),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.dictionary(pa.int8(), pa.int64()): whole(64),
    pa.null(): st.none(),
}
PAIR = pa.struct([("n", pa.int64()), ("s", pa.string())])
PAIRS = st.fixed_dictionaries({"n": st.none() | whole(64), "s": st.none() | WORDS})
NESTED: dict[Any, st.SearchStrategy[Any]] = {
    PAIR: PAIRS,
    pa.list_(pa.int32()): st.lists(st.none() | whole(32), max_size=3),
    pa.large_list(pa.string()): st.lists(st.none() | WORDS, max_size=3),
    pa.list_(pa.bool_(), 2): st.lists(st.none() | st.booleans(), min_size=2, max_size=2),
    pa.map_(pa.string(), pa.int64()): st.dictionaries(KEYS, st.none() | whole(64), max_size=3).map(
        lambda it: [*it.items()]
    ),
    pa.struct([("items", pa.list_(PAIR))]): st.fixed_dictionaries({"items": st.lists(st.none() | PAIRS, max_size=3)}),
    pa.struct(
        [("a", pa.struct([("l", pa.list_(pa.timestamp("us")))])), ("d", pa.decimal128(9, 2))]
    ): st.fixed_dictionaries(
        {"a": st.none() | st.fixed_dictionaries({"l": st.none() | st.lists(MOMENTS, max_size=2)}), "d": decimals(9, 2)}
    ),
    pa.map_(pa.int32(), pa.list_(pa.binary())): st.dictionaries(
        whole(32), st.none() | st.lists(st.binary(max_size=3), max_size=2), max_size=2
    ).map(lambda it: [*it.items()]),
}
TYPES = {**SCALARS, **MORE_SCALARS, **NESTED}
NAMES = st.one_of(
    st.sampled_from(["a.b", "a b", "-x", "ünï", "a", "A", "f0", "$", "`", 'q"', "x:y", "*", "NOT"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6),
).filter(lambda name: name not in RESERVED)


@st.composite
def tables(draw) -> pa.Table:
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    num_rows = draw(st.integers(1, 6))
    columns = {}
    for name in names:
        type_ = draw(st.sampled_from(list(TYPES)))
        values = st.none() | TYPES[type_]
        columns[name] = pa.array(draw(st.lists(values, min_size=num_rows, max_size=num_rows)), type_)
    return pa.table(columns)


class Place:
    def __init__(self, root: str) -> None:
        self.config = Config.resolve(options={"cache.disk.path": os.path.join(root, "cache")})
        self.store = open_store(os.path.join(root, "t"), self.config)
        self.cache = IndexCache(self.config)

    def write(self, table: pa.Table) -> Add:
        with SplitWriter(self.store, table.schema, self.config) as writer:
            for batch in table.to_batches():
                writer.write(batch)
            (add,) = writer.finish()
        return add

    def open(self, add: Add) -> SplitFile:
        offsets = {"footer_start_offset": add.footer_start_offset, "footer_end_offset": add.footer_end_offset}
        return SplitFile.open(self.store, add.path, size=add.size, **offsets)

    def rows(self, add: Add, numbers: list[int] | None = None) -> pa.Table:
        split = self.open(add)
        return pa.Table.from_batches(split.rows(None if numbers is None else pa.array(numbers, pa.uint64())))

    def searcher(self, add: Add) -> SplitSearcher:
        return SplitSearcher(self.open(add), add.path, self.cache)


@settings(max_examples=15)
@given(tables(), st.data())
def test_rows_of_any_type_are_kept_found_and_combined(table, data) -> None:
    numbers = data.draw(st.lists(st.integers(0, table.num_rows - 1), min_size=1, max_size=8))
    cut = data.draw(st.integers(0, table.num_rows))
    with tempfile.TemporaryDirectory() as root:
        place = Place(root)
        whole = place.write(table)
        assert_same(place.rows(whole), table)
        assert_same(place.rows(whole, numbers), picked(table, numbers))
        pieces = [place.write(piece) for piece in (table[:cut], table[cut:]) if piece.num_rows]
        with mock.patch.multiple(combine, ROWS_PER_SEGMENT=1):
            combined = combine_splits(place.store, pieces, table.schema, place.config)
        assert_same(place.rows(combined), table)
        assert combined.min_values == whole.min_values
        assert combined.max_values == whole.max_values
        assert combined.stats == whole.stats
        searchers = [place.searcher(whole), place.searcher(combined)]
        for leaf, expected in questions(table):
            for searcher in searchers:
                assert searcher.row_numbers(leaf).to_pylist() == expected, leaf
            if "\0" not in to_text(leaf):
                assert searchers[0].row_numbers(parse_query(to_text(leaf))).to_pylist() == expected, leaf


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_every_type_is_kept_and_found(type_, tmp_path) -> None:
    @settings(max_examples=3)
    @given(st.lists(st.none() | TYPES[type_], min_size=1, max_size=40))
    def check(values) -> None:
        table = pa.table({"c": pa.array(values, type_)})
        place = Place(str(tmp_path))
        add = place.write(table)
        assert_same(place.rows(add), table)
        searcher = place.searcher(add)
        for leaf, expected in questions(table):
            assert searcher.row_numbers(leaf).to_pylist() == expected, leaf

    check()


@pytest.mark.slow
def test_many_columns_are_written_read_and_searched_in_bounded_time_and_room(tmp_path) -> None:
    num_rows = 5_000
    columns: dict[str, Any] = {}
    for number in range(500):
        values = [(row * 7919 + number * 31) % 1000 for row in range(num_rows)]
        if number % 5 == 0:
            columns[f"text {number}"] = pa.array([f"word{value} in column {number}" for value in values])
        elif number % 5 == 1:
            columns[f"real {number}"] = pa.array([value / 8 for value in values])
        else:
            columns[f"whole {number}"] = pa.array(values, pa.int64())
    table = pa.table(columns)
    place = Place(str(tmp_path))
    start = time.monotonic()
    add = place.write(table)
    assert place.rows(add).equals(table)
    searcher = place.searcher(add)
    expected = [row for row in range(num_rows) if (row * 7919 + 499 * 31) % 1000 == 7]
    assert searcher.row_numbers(parse_query("`whole 499`:7")).to_pylist() == expected
    assert searcher.count(parse_query('`text 495`:"word7 in column 495"')) == num_rows // 1000
    assert time.monotonic() - start < 60
    assert add.size < table.nbytes / 2
    assert add.footer_end_offset - add.footer_start_offset < 1 << 20


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    assert found.schema == expected.schema
    assert found.num_rows == expected.num_rows
    for name in expected.schema.names:
        assert repr(plain(found[name])) == repr(plain(expected[name])), name


def picked(table: pa.Table, numbers: list[int]) -> pa.Table:
    return pa.concat_tables([table.slice(number, 1) for number in numbers])


def plain(column: pa.ChunkedArray) -> list[Any]:
    """The values; moments are counted, as Python has none of a nanosecond."""
    if pa.types.is_timestamp(column.type) or pa.types.is_time(column.type):
        wide = pa.int32() if pa.types.is_time32(column.type) else pa.int64()
        return column.cast(wide).to_pylist()
    return column.to_pylist()


def questions(table: pa.Table) -> Iterator[tuple[t.Leaf, list[int]]]:
    """Leaves that ask for each value of a table, and the rows that hold it."""
    for name in table.schema.names:
        column = table[name]
        if column.type in NESTED:
            yield from nested_questions(name, column)
        else:
            yield from scalar_questions(name, column)


def scalar_questions(name: str, column: pa.ChunkedArray) -> Iterator[tuple[t.Leaf, list[int]]]:
    values = plain(column)
    for value in values:
        if value is None:
            continue
        if is_nan(value):
            yield t.Term("nan", path=(name,)), [row for row, other in enumerate(values) if is_nan(other)]
            continue
        expected = [row for row, other in enumerate(values) if other is not None and other == value]
        yield t.Phrase(spelled(value, column.type), path=(name,)), expected
    if holds_bytes(column.type):  # an index that has no fast field of bytes cannot tell
        return
    present = [row for row, value in enumerate(values) if value is not None]
    yield t.Exists(path=(name,)), present


def nested_questions(name: str, column: pa.ChunkedArray) -> Iterator[tuple[t.Leaf, list[int]]]:
    """Whole numbers inside JSON; each is known by its path, and what is in a list has that of the list."""
    rows = [set(numbers_in(value)) for value in column.to_pylist(maps_as_pydicts="lossy")]
    for path, number in set().union(*rows):
        yield (
            t.Term(str(number), path=(name, *path)),
            [row for row, found in enumerate(rows) if (path, number) in found],
        )


def holds_bytes(type_: pa.DataType) -> bool:
    return "binary" in str(type_)


def numbers_in(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers_in(inner, (*path, str(key)))
    elif isinstance(value, list):
        for inner in value:
            yield from numbers_in(inner, path)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield path, value


def spelled(value: Any, type_: pa.DataType) -> str:
    if not pa.types.is_timestamp(type_) and not pa.types.is_time(type_):
        return literal(value)
    seconds, rest = divmod(value, TICKS[type_.unit])
    fraction = f".{rest * (10**9 // TICKS[type_.unit]):09d}"
    if pa.types.is_time(type_):
        return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"
    moment = pa.scalar(seconds, pa.timestamp("s")).as_py()
    return moment.isoformat() + fraction + ("Z" if type_.tz else "")
