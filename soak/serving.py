"""`serving`: one process, 16 threads on one handle: counts and searches of ten rows, beside one thread alone.

Every question has words of its own, so that no answer is a repeated one. The interpreter's lock is probed by a thread
that sleeps a millisecond at a time: it wakes late if another thread holds the lock.
"""

from __future__ import annotations

import os
import random
import resource
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa

import indextables as it
from soak.load import Say
from soak.places import Countdown

NUM_THREADS = 16
_NUM_ROWS = 200_000
_NUM_SPLITS = 8
_WORDS_PER_ROW = 8
_VOCABULARY = [f"{first}{second}" for first in "bdfglmnprstvz" for second in range(400)]
_ALONE_SHARE = 0.2
_PROBE_SECONDS = 0.001


def run(minutes: float, directory: Path, say: Say, *, num_threads: int = NUM_THREADS) -> dict[str, Any]:
    """Ask for so many minutes: a fifth of them by one thread, the rest by all threads. Every answer is checked."""
    say("serving: writing")
    table = _table(directory / "table")
    seconds = minutes * 60
    say("serving: one thread")
    _ask_all(table, 1, min(seconds * _ALONE_SHARE, 5.0))  # everything is open
    alone = _ask_all(table, 1, seconds * _ALONE_SHARE)
    say(f"serving: {num_threads} threads")
    before_bytes = _resident_bytes()
    together = _ask_all(table, num_threads, seconds * (1 - _ALONE_SHARE))
    grown_bytes = _resident_bytes() - before_bytes
    cores = len(os.sched_getaffinity(0))
    return {
        "minutes": minutes,
        "threads": num_threads,
        "cores": cores,
        "alone": alone,
        "together": together,
        "throughput_of_cores": round(together["per_second"] / alone["per_second"] / cores, 2),
        "p99_of_p50": round(together["ms"]["p99"] / together["ms"]["p50"], 1),
        "grown_mb": round(grown_bytes / 1e6, 1),
    }


def _table(path: Path) -> it.Table:
    chance = random.Random(7)
    schema = pa.schema([("id", pa.int64()), ("level", pa.string()), ("message", pa.string())])
    table = it.Table.create(path, schema, indexing={"message": "text"})
    share = _NUM_ROWS // _NUM_SPLITS
    for start in range(0, _NUM_ROWS, share):
        messages = [" ".join(chance.choices(_VOCABULARY, k=_WORDS_PER_ROW)) for _ in range(share)]
        levels = chance.choices(["INFO", "WARN", "ERROR"], k=share)
        table.append(pa.table({"id": range(start, start + share), "level": levels, "message": messages}, schema))
    return table


def _ask_all(table: it.Table, num_threads: int, seconds: float) -> dict[str, Any]:
    late: list[float] = []
    ended = threading.Event()
    probe = threading.Thread(target=_probe, args=(late, ended))
    begun, cpu = time.monotonic(), time.process_time()
    probe.start()
    with ThreadPoolExecutor(num_threads) as pool:
        asked = list(pool.map(lambda number: _ask(table, number, seconds), range(num_threads)))
    elapsed, used = time.monotonic() - begun, time.process_time() - cpu
    ended.set()
    probe.join()
    times = sorted(taken for part in asked for taken in part)
    return {
        "questions": len(times),
        "per_second": round(len(times) / elapsed, 1),
        "cpu_ms_per_question": round(used * 1000 / len(times), 2),
        "cores_used": round(used / elapsed, 2),
        "ms": {name: round(times[int(share * (len(times) - 1))] * 1000, 2) for name, share in _SHARES.items()},
        "lock_wait_ms": {"mean": round(sum(late) / len(late) * 1000, 2), "longest": round(max(late) * 1000, 1)},
    }


_SHARES = {"p50": 0.5, "p99": 0.99, "longest": 1.0}


def _ask(table: it.Table, number: int, seconds: float) -> list[float]:
    chance = random.Random(number)
    times: list[float] = []
    time_left = Countdown(seconds)
    while time_left or not times:
        question = _QUESTIONS[len(times) % len(_QUESTIONS)]
        words = chance.sample(_VOCABULARY, 2)
        started = time.monotonic()
        question(table, words)
        times.append(time.monotonic() - started)
    return times


def _count(table: it.Table, words: Sequence[str]) -> None:
    if not 0 < table.count(f"{words[0]} OR {words[1]}") < _NUM_ROWS:
        raise AssertionError(f"`{words}` are in no row or in all")


def _search(table: it.Table, words: Sequence[str]) -> None:
    rows = table.search(words[0], limit=10)
    if rows.num_rows != 10 or any(words[0] not in message for message in rows["message"].to_pylist()):
        raise AssertionError(f"a search for `{words[0]}` found {rows.to_pylist()}")


_QUESTIONS: tuple[Callable[[it.Table, Sequence[str]], None], ...] = (_count, _search)


def _probe(late: list[float], ended: threading.Event) -> None:
    while not ended.is_set() or not late:
        started = time.perf_counter()
        time.sleep(_PROBE_SECONDS)
        late.append(time.perf_counter() - started - _PROBE_SECONDS)


def _resident_bytes() -> int:
    """Memory of this process now; its peak if the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
