"""The soak runs: seconds of it, on one server."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys

import pytest
from tests.servers import missing

pytestmark = pytest.mark.slow


def soak(part: str, *arguments: str) -> dict[str, object]:
    if reason := missing("ministack"):
        pytest.skip(reason)
    command = [sys.executable, "-m", "soak", part, "--server", "ministack", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        printed, errors = process.communicate(timeout=300)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also its servers and workers, where it came to no end
        process.wait()
    assert process.returncode == 0, errors[-3000:]
    (outcome,) = json.loads(printed)
    return outcome


def test_load() -> None:
    outcome = soak("load", "--minutes", "0.15")
    assert outcome["writes"]["acknowledged"] > 0
    assert outcome["faults"]
    assert outcome["table"]["lost"] == 0


def test_writers() -> None:
    outcome = soak("writers", "--minutes", "0.3")
    assert outcome["writers"] == 32
    assert outcome["gave_up"] == 0
    assert outcome["lost_tries_per_commit"] < 4  # most of them at the start, when all writers begin at once
    assert outcome["commits_of_a_writer"]["least"] > 0


def test_serving() -> None:
    outcome = soak("serving", "--minutes", "0.2")
    assert outcome["threads"] == 16
    assert outcome["together"]["questions"] > outcome["threads"]
    assert outcome["throughput_of_cores"] > 0.1


@pytest.mark.skipif(importlib.util.find_spec("deltalake") is None, reason="needs delta-rs: indextables[bench]")
def test_contest() -> None:
    outcome = soak("contest", "--minutes", "0.1")
    assert outcome["ours"]["commits"] > 0
    assert outcome["ours"]["table"]["lost"] == 0
    assert outcome["delta-rs"]["commits"] > 0
