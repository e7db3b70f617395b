"""`indextables create`: an empty table of named columns, or like a file."""

from __future__ import annotations

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import indextables as it


def test_columns_types_and_indexing(invoke, tmp_path) -> None:
    place = tmp_path / "t"
    columns = [
        "ts:timestamp",
        "level:string",
        "message:text",
        "address:ip",
        "doc:json",
        "day:date",
        "tags:array<string>",
    ]
    arguments = [part for column in columns for part in ("--column", column)]
    result = invoke("create", place, *arguments, "--partition-by", "day", "--property", "owner=me", "--name", "logs")
    assert (result.exit_code, result.stderr) == (0, "")
    first, head, *lines = result.stdout.splitlines()
    assert first == f"created {place}, version 0"
    assert head.split() == ["column", "type", "indexed", "as", "partition"]
    assert [line.split() for line in lines] == [
        ["ts", "timestamp", "int", "-"],
        ["level", "string", "string", "-"],
        ["message", "string", "text", "-"],
        ["address", "string", "ip", "-"],
        ["doc", "string", "json", "-"],
        ["day", "date", "int", "yes"],
        ["tags", "array<string>", "json", "-"],
    ]
    table = it.Table.open(place)
    assert (table.partition_columns, table.metadata.name) == (("day",), "logs")
    assert table.metadata.configuration["owner"] == "me"
    assert table.schema.field("tags").type == pa.list_(pa.field("element", pa.string()))


def test_json_says_what_was_made(invoke, tmp_path) -> None:
    result = invoke(
        "create", tmp_path / "t", "--column", "a:long", "--column", "b:text", "--index", "b=string", "--json"
    )
    (made,) = map(json.loads, result.stdout.splitlines())
    assert (made["version"], made["partition_columns"]) == (0, [])
    assert made["columns"] == [
        {"name": "a", "type": "long", "index": "int", "partition": False},
        {"name": "b", "type": "string", "index": "string", "partition": False},
    ]


def test_like_a_file_with_changes(invoke, tmp_path) -> None:
    (tmp_path / "a.csv").write_text("id;day;note\n1;2026-01-01;x\n")
    arguments = ["--like", tmp_path / "a.csv", "--delimiter", ";", "--column", "id:decimal(9,2)", "--column", "more:ip"]
    assert invoke("create", tmp_path / "t", *arguments, "--index", "note=text").exit_code == 0
    table = it.Table.open(tmp_path / "t")
    assert [(field.name, str(field.type)) for field in table.schema] == [
        ("id", "decimal128(9, 2)"),
        ("day", "date32[day]"),
        ("note", "string"),
        ("more", "string"),
    ]
    pq.write_table(pa.table({"n": pa.array([1], pa.uint32())}), tmp_path / "a.parquet")
    assert invoke("create", tmp_path / "p", "--like", tmp_path / "a.parquet").exit_code == 0
    assert it.Table.open(tmp_path / "p").schema.field("n").type == pa.int64()
    (tmp_path / "a.log").write_text("x\n")
    assert "message    string     text" in invoke("create", tmp_path / "l", "--like", tmp_path / "a.log").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "--column NAME:TYPE"),
        (["--column", "a"], 1, "expected NAME:TYPE"),
        (["--column", "a:number"], 1, "no type `number`"),
        (["--column", "a:int", "--index", "b=text"], 1, "cannot index `b`"),
        (["--column", "a:int", "--index", "a=text"], 1, "cannot index column `a` as `text`"),
        (["--column", "a:string", "--index", "a=words"], 1, "words"),
        (["--column", "a:string", "--index", "a"], 2, "--index message=text"),
        (["--column", "_score:string"], 1, "reserved"),
        (["--column", "a:int", "--column", "A:int"], 1, "names ignore case"),
        (["--column", "a:int", "--partition-by", "b"], 1, "cannot partition by `b`"),
        (["--like", "no.csv"], 1, "No such file"),
        (["--column", "a:int", "--property", "checkpoint.interval=x"], 1, "checkpoint.interval"),
    ],
)
def test_what_cannot_be_made_leaves_nothing(invoke, tmp_path, arguments, code, message) -> None:
    result = invoke("create", tmp_path / "t", *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert not os.path.exists(tmp_path / "t")


def test_a_table_that_is_there_is_left_alone(invoke, tmp_path) -> None:
    assert invoke("create", tmp_path / "t", "--column", "a:int").exit_code == 0
    result = invoke("create", tmp_path / "t", "--column", "b:int")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "existing table" in result.stderr
    again = invoke("create", tmp_path / "t", "--column", "a:int").stderr
    assert "there is one already" in again
    assert "hint: add rows to it with `indextables ingest`" in again
    assert it.Table.open(tmp_path / "t").schema.names == ["a"]


@pytest.mark.parametrize("command", ["create", "ingest", "search", "count"])
def test_each_help_gives_an_example(invoke, command) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"Examples:\n    indextables {command} " in result.stdout
