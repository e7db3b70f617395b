"""`indextables search` and `count`: what the library finds, for people and for programs."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import os
import re

import pyarrow as pa
import pytest
from tests.cli.conftest import run_in_terminal

import indextables as it

SCHEMA = pa.schema([("id", pa.int64()), ("level", pa.string()), ("message", pa.string())])
ROWS = [
    {
        "id": number,
        "level": "ERROR" if number % 3 == 0 else "INFO",
        "message": f"user {number} login {'timeout' * (number % 2)}",
    }
    for number in range(30)
]
NESTED = pa.struct([("d", pa.decimal128(9, 0)), ("m", pa.map_(pa.string(), pa.binary()))])
EVERY_TYPE = {
    "text": ("ü\x1b[31m\n", pa.string()),
    "whole": (2**62, pa.int64()),
    "nan": (math.nan, pa.float64()),
    "less": (-math.inf, pa.float64()),
    "day": (dt.date(2026, 1, 31), pa.date32()),
    "at": (dt.datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=dt.UTC), pa.timestamp("us", tz="UTC")),
    "local": (dt.datetime(2026, 1, 1), pa.timestamp("us")),  # noqa: DTZ001 - the column has no zone
    "amount": (decimal.Decimal("1.10"), pa.decimal128(9, 2)),
    "raw": (b"\0\xff", pa.binary()),
    "list": ([dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None], pa.list_(pa.timestamp("us", tz="UTC"))),
    "nested": ({"d": decimal.Decimal(7), "m": [("k", b"x")]}, NESTED),
    "nothing": (None, pa.string()),
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> str:
    """A table of three splits. It is only read."""
    url = str(tmp_path_factory.mktemp("cli") / "logs")
    table = it.Table.create(url, SCHEMA, indexing={"message": "text"})
    for start in range(0, 30, 10):
        table.append(pa.Table.from_pylist(ROWS[start : start + 10], schema=SCHEMA))
    return url


@pytest.fixture
def ask(invoke, tmp_path):
    """Run a command with a cache of its own."""
    return lambda *arguments: invoke("-o", f"cache.disk.path={tmp_path / 'cache'}", *arguments)


def objects(result) -> list[dict]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_people_get_a_line_a_hit_and_the_count(ask, logs) -> None:
    result = ask("search", logs, "timeout AND level:ERROR", "--limit", 2)
    assert result.exit_code == 0
    head, *lines = result.stdout.splitlines()
    assert head.split() == ["id", "level", "message"]
    assert [line.split() for line in lines] == [
        ["3", "ERROR", "user", "3", "login", "timeout"],
        ["9", "ERROR", "user", "9", "login", "timeout"],
    ]
    assert re.fullmatch(r"2 of 5 hits in \d+ ms\n", result.stderr)


@pytest.mark.parametrize(
    ("arguments", "shown", "note"),
    [
        (["timeout"], 10, "10 of 15 hits in "),
        (["timeout", "--all"], 15, "15 hits in "),
        (["timeout", "--limit", "15"], 15, "15 hits in "),
        (["timeout", "--where", "id < 5"], 2, "2 hits in "),
        (["timeout", "--where", "id < 25", "--limit", "3"], 3, "the first 3 hits in "),
        (["timeout", "--where", "id < 25", "--limit", "3", "--count"], 3, "3 of 12 hits in "),
        ([], 10, "10 of 30 rows in "),
        (["nothing"], 0, "0 hits in "),
        (["--version", "1", "--all"], 10, "10 rows in "),
    ],
)
def test_how_many_are_shown_and_counted(ask, logs, arguments, shown, note) -> None:
    result = ask("search", logs, *arguments)
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()[1:]) == shown
    assert result.stderr.startswith(note)


def test_json_is_a_row_an_object_and_nothing_else(ask, logs) -> None:
    result = ask("search", logs, "timeout", "--all", "--json")
    assert objects(result) == [row for row in ROWS if "timeout" in row["message"]]
    assert result.stderr == ""
    assert len(objects(ask("search", logs, "login", "--json"))) == 10
    counted = ask("search", logs, "login", "--json", "--count", "--limit", 1)
    assert counted.stderr.startswith("1 of 30 hits in ")


def test_explain_shows_stages_and_no_rows(ask, logs) -> None:
    result = ask("search", logs, "timeout AND level:ERROR", "--explain")
    head, *lines = result.stdout.splitlines()
    assert head.split() == ["stage", "splits", "left", "out", "cached", "requests", "bytes", "rows", "ms"]
    assert [line.split()[0] for line in lines] == [
        *("partitions", "statistics", "footers", "filters", "index", "search", "rows", "total"),
    ]
    assert "login" not in result.stdout
    stages = objects(ask("search", logs, "timeout", "--where", "id < 5", "--explain", "--json"))
    assert stages[-1]["stage"] == "total"
    assert stages[-1]["rows"] == 2
    assert set(stages[0]) == {*("stage", "splits", "left_out", "cached", "requests", "bytes", "rows", "milliseconds")}


def test_columns_order_score_and_snippet(ask, logs) -> None:
    ordered = ["--columns", "id, level", "--order-by", "id", "--desc", "--limit", 2]
    found = objects(ask("search", logs, "timeout", *ordered, "--json"))
    assert found == [{"id": 29, "level": "INFO"}, {"id": 27, "level": "ERROR"}]
    scored = objects(ask("search", logs, "timeout OR 7", "--score", "--snippet", "message", "--json", "--limit", 3))
    assert [row["_score"] for row in scored] == sorted((row["_score"] for row in scored), reverse=True)
    assert scored[0]["id"] == 7
    assert scored[0]["_snippet"].count("<b>") == 2
    text = ask("search", logs, "timeout", "--snippet", "message", "--columns", "id", "--limit", 1)
    assert [line.split() for line in text.stdout.splitlines()] == [
        ["id", "message"],
        ["1", "user", "1", "login", "timeout"],
    ]
    text = ask("search", logs, "timeout OR 7", "--score", "--columns", "id", "--limit", 1).stdout
    assert re.fullmatch(r" *id +_score\n *7 +\d[.]\d{4}\n", text)


def test_every_type_has_its_json(ask, tmp_path) -> None:
    schema = pa.schema([(name, kind) for name, (_, kind) in EVERY_TYPE.items()])
    table = it.Table.create(tmp_path / "t", schema)
    row = {name: value for name, (value, _) in EVERY_TYPE.items()}
    days = pa.array([2**30], pa.int32()).view(pa.date32())
    far = pa.table({"at": pa.array([2**62], pa.timestamp("us", tz="UTC")), "day": days})
    table.append([pa.Table.from_pylist([row], schema=schema), far])
    first, second = objects(ask("search", tmp_path / "t", "--json"))
    assert first == {
        "text": "ü\x1b[31m\n",
        "whole": 2**62,
        "nan": "NaN",
        "less": "-Infinity",
        "day": "2026-01-31",
        "at": "2026-01-01T12:00:00.000005Z",
        "local": "2026-01-01T00:00:00.000",
        "amount": "1.10",
        "raw": "AP8=",
        "list": ["2026-01-01T00:00:00.000Z", None],
        "nested": {"d": "7", "m": {"k": "eA=="}},
        "nothing": None,
    }
    assert (second["at"], second["day"]) == (f"{2**62} us since 1970", f"{2**30} days since 1970")
    text = ask("search", tmp_path / "t", "--limit", 1).stdout
    assert "\x1b" not in text
    assert r"ü\x1b[31m\n" in text
    assert len(text.splitlines()) == 2


def test_count(ask, logs) -> None:
    assert ask("count", logs).stdout == "30\n"
    assert ask("count", logs, "timeout", "--where", "id < 10").stdout == "5\n"
    assert ask("count", logs, "timeout", "--version", 1).stdout == "5\n"
    assert objects(ask("count", logs, "level:ERROR", "--json")) == [{"table": logs, "version": 3, "count": 10}]


@pytest.mark.parametrize("command", ["search", "count"])
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["a AND"], 1, "error: "),
        (["nowhere:x"], 1, "nowhere"),
        (["--where", "id <"], 1, "error: "),
        (["--version", "9"], 1, "cannot read version 9"),
        (["--version", "1", "--timestamp", "2026-01-01"], 2, "cannot be given together"),
    ],
)
def test_bad_questions(ask, logs, command, arguments, code, message) -> None:
    result = ask(command, logs, *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr


def test_wrong_usage_of_search(ask, logs) -> None:
    assert ask("search", logs, "--desc").exit_code == 2
    assert ask("search", logs, "--limit", 0).exit_code == 2
    assert ask("search", logs, "--columns", ",").exit_code == 2
    assert "`nowhere`" in ask("search", logs, "--columns", "id,nowhere").stderr


def test_bad_splits_are_an_error_or_a_warning(run, tmp_path) -> None:
    url = str(tmp_path / "t")
    table = it.Table.create(url, SCHEMA, indexing={"message": "text"})
    for start in (0, 10):
        table.append(pa.Table.from_pylist(ROWS[start : start + 10], schema=SCHEMA))
    os.remove(os.path.join(url, table.files()["path"][0].as_py()))
    for command in ("search", "count"):
        failed = run("-o", "cache.disk.enabled=false", command, url, "timeout")
        assert (failed.returncode, failed.stdout) == (1, "")
        assert failed.stderr.startswith("error: ")
        assert failed.stderr.endswith("hint: leave such splits out with `--skip-bad-splits`\n")
        skipped = run("-o", "cache.disk.enabled=false", command, url, "timeout", "--skip-bad-splits", "--json")
        assert skipped.returncode == 0
        assert skipped.stderr.startswith("warning: ")
        assert skipped.stderr.count("\n") == 1
        first = json.loads(skipped.stdout.splitlines()[0])
        assert first.get("count", 5) == 5


def plain(output: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", output)


@pytest.mark.parametrize("width", [40, 200])
def test_found_words_stand_out_in_a_terminal(script, tmp_path, width) -> None:
    url = str(tmp_path / "t")
    message = "connection timeout\x1b[31m after\n\tanother [red]timeout[/red] of 30 s"
    table = it.Table.create(url, SCHEMA, indexing={"message": "text"})
    table.append(pa.Table.from_pylist([{"id": 7, "level": "ERROR", "message": message}], schema=SCHEMA))
    arguments = [script, "-o", f"cache.disk.path={tmp_path / 'c'}", "search", url, "Timeout"]
    code, output = run_in_terminal(arguments, width)
    assert code == 0
    assert output.count("\x1b[1;31mtimeout") == 2
    assert "\x1b[31m after" not in output
    lines = plain(output).split("\r\n")
    at = next(number for number, line in enumerate(lines) if line.endswith("id=7  level=ERROR"))
    text = " ".join(line.strip() for line in lines[at + 1 :])
    assert text.startswith(r"connection timeout\x1b[31m after another [red]timeout[/red] of 30 s 1 hit in ")


def test_many_hits_are_laid_out_in_parts_and_plain(script, tmp_path) -> None:
    table = it.Table.create(tmp_path / "t", SCHEMA, indexing={"message": "text"})
    table.append(pa.table({"id": range(10_001), "message": ["word"] * 10_001}))
    cache = f"cache.disk.path={tmp_path / 'cache'}"
    code, output = run_in_terminal([script, "-o", cache, "search", str(tmp_path / "t"), "word", "--all"])
    assert code == 0
    lines = [line.split() for line in plain(output).splitlines()]
    assert [int(line[0]) for line in lines if line[-1:] == ["word"]] == list(range(10_001))
    assert lines.count(["id", "level", "message"]) == 21
    assert "\x1b[1;31m" not in output


def test_short_rows_are_a_table_in_a_terminal(script, tmp_path, logs) -> None:
    arguments = [script, "-o", f"cache.disk.path={tmp_path / 'c'}", "search", logs, "timeout", "--limit", "2"]
    code, output = run_in_terminal(arguments, 100)
    assert code == 0
    assert output.count("\x1b[1;31mtimeout") == 2
    shown = [line.split() for line in plain(output).split("\r\n") if "user" in line or "level" in line]
    assert shown == [
        ["id", "level", "message"],
        ["1", "INFO", "user", "1", "login", "timeout"],
        ["3", "ERROR", "user", "3", "login", "timeout"],
    ]
