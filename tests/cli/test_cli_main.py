"""The command as a whole: help, global options, exit codes, and what stands on which stream."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys

import pyarrow as pa
import pytest
from tests.cli.conftest import run_in_terminal

import indextables as it

COMMANDS = ("files", "history", "log", "state", "checkpoint", "compact")


def test_help_lists_the_commands_and_gives_an_example(run):
    result = run("--help")
    assert result.returncode == 0
    for command in (*COMMANDS, "create", "ingest", "search", "count"):
        assert f"\n  {command} " in result.stdout
    assert "Examples:\n    indextables ingest" in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_each_help_gives_an_example(invoke, command):
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"Examples:\n    indextables {command} " in result.stdout


def test_version(run):
    result = run("--version")
    assert (result.returncode, result.stdout) == (0, f"indextables, version {it.__version__}\n")


@pytest.mark.one_case
@pytest.mark.parametrize("arguments", [["nope"], ["files"], ["files", "--nope", "t"], ["files", "a", "b"], []])
def test_wrong_usage_exits_with_2(run, arguments):
    result = run(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert "Usage: indextables" in result.stderr


@pytest.mark.one_case
@pytest.mark.parametrize("json_flag", [[], ["--json"]])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_table_that_is_not_there(run, tmp_path, command, json_flag):
    result = run(command, tmp_path / "nothing", *json_flag)
    assert (result.returncode, result.stdout) == (1, "")
    error, hint = result.stderr.splitlines()
    assert error.startswith("error: ")
    assert str(tmp_path / "nothing") in error
    assert hint.startswith("hint: ")


@pytest.mark.parametrize("address", ["", "ftp://host/t", "s3://", "\x1b[31m"])
def test_an_address_that_is_none(invoke, address):
    result = invoke("log", address)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: ")
    assert "\x1b" not in result.stderr


def test_a_traceback_is_shown_with_verbose_only(run, tmp_path):
    assert "Traceback" not in run("files", tmp_path).stderr
    result = run("-v", "files", tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert "Traceback" in result.stderr
    assert "\nerror: " in result.stderr


def test_an_error_that_should_not_happen(invoke, url, monkeypatch):
    def fail(*_arguments, **_options):
        raise ZeroDivisionError("by chance")

    monkeypatch.setattr(it.Table, "open", fail)
    result = invoke("files", url)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ZeroDivisionError: by chance\nhint: ")
    assert "Traceback" not in result.stderr


def test_verbose_logs_to_stderr_and_leaves_no_handler(invoke, url):
    logger = logging.getLogger("indextables")
    before = (list(logger.handlers), logger.level)
    result = invoke("--verbose", "files", url, "--json")
    assert f"debug: indextables {it.__version__}" in result.stderr
    assert all(json.loads(line) for line in result.stdout.splitlines())
    assert (logger.handlers, logger.level) == before


def test_warnings_are_shown_beside_the_output(invoke, url):
    os.remove(os.path.join(url, "_transaction_log", f"{3:020d}.json"))
    result = invoke("files", url, "--json")
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: version 3 of ")
    assert len(result.stdout.splitlines()) == 3


def test_options_reach_the_table(invoke, url):
    result = invoke("-o", "checkpoint.interval=zero", "files", url)
    assert result.exit_code == 1
    assert "checkpoint.interval" in result.stderr
    for command in COMMANDS:
        assert invoke("-o", "checkpoint.interval=5", "--option", "aws.secretKey=a=b=", command, url).exit_code == 0


def test_an_unknown_option_is_refused_with_a_hint(invoke, url):
    result = invoke("-o", "checkpoint.intervall=5", "files", url)
    assert result.exit_code == 1
    assert "hint: did you mean `checkpoint.interval`?" in result.stderr


@pytest.mark.parametrize("text", ["secret", "=secret", ""])
def test_an_option_is_a_key_and_a_value(invoke, url, text):
    result = invoke("-o", text, "files", url)
    assert result.exit_code == 2
    assert "expected KEY=VALUE" in result.stderr
    assert "secret" not in result.stderr


def test_an_option_given_twice(invoke, url):
    result = invoke("-o", "aws.secretKey=one", "-o", "aws.secretKey=two", "files", url)
    assert result.exit_code == 2
    assert "`aws.secretKey` is given twice" in result.stderr
    assert "two" not in result.stderr
    assert invoke("-o", "checkpoint.interval=5", "-o", "checkpoint.interval=5", "files", url).exit_code == 0


@pytest.mark.one_case
@pytest.mark.parametrize("json_flag", [[], ["--json"]])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_pipe_is_silent(script, url, command, json_flag):
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        result = subprocess.run(
            [script, command, url, *json_flag], stdout=write_end, stderr=subprocess.PIPE, timeout=60, check=False
        )
    finally:
        os.close(write_end)
    assert (result.returncode, result.stderr) == (1, b"")


@pytest.mark.one_case
@pytest.mark.parametrize("json_flag", [[], ["--json"]])
def test_a_pipe_that_closes_after_the_first_line(script, tmp_path, new_add, json_flag):
    table = it.Table.create(tmp_path, pa.schema([("a", pa.string())]))
    table.log.add_files(new_add(f"splits/split-{number:06}.split") for number in range(3000))
    with subprocess.Popen(
        [script, "files", str(tmp_path), *json_flag], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.one_case
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("json_flag", [[], ["--json"]])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_an_error(run, url, command, json_flag):
    with open("/dev/full", "wb") as full:
        result = run(command, url, *json_flag, stdout=full)
    assert result.returncode == 1
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1


def test_ctrl_c_exits_with_130(script, tmp_path):
    os.mkfifo(tmp_path / "rows.log")
    arguments = [script, "-v", "ingest", str(tmp_path / "table"), str(tmp_path / "rows.log"), "--create"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr.readline().startswith(b"debug: ")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, b"")
    assert b"Traceback" not in errors


@pytest.mark.one_case
@pytest.mark.parametrize("command", COMMANDS)
def test_json_of_the_script_is_lines_of_json_and_nothing_else(run, url, command):
    result = run(command, url, "--json", FORCE_COLOR="1", COLUMNS="20", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith("}\n")
    assert all(isinstance(json.loads(line), dict) for line in result.stdout.split("\n")[:-1])


def test_odd_paths_survive_the_script(run, url, odd_path):
    assert odd_path in run("files", url, PYTHONIOENCODING="utf-8").stdout
    paths = [json.loads(line)["path"] for line in run("files", url, "--json").stdout.splitlines()]
    assert odd_path in paths
    ascii_only = run("files", url, PYTHONIOENCODING="ascii")
    assert ascii_only.returncode == 0
    assert r"gr\xf6\xdfe=a%3Db%25" in ascii_only.stdout


@pytest.mark.one_case
@pytest.mark.parametrize("command", COMMANDS)
def test_no_colours_and_no_markup_outside_a_terminal(run, url, command):
    result = run(command, url, FORCE_COLOR="1", TTY_COMPATIBLE="1", TERM="xterm-256color")
    assert result.returncode == 0
    assert "\x1b" not in result.stdout


@pytest.mark.one_case
@pytest.mark.parametrize("width", [35, 60, 90, 300])
def test_a_terminal_gets_colours_and_nothing_is_cut(script, tmp_path, new_add, width):
    path = "".join(chr(ord("a") + number % 26) for number in range(150)) + ".split"
    table = it.Table.create(tmp_path, pa.schema([("a", pa.string())]))
    table.log.add_files([new_add(path)])
    code, output = run_in_terminal([script, "files", str(tmp_path)], width)
    assert code == 0
    assert "\x1b[1m" in output
    lines = re.sub(r"\x1b\[[0-9;]*m", "", output).splitlines()
    head = next(line for line in lines if line.startswith("path"))
    body = lines[lines.index(head) + 1 : -1]
    assert "".join(line.split(" ")[0] for line in body) == path
    assert lines[-1] == "1 file, 1,000 records, 2.0 KiB, version 1"
    assert max(map(len, lines[:-1])) <= width


def test_a_terminal_gets_errors_in_red(script, tmp_path):
    code, output = run_in_terminal([script, "files", str(tmp_path)])
    assert code == 1
    assert output.startswith("\x1b[31merror:\x1b[0m ")
    assert "\x1b[31mhint:\x1b[0m " in output


def test_nothing_of_a_table_drives_the_terminal(script, url):
    code, output = run_in_terminal([script, "log", url, "--version", "4"])
    assert code == 0
    assert "\x1b[31m" not in output


def test_the_command_starts_without_a_cloud_sdk():
    code = "import sys, indextables.cli.main; print([name for name in ('boto3', 'pandas') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "[]\n"
