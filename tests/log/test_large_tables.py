"""Tables of more files than a handle reads when it is opened: the same answers, by fewer manifests."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import indextables as it
from indextables.state.manifests import ManifestReader

LARGE = {
    "state.read.maxFiles": 1,
    "cache.disk.enabled": "false",
    "state.entriesPerManifest": 3,
    "cleanup.enabled": "false",
}
NEVER = {**LARGE, "checkpoint.interval": 10**6}


def rows_of(days: range) -> pa.Table:
    return pa.table({"id": list(days), "day": [day % 4 for day in days], "text": [f"word{day}" for day in days]})


@pytest.fixture
def place(tmp_path) -> Path:
    """Twelve splits in four compacted manifests, one a day, and two splits in later versions."""
    path = tmp_path / "t"
    table = it.write(path, rows_of(range(4)), partition_by=["day"], options=NEVER)
    table.append(rows_of(range(4, 8)))
    table.append(rows_of(range(8, 12)))
    table.compact()
    table.append(rows_of(range(12, 14)))
    return path


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """The manifests that were read."""
    found: list[str] = []
    whole = ManifestReader.tables

    def counted(self, infos, *rest):
        found.extend(info.path for info in infos)
        return whole(self, infos, *rest)

    monkeypatch.setattr(ManifestReader, "tables", counted)
    return found


def test_opening_and_appending_read_no_manifest(place, read) -> None:
    table = it.open(place, options=NEVER)
    table.append(rows_of(range(14, 15)))
    assert (table.version, table.columns) == (5, ["id", "day", "text"])
    assert read == []


@pytest.mark.parametrize("where", ["day = 1", "day = 1 and id > 2", "day in (1)", "day < 2 and day > 0"])
def test_one_partition_is_read_from_its_manifest(place, read, where) -> None:
    table = it.open(place, options=NEVER)
    found = table.search(where=where, columns=["id"]).to_pydict()["id"]
    assert sorted(found) == [number for number in (1, 5, 9, 13) if "id" not in where or number > 2]
    assert table.count(where=where) == len(found)
    assert len(set(read)) == 1


def test_answers_are_those_of_a_small_table(place) -> None:
    large, small = (it.open(place, options=options) for options in (NEVER, {"cache.disk.enabled": "false"}))
    for where in (None, "day = 3", "id >= 5", "day = 9", "id = 3 or day = 0"):
        for query in (None, "text:word5", "text:word*"):
            columns = ["id", "day", "text"]
            answers = [each.search(query, where=where, columns=columns).to_pylist() for each in (large, small)]
            assert answers[0] == answers[1]
            assert large.count(query, where=where) == small.count(query, where=where)
    assert large.num_files == small.num_files == 14
    assert len(pickle.loads(pickle.dumps(large))) == 14


def test_a_damaged_manifest_leads_to_another_base(place, caplog) -> None:
    table = it.open(place, options=NEVER)
    manifests = sorted((place / "_transaction_log" / "manifests").iterdir())
    for manifest in manifests:
        manifest.write_bytes(manifest.read_bytes()[:-1])
    assert sorted(table.search(where="day = 1", columns=["id"]).to_pydict()["id"]) == [1, 5, 9, 13]
    assert table.num_files == 14
    assert "skipping the state of version 3" in caplog.text


def test_without_another_base_damage_is_an_error(place) -> None:
    for version in range(4):
        (place / "_transaction_log" / f"{version:020d}.json").unlink()
    table = it.open(place, options=NEVER)
    for manifest in (place / "_transaction_log" / "manifests").iterdir():
        manifest.unlink()
    with pytest.raises(it.errors.IndexTablesError, match="cannot read"):
        table.search(where="day = 1")
