"""The live splits as a pyarrow dataset: the rows of the table, and no others, from any store."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import pickle
from collections.abc import Mapping

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.servers.proxy import ProxyFault, fault_proxy
from tests.table.logs_table import make_logs, rows

import indextables as it
from indextables.errors import CorruptSplitError, ObjectNotFoundError, StorageError
from indextables.table.dataset import SplitFiles

PARTITIONS = [
    ("s", pa.string(), ["a b", "", "ü/%", None, "1"]),
    ("i", pa.int32(), [-1, 0, 2**31 - 1, None, 1]),
    ("l", pa.int64(), [-(2**63), 2**63 - 1, 0, None, 10**18]),
    ("b", pa.bool_(), [True, False, None, True, False]),
    ("d", pa.date32(), [dt.date(1, 1, 1), dt.date(2026, 1, 1), None, dt.date(9999, 12, 31), dt.date(1969, 12, 31)]),
    (
        "t",
        pa.timestamp("us", "UTC"),
        [dt.datetime(2026, 1, 1, 1, 2, 3, 4, dt.UTC), None, dt.datetime(1960, 1, 1, tzinfo=dt.UTC)] * 2,
    ),
    ("w", pa.timestamp("us"), [dt.datetime(2026, 1, 1, 1, 2, 3), None]),  # noqa: DTZ001 - without a zone on purpose
    ("n", pa.decimal128(20, 2), [decimal.Decimal("1.20"), decimal.Decimal("-0.01"), None]),
    ("f", pa.float64(), [math.nan, 0.0, -0.0, None, math.inf, 1.5]),
]


@pytest.fixture
def table(tmp_path) -> it.Table:
    return make_logs(tmp_path / "logs")


def counting(table: it.Table, monkeypatch) -> list[str]:
    """The splits that are opened from here on."""
    opened: list[str] = []
    opening = SplitFiles.open_input_file

    def open_input_file(self: SplitFiles, path: str) -> pa.NativeFile:
        opened.append(path)
        return opening(self, path)

    monkeypatch.setattr(SplitFiles, "open_input_file", open_input_file)
    return opened


def test_rows_are_those_of_the_table(table) -> None:
    dataset = table.dataset()
    assert dataset.schema == table.schema
    assert dataset.to_table().to_pylist() == rows()
    assert dataset.count_rows() == 4
    assert dataset.head(2)["id"].to_pylist() == [1, 2]
    assert dataset.to_table(columns=["day", "id"]).column_names == ["day", "id"]
    assert len(list(dataset.get_fragments())) == table.num_files


def test_splits_that_no_version_names_are_not_read(table) -> None:
    table.overwrite([{"id": 9, "day": "2026-01-09"}])
    table.merge_splits()
    assert table.dataset().to_table()["id"].to_pylist() == [9]
    assert it.open(table.url, version=1).dataset().count_rows() == 3


def test_filters_on_partitions_open_only_what_they_need(table, monkeypatch) -> None:
    opened = counting(table, monkeypatch)
    found = table.dataset().to_table(filter=pc.field("day") == "2026-01-01", columns=["id", "day"])
    assert found.to_pylist() == [{"id": 1, "day": "2026-01-01"}, {"id": 2, "day": "2026-01-01"}]
    assert len(set(opened)) == 1
    assert all("day=2026-01-01" in path for path in opened)


@pytest.mark.parametrize(("name", "kind", "values"), PARTITIONS, ids=[name for name, _, _ in PARTITIONS])
def test_partition_values_are_exact(tmp_path, name, kind, values) -> None:
    schema = pa.schema([("id", pa.int64()), (name, kind)])
    table = it.Table.create(tmp_path / "t", schema, partition_by=[name])
    table.append(pa.table({"id": range(len(values)), name: pa.array(values, kind)}, schema=schema))
    dataset, whole = table.dataset(), table.to_arrow()
    assert str(dataset.to_table().sort_by("id").to_pylist()) == str(whole.sort_by("id").to_pylist())
    for value in values:
        literal = pa.scalar(value, kind)
        condition = pc.is_null(pc.field(name)) if value is None else pc.field(name) == literal
        assert str(dataset.to_table(filter=condition).to_pylist()) == str(whole.filter(condition).to_pylist())


def test_several_partition_columns(tmp_path) -> None:
    data = {"a": ["x", "x", None], "b": [1, None, 2], "id": [1, 2, 3]}
    dataset = it.write(tmp_path / "t", data, partition_by=["a", "b"]).dataset()
    condition = (pc.field("a") == "x") & pc.is_null(pc.field("b"))
    assert dataset.to_table(filter=condition)["id"].to_pylist() == [2]
    assert sorted(dataset.to_table()["id"].to_pylist()) == [1, 2, 3]


def test_names_with_dots(tmp_path) -> None:
    dataset = it.write(tmp_path / "t", {"a.b": [1, 2], "a": [{"b": 3}, {"b": 4}]}).dataset()
    assert dataset.to_table(columns=["a.b"])["a.b"].to_pylist() == [1, 2]


def test_a_dataset_pickles(table) -> None:
    dataset = pickle.loads(pickle.dumps(table.dataset()))
    assert dataset.to_table().to_pylist() == rows()
    assert dataset.filesystem == table.dataset().filesystem


def test_a_dataset_of_memory() -> None:
    table = make_logs("memory://dataset/logs")
    assert table.dataset().to_table().to_pylist() == rows()


def test_a_far_store_is_read_with_the_credentials_of_the_table(servers) -> None:
    server = servers("moto")
    table = make_logs(f"{server.url}/dataset", **server.options)
    times: list[str] = []

    def note(method: str, path: str, headers: Mapping[str, str]) -> ProxyFault:
        times.extend([path] if ".split" in path else [])
        return ProxyFault.NONE

    with fault_proxy(server.endpoint, note) as proxy:
        near = it.open(table.url, options=server.behind(proxy.endpoint))
        assert near.dataset().to_table().to_pylist() == rows()
        assert len(times) == near.num_files  # one request a small split
        assert pl.scan_pyarrow_dataset(near.dataset()).select("id").collect()["id"].to_list() == [1, 2, 3, 4]
        assert [batch.num_rows for batch in near.to_batches()] == [4]
    secrets = [str(value) for key, value in server.options.items() if "secret" in key.lower()]
    assert secrets
    assert not any(secret in repr(near.dataset()) + repr(near.dataset().filesystem) for secret in secrets)


def test_files_are_only_read(table) -> None:
    files = table.dataset().filesystem
    path = table.files()["path"][0].as_py()
    info = files.get_file_info([path, "other"])
    assert (info[0].size, info[1].type.name) == (table.files()["size"][0].as_py(), "NotFound")
    with pytest.raises(StorageError, match="only reads them"):
        files.delete_file(path)
    with pytest.raises(ObjectNotFoundError, match="not a split of this dataset"):
        files.open_input_file("other")
    with files.open_input_file(path) as file:
        assert file.read(4) == b"PAR1"
        assert file.size() == info[0].size
        file.seek(-4, 2)
        assert file.read() == b"PAR1"


def test_missing_and_swapped_splits_are_errors(table, tmp_path) -> None:
    first, second, _ = (tmp_path / "logs" / path for path in table.files()["path"].to_pylist())
    data = first.read_bytes()
    first.unlink()
    with pytest.raises(ObjectNotFoundError):
        table.dataset().to_table()
    first.write_bytes(second.read_bytes())
    with pytest.raises(CorruptSplitError):
        table.dataset().to_table()
    first.write_bytes(data)
    assert table.dataset().count_rows() == 4


def test_damage_anywhere_in_the_rows_is_no_other_row(table, tmp_path) -> None:
    path = tmp_path / "logs" / table.files()["path"][0].as_py()
    whole = path.read_bytes()
    expected = table.dataset().to_table()
    num_errors = 0
    for place in range(0, len(whole), 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            assert table.dataset().to_table() == expected
        except (OSError, pa.ArrowException, it.errors.IndexTablesError):
            num_errors += 1
    assert num_errors > 3


def test_a_column_of_another_spelling_in_a_split_is_cast(tmp_path) -> None:
    """Splits may differ in how Arrow spells a type; the table's schema is what readers get."""
    from indextables.config import Config
    from indextables.split.writer import SplitWriter

    table = it.write(tmp_path / "t", {"id": [1], "message": ["a"]})
    schema = pa.schema([("id", pa.int64()), ("message", pa.large_string())])
    adds: list[it.actions.Add] = []
    with SplitWriter(
        table.log.reader.store, schema, Config.resolve(), partition_columns=(), partition_values={}, adds=adds
    ) as writer:
        writer.write(pa.record_batch({"id": pa.array([2]), "message": pa.array(["b"], pa.large_string())}))
        writer.finish()
    table.log.add_files(adds)
    table.refresh()
    expected = [{"id": 1, "message": "a"}, {"id": 2, "message": "b"}]
    assert table.dataset().to_table().to_pylist() == expected
    assert table.dataset().to_table().schema == table.schema
    assert table.to_arrow().to_pylist() == expected
    assert [row for batch in table.to_batches() for row in batch.to_pylist()] == expected
