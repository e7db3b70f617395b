"""Splits are Parquet files that give back exactly the rows that went in, and fetch no more than is needed."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.split.split_examples import (
    FILES,
    KEY,
    FarStore,
    RecordingStore,
    every_type,
    open_split,
    read_rows,
    small_table,
    store_at,
    write_split,
)

from indextables.config import Config
from indextables.errors import CorruptSplitError, ObjectNotFoundError, SchemaError, StorageError
from indextables.split import split_file
from indextables.split.format.layout import KEY as METADATA_KEY
from indextables.split.split_file import SplitFile, SplitFileWriter
from indextables.store import open_store


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A split of many row groups and pages, its rows, and what was written."""
    root = tmp_path_factory.mktemp("wide")
    table = pa.table(
        {
            "number": pa.array(range(30_000), pa.int64()),
            "text": pa.array([f"{row * 7919:050d}" for row in range(30_000)]),
            "more": pa.array(["x" * (row % 300) for row in range(30_000)]),
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split_file, "_FIRST_GROUP_BYTES", 512 << 10)
        patch.setattr(split_file, "_PAGED_GROUP_BYTES", 512 << 10)
        return root, table, write_split(str(root), table)


def texts(table: pa.Table) -> list[list[str]]:
    """Every value as text, so that NaN equals itself and no type is widened."""
    return [[str(value) if value.is_valid else "null" for value in column] for column in table.columns]


def test_rows_of_every_type_come_back_exactly(tmp_path) -> None:
    table = every_type()
    split = open_split(tmp_path, write_split(str(tmp_path), table))
    assert split.schema.equals(table.schema, check_metadata=True)
    found = read_rows(split)
    found.validate(full=True)
    assert found.schema.equals(table.schema, check_metadata=True)
    assert texts(found) == texts(table)
    assert texts(read_rows(split, [2, 0])) == [[column[2], column[0]] for column in texts(table)]
    for name, column in zip(table.column_names, texts(table), strict=True):
        assert texts(read_rows(split, [2, 1], [name])) == [[column[2], column[1]]]


def test_other_readers_of_parquet_see_the_rows(wide) -> None:
    root, table, finished = wide
    path = os.path.join(root, KEY)
    assert pq.ParquetFile(path, page_checksum_verification=True).read().equals(table)
    assert pq.read_table(path, filters=[("number", "<", 100)], partitioning=None).equals(table[:100])
    assert ds.dataset(path, format="parquet").to_table(filter=ds.field("number") >= 29_990).equals(table[29_990:])
    metadata = pq.read_metadata(path)
    assert metadata.num_row_groups > 5
    column = metadata.row_group(0).column(0)
    assert column.statistics.has_min_max
    assert [metadata.row_group(0).column(index).has_dictionary_page for index in range(3)] == [False, False, True]
    assert column.has_offset_index
    assert column.has_column_index
    assert os.path.getsize(path) == finished.num_bytes == finished.footer_end_offset
    assert METADATA_KEY.encode() in metadata.metadata


def test_nested_numbers_have_no_dictionary(tmp_path) -> None:
    nothing = [[None, None]] * 4
    kinds = {"whole": pa.int64(), "small": pa.int32(), "part": pa.float64(), "day": pa.date32(), "word": pa.string()}
    table = pa.table({name: pa.array(nothing, pa.list_(kind)) for name, kind in kinds.items()})
    split = open_split(tmp_path, write_split(str(tmp_path), table))
    assert texts(read_rows(split)) == texts(table)
    group = pq.read_metadata(tmp_path / KEY).row_group(0)
    assert [group.column(leaf).has_dictionary_page for leaf in range(5)] == [False, False, False, False, True]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_rows_come_in_the_order_asked_for(wide, data) -> None:
    root, table, finished = wide
    numbers = data.draw(st.lists(st.integers(0, table.num_rows - 1), max_size=50))
    if data.draw(st.booleans()):
        numbers = sorted(set(numbers))
    columns = data.draw(st.none() | st.lists(st.sampled_from(table.column_names), unique=True, min_size=1))
    split = open_split(root, finished)
    expected = table.take(pa.array(numbers, pa.int64()))
    assert read_rows(split, numbers, columns).equals(expected if columns is None else expected.select(columns))


def test_scans_go_by_waves(wide, monkeypatch) -> None:
    monkeypatch.setattr("indextables.split.rows.row_reader._WAVE_BYTES", 1 << 20)
    root, table, finished = wide
    split = open_split(root, finished)
    assert len(list(split.rows())) > 2
    assert read_rows(split).equals(table)
    assert read_rows(split, list(range(1, 30_000, 2))).equals(table.take(pa.array(range(1, 30_000, 2))))


def test_rows_without_columns_are_counted(wide) -> None:
    root, table, finished = wide
    split = open_split(root, finished)
    assert sum(batch.num_rows for batch in split.rows(None, [])) == table.num_rows
    assert sum(batch.num_rows for batch in split.rows(pa.array([5, 3, 5]), [])) == 3
    assert list(split.rows(pa.array([], pa.uint64()))) == []


def test_opening_is_one_ranged_read_and_few_rows_fetch_few_bytes(wide) -> None:
    root, table, finished = wide
    store = RecordingStore(store_at(root))
    split = SplitFile.open(
        store,
        KEY,
        size=finished.num_bytes,
        footer_start_offset=finished.footer_start_offset,
        footer_end_offset=finished.footer_end_offset,
    )
    filters = split.term_filter()
    assert filters is not None
    assert filters.may_contain("f0", "one")
    assert not filters.may_contain("f0", "three")
    assert store.ranges == [(finished.footer_start_offset, finished.footer_end_offset)]
    store.ranges.clear()
    assert read_rows(split, [7, 8], ["number"]).equals(table.select(["number"])[7:9])
    assert sum(end - start for start, end in store.ranges) < finished.num_bytes / 25


@pytest.mark.parametrize("num_rows", [5, 200_000])
def test_a_small_split_that_is_far_is_one_request(tmp_path, num_rows) -> None:
    table = small_table(num_rows)
    finished = write_split(str(tmp_path), table)
    store = FarStore(store_at(tmp_path))
    split = open_split(tmp_path, finished, store=store)
    assert store.calls == {"get_ranges": 1}
    (tmp_path / "into").mkdir()
    split.extract_index(str(tmp_path / "into"))
    assert split.fine_filter() is not None
    assert read_rows(split).equals(table)
    is_small = finished.num_bytes <= 64 << 10
    assert is_small is (num_rows == 5)
    assert (sum(store.calls.values()) == 1) is is_small


def test_a_split_opens_without_its_offsets(wide, monkeypatch) -> None:
    root, table, finished = wide
    for tail_bytes in (16, 20_000, 1 << 30):
        monkeypatch.setattr(split_file, "_TAIL_BYTES", tail_bytes)
        split = SplitFile.open(store_at(root), KEY)
        assert split.num_rows == table.num_rows
        assert split.size == finished.num_bytes
        assert read_rows(split, [3]).equals(table[3:4])


def test_the_index_comes_out_as_it_went_in(tmp_path) -> None:
    files = {**FILES, "long.pos": bytes(9 << 20) + os.urandom(1 << 20), "text.x": b"some words " * 2_000_000}
    split = open_split(tmp_path, write_split(str(tmp_path), small_table(), files=files))
    assert {piece.is_plain for member in split.directory.members for piece in member.pieces} == {True, False}
    into = tmp_path / "into"
    into.mkdir()
    split.extract_index(str(into))
    assert {path.name: path.read_bytes() for path in into.iterdir()} == files
    with pytest.raises(StorageError, match="File exists"):
        split.extract_index(str(into))


def test_members_are_read_by_pieces(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("indextables.split.format.members._PIECE_BYTES", 1_000)
    words = b"".join(b"%d " % (number * 7919 % 10_007) for number in range(5_000))
    files = {"a": words, "b": b"", "c": os.urandom(3_333), "d": words[:999]}
    split = open_split(tmp_path, write_split(str(tmp_path), small_table(), files=files))
    into = tmp_path / "into"
    into.mkdir()
    split.extract_index(str(into))
    assert {path.name: path.read_bytes() for path in into.iterdir()} == files


def test_a_split_in_a_cloud(tmp_path) -> None:
    table = small_table(20_000)
    finished = write_split(str(tmp_path), table)
    store = open_store(f"memory://{tmp_path.name}", Config.resolve())
    store.put_file(KEY, str(tmp_path / KEY))
    for offsets in ({}, {"footer_start_offset": finished.footer_start_offset, "footer_end_offset": finished.num_bytes}):
        split = SplitFile.open(store, KEY, size=finished.num_bytes, **offsets)
        assert read_rows(split, [19_999, 3]).equals(table.take(pa.array([19_999, 3])))
        store.put(KEY, (tmp_path / KEY).read_bytes()[:-1])
        with pytest.raises(CorruptSplitError, match="bytes of"):
            SplitFile.open(store, KEY, size=finished.num_bytes, **offsets)
        store.put_file(KEY, str(tmp_path / KEY))


def test_an_empty_split(tmp_path) -> None:
    split = open_split(tmp_path, write_split(str(tmp_path), small_table(0), files={}))
    assert split.num_rows == 0
    assert read_rows(split).equals(small_table(0))
    split.extract_index(str(tmp_path))


def test_row_groups_fit_the_rows(tmp_path) -> None:
    columns = {f"c{number}": pa.array(range(20_000), pa.int64()) for number in range(300)}
    root = str(tmp_path)
    finished = write_split(root, pa.table(columns), key="wide.split")
    assert pq.read_metadata(os.path.join(root, "wide.split")).num_row_groups <= 11
    assert finished.num_rows == 20_000
    write_split(root, pa.table({"n": pa.array([row % 100 for row in range(300_000)], pa.int8())}), key="narrow.split")
    groups = pq.read_metadata(os.path.join(root, "narrow.split"))
    assert [groups.row_group(number).num_rows for number in range(groups.num_row_groups)] == [131_072, 131_072, 37_856]
    write_split(root, pa.table({"n": pa.array([b"x" * (1 << 20)] * 150)}), key="heavy.split")
    groups = pq.read_metadata(os.path.join(root, "heavy.split"))
    assert max(groups.row_group(number).num_rows for number in range(groups.num_row_groups)) <= 64


def test_the_size_so_far_is_about_right(tmp_path) -> None:
    table = small_table(300_000)
    with SplitFileWriter(str(tmp_path / "a"), table.schema) as writer:
        assert writer.num_bytes < 100
        for batch in table.to_batches(max_chunksize=7_000):
            writer.write(batch)
        assert writer.num_rows == 300_000
        so_far = writer.num_bytes
    finished = write_split(str(tmp_path), table, files={})
    assert 0.5 < so_far / finished.num_bytes < 1.5


def test_what_cannot_be_is_refused(tmp_path, wide) -> None:
    root, table, finished = wide
    split = open_split(root, finished)
    with pytest.raises(SchemaError, match="cannot read the column `nix`"):
        list(split.rows(None, ["nix"]))
    with pytest.raises(SchemaError, match="named twice"):
        list(split.rows(None, ["text", "text"]))
    with pytest.raises(CorruptSplitError, match="row `30000` is requested and it has 30000"):
        list(split.rows(pa.array([30_000])))
    with pytest.raises(ObjectNotFoundError):
        SplitFile.open(store_at(root), "none.split")
    with pytest.raises(SchemaError, match="no columns"):
        SplitFileWriter(str(tmp_path / "b"), pa.schema([]))
    with pytest.raises(SchemaError, match="two of its columns"):
        SplitFileWriter(str(tmp_path / "b"), pa.schema([("a", pa.int8()), ("a", pa.int8())]))
    dictionary = pa.dictionary(pa.int8(), pa.int64())
    for kind in (
        pa.struct([]),
        pa.month_day_nano_interval(),
        pa.list_(dictionary),
        pa.run_end_encoded("int32", "int8"),
    ):
        with pytest.raises(SchemaError, match="Parquet cannot hold its columns"):
            SplitFileWriter(str(tmp_path / "b"), pa.schema([("a", kind)]))
    with (
        SplitFileWriter(str(tmp_path / "c"), table.schema) as writer,
        pytest.raises(SchemaError, match="differ from the split"),
    ):
        writer.write(small_table().to_batches()[0])
