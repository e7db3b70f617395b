"""The processes of a soak: started, killed and gathered by the one that runs it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from soak.places import Job

_PATIENCE_SECONDS = 600


class Worker:
    """One process: `python -m soak.<module> JOB`. It prints one line of JSON at its end."""

    def __init__(self, module: str, job: Job) -> None:
        self.name = job.name
        self._module = module
        self._errors = Path(job.directory, f"{job.name}.stderr")
        with self._errors.open("wb") as errors:
            command = [sys.executable, "-m", f"soak.{module}", job.as_argument()]
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self._process.communicate()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def answer(self) -> dict[str, Any]:
        """What it printed; an error where it failed."""
        printed, _ = self._process.communicate(timeout=_PATIENCE_SECONDS)
        if self._process.returncode != 0:
            raise AssertionError(
                f"{self._module} `{self.name}` failed with {self._process.returncode}:\n"
                f"{self._errors.read_text()[-4000:]}"
            )
        answer: dict[str, Any] = msgspec.json.decode(printed)
        return answer


class Crew:
    """All processes of one run. Those that were killed count as such."""

    def __init__(self) -> None:
        self._workers: list[tuple[str, Worker]] = []
        self.num_killed = 0

    def start(self, module: str, job: Job) -> Worker:
        worker = Worker(module, job)
        self._workers.append((module, worker))
        return worker

    def kill(self, worker: Worker) -> None:
        worker.kill()
        self._workers = [(module, other) for module, other in self._workers if other is not worker]
        self.num_killed += 1

    def of(self, module: str) -> list[Worker]:
        """Those of a kind that are at work."""
        return [worker for kind, worker in self._workers if kind == module and not worker.has_ended]

    def answers(self) -> list[tuple[str, dict[str, Any]]]:
        """What each said at its end."""
        return [(module, worker.answer()) for module, worker in self._workers]


@contextlib.contextmanager
def crew() -> Iterator[Crew]:
    """Processes that all end with the block."""
    workers = Crew()
    try:
        yield workers
    finally:
        for _, worker in workers._workers:
            if not worker.has_ended:
                worker.kill()


class Repeating:
    """Does something every so many seconds, in a thread, until the block ends; its error is raised there."""

    def __init__(self, seconds: float, work: Any) -> None:
        self._seconds = seconds
        self._work = work
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._error: BaseException | None = None

    def __enter__(self) -> Repeating:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._ended.wait(self._seconds):
                self._work()
        except BaseException as error:  # noqa: BLE001 - raised at the end of the block
            self._error = error
