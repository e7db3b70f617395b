"""`indextables reindex`."""

from __future__ import annotations

import json

import pyarrow as pa

import indextables as it


def test_splits_are_reindexed(invoke, tmp_path) -> None:
    table = it.Table.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("msg", pa.string())]))
    table.append(pa.table({"id": [1], "msg": ["foo bar"]}))
    table.set_properties({"indexing.msg": "text"})
    planned = invoke("reindex", table.url, "--dry-run", "--json")
    assert json.loads(planned.stdout)["reindexed_files"] == 1
    other = invoke("reindex", table.url, "--column", "id", "--json")
    assert json.loads(other.stdout)["status"] == "NO_ACTION"
    done = invoke("reindex", table.url, "--where", "id = 1")
    assert done.exit_code == 0
    assert "SUCCESS" in done.stdout
    (path,) = table.refresh().files()["path"].to_pylist()
    assert json.loads(invoke("reindex", table.url, "--split", path, "--json").stdout)["reindexed_files"] == 1
    in_sql = invoke("sql", f"REINDEX INDEXTABLES '{table.url}' DRY RUN", "--json")
    assert json.loads(in_sql.stdout)["status"] == "NO_ACTION"
    refused = invoke("reindex", table.url, "--column", "mesg")
    assert refused.exit_code == 1
    assert "mesg" in refused.stderr
