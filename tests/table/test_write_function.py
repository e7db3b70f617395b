"""`it.write`: creates a table that is not there, and does what its mode says with one that is."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import indextables as it
from indextables.errors import ConfigError, SchemaError, TableExistsError, TableNotFoundError
from indextables.table import functions

ROWS = [{"id": 1, "message": "disk full"}, {"id": 2, "message": "read timeout"}]
MODES = ("append", "overwrite", "error", "ignore")


@pytest.fixture
def url(tmp_path) -> str:
    return str(tmp_path / "t")


@pytest.mark.parametrize(
    "make",
    [
        lambda: ROWS,
        lambda: (row for row in ROWS),
        lambda: {"id": [1, 2], "message": ["disk full", "read timeout"]},
        lambda: pa.Table.from_pylist(ROWS),
        lambda: pa.Table.from_pylist(ROWS).to_batches(),
        lambda: iter(pa.Table.from_pylist(ROWS).to_batches(max_chunksize=1)),
        lambda: pa.Table.from_pylist(ROWS).to_reader(),
        lambda: ds.dataset(pa.Table.from_pylist(ROWS)),
        lambda: pd.DataFrame(ROWS),
        lambda: pl.DataFrame(ROWS),
        lambda: pl.LazyFrame(ROWS),
        lambda: duckdb.sql("select 1::bigint as id, 'disk full' as message union all select 2, 'read timeout'"),
    ],
)
def test_every_form_makes_a_table(url, make) -> None:
    table = it.write(url, make(), text=["message"])
    assert table.schema == pa.schema([("id", pa.int64()), ("message", pa.string())])
    assert table.indexing == {"id": "int", "message": "text"}
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"]) == ROWS
    assert table.search("timeout")["id"].to_pylist() == [2]
    assert it.write(url, make()).count("timeout") == 2


def test_the_modes(url) -> None:
    for mode in MODES:
        assert len(it.write(f"{url}-{mode}", ROWS, mode=mode)) == 2
    it.write(url, ROWS)
    assert len(it.write(url, ROWS)) == 4
    assert len(it.write(url, ROWS[:1], mode="overwrite")) == 1
    assert len(it.write(url, "never looked at", mode="ignore")) == 1
    with pytest.raises(TableExistsError, match="there is one already"):
        it.write(url, ROWS, mode="error")
    assert len(it.open(url)) == 1


def test_partitions_of_a_new_table(url) -> None:
    table = it.write(url, ROWS, partition_by=["id"])
    assert table.partition_columns == ("id",)
    assert it.write(url, ROWS, partition_by=("id",)).num_files == 4
    with pytest.raises(SchemaError, match="partitioned by `id`"):
        it.write(url, ROWS, partition_by=["message"])
    with pytest.raises(SchemaError, match="partitioned by no column"):
        it.write(it.write(f"{url}-2", ROWS).url, ROWS, partition_by=["id"])
    assert len(table.refresh()) == 4


def test_a_table_of_other_indexing_is_refused(url) -> None:
    it.write(url, ROWS)
    with pytest.raises(SchemaError, match=r"`message` as text because the table .* indexes it as `string`") as refused:
        it.write(url, ROWS, text=["message"])
    assert "indexing.typemap.message" in refused.value.hint
    with pytest.raises(SchemaError, match="no such column"):
        it.write(url, ROWS, text=["other"])
    it.open(url).set_properties({"indexing.typemap.message": "text"})
    assert it.write(url, ROWS, text=["message"]).count("timeout") == 2


@pytest.mark.parametrize(
    ("data", "arguments", "kind", "message"),
    [
        ([], {}, SchemaError, "no rows to tell its columns by"),
        ([{"id": 1, "x": None}], {}, SchemaError, "type of the column `x` because all its values are null"),
        (pa.table({"id": [1], "x": pa.nulls(1)}), {}, SchemaError, "type of the column `x`"),
        ("rows", {}, SchemaError, "cannot write a `str`"),
        (ROWS, {"mode": "upsert"}, ConfigError, "mode `upsert`: expected `append`"),
        (ROWS, {"mode": None}, ConfigError, "mode `None`"),
        (ROWS, {"text": "message"}, ConfigError, r"give a list of names, as in `\[\"message\"\]`"),
        (ROWS, {"partition_by": "id"}, ConfigError, "give a list of names"),
        (ROWS, {"text": ["other"]}, SchemaError, "cannot index `other` because the schema has no such column"),
        (ROWS, {"text": ["id"]}, SchemaError, "cannot index column `id` as `text`"),
        (ROWS, {"partition_by": ["other"]}, SchemaError, "cannot partition by `other`"),
        (pl.DataFrame({"t": [dt.time(1)]}), {}, SchemaError, "cannot store column `t`"),
        (pa.table({"t": pa.array([1], pa.timestamp("ns"))}), {}, SchemaError, "would lose data"),
        (pa.table({"l": pa.array([[1]], pa.list_view(pa.int64()))}), {}, SchemaError, "column `l`"),
    ],
)
def test_what_is_refused_leaves_no_table(url, data, arguments, kind, message) -> None:
    with pytest.raises(kind, match=message):
        it.write(url, data, **arguments)
    with pytest.raises(TableNotFoundError):
        it.open(url)


def test_rows_that_do_not_fit_leave_the_table_as_it_is(url) -> None:
    it.write(url, ROWS)
    for wrong in ([{"id": "x"}], [{"other": 1}], {"id": [1.5]}):
        with pytest.raises(SchemaError):
            it.write(url, wrong)
    assert (it.open(url).version, len(it.open(url))) == (1, 2)


def test_options_reach_the_store() -> None:
    with pytest.raises(ConfigError):
        it.write("memory://options/t", ROWS, options={"no.such.option": "1"})


def test_many_writers_create_one_table(url) -> None:
    num_writers = 6
    barrier = Barrier(num_writers)

    def write(number: int) -> int:
        barrier.wait()
        return it.write(url, [{"id": number, "message": "x"}], text=["message"]).version

    with ThreadPoolExecutor(num_writers) as pool:
        versions = list(pool.map(write, range(num_writers)))
    table = it.open(url)
    assert table.version == num_writers
    assert max(versions) == num_writers
    assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(num_writers))


_DIES_BEFORE_THE_ROWS = """
import os, sys
import indextables as it
from indextables.table import Table
Table.append = lambda *arguments, **options: os._exit(9)
it.write(sys.argv[1], [{"id": 1, "message": "disk full"}], text=["message"])
"""


def test_a_writer_that_dies_between_its_two_commits_leaves_an_empty_table(url) -> None:
    ended = subprocess.run([sys.executable, "-c", _DIES_BEFORE_THE_ROWS, url], timeout=120, check=False)
    assert ended.returncode == 9
    assert (it.open(url).version, len(it.open(url))) == (0, 0)
    assert it.write(url, ROWS, text=["message"]).search("timeout")["id"].to_pylist() == [2]
    assert len(it.open(url)) == 2


@pytest.fixture
def lost_race(url, monkeypatch):
    """Another writer creates the table after this one has looked for it."""
    find = functions._find
    looks = []

    def look(*arguments):
        looks.append(arguments)
        return find(*arguments) if len(looks) > 1 else None

    def create(data, **arguments) -> None:
        it.write(url, data, **arguments)
        monkeypatch.setattr(functions, "_find", look)

    return create


@pytest.mark.parametrize(
    "first",
    [ROWS, [{"message": "x", "id": 3}], [{"id": 3, "message": "x", "more": 1.5}]],
    ids=["the same", "other order", "more columns"],
)
def test_a_lost_race_appends(url, lost_race, first) -> None:
    lost_race(first, text=["message"])
    assert len(it.write(url, iter(ROWS), text=["message"])) == len(first) + 2


def test_a_lost_race_obeys_the_mode(url, lost_race) -> None:
    lost_race(ROWS)
    with pytest.raises(TableExistsError):
        it.write(url, ROWS, mode="error")


@pytest.mark.parametrize(("mode", "num_rows"), [("overwrite", 1), ("ignore", 2)])
def test_a_lost_race_replaces_or_does_nothing(url, lost_race, mode, num_rows) -> None:
    lost_race(ROWS)
    assert len(it.write(url, ROWS[:1], mode=mode)) == num_rows


def test_a_lost_race_against_another_table_is_an_error(url, lost_race) -> None:
    lost_race([{"id": 1, "message": "x"}])
    with pytest.raises(SchemaError, match="indexes it as `string`"):
        it.write(url, ROWS, text=["message"])
    assert len(it.open(url)) == 1


def test_a_lost_race_against_other_columns_is_an_error(url, lost_race) -> None:
    lost_race([{"name": "x"}])
    with pytest.raises(SchemaError, match="column `id` because the table has no such column"):
        it.write(url, ROWS)


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        (pa.array([1, 2**64 - 1], pa.uint64()), pa.decimal128(20, 0), [1, 2**64 - 1]),
        (pa.array([1, 2], pa.float16()), pa.float32(), [1.0, 2.0]),
        (pa.array([b"ab", None], pa.binary(2)), pa.binary(), [b"ab", None]),
        (pa.array([1000, None], pa.timestamp("ns")), pa.timestamp("us"), [dt.datetime(1970, 1, 1, 0, 0, 0, 1), None]),  # noqa: DTZ001
        (pc.run_end_encode(pa.array(["a", "a", None])), pa.string(), ["a", "a", None]),
        (pa.array(["a", None]).dictionary_encode(), pa.string(), ["a", None]),
        (pl.Series(["a", None, "a"], dtype=pl.Categorical), pa.string(), ["a", None, "a"]),
        (pl.Series(["a", None], dtype=pl.Enum(["a"])), pa.string(), ["a", None]),
        (pl.Series([1, None], dtype=pl.UInt64), pa.decimal128(20, 0), [1, None]),
        (pl.Series([[1], None], dtype=pl.Array(pl.Int8, 1)), pa.list_(pa.field("element", pa.int8())), [[1], None]),
        (pd.Series(["a", None], dtype="category"), pa.string(), ["a", None]),
    ],
    ids=str,
)
def test_what_a_table_can_be_made_of_can_be_written(url, column, kind, values) -> None:
    table = it.write(url, {"id": list(range(len(column))), "c": column})
    assert table.schema.field("c").type == kind
    assert table.to_arrow()["c"].to_pylist() == values
    it.write(url, {"id": list(range(len(column))), "c": column})
    assert len(table.refresh()) == 2 * len(column)


def test_nulls_behind_an_encoding_are_seen(url) -> None:
    schema = pa.schema([pa.field("c", pa.string(), nullable=False), ("id", pa.int64())])
    table = it.Table.create(url, schema)
    for column in (
        pc.run_end_encode(pa.array(["a", None])),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None])),
    ):
        with pytest.raises(SchemaError, match="holds a null"):
            table.append(pa.table({"c": column, "id": [1, 2]}))
    assert table.refresh().version == 0
