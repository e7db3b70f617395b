"""`load`: writers, searchers and keepers on a real server behind a failing proxy, while they and it are killed."""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.servers import RESTARTABLE, Running, running
from tests.servers.proxy import FaultProxy, ProxyFault, fault_proxy

import indextables as it
from soak.journal import SCHEMA, read_journals
from soak.keeper import RETENTION_MINUTES
from soak.places import Job
from soak.processes import Crew, Repeating, crew
from soak.verdict import FAULTLESS, verdict

Say = Callable[[str], None]

_NUM = {"writer": 4, "searcher": 1, "keeper": 1}
_KILL_WRITER_SECONDS = 20
_KILL_SERVER_SECONDS = 90
_SERVER_DOWN_SECONDS = 2
# Of a hundred requests, so many fail, in all ways alike. A time-out costs its client three seconds.
_FAULTS = {
    ProxyFault.UNAVAILABLE: 2.0,
    ProxyFault.THROTTLED: 1.0,
    ProxyFault.APPLIED_RESET: 1.0,
    ProxyFault.APPLIED_ERROR: 1.0,
    ProxyFault.RESET: 1.0,
    ProxyFault.SLOW: 2.0,
    ProxyFault.APPLIED_TIMEOUT: 0.3,
    ProxyFault.DROPPED_TIMEOUT: 0.3,
    ProxyFault.DELAYED: 0.3,
}
_S3_FAULTS = {ProxyFault.CONFLICT_409: 0.5}
_PATIENT = {
    "store.timeoutSeconds": 3,
    "store.retry.maxAttempts": 3,
    "store.retry.timeoutSeconds": 10,
    "transaction.retry.maxAttempts": 15,
    "transaction.retry.maxDelayMs": 2000,
}


def run(kind: str, minutes: float, seed: int, directory: Path, say: Say) -> dict[str, Any]:
    """Load one server for so long. An `AssertionError` where anything is lost, doubled or wrong."""
    journals = directory / "journals"
    journals.mkdir(parents=True)
    with running(kind, directory / kind) as server:
        url = f"{server.url}/soak/table"
        it.Table.create(url, SCHEMA, partition_by=("writer",), indexing={"message": "text"}, options=server.options)
        with fault_proxy(server.endpoint, _script(server, seed)) as proxy, crew() as workers:
            options = {**server.behind(proxy.endpoint), **_PATIENT}
            job = Job(url, options, "", str(journals), minutes * 60, seed)
            num_restarts = _work(workers, job, server, lambda: _progress(say, kind, journals, proxy, workers))
            answers = workers.answers()
            faults = proxy.counts
        tried = read_journals(journals)
        found = verdict(url, server.options, tried)
    outcome: dict[str, Any] = {
        "server": kind,
        "minutes": minutes,
        "seed": seed,
        "writes": dict(Counter(entry.told for entry in tried)),
        "work": _summed(answers),
        "requests": sum(faults.values()),
        "faults": {
            fault.name.lower(): count
            for fault, count in sorted(faults.items(), key=lambda item: item[0].name)
            if fault is not ProxyFault.NONE
        },
        "writers_killed": workers.num_killed,
        "server_restarts": num_restarts,
        "table": found,
    }
    if minutes > 2 * RETENTION_MINUTES and not outcome["work"]["keeper"].get("purge"):
        raise AssertionError(f"no purge came to its end: {outcome}")
    if any(found[name] for name in FAULTLESS):
        raise AssertionError(f"the table is not as it should be: {outcome}")
    return outcome


def _script(server: Running, seed: int) -> Callable[[str, str, Mapping[str, str]], ProxyFault]:
    dice = random.Random(seed)
    shares = {**_FAULTS, **(_S3_FAULTS if server.url.startswith("s3:") else {})}
    faults, weights = [*shares, ProxyFault.NONE], [*shares.values(), 100 - sum(shares.values())]

    def choose(method: str, path: str, headers: Mapping[str, str]) -> ProxyFault:
        (fault,) = dice.choices(faults, weights)
        if fault is ProxyFault.CONFLICT_409 and not ("if-none-match" in headers and method == "PUT"):
            return ProxyFault.NONE
        return fault

    return choose


def _work(workers: Crew, job: Job, server: Running, progress: Callable[[], None]) -> int:
    """Let all work until the time is up, killing now a writer and now the server. How often that was started again."""
    dice, names, restarts = random.Random(job.seed), itertools.count(), itertools.count()
    end = time.monotonic() + job.seconds

    def start(module: str) -> None:
        number = next(names)
        seconds = max(end - time.monotonic(), 0)
        workers.start(
            module,
            job.__class__(
                job.url, job.options, f"{module[0]}{number}", job.directory, seconds, job.seed * 1000 + number
            ),
        )

    def kill_a_writer() -> None:
        at_work = workers.of("writer")
        if at_work:
            workers.kill(dice.choice(at_work))
            start("writer")

    def restart_the_server() -> None:
        server.kill()
        time.sleep(_SERVER_DOWN_SECONDS)
        server.start()
        next(restarts)

    for module, number in _NUM.items():
        for _ in range(number):
            start(module)
    with contextlib.ExitStack() as chaos:
        chaos.enter_context(Repeating(5, progress))
        chaos.enter_context(Repeating(_KILL_WRITER_SECONDS, kill_a_writer))
        if server.kind in RESTARTABLE:
            chaos.enter_context(Repeating(_KILL_SERVER_SECONDS, restart_the_server))
        while time.monotonic() < end:
            time.sleep(0.2)
    return next(restarts)


def _progress(say: Say, kind: str, journals: Path, proxy: FaultProxy, workers: Crew) -> None:
    told = Counter(entry.told for entry in read_journals(journals))
    say(f"{kind}: {told['acknowledged']} writes, {proxy.num_faults} faults, {workers.num_killed} writers killed")


def _summed(answers: list[tuple[str, dict[str, Any]]]) -> dict[str, dict[str, int]]:
    """What all processes of each kind did together."""
    summed: dict[str, Counter[str]] = {}
    for module, answer in answers:
        summed.setdefault(module, Counter()).update(answer)
    return {module: dict(sorted(counts.items())) for module, counts in summed.items()}
