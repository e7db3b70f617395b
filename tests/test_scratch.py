"""Temporary directories: gone at the end of a block, and swept where their process was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pyarrow as pa
import pytest
from tests.conftest import SCHEMA

import indextables as it
from indextables.runtime import scratch
from indextables.runtime.scratch import scratch_directory, sweep

HOUR_SECONDS = 3600
ROWS = pa.table({"id": [1], "message": ["hello"], "day": ["d"]}, schema=SCHEMA)


def _age(path) -> None:
    then = time.time() - HOUR_SECONDS
    os.utime(path, (then, then))


def test_a_directory_is_there_for_the_block_alone(tmp_path):
    def be_interrupted() -> None:
        with scratch_directory(str(tmp_path)) as place:
            open(os.path.join(place, "file"), "w").close()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        be_interrupted()
    assert os.listdir(tmp_path) == []


def test_what_a_process_uses_is_not_swept(tmp_path):
    with scratch_directory(str(tmp_path)) as place:
        _age(place)
        assert sweep(str(tmp_path)) == 0
        assert os.path.isdir(place)


@pytest.mark.parametrize("what", ["append", "search"])
def test_what_a_killed_process_left_is_swept_by_the_next_one(tmp_path, monkeypatch, what):
    url, room = str(tmp_path / "t"), tmp_path / "tmp"
    room.mkdir()
    it.Table.create(url, SCHEMA, indexing={"message": "text"}).append(ROWS)
    program = """
        import os, signal, sys
        import pyarrow as pa
        import indextables as it
        url, what = sys.argv[1:]
        table = it.Table.open(url, options={"cache.disk.enabled": "false"})
        def rows():
            many = 20_000
            yield pa.record_batch({"id": [2] * many, "message": ["killed " * 9] * many, "day": ["d"] * many})
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "append":
            table.append(pa.RecordBatchReader.from_batches(table.schema, rows()))
        assert table.count("hello") == 1
        os.kill(os.getpid(), signal.SIGKILL)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), url, what]
    ran = subprocess.run(command, check=False, capture_output=True, env={**os.environ, "TMPDIR": str(room)}, timeout=60)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    (left,) = room.iterdir()
    assert left.name.startswith("indextables-")
    foreign = room / "indextables-of-another-program"
    foreign.mkdir()
    monkeypatch.setenv("TMPDIR", str(room))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(scratch, "_swept", set())
    it.Table.open(url).append(ROWS)
    assert left.exists()  # so young that its process may be about to lock it
    for path in (left, foreign):
        _age(path)
    monkeypatch.setattr(scratch, "_swept", set())
    it.Table.open(url).append(ROWS)
    assert list(room.iterdir()) == [foreign]


def test_a_directory_in_memory_is_used_unless_another_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "_IN_MEMORY", str(tmp_path))
    monkeypatch.delenv("TMPDIR", raising=False)
    assert scratch.directory_in_memory(1) == str(tmp_path)
    assert scratch.directory_in_memory(1 << 62) is None
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert scratch.directory_in_memory(1) is None
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr(scratch, "_IN_MEMORY", str(tmp_path / "missing"))
    assert scratch.directory_in_memory(1) is None


def test_what_others_own_is_not_swept(tmp_path):
    link = tmp_path / "indextables-scratch-link"
    target = tmp_path / "precious"
    target.mkdir()
    link.symlink_to(target)
    os.utime(link, (0, 0), follow_symlinks=False)
    assert sweep(str(tmp_path)) == 0
    assert sweep(str(tmp_path / "missing")) == 0
    assert target.is_dir()
