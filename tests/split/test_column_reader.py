"""Few rows of many, read by pages: the same rows as a full read gives, of every type, with every damage noticed."""

from __future__ import annotations

import base64
import contextlib
import datetime
import decimal
import gc
import os
import weakref

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.split.split_examples import KEY, RecordingStore, every_type, open_split, read_rows, store_at, write_split

from indextables.errors import CorruptSplitError, SchemaError
from indextables.protocol.thrift import binary, i32, i64, list_of, read_list_spans, read_struct, struct
from indextables.split import split_file
from indextables.split.format.page_table import Pages, PageTable, encode_page_table, find_pages
from indextables.split.rows import encoding
from indextables.split.split_file import SplitFile

NUM_ROWS = 3_000


def many_rows() -> pa.Table:
    """Columns of one leaf and of several, with and without a dictionary, nulls and lists."""
    rows = range(NUM_ROWS)
    zoned = pa.timestamp("us", tz="UTC")
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    return pa.table(
        {
            "number": pa.array([None if row % 7 == 0 else row * 31 for row in rows], pa.int32()),
            "ünï code.d": pa.array([f"{row * 7919:040d}" for row in rows]),
            "word": pa.array([None if row % 5 == 0 else "abc"[row % 3] * 9 for row in rows], pa.large_string()),
            "view": pa.array([f"a view of {row} that is long" for row in rows], pa.string_view()),
            "moment": pa.array([moment + datetime.timedelta(seconds=row) for row in rows], zoned),
            "price": pa.array([decimal.Decimal(row) / 4 for row in rows], pa.decimal128(12, 2)),
            "flag": pa.array([None if row % 11 == 0 else row % 2 == 0 for row in rows]),
            "real": pa.array([row / 3 for row in rows]),
            "raw": pa.array([base64.b85encode(str(row).encode()) for row in rows]),
            "fixed": pa.array([row.to_bytes(4, "big") for row in rows], pa.binary(4)),
            "tags": pa.array([None if row % 9 == 0 else [f"t{row}"] * (row % 4) for row in rows]),
            "deep": pa.array([[[row], [], [row, row]][: row % 4] for row in rows], pa.list_(pa.list_(pa.int64()))),
            "only": pa.array([{"a": row} if row % 3 else None for row in rows]),
            "struct": pa.array([{"a": row, "b": f"b{row}"} if row % 3 else None for row in rows]),
            "map": pa.array([[(f"k{row % 5}", row)] for row in rows], pa.map_(pa.string(), pa.int64())),
            "dictionary": pa.array([f"d{row % 10}" for row in rows]).dictionary_encode(),
            "nothing": pa.nulls(NUM_ROWS),
        }
    )


def rows_of(table: pa.Table, numbers: list[int]) -> list[dict[str, object]]:
    return [table.slice(number, 1).to_pylist()[0] for number in numbers]


@pytest.fixture(scope="module")
def paged(tmp_path_factory):
    """A split of many small pages in several row groups, its rows, and what was written."""
    root = tmp_path_factory.mktemp("paged")
    table = many_rows()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "_PAGE_BYTES", 64)
        patch.setattr(encoding, "_ROWS_PER_LOOK", 4)
        patch.setattr(split_file, "_LEAST_GROUP_ROWS", 700)
        patch.setattr(split_file, "_GROUP_BYTES", 1)
        patch.setattr(split_file, "_LEAST_CHUNK_BYTES", 1)
        return root, table, write_split(str(root), table)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_any_few_rows_are_those_of_the_table(paged, data) -> None:
    root, table, finished = paged
    numbers = data.draw(st.lists(st.integers(0, NUM_ROWS - 1), min_size=1, max_size=40))
    columns = data.draw(st.none() | st.lists(st.sampled_from(table.column_names), unique=True, min_size=1))
    found = read_rows(open_split(root, finished), numbers, columns)
    found.validate(full=True)
    expected = table if columns is None else table.select(columns)
    assert found.schema.equals(expected.schema)
    assert found.to_pylist() == rows_of(expected, numbers)


def test_each_page_alone_and_all_of_them(paged, monkeypatch) -> None:
    root, table, finished = paged
    split = open_split(root, finished)
    for numbers in ([0], [NUM_ROWS - 1], [0, NUM_ROWS - 1], list(range(0, NUM_ROWS, 61))):
        assert read_rows(split, numbers).to_pylist() == rows_of(table, numbers)
    monkeypatch.setattr("indextables.split.rows.row_reader._WAVE_BYTES", 1)  # one row at a time
    assert read_rows(split, [5, 6, 700]).to_pylist() == rows_of(table, [5, 6, 700])


def test_few_rows_fetch_few_bytes(paged) -> None:
    root, _, finished = paged
    store = RecordingStore(store_at(root))
    split = SplitFile.open(store, KEY, size=finished.num_bytes)
    store.ranges.clear()
    assert read_rows(split, [1_500], ["ünï code.d"])["ünï code.d"].to_pylist() == [f"{1_500 * 7919:040d}"]
    assert len(store.ranges) == 1
    assert sum(end - start for start, end in store.ranges) < 500


