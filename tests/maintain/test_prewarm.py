"""`prewarm`: indexes are in the local cache before they are asked."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import ConfigError
from indextables.scan.split_scan import TableScan
from indextables.split.search.open_splits import OpenSplits

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string()), ("day", pa.string())])


def make(tmp_path, **options: object) -> it.Table:
    table = it.Table.create(
        tmp_path / "table",
        SCHEMA,
        partition_by=["day"],
        indexing={"message": "text"},
        options={"cache.disk.path": str(tmp_path / "cache"), **options},
    )
    for day in "12":
        table.append(pa.table({"id": range(50), "message": ["some words"] * 50, "day": [day] * 50}, SCHEMA))
    return table


def bytes_to_fetch(table: it.Table) -> list[int]:
    """What is missing in the cache, as a new process sees it."""
    scan = TableScan(table.snapshot, table.log.config, OpenSplits(table.log.reader.store, table.log.config))
    return [scan.searcher(split).whole_bytes_to_fetch for split in scan.splits]


def test_indexes_are_fetched_once(tmp_path) -> None:
    table = make(tmp_path)
    missing = bytes_to_fetch(table)
    assert all(missing)
    (first,) = table.prewarm().to_pylist()
    assert (first["status"], first["splits"], first["fetched_splits"]) == ("SUCCESS", 2, 2)
    assert first["fetched_bytes"] == sum(missing)
    assert bytes_to_fetch(table) == [0, 0]
    (second,) = table.prewarm().to_pylist()
    assert (second["status"], second["splits"], second["fetched_splits"]) == ("NO_ACTION", 2, 0)


def test_a_predicate_chooses_the_splits(tmp_path) -> None:
    table = make(tmp_path)
    (answer,) = table.prewarm(where="day = '2'").to_pylist()
    assert (answer["splits"], answer["fetched_splits"]) == (1, 1)
    assert sorted(bool(missing) for missing in bytes_to_fetch(table)) == [False, True]


def test_without_a_cache_or_room_nothing_is_fetched(tmp_path) -> None:
    table = make(tmp_path)
    off = it.Table.open(table.url, options={"cache.disk.enabled": "false"})
    with pytest.raises(ConfigError, match="no cache on local disk"):
        off.prewarm()
    small = it.Table.open(table.url, options={"cache.disk.path": str(tmp_path / "small"), "cache.disk.maxSize": "100"})
    with pytest.raises(ConfigError, match="the cache at most 100"):
        small.prewarm()
    assert not (tmp_path / "small").exists() or not list((tmp_path / "small").rglob("*.term"))


def test_the_command_line_and_sql_do_the_same(tmp_path) -> None:
    from click.testing import CliRunner

    from indextables.cli.main import cli

    table = make(tmp_path)
    cached = ["-o", f"cache.disk.path={tmp_path / 'cache'}"]
    done = CliRunner().invoke(cli, [*cached, "prewarm", table.url, "--where", "day = '1'", "--json"])
    assert json.loads(done.stdout)["fetched_splits"] == 1
    done = CliRunner().invoke(cli, [*cached, "sql", f"PREWARM INDEXTABLES CACHE '{table.url}'", "--json"])
    assert json.loads(done.stdout)["fetched_splits"] == 1
