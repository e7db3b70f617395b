"""`indextables fsck`: what it prints, and how it exits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.maintain.whole_tables import flip, make_table, the_split


@pytest.fixture
def table(tmp_path):
    made = make_table(tmp_path / "t", appends=2, partition_by=())
    made.checkpoint()
    return made


def test_a_clean_table(invoke, table) -> None:
    result = invoke("fsck", table.url)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "clean: 2 splits, 1 checkpoint, 3 versions checked\n"


def test_a_clean_table_for_programs(invoke, table) -> None:
    result = invoke("fsck", table.url, "--json")
    assert (result.exit_code, result.stdout) == (0, "")


def test_errors(invoke, table) -> None:
    path = table.files()["path"][0].as_py()
    flip(Path(table.url) / path, 40)
    result = invoke("fsck", table.url)
    assert result.exit_code == 1
    assert path in result.stdout
    assert result.stdout.endswith("1 error: 2 splits, 1 checkpoint, 3 versions checked\n")
    for_programs = invoke("fsck", table.url, "--json")
    assert for_programs.exit_code == 1
    (problem,) = map(json.loads, for_programs.stdout.splitlines())
    assert list(problem) == ["severity", "check", "version", "path", "problem"]
    assert problem["severity"] == "error"
    assert problem["path"] == path
    assert invoke("fsck", table.url, "--quick").exit_code == 0


def test_warnings_alone_are_no_failure(invoke, table) -> None:
    (Path(table.url) / "_transaction_log" / "_last_checkpoint").write_text('{"version": 77}')
    result = invoke("fsck", table.url, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["severity"] == "warning"
    assert invoke("fsck", table.url).stdout.endswith("1 warning: 2 splits, 1 checkpoint, 3 versions checked\n")


def test_the_installed_command(run, table) -> None:
    the_split(table).unlink()
    result = run("fsck", table.url, "--json")
    assert result.returncode == 1
    assert json.loads(result.stdout)["problem"] == "it is missing"


def test_no_table(invoke, tmp_path) -> None:
    result = invoke("fsck", tmp_path / "none")
    assert result.exit_code == 1
    assert "No transaction log found" in result.stderr
    assert result.stdout == ""


def test_help_has_examples(invoke) -> None:
    assert "indextables fsck /data/logs" in invoke("fsck", "--help").stdout
