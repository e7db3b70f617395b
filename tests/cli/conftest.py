"""Small tables, and the two ways to run the command: inside the test, and as people do."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import indextables as it
from indextables.cli.main import cli

SCHEMA = pa.schema([("message", pa.string()), ("date", pa.string()), ("größe", pa.string())])
ODD_PATH = "date=2026-01-01/größe=a%3Db%25/splits/split-ü 1.split"
ODD_VALUES = {"date": "2026-01-01", "größe": "a=b%"}


@pytest.fixture
def invoke():
    """Run the command in this process."""
    return lambda *arguments: CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture
def script() -> str:
    """The installed command."""
    return str(Path(sys.executable).parent / "indextables")


@pytest.fixture
def run(script):
    """Run the installed command in a process of its own."""

    def run(*arguments, stdout=subprocess.PIPE, **environment):
        return subprocess.run(
            [script, *map(str, arguments)],
            stdout=stdout,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            timeout=60,
            check=False,
            env={**os.environ, **environment},
        )

    return run


def run_in_terminal(arguments: list[str], width: int = 80) -> tuple[int, str]:
    """Run a command with a terminal for both of its streams."""
    main, other = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(width)}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen(arguments, stdin=other, stdout=other, stderr=other, env=environment) as process:
        os.close(other)
        output = b""
        while select.select([main], [], [], 60)[0]:
            try:
                part = os.read(main, 65536)
            except OSError:
                break
            if not part:
                break
            output += part
        os.close(main)
    return process.returncode, output.decode()


@pytest.fixture
def new_add():
    """What the log says of a file."""

    def new_add(path, size=2048, num_records=1000, partition_values=None, **fields):
        return it.actions.Add(
            path=path,
            partition_values=partition_values or {},
            size=size,
            modification_time=1,
            data_change=True,
            num_records=num_records,
            **fields,
        )

    return new_add


@pytest.fixture
def empty_url(tmp_path) -> str:
    """A table at version 0."""
    url = str(tmp_path / "empty")
    it.Table.create(url, SCHEMA, partition_by=("date", "größe"))
    return url


@pytest.fixture
def url(tmp_path, new_add) -> str:
    """A table: create, two appends, a merge, a skip. Version 2 has a path with everything odd in it."""
    url = str(tmp_path / "ta=b%le")
    it.Table.create(url, SCHEMA, partition_by=("date", "größe"), name="tests", properties={"owner": "me"})
    log = it.TransactionLog(url)
    log.add_files([new_add("a.split"), new_add("b.split", size=100, num_records=None)])
    log.add_files([new_add(ODD_PATH, partition_values=ODD_VALUES)])
    log.replace_files(["a.split"], [new_add("c.split", min_values={"message": "a"})])
    log.record_skipped_file("c.split", reason="footer\nunreadable \x1b[31m[red]", cooldown_hours=1)
    return url


@pytest.fixture
def odd_path() -> str:
    return ODD_PATH


@pytest.fixture
def odd_values() -> dict[str, str]:
    return dict(ODD_VALUES)


@pytest.fixture
def upstream(shared) -> Path:
    """Tables of the original product."""
    return shared / "fixtures" / "upstream-0.5.4"
