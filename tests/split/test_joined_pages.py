"""Pages that are joined before Arrow decodes them: the same values as without, and no damage unnoticed."""

from __future__ import annotations

import random
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.split.split_examples import KEY, open_split, read_rows, write_split

from indextables.protocol.thrift import i32, read_struct, struct, with_short_number
from indextables.split import split_file
from indextables.split.format import page_table
from indextables.split.format.page_table import find_pages
from indextables.split.rows import encoding, joined_pages
from indextables.split.rows.joined_pages import join_pages
from indextables.split.rows.row_reader import leaf_ranges

NUM_ROWS = 2_000


def table_of_pages() -> pa.Table:
    """Columns that are joined: with no, few, many and only nulls; with empty values, and some that do not shrink."""
    choose = random.Random(7)
    rows = range(NUM_ROWS)
    fields = [
        pa.field("text", pa.string()),
        pa.field("needed", pa.string(), nullable=False),
        pa.field("sparse", pa.string()),
        pa.field("last", pa.float64()),
        pa.field("empty", pa.string()),
        pa.field("noise", pa.binary()),
        pa.field("fixed", pa.binary(3)),
        pa.field("real", pa.float64(), nullable=False),
        pa.field("half", pa.float32()),
        pa.field("code", pa.string()),
        pa.field("level", pa.string()),
        pa.field("number", pa.int64()),
        pa.field("gaps", pa.int32()),
        pa.field("only", pa.struct([("a", pa.string())])),
        pa.field("only.a", pa.string()),
    ]
    columns = [
        [f"row {row} of many" * (row % 4) for row in rows],
        [f"{choose.getrandbits(64):016x}" for _ in rows],
        [None if row % 3 else f"value {row}" for row in rows],
        [None if row > 500 else row / 7 for row in rows],
        ["" for _ in rows],
        [choose.randbytes(20) for _ in rows],
        [row.to_bytes(3, "big") for row in rows],
        [choose.random() for _ in rows],
        [None if 300 < row < 900 else float(row) for row in rows],
        [f"c{row % 5}" for row in rows],
        [None if row % 50 == 0 else "abc"[row % 3] for row in rows],
        [row * 3 for row in rows],
        [None if row % 2 else row for row in rows],
        [{"a": f"s{row}"} for row in rows],
        [f"t{row % 3}" for row in rows],
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


@pytest.fixture(scope="module")
def small_pages(tmp_path_factory):
    root = tmp_path_factory.mktemp("joined")
    table = table_of_pages()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "_PAGE_BYTES", 256)
        patch.setattr(encoding, "_ROWS_PER_LOOK", 4)
        patch.setattr(split_file, "_LEAST_GROUP_ROWS", 600)
        patch.setattr(split_file, "_GROUP_BYTES", 1)
        patch.setattr(split_file, "_LEAST_CHUNK_BYTES", 1)
        return root, table, write_split(str(root), table)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_rows_and_columns_are_those_of_the_table(small_pages, data) -> None:
    root, table, finished = small_pages
    some = st.lists(st.integers(0, NUM_ROWS - 1), min_size=1, max_size=150)
    columns = data.draw(st.lists(st.sampled_from(table.column_names), unique=True, min_size=1))
    numbers = data.draw(some)
    found = read_rows(open_split(root, finished), numbers, columns)
    found.validate(full=True)
    assert found.equals(table.select(columns).take(numbers))


def test_all_rows_are_those_of_the_table(small_pages) -> None:
    root, table, finished = small_pages
    found = read_rows(open_split(root, finished))
    found.validate(full=True)
    assert found.equals(table)