@pytest.mark.slow
def test_every_flipped_byte_of_a_page_is_noticed(paged, tmp_path) -> None:
    root, _, finished = paged
    data = (root / KEY).read_bytes()
    columns = ["number", "ünï code.d", "word", "tags", "struct"]
    wanted = list(range(0, NUM_ROWS, 100))
    expected = read_rows(open_split(root, finished), wanted, columns)
    (tmp_path / KEY).parent.mkdir()
    noticed = 0
    for position in range(4, finished.footer_start_offset, 997):
        damaged = data[:position] + bytes([data[position] ^ 16]) + data[position + 1 :]
        (tmp_path / KEY).write_bytes(damaged)
        split = open_split(tmp_path, finished)
        with contextlib.suppress(CorruptSplitError):
            assert read_rows(split, wanted, columns).equals(expected)  # the byte is in a page that is not needed
            continue
        noticed += 1
        with pytest.raises(CorruptSplitError, match=KEY):
            read_rows(split)
    assert noticed > 20


def test_rows_of_every_type_come_by_page(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(encoding, "_PAGE_BYTES", 1)
    monkeypatch.setattr(encoding, "_ROWS_PER_LOOK", 1)
    table = pa.concat_tables([every_type()] * 5).combine_chunks()
    split = open_split(tmp_path, write_split(str(tmp_path), table))
    for number in range(table.num_rows):
        found, expected = read_rows(split, [number]), table.slice(number, 1)
        assert [str(column[0]) for column in found.columns] == [str(column[0]) for column in expected.columns]


def test_a_page_table_is_read_back() -> None:
    chunks = [
        Pages((0, 20, 90), (0, 0, 64), (1, 2, 3), 9),
        Pages((0,), (0,), (2**32 - 1,), 2**32 - 1),
        Pages((0, 5), (0, 3), (7, 8), 0),
    ]
    table = PageTable(encode_page_table(chunks))
    assert [table.pages(chunk) for chunk in range(3)] == chunks
    assert [chunk.has_dictionary for chunk in chunks] == [True, False, False]
    assert table.num_pages(range(0, 3, 2)) == 5
    assert PageTable(encode_page_table([])).num_chunks == 0


def test_what_is_no_page_table_is_refused() -> None:
    data = encode_page_table([Pages((0, 20), (0, 64), (1, 2), 3)])
    for damaged in (data[:-1], data + b"x", b"", b"\1"):
        with pytest.raises(ValueError, match=r"it is too short|its length is wrong"):
            PageTable(damaged)


def test_pages_that_are_not_where_they_should_be_are_not_written(tmp_path) -> None:
    root = str(tmp_path)
    write_split(root, pa.table({"n": [1, 2, 3]}))
    path = os.path.join(root, KEY)
    with pytest.raises(SchemaError, match="its pages end at"):
        find_pages(path, os.path.getsize(path), [3], [1])


FIELDS = st.dictionaries(st.integers(1, 15), st.integers(-(2**63), 2**63 - 1), min_size=1)


@given(fields=FIELDS, text=st.binary(max_size=300), count=st.integers(1, 40))
def test_structs_are_read_back(fields, text, count) -> None:
    numbers = {number: fields[number] for number in sorted(fields)}
    inner = struct({number: i64(value) for number, value in numbers.items()})
    outer = struct({1: i32(-5), 2: list_of([inner] * count), 3: binary(text), 4: inner})
    assert read_struct(outer.data) == ({1: -5, 2: [numbers] * count, 3: text, 4: numbers}, len(outer.data))
    assert read_list_spans(outer.data, 2) == [(numbers, inner.data)] * count
    with pytest.raises(ValueError, match="cut off"):
        read_struct(inner.data[:-1])


@pytest.mark.parametrize("struct_first", [True, False])
@pytest.mark.parametrize("values", [lambda row: row, lambda row: f"t{row}", lambda row: row % 3])
def test_a_column_that_is_called_like_a_part_of_another(tmp_path, struct_first, values) -> None:
    struct = pa.array([{"a": values(row + 1), "b": row} for row in range(3_000)])
    flat = pa.array(range(3_000)) if isinstance(values(1), str) else pa.array([f"x{row}" for row in range(3_000)])
    columns = {"s": struct, "s.a": flat} if struct_first else {"s.a": flat, "s": struct}
    table = pa.table({**columns, "l": pa.array([[row] for row in range(3_000)]), "l.list.element": flat})
    split = open_split(tmp_path, write_split(str(tmp_path), table))
    assert read_rows(split).equals(table)
    assert read_rows(split, [7, 2_900]).equals(table.take(pa.array([7, 2_900])))


def test_nothing_keeps_a_split_that_was_read(tmp_path) -> None:
    split = open_split(tmp_path, write_split(str(tmp_path), pa.table({"n": range(10)})))
    read_rows(split, [1])
    gone = weakref.ref(split._rows._columns["n"])
    del split
    gc.collect()
    assert gone() is None
