"""Rows of a table in other libraries, as people ask for them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap

import datafusion
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.table.logs_table import SCHEMA, make_logs, rows

import indextables as it
from indextables.errors import ConfigError, CorruptSplitError, QueryError, SchemaError

NESTED = pa.schema(
    [
        ("id", pa.int64()),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("place", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
        ("extra", pa.map_(pa.string(), pa.int64())),
    ]
)
NESTED_ROWS = [
    {"id": 1, "tags": ["a", None], "place": {"city": "Rome", "zip": 7}, "extra": [("k", 1)]},
    {"id": None, "tags": None, "place": None, "extra": None},
]


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> it.Table:
    return make_logs(tmp_path_factory.mktemp("tables") / "logs")


@pytest.fixture(scope="module")
def nested(tmp_path_factory) -> it.Table:
    table = it.Table.create(tmp_path_factory.mktemp("tables") / "nested", NESTED)
    table.append(NESTED_ROWS)
    return table


def ids(found: pa.Table) -> list[int]:
    return found["id"].to_pylist()


def test_arrow(table) -> None:
    assert table.to_arrow().to_pylist() == rows()
    assert table.to_arrow("timeout", where="id > 3", columns=["day", "id"]).to_pylist() == [
        {"day": "2026-01-02", "id": 4}
    ]
    assert pa.table(table) == table.to_arrow()
    assert pa.RecordBatchReader.from_stream(table).read_all() == table.to_arrow()
    assert pa.table(table).schema == SCHEMA


def test_batches(table) -> None:
    assert [row for batch in table.to_batches() for row in batch.to_pylist()] == rows()
    assert [batch.to_pylist() for batch in table.to_batches("full", columns=["id"])] == [[{"id": 1}]]
    assert list(table.to_batches("nothing")) == []
    assert [row["id"] for batch in table.to_batches(where="day = '2026-01-02'") for row in batch.to_pylist()] == [3, 4]


def test_polars(table) -> None:
    for frame in (pl.DataFrame(table), pl.from_arrow(pa.table(table)), table.to_polars()):
        assert frame.to_dicts() == rows()
    assert table.to_polars("timeout", columns=["id"])["id"].to_list() == [3, 4]
    lazy = pl.scan_pyarrow_dataset(table.dataset()).filter(pl.col("id") > 2).select("id", "day")
    assert lazy.collect().to_dicts() == [{"id": 3, "day": "2026-01-02"}, {"id": 4, "day": "2026-01-02"}]


def test_duckdb(table) -> None:
    t = table
    assert duckdb.sql("select id from t where level = 'error' order by id").fetchall() == [(1,), (3,), (4,)]
    assert t is table
    assert duckdb.sql("select count(*) from t").fetchall() == [(4,)]
    relation = table.to_duckdb("timeout", columns=["id", "day"])
    assert relation.fetchall() == [(3, "2026-01-02"), (4, "2026-01-02")]
    assert relation.fetchall() == [(3, "2026-01-02"), (4, "2026-01-02")]
    assert relation.order("id desc").project("id").fetchall() == [(4,), (3,)]
    with duckdb.connect() as connection:
        logs = table.to_duckdb(where="id < 3", columns=["id"], connection=connection)
        assert connection.sql("select sum(id) from logs").fetchall() == [(3,)]
        assert logs.columns == ["id"]


def test_a_relation_of_duckdb_stays_at_its_version(tmp_path) -> None:
    table = make_logs(tmp_path / "logs")
    relation, dataset, batches = table.to_duckdb(), table.dataset(), table.to_batches()
    table.overwrite([{"id": 9, "day": "2026-01-02"}])
    assert len(table) == 1
    assert relation.aggregate("count(*)").fetchall() == [(4,)]
    assert dataset.count_rows() == 4
    assert sum(batch.num_rows for batch in batches) == 4


def test_datafusion(table) -> None:
    context = datafusion.SessionContext()
    context.from_arrow(table, name="logs")
    assert context.sql("select count(*) as n from logs where day = '2026-01-02'").to_pylist() == [{"n": 2}]


def test_pandas(table) -> None:
    assert table.to_pandas().equals(pd.DataFrame.from_arrow(table))
    assert table.to_pandas("timeout")["id"].tolist() == [3, 4]


def test_numbers_do_not_change_on_the_way_to_pandas(tmp_path) -> None:
    big = 2**53 + 1
    table = it.write(tmp_path / "t", {"a": [big, None], "b": [big, 1], "c": ["x", None]})
    frame = table.to_pandas()
    assert (frame["a"].dtype, frame["b"].dtype) == ("Int64", "int64")
    assert frame["a"].tolist() == [big, pd.NA]
    assert frame["b"].tolist() == [big, 1]
    assert list(frame.columns) == ["a", "b", "c"]


def test_nested_columns(nested) -> None:
    assert nested.to_arrow().to_pylist() == NESTED_ROWS
    assert [row for batch in nested.to_batches() for row in batch.to_pylist()] == NESTED_ROWS
    assert nested.dataset().to_table().to_pylist() == NESTED_ROWS
    assert pl.DataFrame(nested)["place"].to_list() == [{"city": "Rome", "zip": 7}, None]
    assert duckdb.sql("select tags from nested order by id").fetchall() == [(["a", None],), (None,)]
    assert nested.to_pandas()["id"].tolist() == [1, pd.NA]


def test_versions_without_splits(table) -> None:
    first = it.open(table.url, version=0)
    assert first.to_arrow() == SCHEMA.empty_table()
    assert list(first.to_batches()) == []
    assert pa.table(first).schema == SCHEMA
    assert pl.DataFrame(first).columns == SCHEMA.names
    assert first.to_duckdb().fetchall() == []
    assert first.to_pandas().empty
    assert first.dataset().to_table() == SCHEMA.empty_table()


def test_an_older_version_and_a_pickled_handle(table) -> None:
    older = pickle.loads(pickle.dumps(it.open(table.url, version=1)))
    assert ids(pa.table(older)) == [1, 2, 3]
    assert pl.DataFrame(older).height == 3
    assert older.dataset().count_rows() == 3


def test_a_table_is_written_into_another(table, tmp_path) -> None:
    copy = it.write(tmp_path / "copy", table, text=["message"])
    copy.append(table)
    assert copy.count("timeout") == 4
    copy.append(copy)
    assert len(copy) == 16


def test_splits_that_are_indexed_in_several_ways(tmp_path) -> None:
    table = make_logs(tmp_path / "logs")
    table.set_properties({"indexing.typemap.level": "text"})
    table.append([{"id": 5, "level": "not an error", "day": "2026-01-03"}])
    assert ids(pa.table(table)) == [1, 2, 3, 4, 5]
    assert [row["id"] for batch in table.to_batches("level:error") for row in batch.to_pylist()] == [1, 3, 4, 5]
    assert table.to_polars("level:error").height == 4


def test_mistakes_are_told_before_a_row_is_read(table) -> None:
    for give in (table.to_arrow, table.to_batches, table.to_pandas, table.to_polars, table.to_duckdb):
        with pytest.raises(SchemaError, match="no such column"):
            give(columns=["other"])
        with pytest.raises(QueryError):
            give(where="id >")
        with pytest.raises(ConfigError, match="give a list of names"):
            give(columns="id")
    with pytest.raises(ConfigError, match="no columns at all"):
        table.to_batches(columns=[])


def test_a_stream_reads_no_more_than_is_asked_for(tmp_path) -> None:
    table = it.Table.create(
        tmp_path / "many", pa.schema([("id", pa.int64()), ("part", pa.int64())]), partition_by=["part"]
    )
    table.append({"id": range(6), "part": range(6)})
    opened = []
    get = table._opened.get
    table._opened.get = lambda path, **about: opened.append(path) or get(path, **about)
    stream = table.to_batches()
    assert opened == []
    table.to_duckdb()
    assert opened == []
    assert sum(batch.num_rows for batch in stream) == len(set(opened)) == 6


def test_memory_stays_bounded(tmp_path) -> None:
    """Batches of a large split are read as they are asked for, and let go of."""
    num_rows = 40_000
    table = it.Table.create(tmp_path / "large", pa.schema([("id", pa.int64()), ("text", pa.string())]))
    for _ in range(4):
        table.append({"id": pa.array(range(num_rows // 4)), "text": pa.array(["x" * 2000] * (num_rows // 4))})
    whole = table.to_arrow().nbytes
    before, most, seen = pa.total_allocated_bytes(), 0, 0
    for batch in table.to_batches():
        seen += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
    assert seen == num_rows
    assert most < whole // 2


def test_a_damaged_split_is_an_error_and_never_other_rows(tmp_path) -> None:
    table = make_logs(tmp_path / "logs")
    path = tmp_path / "logs" / table.files()["path"][0].as_py()
    data = bytearray(path.read_bytes())
    data[10] ^= 255
    path.write_bytes(data)
    with pytest.raises(CorruptSplitError):
        list(table.to_batches())
    with pytest.raises(OSError, match=r"header|CRC|checksum|orrupt"):
        table.dataset().to_table()
    data[-20] ^= 255
    path.write_bytes(data)
    table.flush_search_cache()
    with pytest.raises(CorruptSplitError):
        table.dataset().to_table()


MISSING = """
    import sys
    class Missing:
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in ("pandas", "polars", "duckdb"):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    sys.meta_path.insert(0, Missing())
    import indextables as it
    table = it.Table(sys.argv[1])
    for give in (table.to_pandas, table.to_polars, table.to_duckdb):
        try:
            give()
        except it.errors.ConfigError as error:
            print(error)
    table.append([{"id": 7, "day": "2026-01-01"}])
    print(len(table), table.to_arrow().num_rows, table.dataset().count_rows())
