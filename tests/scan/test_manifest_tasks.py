"""Scans of large tables: tasks that list the files of a manifest find what a search of the table finds."""

from __future__ import annotations

import pickle

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import indextables as it
from indextables.scan.manifest_tasks import ManifestTask
from indextables.scan.scan_tasks import PlannedScan
from indextables.scan.search import Projection
from indextables.state.manifests import ManifestReader

OPTIONS = {
    "state.read.maxFiles": "1",
    "cache.disk.enabled": "false",
    "state.entriesPerManifest": "3",
    "cleanup.enabled": "false",
    "checkpoint.interval": "1000000",
    "state.compaction.tombstoneThreshold": "0.9",
    "state.compaction.afterMerge": "false",
}


def rows_of(numbers: range) -> pa.Table:
    return pa.table(
        {"id": list(numbers), "day": [number % 4 for number in numbers], "text": [f"word{at % 3}" for at in numbers]}
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> it.Table:
    """A compacted state, a state on it with tombstones, and versions after it that remove and add splits."""
    path = tmp_path_factory.mktemp("large") / "t"
    table = it.write(path, rows_of(range(8)), partition_by=["day"], options=OPTIONS)
    table.append(rows_of(range(8, 16)))
    table.compact()
    table.overwrite(rows_of(range(100, 101)), where="day = 0")
    log = table.log
    log._checkpointer.write(table.version, log.config)
    table.overwrite(rows_of(range(101, 102)), where="day = 1")
    table.append(rows_of(range(200, 203)))
    return it.open(path, options=OPTIONS)


def planned(table: it.Table, **asked) -> PlannedScan:
    return PlannedScan(table.log, table.snapshot, Projection(columns=["id", "day", "text"]), settings=OPTIONS, **asked)


def found(scan: PlannedScan) -> list[dict]:
    """The rows of all tasks, each of which went through a pickle."""
    shared = pickle.loads(pickle.dumps(scan.scan_of(["id", "day", "text"])))
    tasks = pickle.loads(pickle.dumps(scan.tasks()))
    return [row for task in tasks for batch in shared.read(task) for row in batch.to_pylist()]


wheres = st.sampled_from([None, "day = 0", "day = 1", "day <= 1", "id > 9", "day = 2 and id < 7", "day = 1 or id = 3"])
hints = st.lists(st.sampled_from(["day >= 0", "id < 1000", "day < 4", "no such thing ("]), max_size=2)


@given(wheres, st.sampled_from([None, "text:word1", "text:nothing"]), hints)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_tasks_find_what_a_search_finds(table, where, query, hinted) -> None:
    scan = planned(table, where=where, query=query, hints=hinted)
    expected = table.search(query, where=where, columns=["id", "day", "text"]).to_pylist()
    assert sorted(found(scan), key=str) == sorted(expected, key=str)


def test_the_driver_reads_no_manifest(table, monkeypatch) -> None:
    read: list[str] = []
    whole = ManifestReader.tables

    def counted(self, infos, *rest):
        read.extend(info.path for info in infos)
        return whole(self, infos, *rest)

    monkeypatch.setattr(ManifestReader, "tables", counted)
    fresh = it.open(table.url, options=OPTIONS)
    scan = planned(fresh)
    tasks = scan.tasks()
    assert scan.splits_with_hits() is None
    assert read == []
    listing = [task for task in tasks if isinstance(task, ManifestTask)]
    assert len(listing) == len(fresh.snapshot.live_files.parts[0].state.manifests) > 2
    assert any(task.gone for task in listing)
    assert not all(task.gone for task in listing)


def test_a_manifest_is_shared_by_tasks_of_the_wanted_size(table) -> None:
    options = {**OPTIONS, "read.maxPartitionBytes": "1"}
    handle = it.open(table.url, options=options)
    scan = PlannedScan(handle.log, handle.snapshot, Projection(columns=["id"]), settings=options)
    parts = [task for task in scan.tasks() if isinstance(task, ManifestTask)]
    assert max(task.num_parts for task in parts) > 1
    numbers = [row["id"] for row in found(scan)]
    assert sorted(numbers) == sorted(handle.search(columns=["id"]).to_pydict()["id"])


def test_a_limit_and_a_small_choice_are_planned_by_splits(table) -> None:
    limited = PlannedScan(table.log, table.snapshot, Projection(columns=["id"], limit=2), settings=OPTIONS)
    assert not any(isinstance(task, ManifestTask) for task in limited.tasks())
    small = {**OPTIONS, "state.read.maxFiles": "10"}
    handle = it.open(table.url, options=small)
    chosen = PlannedScan(handle.log, handle.snapshot, Projection(columns=["id"]), where="day = 3", settings=small)
    assert not any(isinstance(task, ManifestTask) for task in chosen.tasks())


def test_a_missing_manifest_is_an_error(tmp_path) -> None:
    table = it.write(tmp_path / "t", rows_of(range(8)), partition_by=["day"], options=OPTIONS)
    table.compact()
    scan = planned(it.open(tmp_path / "t", options=OPTIONS))
    for manifest in (tmp_path / "t" / "_transaction_log" / "manifests").iterdir():
        manifest.unlink()
    with pytest.raises(it.errors.IndexTablesError, match="does not exist"):
        found(scan)
