"""A split read through: every part of it is held against its checksum."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.split.split_examples import open_split, small_table, store_at, write_split

from indextables.config import Config
from indextables.errors import CorruptSplitError
from indextables.protocol.actions import Add
from indextables.split.split_file import SplitFile
from indextables.split.statistics import StatisticsCollector
from indextables.split.verification import check_index, is_of_another_format, read_row_facts
from indextables.split.writer import SplitWriter

CONFIG = Config.resolve()
SCHEMA = pa.schema([("part", pa.string()), ("number", pa.int64()), ("text", pa.string())])


def write(root, data: pa.Table) -> Add:
    with SplitWriter(store_at(root), SCHEMA, CONFIG) as writer:
        for batch in data.to_batches(max_chunksize=1000):
            writer.write(batch)
        (add,) = writer.finish()
    return add


def table(num_rows: int) -> pa.Table:
    parts = ["a" if row % 2 else None for row in range(num_rows)]
    return pa.table({"part": parts, "number": list(range(num_rows)), "text": ["word"] * num_rows}, schema=SCHEMA)


def read(root, add: Add):
    split = SplitFile.open(store_at(root), add.path, size=add.size)
    facts = read_row_facts(split, StatisticsCollector(split.schema, CONFIG), ["part"])
    check_index(split, CONFIG)
    return facts


@pytest.mark.parametrize("num_rows", [1, 5_000])
def test_a_whole_split_tells_of_its_rows(tmp_path, num_rows) -> None:
    add = write(tmp_path, table(num_rows))
    facts = read(tmp_path, add)
    assert facts.num_rows == num_rows
    assert facts.statistics.min_values == add.min_values
    assert facts.statistics.max_values == add.max_values
    assert facts.statistics.stats_json() == add.stats
    assert facts.partition_values == {"part": {None, "a"} if num_rows > 1 else {None}}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    root = tmp_path_factory.mktemp("verifying")
    add = write(root, table(40))
    return root, add, (root / add.path).read_bytes()


@settings(max_examples=150)
@given(data=st.data())
def test_any_flipped_bit_is_found(written, data) -> None:
    root, add, content = written
    position = data.draw(st.integers(4, len(content) - 1))  # the first four bytes only say that it is Parquet
    flipped = content[position] ^ (1 << data.draw(st.integers(0, 7)))
    (root / add.path).write_bytes(content[:position] + bytes([flipped]) + content[position + 1 :])
    with pytest.raises(CorruptSplitError, match=add.path):
        read(root, add)
    (root / add.path).write_bytes(content)
    assert read(root, add).num_rows == 40


def test_an_index_that_the_engine_cannot_open_is_damage(tmp_path) -> None:
    finished = write_split(str(tmp_path), small_table())
    with pytest.raises(CorruptSplitError):
        check_index(open_split(tmp_path, finished), CONFIG)


def test_an_index_of_other_rows_is_damage(tmp_path) -> None:
    few, many = write(tmp_path, table(2)), write(tmp_path, table(9))
    split = SplitFile.open(store_at(tmp_path), few.path)
    other = SplitFile.open(store_at(tmp_path), many.path)
    other.directory = msgspec.structs.replace(other.directory, num_rows=2)
    other.num_rows = split.num_rows
    with pytest.raises(CorruptSplitError, match="its index holds 9 rows of 2"):
        check_index(other, CONFIG)


@pytest.mark.parametrize(
    ("content", "mapping", "is_foreign"),
    [
        (b"bundle of another product" * 4, None, True),
        (b"bundle of another product" * 4, '{"fields": []}', True),
        (b"bundle of another product" * 4, "[]", False),
        (b"PAR1 and then it was cut" * 4, None, False),
        (b"its beginning is lost  PAR1", None, False),
        (b"short", None, False),
    ],
)
def test_splits_of_another_product_are_known(tmp_path, content, mapping, is_foreign) -> None:
    (tmp_path / "x.split").write_bytes(content)
    add = Add(
        path="x.split",
        partition_values={},
        size=len(content),
        modification_time=1,
        data_change=True,
        doc_mapping_json=mapping,
    )
    assert is_of_another_format(store_at(tmp_path), add) is is_foreign
