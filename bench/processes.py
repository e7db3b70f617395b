"""Calls in new processes, so that nothing is cached but the operating system's pages.

Starting Python and importing the library are not counted; everything the library does at its first call is.
"""

from __future__ import annotations

import concurrent.futures
import functools
import multiprocessing
import re
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from bench.harness import checked_count, timed_ms

_Answer = TypeVar("_Answer")
_BYTES_PER_MB = 1_000_000
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)


class Cost(NamedTuple):
    """What a call took, and the most memory that its process ever held, imports included."""

    elapsed_ms: float
    peak_mb: float


def cost_in_new_process(num_expected: int, count_found: Callable[..., int], *arguments: Any) -> Cost:
    """What one call costs in a process of its own. It answers with a number of files or rows, which is checked."""
    return in_new_process(_measure, num_expected, count_found, arguments)


def ms_in_new_process(num_expected: int, count_found: Callable[..., int], *arguments: Any) -> float:
    return cost_in_new_process(num_expected, count_found, *arguments).elapsed_ms


def in_new_process(call: Callable[..., _Answer], *arguments: Any) -> _Answer:
    """What a call answers in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(max_workers=1, mp_context=context) as executor:
        return executor.submit(call, *arguments).result()


def _measure(num_expected: int, count_found: Callable[..., int], arguments: tuple[Any, ...]) -> Cost:
    found: list[int] = []
    elapsed_ms = timed_ms(lambda: found.append(functools.partial(count_found, *arguments)()))
    checked_count(found[0], num_expected)
    return Cost(elapsed_ms, peak_bytes() / _BYTES_PER_MB)


def peak_bytes() -> int:
    """The most memory that this process has had. Linux counts that of the parent into `ru_maxrss` of a new process, so
    its own file is asked first."""
    try:
        found = _PEAK.search(Path("/proc/self/status").read_text())
    except OSError:
        found = None
    kib = int(found[1]) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kib * 1024
