"""`writers`: many writers on one table of one S3 server, each as fast as it can, with figures of races and fairness.

They put splits of zeros and commit them, so that nothing but the log is contested. A split takes as long as a small
append does on a machine of its own, but sleeping. `pause_seconds` is the time of a request beside the server's own.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from tests.servers import running

import indextables as it
from soak.crowd_writer import CrowdJob
from soak.journal import SCHEMA
from soak.load import Say
from soak.processes import crew

NUM_WRITERS = 32
PAUSE_SECONDS = 0.03
WRITE_SECONDS = 0.1
_WRITERS_A_PROCESS = 8


def run(
    kind: str,
    minutes: float,
    directory: Path,
    say: Say,
    *,
    num_writers: int = NUM_WRITERS,
    pause_seconds: float = PAUSE_SECONDS,
) -> dict[str, Any]:
    """Commit for so many minutes. An `AssertionError` where a commit is lost, doubled or given up."""
    say(f"{num_writers} writers on {kind}")
    with running(kind, directory / kind) as server, crew() as workers:
        url = f"{server.url}/crowd"
        it.TransactionLog(url, options=server.options).initialize(SCHEMA)
        for number, start in enumerate(range(0, num_writers, _WRITERS_A_PROCESS)):
            job = CrowdJob(
                url,
                server.options,
                f"crowd-{number}",
                str(directory),
                minutes * 60,
                seed=0,
                num_writers=min(_WRITERS_A_PROCESS, num_writers - start),
                pause_seconds=pause_seconds,
                write_seconds=WRITE_SECONDS,
            )
            workers.start("crowd_writer", job)
        writers = [writer for _, answer in workers.answers() for writer in answer["writers"]]
        paths = it.TransactionLog(url, options=server.options).list_files()["path"].to_pylist()
    expected = {f"{writer['writer']}-{at}.split" for writer in writers for at in range(len(writer["seconds"]))}
    outcome = {"server": kind, "minutes": minutes, "pause_ms": pause_seconds * 1000, **_figures(writers, minutes)}
    if len(paths) != len(expected) or set(paths) != expected:
        raise AssertionError(f"the table has {len(paths)} files instead of {len(expected)}: {outcome}")
    return outcome


def _figures(writers: list[dict[str, Any]], minutes: float) -> dict[str, Any]:
    """Rates of the whole crowd, and how far apart its writers are."""
    seconds = sorted(second for writer in writers for second in writer["seconds"])
    commits = [len(writer["seconds"]) for writer in writers]
    requests: Counter[str] = sum((Counter(writer["requests"]) for writer in writers), Counter())
    lost = sum(writer["lost"] for writer in writers)
    num_commits = max(len(seconds), 1)
    return {
        "writers": len(writers),
        "commits": len(seconds),
        "commits_per_second": round(len(seconds) / (minutes * 60), 2),
        "gave_up": sum(writer["gave_up"] for writer in writers),
        "lost_tries_per_commit": round(lost / num_commits, 2),
        "requests_per_commit": round(sum(requests.values()) / num_commits, 1),
        "requests": {verb: round(count / num_commits, 1) for verb, count in sorted(requests.items())},
        "commits_of_a_writer": {"least": min(commits), "most": max(commits)},
        "commit_seconds": {name: round(_at(seconds, share), 2) for name, share in _SHARES.items()},
    }


_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "longest": 1.0}


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0
