"""RESTORE and DROP PARTITIONS: rows and searches against a plain history of lists."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

import indextables as it
from indextables.commands import COMMANDS
from indextables.errors import ConfigError, QueryError, RetentionError, SchemaError

SCHEMA = pa.schema([("id", pa.int64()), ("shelf", pa.int32()), ("message", pa.string())])


def new_table(root: str | Path) -> it.Table:
    options = {"cache.disk.path": str(Path(root, "cache"))}
    return it.Table.create(
        Path(root, "t"), SCHEMA, partition_by=("shelf",), indexing={"message": "text"}, options=options
    )


def rows(*pairs: tuple[int, int | None]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": number, "shelf": shelf, "message": f"row {number}"} for number, shelf in pairs], SCHEMA
    )


def ids(table: it.Table) -> list[int]:
    assert table.count("row") == table.num_records, "the index knows every row"
    return sorted(table.search(columns=["id"])["id"].to_pylist())


@pytest.fixture
def table(tmp_path) -> it.Table:
    """Version 1 has the rows 1 and 2 on shelves 1 and 2, version 2 has 3 on none too, version 3 has 4 on shelf 4."""
    table = new_table(tmp_path)
    table.append(rows((1, 1), (2, 2)))
    table.append(rows((3, None)))
    table.overwrite(rows((4, 4)))
    return table


def test_the_rows_of_a_version_come_back(table):
    (answer,) = table.restore(version=2).to_pylist()
    assert answer == {
        "table_path": table.url,
        "status": "SUCCESS",
        "restored_version": 2,
        "new_version": 4,
        "files_added": 3,
        "files_removed": 1,
    }
    assert (table.version, ids(table)) == (4, [1, 2, 3])
    assert ids(it.Table.open(table.url, version=3)) == [4]


def test_a_moment_is_restored_like_its_version(table):
    moments = {row["version"]: row["timestamp"] for row in table.history().to_pylist()}
    (answer,) = table.restore(timestamp=moments[1]).to_pylist()
    assert answer["restored_version"] in (1, 2)
    assert ids(table) == ids(it.Table.open(table.url, version=answer["restored_version"]))


def test_the_present_is_no_change(table):
    (answer,) = table.restore(version=3).to_pylist()
    assert (answer["status"], answer["new_version"], answer["files_added"]) == ("NO_ACTION", 3, 0)


def test_files_that_are_gone_are_named_and_nothing_happens(table):
    files = it.Table.open(table.url, version=2).files()["path"].to_pylist()
    os.remove(Path(table.url, files[0]))
    with pytest.raises(
        RetentionError, match=r"cannot restore version 2 .* files of it are missing or changed: `.*\.split`"
    ) as error:
        table.restore(version=2)
    assert files[0] in str(error.value)
    Path(table.url, files[0]).write_bytes(b"short")
    with pytest.raises(RetentionError, match="missing or changed"):
        table.restore(version=2)
    assert (table.refresh().version, ids(table)) == (3, [4])


def test_a_live_file_that_is_gone_is_named_too(table):
    table.append(rows((5, 5)))
    (path,) = it.Table.open(table.url, version=3).files()["path"].to_pylist()
    os.remove(Path(table.url, path))
    with pytest.raises(RetentionError, match="cannot restore version 3") as error:
        table.restore(version=3)
    assert path in str(error.value)


@pytest.mark.parametrize("wanted", [{}, {"version": 1, "timestamp": "2026-01-01"}])
def test_one_place_in_time_is_asked_for(table, wanted):
    with pytest.raises(ConfigError, match="give a version or a timestamp"):
        table.restore(**wanted)


def test_versions_that_never_were(table):
    with pytest.raises(RetentionError, match=r"cannot read version 9 .* it has the versions 0 to 3"):
        table.restore(version=9)


def test_partitions_are_dropped(table):
    table.restore(version=2)
    (answer,) = table.drop_partitions("shelf IS NULL OR shelf = 1").to_pylist()
    assert {name: answer[name] for name in ("status", "partitions_dropped", "splits_removed", "message")} == {
        "status": "SUCCESS",
        "partitions_dropped": 2,
        "splits_removed": 2,
        "message": "removed in version 5",
    }
    assert answer["total_size_bytes"] > 0
    assert ids(table) == [2]
    assert table.history()["operation"][0].as_py() == "DROP PARTITIONS"
    table.restore(version=4)
    assert ids(table) == [1, 2, 3]


def test_no_such_partition_is_no_version(table):
    (answer,) = table.drop_partitions("shelf = 77").to_pylist()
    assert (answer["status"], answer["splits_removed"], table.version) == ("NO_ACTION", 0, 3)


@pytest.mark.parametrize(
    ("where", "error", "message"),
    [
        ("id = 1", SchemaError, "`id` is not a partition column"),
        ("shelf = 1 OR message = 'x'", SchemaError, "`message` is not a partition column"),
        ("1 = 1", SchemaError, "names no partition column"),
        ("TRUE", SchemaError, "names no partition column"),
        ("", QueryError, "cannot"),
        ("shelf ==== 1", QueryError, "cannot"),
        ("cellar = 1", QueryError, "cellar"),
    ],
)
def test_only_partitions_can_be_dropped(table, where, error, message):
    with pytest.raises(error, match=message):
        table.drop_partitions(where)
    assert (table.refresh().version, ids(table)) == (3, [4])


def test_a_table_without_partitions_has_none_to_drop(tmp_path):
    table = it.Table.create(tmp_path / "plain", SCHEMA)
    with pytest.raises(SchemaError, match="not a partition column") as error:
        table.drop_partitions("shelf = 1")
    assert "has no partition columns" in (error.value.hint or "")


def test_what_is_written_meanwhile_is_dropped_too(table):
    """Serial order is the order of commits."""
    other = it.Table.open(table.url)
    other.append(rows((5, 4)))
    table.drop_partitions("shelf = 4")
    assert ids(table) == []


OPERATIONS = {
    "append": lambda table, number: table.append(rows((number, 4))),
    "drop": lambda table, number: table.drop_partitions("shelf = 4"),
    "restore": lambda table, number: table.restore(version=2),
}


def test_many_at_once_leave_one_history(table):
    """Drops, restores and appends of several threads: each version is what its operation makes of the one before."""
    errors: list[BaseException] = []

    def work(kind: str, first: int) -> None:
        try:
            mine = it.Table.open(table.url, options={"transaction.retry.maxAttempts": 50})
            for number in range(first, first + 4):
                OPERATIONS[kind](mine, number)
        except BaseException as error:
            errors.append(error)

    jobs = enumerate(["append", "drop", "restore", "append"], 10)
    threads = [threading.Thread(target=work, args=(kind, 10 * at)) for at, kind in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    live = [4]
    for entry in reversed(it.Table.open(table.url).history().to_pylist()[:-4]):
        now = ids(it.Table.open(table.url, version=entry["version"]))
        if entry["operation"] == "WRITE":
            assert sorted([*live, max(set(now) - set(live))]) == now
        else:
            assert (
                now == {"RESTORE": [1, 2, 3], "DROP PARTITIONS": [row for row in live if row < 4]}[entry["operation"]]
            )
        live = now


STEPS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from([1, 2, None])),
    st.tuples(st.just("overwrite"), st.sampled_from([1, 2, None])),
    st.tuples(st.just("drop"), st.sampled_from([1, 2, None])),
    st.tuples(st.just("restore"), st.integers(0, 9)),
    st.tuples(st.just("checkpoint"), st.none()),
)


Shelves = dict[int, int | None]


def expected_after(history: list[Shelves], number: int, step: str, value: int | None) -> Shelves:
    """The rows by their shelf."""
    live = history[-1]
    if step == "append":
        return {**live, number: value}
    if step == "overwrite":
        return {number: value}
    if step == "drop":
        return {row: shelf for row, shelf in live.items() if shelf != value}
    return history[value % len(history)] if step == "restore" else live


@settings(max_examples=10)
@given(st.lists(STEPS, max_size=9))
def test_random_histories(steps):
    with tempfile.TemporaryDirectory() as root:
        table = new_table(root)
        history: list[Shelves] = [{}]
        for number, (step, value) in enumerate(steps):
            expected = expected_after(history, number, step, value)
            if step in ("append", "overwrite"):
                getattr(table, step)(rows((number, value)))
            elif step == "drop":
                table.drop_partitions("shelf IS NULL" if value is None else f"shelf = {value}")
            elif step == "restore":
                table.restore(version=value % len(history))
            else:
                table.checkpoint()
            assert ids(table) == sorted(expected)
            assert table.version - len(history) < 1, "no more than one version a step"
            history += [expected] * (table.version + 1 - len(history))
        for version, expected in enumerate(history):
            assert ids(it.Table.open(table.url, version=version)) == sorted(expected)


def test_the_commands_are_the_methods(table):
    dropped = COMMANDS["drop_partitions"].run(table.url, {"where": "shelf = 4"}, {})
    assert dropped.schema == COMMANDS["drop_partitions"].schema
    restored = COMMANDS["restore"].run(table.url, {"version": 3}, {})
    assert restored.schema == COMMANDS["restore"].schema
    assert ids(table.refresh()) == [4]
