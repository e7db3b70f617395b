"""Native scans of damaged splits: Spark trusts footers, so that a damaged one is refused before Spark reads it."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.maintain.whole_tables import the_split

import indextables as it
from indextables.protocol.thrift import read_struct
from indextables.split.format.layout import MAGIC, SEAL_BYTES, make_seal

NUM_ROWS = 20
WANTED = "id = 12"


@pytest.fixture
def table(tmp_path) -> it.Table:
    table = it.Table.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("message", pa.string())]))
    table.append(pa.table({"id": range(NUM_ROWS), "message": [f"text {number}" for number in range(NUM_ROWS)]}))
    return table


def native(table: it.Table, spark: Any) -> Any:
    return table.to_spark(spark)


def loaded(table: it.Table, spark: Any) -> Any:
    return it.enable(spark.newSession()).read.format("indextables").load(table.url)


def found_by(table: it.Table, spark: Any) -> Any:
    return it.read(it.enable(spark.newSession()), table.url)


def selected(table: it.Table, spark: Any) -> Any:
    session = it.enable(spark.newSession())
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW damaged USING indextables OPTIONS (path '{table.url}')")
    return session.sql("SELECT * FROM damaged")


def other_maximum(path: Path) -> bytes:
    """The file with a maximum of `id` that rules out the row that is wanted."""
    whole = pq.read_metadata(path).row_group(0).column(0).statistics
    assert (whole.min, whole.max) == (0, NUM_ROWS - 1)
    stored = struct.pack("<q", NUM_ROWS - 1)
    data = path.read_bytes()
    # Parquet has a maximum in an old field, and one that is read.
    place = data.index(stored, data.index(stored, _footer_place(data)) + len(stored))
    return _flipped(data, place, bit=4)


def _footer_place(data: bytes) -> int:
    (length,) = struct.unpack_from("<I", data, len(data) - 8)
    return len(data) - 8 - length


def _flipped(data: bytes, place: int, *, bit: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]


@pytest.mark.parametrize("scan", [native, loaded, found_by, selected])
def test_a_damaged_footer_is_refused(table, spark, scan) -> None:
    path = the_split(table)
    path.write_bytes(other_maximum(path))
    frame = scan(table, spark)
    with pytest.raises(Exception, match=r"CorruptSplitError: cannot read the split `.*` because its footer") as raised:
        frame.filter(WANTED).collect()
    assert os.path.basename(path) in str(raised.value)


def test_a_split_in_the_place_of_another_is_refused(table, spark) -> None:
    path = the_split(table)
    data, start = path.read_bytes(), _footer_start(path)
    seal = make_seal("0f0e0d0c-1111-2222-3333-444455556666", len(data), data[start + SEAL_BYTES :])
    path.write_bytes(data[:start] + seal + data[start + SEAL_BYTES :])
    with pytest.raises(Exception, match=r"CorruptSplitError: .* put in the place of another"):
        table.to_spark(spark).collect()


def test_a_dictionary_that_says_it_is_shorter_loses_no_rows(tmp_path, spark) -> None:
    table = it.Table.create(tmp_path / "t", pa.schema([("word", pa.string())]))
    table.append(pa.table({"word": [f"w{number % 3}" for number in range(60)]}))
    path = the_split(table)
    data = path.read_bytes()
    header, end = read_struct(memoryview(data), len(MAGIC))
    assert header[7][1] == 3  # a dictionary page of three values
    path.write_bytes(_flipped(data, data.index(b"\x15\x06", len(MAGIC), end) + 1, bit=2))
    assert read_struct(memoryview(path.read_bytes()), len(MAGIC))[0][7][1] == 1
    found = it.Table.open(table.url, options={"scan.mode": "native"}).to_spark(spark).filter("word = 'w2'")
    with pytest.raises(Exception, match=r"ArrayIndexOutOfBounds|FAILED_READ_FILE"):
        found.count()


def test_a_seal_is_verified_once_and_only_of_splits_that_are_read(table, spark) -> None:
    table.append(pa.table({"id": [100], "message": ["other"]}))
    frame = table.to_spark(spark)
    first, second = (Path(table.url) / path for path in _paths_by_id(table))
    _spoil(second)
    assert [row.id for row in frame.filter(WANTED).collect()] == [12]
    with pytest.raises(Exception, match="does not fit its seal"):
        frame.collect()
    _spoil(second)
    assert frame.count() == NUM_ROWS + 1
    _spoil(first)
    assert frame.filter(WANTED).count() == 1  # Spark does not read what is damaged


def _paths_by_id(table: it.Table) -> list[str]:
    files = table.files().to_pylist()
    return [file["path"] for file in sorted(files, key=lambda file: file["num_records"], reverse=True)]


def _spoil(path: Path) -> None:
    """Flip a bit of the page table, or flip it back; a Parquet reader does not see it."""
    with open(path, "r+b") as file:
        start = _footer_start(path) + SEAL_BYTES
        file.seek(start)
        (byte,) = file.read(1)
        file.seek(start)
        file.write(bytes([byte ^ 1]))


def _footer_start(path: Path) -> int:
    return path.read_bytes().rindex(b"ITSEAL")