def test_pages_of_plain_values_are_joined_and_others_are_not(small_pages, monkeypatch) -> None:
    root, table, finished = small_pages
    joined: list[int] = []

    def noted(stored, *, is_optional):
        found = join_pages(stored, is_optional=is_optional)
        joined.append(found.num_values if found is not None else -1)
        return found

    monkeypatch.setattr("indextables.split.rows.column_reader.join_pages", noted)
    split = open_split(root, finished)
    for column in ("text", "needed", "sparse", "last", "noise", "fixed", "real", "half"):
        joined.clear()
        read_rows(split, None, [column])
        assert joined == [NUM_ROWS], column
    for column in ("code", "level", "number", "gaps", "only"):
        joined.clear()
        assert read_rows(split, None, [column]).equals(table.select([column]))
        assert joined == [], column


def test_pages_of_another_form_are_left_to_arrow(small_pages, monkeypatch) -> None:
    root, table, finished = small_pages
    monkeypatch.setattr(joined_pages, "PLAIN_PAGE", re.compile(b"nothing"))
    numbers = list(range(0, NUM_ROWS, 17))
    assert read_rows(open_split(root, finished), numbers).equals(table.take(numbers))
    assert read_rows(open_split(root, finished)).equals(table)


def pages_of(values: list[str | None]) -> list[bytes]:
    """The pages of a column as they are stored, one by one."""
    sink = pa.BufferOutputStream()
    table = pa.table({"text": pa.array(values, pa.string())})
    options = {"data_page_version": "2.0", "data_page_size": 64, "write_batch_size": 4, "write_page_checksum": True}
    options["write_page_index"] = True
    pq.write_table(table, sink, compression="zstd", use_dictionary=False, write_statistics=False, **options)
    data = sink.getvalue().to_pybytes()
    chunk = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0).column(0)
    pages, at = [], chunk.data_page_offset
    while at < chunk.data_page_offset + chunk.total_compressed_size:
        header, end = read_struct(data, at)
        pages.append(data[at : end + header[3]])
        at = end + header[3]
    return pages


def test_pages_that_have_other_sizes_than_they_claim_are_refused() -> None:
    pages = pages_of([f"value {row}" for row in range(40)])
    assert len(pages) > 3
    whole = join_pages(pages, is_optional=True)
    assert whole is not None
    assert whole.num_values == 40
    whole.image(b"tail")
    header, _ = read_struct(pages[0])
    raw = struct({1: i32(header[2])}).data[1:-1]
    for other in (header[2] - 1, header[2] + 1):
        lying = pages[0].replace(raw, struct({1: i32(other)}).data[1:-1], 1)
        assert lying != pages[0]
        found = join_pages([lying, *pages[1:]], is_optional=True)
        assert found is not None
        with pytest.raises(ValueError, match="than they claim"):
            found.image(b"tail")


@pytest.mark.parametrize("cut", [1, 5, 12])
def test_pages_that_are_cut_off_are_not_joined(cut) -> None:
    pages = pages_of([f"value {row}" for row in range(40)])
    assert join_pages([*pages[:-1], pages[-1][:-cut]], is_optional=True) is None
    assert join_pages([pages[0][:cut]], is_optional=True) is None
    assert join_pages([], is_optional=True) is None


def test_pages_are_found_by_patterns_as_by_their_fields(small_pages, monkeypatch) -> None:
    root, table, finished = small_pages
    split, metadata = open_split(root, finished), pq.read_metadata(root / KEY)
    rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    leaves = [len(found) for found in leaf_ranges(table.schema)]
    by_pattern = find_pages(str(root / KEY), split.directory.index_range[0], rows, leaves)
    monkeypatch.setattr(page_table, "DATA_PAGE", re.compile(b"nothing"))
    assert by_pattern == find_pages(str(root / KEY), split.directory.index_range[0], rows, leaves)


def test_a_short_number_is_replaced_in_a_struct() -> None:
    data = struct({1: i32(6), 3: i32(1), 4: i32(300)}).data
    changed = with_short_number(data, 3, 0)
    assert changed is not None
    assert read_struct(changed)[0] == {1: 6, 3: 0, 4: 300}
    assert with_short_number(data, 4, 0) is None
    assert with_short_number(data, 5, 0) is None
