"""Content of checkpoints: conversion of fields, also by many threads at once."""

from __future__ import annotations

import subprocess
import sys

_FIRST_USE = """
import sys, threading
from typing import Annotated
import msgspec
from indextables.protocol.checkpoint_content import convert

sys.setswitchinterval(1e-6)

def meet(number):
    inner = msgspec.defstruct(
        f"Inner{number}", [(f"f{at}", Annotated[int, msgspec.Meta(ge=-at - 1)], 0) for at in range(30)]
    )
    outer = msgspec.defstruct(
        f"Outer{number}",
        [(f"g{at}", Annotated[str, msgspec.Meta(min_length=at)] | None, None) for at in range(30)]
        + [("inner", inner | None, None)],
    )
    barrier, answers = threading.Barrier(8), []

    def run():
        barrier.wait()
        answers.append(convert({"inner": {"f1": number}, "g3": "abcdef"}, outer, "test").inner.f1)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert answers == [number] * 8

for number in range(100):
    meet(number)
"""


def test_threads_that_use_a_type_first_do_not_crash() -> None:
    done = subprocess.run([sys.executable, "-c", _FIRST_USE], capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
