"""A stream whose process is killed at random moments, ten times: in the end every row is there once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.spark.jobs import start_job
from tests.spark.streams import Stream
from tests.spark_runs import needs_spark

pytestmark = [needs_spark, pytest.mark.slow]

_KILLS = 10
_PATIENCE_SECONDS = 180
# About as long as a batch takes: it is written, committed, and noted as done.
_LONGEST_BATCH_SECONDS = 1.5


def start(stream: Stream, place: Path, files: int) -> subprocess.Popen[bytes]:
    (place / "begun").unlink(missing_ok=True)
    return start_job("stream_job", place, stream.source, stream.sink, stream.checkpoint, str(files))


def planned_batches(stream: Stream) -> int:
    return len(list(Path(stream.checkpoint, "offsets").glob("[0-9]*")))


def kill_after(job: subprocess.Popen[bytes], happened: Callable[[], bool], seconds: float) -> None:
    """Kill a job and its Java so long after something has happened."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    try:
        while not happened():
            assert job.poll() is None, "it ended by itself"
            assert time.monotonic() < deadline, "it never happened"
            time.sleep(0.02)
        time.sleep(seconds)
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait(timeout=_PATIENCE_SECONDS)


def test_every_row_is_there_once(tmp_path) -> None:
    dice = random.Random(tmp_path.name)
    stream = Stream(tmp_path)
    for number in range(25):
        stream.append(number * 2, count=2)
    for number in range(25, 25 + _KILLS):
        job, batches = start(stream, tmp_path, files=1), planned_batches(stream) + dice.choice([0, 1, 1, 2])
        moment = dice.uniform(0, _LONGEST_BATCH_SECONDS)
        kill_after(job, lambda at=batches: (tmp_path / "begun").exists() and planned_batches(stream) >= at, moment)
        stream.append(number * 2, count=2)
    assert planned_batches(stream) > 1, "some were killed within their batches"
    assert start(stream, tmp_path, files=20).wait(timeout=_PATIENCE_SECONDS) == 0
    assert stream.ids() == list(range(2 * (25 + _KILLS)))
