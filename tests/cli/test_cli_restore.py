"""`indextables restore` and `indextables drop-partitions`: what people and programs see."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import indextables as it

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])


@pytest.fixture
def place(tmp_path) -> str:
    table = it.Table.create(tmp_path / "logs", SCHEMA, partition_by=("day",))
    table.append(pa.table({"id": [1, 2], "day": ["mon", "tue"]}, SCHEMA))
    table.append(pa.table({"id": [3], "day": ["wed"]}, SCHEMA))
    return table.url


def ids(place: str) -> list[int]:
    return sorted(it.Table.open(place).search()["id"].to_pylist())


def test_partitions_go_and_come_back(invoke, place):
    dropped = invoke("drop-partitions", place, "--where", "day <> 'wed'")
    assert (dropped.exit_code, dropped.stderr) == (0, "")
    shown = dict(line.split(maxsplit=1) for line in dropped.stdout.splitlines())
    assert (shown["status"], shown["partitions"], shown["splits"]) == ("SUCCESS", "2", "2")
    assert shown["message"] == "removed in version 3"
    assert ids(place) == [3]
    restored = invoke("restore", place, "--version", "2", "--json")
    assert json.loads(restored.stdout) == {
        "table_path": place,
        "status": "SUCCESS",
        "restored_version": 2,
        "new_version": 4,
        "files_added": 2,
        "files_removed": 0,
    }
    assert ids(place) == [1, 2, 3]


def test_json_of_a_drop(invoke, place):
    (row,) = map(json.loads, invoke("drop-partitions", place, "--where", "day = 'no'", "--json").stdout.splitlines())
    assert (row["status"], row["splits_removed"]) == ("NO_ACTION", 0)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["restore", "{}"], 2, "give one of --version and --timestamp"),
        (["restore", "{}", "--version", "1", "--timestamp", "2026-01-01"], 2, "give one of"),
        (["restore", "{}", "--version", "-1"], 2, "-1"),
        (["restore", "{}", "--version", "9"], 1, "cannot read version 9"),
        (["restore", "{}", "--timestamp", "yesterday"], 1, "cannot read `yesterday` as a timestamp"),
        (["restore", "{}", "--timestamp", "1999-01-01"], 1, "its oldest version"),
        (["restore", "{}/no", "--version", "1"], 1, "No transaction log found"),
        (["drop-partitions", "{}"], 2, "--where"),
        (["drop-partitions", "{}", "--where", "id = 1"], 1, "`id` is not a partition column"),
        (["drop-partitions", "{}", "--where", "day ="], 1, "cannot"),
    ],
)
def test_mistakes_change_nothing(invoke, place, arguments, code, message):
    result = invoke(*(argument.format(place) for argument in arguments))
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert (it.Table.open(place).version, ids(place)) == (2, [1, 2, 3])


@pytest.mark.parametrize("command", ["restore", "drop-partitions"])
def test_the_help_has_examples(invoke, command):
    text = invoke(command, "--help").stdout
    assert f"indextables {command} /data/logs" in text
