"""`indextables repair`: what it prints, and how it exits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.maintain.whole_tables import make_table, sorted_rows, the_split

import indextables as it


@pytest.fixture
def table(tmp_path):
    return make_table(tmp_path / "t", appends=2, partition_by=())


def test_a_log_that_is_right(invoke, table) -> None:
    result = invoke("repair", table.url)
    assert result.exit_code == 0
    assert "status      VALID\n" in result.stdout
    assert "splits      2\n" in result.stdout


def test_damage_without_a_place_for_a_clean_log(invoke, table) -> None:
    the_split(table).unlink()
    result = invoke("repair", table.url, "--json")
    assert result.exit_code == 1
    row = json.loads(result.stdout)
    assert (row["status"], row["missing_splits"], row["target_path"]) == ("DAMAGED", 1, "")
    assert "cannot be used" in result.stderr


def test_a_clean_log(invoke, table, tmp_path) -> None:
    result = invoke("repair", f"{table.url}/_transaction_log", "--at", tmp_path / "mended", "--json")
    assert result.exit_code == 0
    row = json.loads(result.stdout)
    assert (row["status"], row["source_path"], row["source_version"]) == ("SUCCESS", table.url, 2)
    assert (tmp_path / "mended" / "00000000000000000000.json").exists()
    again = invoke("repair", table.url, "--at", tmp_path / "mended")
    assert again.exit_code == 1
    assert "it is not empty" in again.stderr


def test_a_lost_log(invoke, table) -> None:
    expected = sorted_rows(table)
    shutil.rmtree(Path(table.url) / "_transaction_log")
    result = invoke("repair", table.url)
    assert result.exit_code == 0
    assert "status      REBUILT\n" in result.stdout
    assert "may reappear" in result.stderr
    assert sorted_rows(it.Table.open(table.url)) == expected


def test_in_sql(invoke, table, tmp_path) -> None:
    text = f"REPAIR INDEXFILES TRANSACTION LOG '{table.url}' AT LOCATION '{tmp_path / 'mended'}'"
    result = invoke("sql", text, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["status"] == "SUCCESS"


def test_nothing_there(invoke, tmp_path) -> None:
    result = invoke("repair", tmp_path / "none")
    assert result.exit_code == 1
    assert "neither a log nor a split" in result.stderr


def test_help_has_examples(invoke) -> None:
    assert "indextables repair /data/logs --at" in invoke("repair", "--help").stdout
