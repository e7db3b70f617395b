"""The tour runs anywhere, says what it is, and leaves a table that its own advice works on."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import indextables as it

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "log_tour.py"


def run(arguments, cwd):
    return subprocess.run(arguments, cwd=cwd, capture_output=True, encoding="utf-8", timeout=300, check=False)


def tour(*arguments, cwd):
    return run([sys.executable, EXAMPLE, *map(str, arguments)], cwd)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A tour that was taken: its directory and what it printed."""
    place = tmp_path_factory.mktemp("tour")
    directory = place / "a table"
    result = tour(directory, cwd=place)
    assert (result.returncode, result.stderr) == (0, "")
    return directory, result.stdout


def test_it_leaves_the_table_it_tells_of(finished):
    directory, _ = finished
    table = it.Table.open(directory)
    assert (table.version, table.num_files, table.num_records) == (24, 5, 6000)
    assert [row["operation"] for row in table.history(limit=4).to_pylist()] == ["SKIP", "MERGE", "WRITE", "WRITE"]
    assert it.Table.open(directory, version=20).num_files == 60


def test_it_says_plainly_that_there_are_no_data_files(finished):
    directory, output = finished
    assert output.startswith("The files named in this tour do not exist.")
    assert not list(directory.rglob("*.split"))


def test_it_shows_every_station(finished):
    _, output = finished
    for text in ("Append from 4 processes", "refused: cannot commit", "replaced (", "Travel in time", "SKIP", " ms"):
        assert text in output
    assert "\x1b" not in output


def test_the_commands_it_recommends_work(finished):
    directory, output = finished
    commands = [line for line in output.splitlines() if line.startswith("  ") and "indextables " in line]
    assert len(commands) == 4
    for command in commands:
        result = run(shlex.split(command), directory.parent)
        assert (result.returncode, result.stderr) == (0, ""), command
        assert result.stdout


@pytest.mark.slow
def test_it_removes_an_earlier_tour_and_takes_a_default_place(tmp_path):
    for _ in range(2):
        assert tour(cwd=tmp_path).returncode == 0
        assert it.Table.open(tmp_path / ".demo" / "log-tour").version == 24


def test_it_leaves_other_things_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    result = tour(tmp_path, cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("error: ")
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_it_leaves_other_tables_alone(tmp_path):
    it.Table.create(tmp_path / "t", pa.schema([("a", pa.string())]))
    assert tour(tmp_path / "t", cwd=tmp_path).returncode == 1
    assert it.Table.open(tmp_path / "t").version == 0


def test_wrong_usage(tmp_path):
    assert tour("a", "b", cwd=tmp_path).returncode == 2