"""


def test_libraries_that_are_missing_are_named(tmp_path) -> None:
    table = make_logs(tmp_path / "logs")
    command = [sys.executable, "-c", textwrap.dedent(MISSING), table.url]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, env=os.environ)
    assert ran.stdout.splitlines() == [
        line
        for name in ("pandas", "polars", "duckdb")
        for line in (
            f"cannot give rows to `{name}` because it is not installed",
            f"hint: install it with `pip install {name}`",
        )
    ] + ["5 5 5"], ran.stderr


LAZY = """
    import sys
    import indextables as it
    table = it.Table(sys.argv[1])
    [batch.num_rows for batch in table.to_batches("disk")]
    table.to_arrow(); table.head(); table.dataset().to_table()
    print([name for name in ("polars", "duckdb", "pyspark") if name in sys.modules])
"""


def test_libraries_are_imported_when_they_are_asked_for(table) -> None:
    command = [sys.executable, "-c", textwrap.dedent(LAZY), table.url]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, env=os.environ)
    assert ran.stdout.strip() == "[]", ran.stderr


ENDS = {
    "a dataset's head": "t.dataset().head(1)",
    "a reader of a dataset": "kept = t.dataset().scanner(batch_size=1).to_reader(); kept.read_next_batch()",
    "batches": "kept = t.to_batches(); next(kept)",
    "an Arrow stream": "kept = pa.RecordBatchReader.from_stream(t); kept.read_next_batch()",
}


@pytest.fixture(scope="module")
def parted(tmp_path_factory) -> it.Table:
    data = {"id": list(range(400)), "part": [number % 12 for number in range(400)]}
    return it.write(tmp_path_factory.mktemp("tables") / "parted", data, partition_by=["part"])


@pytest.mark.parametrize("end", ENDS)
def test_a_process_ends_well_in_the_middle_of_a_scan(parted, end) -> None:
    program = f"import sys, pyarrow as pa, indextables as it\nt = it.Table(sys.argv[1])\n{ENDS[end]}\nprint('read')"
    command = [sys.executable, "-c", program, parted.url]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, env=os.environ)
    assert (ran.returncode, ran.stdout.strip()) == (0, "read"), ran.stderr
