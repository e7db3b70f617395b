"""`indextables checkpoint` and `indextables compact`: the same, under two names."""

from __future__ import annotations

import json
import os

import pytest
from tests.cli.conftest import run_in_terminal

import indextables as it

both_names = pytest.mark.parametrize("command", ["checkpoint", "compact"])


@both_names
def test_people_see_what_the_checkpoint_holds(invoke, url, command):
    result = invoke(command, url)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split("  ", 1) for line in result.stdout.splitlines()] == [
        ["table", f"   {url}"],
        ["status", "  SUCCESS"],
        ["version", " 4"],
        ["files", "   3"],
        ["actions", " 6"],
        ["protocol", "4"],
        ["in parts", "no"],
    ]
    assert it.Table.open(url).state()["format"].to_pylist() == ["avro-state"]


@both_names
def test_json_is_the_row_of_the_table(invoke, url, command):
    result = invoke(command, url, "--json")
    (made,) = map(json.loads, result.stdout.splitlines())
    assert made == {
        "table_path": url,
        "status": "SUCCESS",
        "checkpoint_version": 4,
        "num_actions": 6,
        "num_files": 3,
        "protocol_version": 4,
        "is_multi_part": False,
    }
    assert it.Table.open(url).checkpoint().to_pylist() == [made]


@both_names
def test_a_log_with_a_hole_is_refused(invoke, url, command):
    os.remove(os.path.join(url, "_transaction_log", f"{2:020d}.json"))
    result = invoke(command, url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error: cannot write to " in result.stderr
    assert "hint: restore `" in result.stderr
    assert it.Table.open(url).state()["format"].to_pylist() == ["none"]


@both_names
def test_the_help_says_that_they_are_the_same(invoke, command):
    text = invoke(command, "--help").stdout
    assert "`checkpoint` and `compact` are the same command." in text
    assert f"indextables {command} s3://bucket/logs --json | jq .checkpoint_version" in text


@pytest.mark.parametrize(
    ("command", "progress"), [("checkpoint", "writing a checkpoint"), ("state", "reading the state")]
)
def test_a_terminal_sees_that_something_is_under_way(script, run, url, command, progress):
    code, output = run_in_terminal([script, command, url])
    assert code == 0
    assert progress in output
    result = run(command, url, FORCE_COLOR="1", TTY_COMPATIBLE="1")
    assert progress not in result.stdout + result.stderr
