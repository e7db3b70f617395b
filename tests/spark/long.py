"""Histories of tables in Spark by chance, for as long as one likes, or one of them again.

    python -m tests.spark.long --minutes 60 --seed 1 --json
    python -m tests.spark.long --again 1234

A session that is enabled, one that is not and one of Connect read and write one table after the other; every answer is
held against a plain Parquet copy. Seeds that fail go to stderr when they do; at the end one JSON object (or, without
`--json`, a line for each of its entries) goes to stdout. The exit code is 1 where an answer was wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.spark.random_histories import History, Sessions
from tests.spark.spark_sessions import CONNECT, connect_session, spark_session

import indextables as it

STEPS = 30
_SECONDS_BETWEEN_LINES = 60.0


@contextlib.contextmanager
def all_sessions() -> Iterator[Sessions]:
    """Sessions of every kind in one Java process."""
    has_connect = importlib.util.find_spec("grpc") is not None
    with (
        tempfile.TemporaryDirectory(prefix="indextables-spark-") as place,
        spark_session(place, cores=2, settings=CONNECT if has_connect else {}) as spark,
        connect_session(spark) if has_connect else contextlib.nullcontext() as connect,
    ):
        yield Sessions(it.enable(spark.newSession()), spark, connect)


def run_one(seed: int, sessions: Sessions, done: Counter[str]) -> None:
    """One history; a `WrongAnswerError` where an answer is wrong. `done` counts what is done."""
    with tempfile.TemporaryDirectory(prefix="indextables-history-") as place:
        History(seed, Path(place), sessions, done).run(STEPS)


def run_long(seed: int, seconds: float) -> dict[str, Any]:
    """Histories until the time is over, and what came of them."""
    started = line_at = time.monotonic()
    chance = random.Random(seed)
    done: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    with all_sessions() as sessions:
        while time.monotonic() < started + seconds:
            number = chance.randrange(10**9)
            try:
                run_one(number, sessions, done)
            except Exception as error:  # a history that ends in any other way is no less a finding
                failures.append({"seed": number, "kind": type(error).__name__, "message": str(error)[:6000]})
                print(f"{failures[-1]['kind']} with --again {number}: {str(error)[:1500]}", file=sys.stderr, flush=True)
            done["histories"] += 1
            if time.monotonic() >= line_at:
                line_at += _SECONDS_BETWEEN_LINES
                reads = sum(count for name, count in done.items() if name.startswith("read"))
                line = f"{done['histories']} histories, {reads} reads, {len(failures)} failures"
                print(f"{time.monotonic() - started:.0f} s: {line}", file=sys.stderr, flush=True)
    seconds = round(time.monotonic() - started, 1)
    return {"seed": seed, "seconds": seconds, **dict(sorted(done.items())), "failures": failures}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.long", description="Tables in Spark, for long.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    parser.add_argument("--again", type=int, help="the history of one seed, with its steps where it fails")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    if options.again is not None:
        with all_sessions() as sessions:
            run_one(options.again, sessions, Counter())
        print(f"{options.again}: fine")
        return 0
    found = run_long(options.seed, options.minutes * 60)
    if options.json:
        print(json.dumps(found))
    else:
        print("\n".join(f"{name}: {value}" for name, value in found.items()))
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
