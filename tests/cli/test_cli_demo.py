"""The demo as people run it: it tells what is true, its advice works as printed, and it harms nothing."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest
from tests.spark_runs import needs_spark, run_program

import indextables as it

NUM_ROWS = 5_000


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A demo that was run where a shell needs quotes: the place around it, its table, and what it printed."""
    place = tmp_path_factory.mktemp("demo")
    table = place / "it's a table"
    command = [sys.executable, "-c", "from indextables.cli.main import main; main()"]
    done = run_program([*command, "demo", str(table), "--rows", str(NUM_ROWS - 1)], place, COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return place, table, done.stdout


@needs_spark
@pytest.mark.slow
class TestFinished:
    def test_it_leaves_the_table_it_tells_of(self, finished):
        _, path, output = finished
        table = it.Table.open(path)
        assert (table.version, table.num_files, table.num_records) == (5, 10, NUM_ROWS)
        assert table.count("kestrelwing") == table.count("obsidianfox") == 10
        assert f"The table stays in {path}" in output.replace("\n", "")
        assert f"IndexTables: {NUM_ROWS:,} log rows of 5 days" in output
        assert "2 of 10 splits of version 5" in " ".join(output.split())
        assert len(table.state()["version"]) == 1

    def test_what_is_not_to_be_copied_fits_the_width(self, finished):
        _, _, output = finished
        advice = output.index("Your turn")
        assert max(map(len, output[:advice].splitlines())) <= 80
        assert "\x1b" not in output

    def test_its_advice_works_as_printed(self, finished):
        place, _, output = finished
        advice = output[output.index("Your turn") :]
        shell, _, python = advice.partition("In Python (")
        commands = [line.strip() for line in shell.splitlines() if line.startswith("  ")]
        assert [shlex.split(command)[1] for command in commands] == ["search", "count", "files", "history"]
        for command in commands:
            done = run_program(command, place)
            assert done.returncode == 0, done.stderr
            assert done.stdout, command
        code = "\n".join(line.strip() for line in python.splitlines() if line.startswith("  "))
        done = run_program([sys.executable, "-c", code], place)
        assert (done.returncode, done.stderr) == (0, "")
        assert "obsidianfox" in done.stdout
        assert done.stdout.count("|2026-01-0") >= 20


@needs_spark
@pytest.mark.slow
def test_a_wrong_count_fails_the_demo(tmp_path):
    code = """
from indextables.demo import stations as demo
found = demo.needles
def one_more(*arguments):
    return {name: needle._replace(num_rows=needle.num_rows + 1) for name, needle in found(*arguments).items()}
demo.needles = one_more
demo.run("table", num_rows=1000)
"""
    done = run_program([sys.executable, "-c", code], tmp_path)
    assert done.returncode == 1
    assert "cannot finish the demo because hits of kestrelwing are `10`, expected `11`" in done.stderr


def test_what_is_there_already_is_left_alone(invoke, tmp_path):
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    (tmp_path / "thesis.txt").write_text("precious")
    result = invoke("demo", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: cannot put the demo at ")
    assert "hint: name another directory" in result.stderr
    assert (tmp_path / "thesis.txt").read_text() == "precious"


@pytest.mark.parametrize(
    ("missing", "command"), [("pyspark", "pip install 'indextables[spark]'"), ("numpy", "pip install numpy")]
)
def test_without_what_it_needs(invoke, tmp_path, monkeypatch, missing, command):
    if missing != "pyspark":
        pytest.importorskip("pyspark", reason="pyspark is not installed")
    monkeypatch.setitem(sys.modules, missing, None)
    result = invoke("demo", tmp_path / "t")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"error: cannot run the demo because `{missing}` is not installed\nhint: install it with `{command}`\n"
    )
    assert not (tmp_path / "t").exists()


def test_help_gives_an_example(invoke):
    result = invoke("demo", "--help")
    assert result.exit_code == 0
    assert "Examples:\n    indextables demo\n" in result.stdout
    assert "[default: 300000; x>=1000]" in result.stdout


def test_too_few_rows(invoke, tmp_path):
    assert invoke("demo", tmp_path / "t", "--rows", 999).exit_code == 2


def test_the_command_line_does_not_import_spark():
    code = "import sys, indextables.cli.main; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
