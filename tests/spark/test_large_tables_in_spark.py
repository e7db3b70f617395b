"""Tables of more files than the driver reads: tasks list them, with the same rows in every kind of session."""

from __future__ import annotations

import pyarrow as pa
import pytest

import indextables as it

OPTIONS = {"state.read.maxFiles": "1", "state.entriesPerManifest": "3", "checkpoint.interval": "1000000"}


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("large") / "t"
    ids = list(range(12))
    rows = pa.table({"id": ids, "day": [at % 6 for at in ids], "text": [f"word{at % 3}" for at in ids]})
    table = it.write(path, rows, text=["text"], partition_by=["day"], options=OPTIONS)
    table.append(rows)
    table.compact()
    table.overwrite(pa.table({"id": [100], "day": [2], "text": ["word0"]}), where="day = 2")
    return str(path)


def load(session, place: str, **options: str):
    return session.read.format("indextables").options(**OPTIONS, **options).load(place)


@pytest.mark.parametrize("kind", ["spark", "enabled"])
def test_tasks_list_the_files(request, place, kind) -> None:
    session = request.getfixturevalue(kind)
    frame = load(session, place)
    expected = sorted([at for at in range(12) if at % 6 != 2] * 2 + [100])
    assert sorted(row["id"] for row in frame.select("id").collect()) == expected
    assert frame.count() == len(expected)
    assert frame.filter("day = 3").count() == 4
    assert frame.rdd.getNumPartitions() >= 5
    searched = load(session, place, search="text:word1", where="day = 1 or day = 4")
    assert sorted(row["id"] for row in searched.collect()) == [1, 1, 4, 4, 7, 7, 10, 10]
    limited = load(session, place, search="word0", limit="2")
    assert limited.count() == 2
