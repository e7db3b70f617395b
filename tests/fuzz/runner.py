"""Runs targets in processes that are watched, and says what became of every input.

A process that dies, or takes too long for one input, is replaced; the input is a violation, and the next one follows.
The inputs of violations are kept in a directory, each under a name by which it can be used again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from tests.fuzz.engine import Target
from tests.fuzz.worker import INPUT, PLACE

MODULES = ("tests.fuzz.log_targets", "tests.fuzz.split_targets", "tests.fuzz.text_targets", "tests.fuzz.table_targets")
SECONDS_AN_INPUT = 60.0
MOST_RESIDENT_BYTES = 2 << 30
_START_SECONDS = 120.0
_LOOK_SECONDS = 0.1
_NOT_BEGUN = 2**64 - 1


@dataclasses.dataclass
class Violation:
    """An input that ended badly: how, and where it is kept."""

    target: str
    number: int
    kind: str
    what: str
    saved: str | None = None

    def replay(self) -> str:
        return f"python -m tests.fuzz.long --replay {self.target} {self.saved}"


@dataclasses.dataclass
class Report:
    """What became of the inputs of each target."""

    seed: int
    inputs: dict[str, int] = dataclasses.field(default_factory=dict)
    answers: dict[str, int] = dataclasses.field(default_factory=dict)
    documented: dict[str, int] = dataclasses.field(default_factory=dict)
    known_limits: dict[str, int] = dataclasses.field(default_factory=dict)
    violations: list[Violation] = dataclasses.field(default_factory=list)
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "inputs": sum(self.inputs.values()),
            "documented_errors": sum(self.documented.values()),
            "right_answers": sum(self.answers.values()),
            "known_limits": sum(self.known_limits.values()),
            "inputs_by_target": self.inputs,
            "documented_errors_by_target": self.documented,
            "right_answers_by_target": self.answers,
            "violations": [{**dataclasses.asdict(each), "replay": each.replay()} for each in self.violations],
        }


def known_targets(modules: Sequence[str] = MODULES) -> dict[str, Target]:
    """The targets by name."""
    return {target.name: target for name in modules for target in importlib.import_module(name).TARGETS}


class Runner:
    """Runs inputs of targets and adds up what became of them."""

    def __init__(
        self,
        seed: int,
        *,
        modules: Sequence[str] = MODULES,
        keep_in: str | None = None,
        seconds_an_input: float = SECONDS_AN_INPUT,
        most_resident_bytes: int = MOST_RESIDENT_BYTES,
    ) -> None:
        self.report = Report(seed)
        self._modules = modules
        self._keep_in = keep_in
        self._seconds_an_input = seconds_an_input
        self._most_resident_bytes = most_resident_bytes
        self._next: dict[str, int] = {}

    def run(self, wanted: Iterable[tuple[str, int]], seconds: float = 3600.0) -> Report:
        """So many more inputs of each target, or as many as there is time for: each has an even share."""
        started = time.monotonic()
        steps = []
        for name, count in wanted:
            first = self._next.get(name, 0)
            steps.append({"target": name, "first": first, "end": first + count, "seconds": seconds})
            self._next[name] = first + count
        while steps:
            steps = self._run_process(steps)
        self.report.seconds += time.monotonic() - started
        return self.report

    def _run_process(self, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Run a process until it ends or must be ended; the steps that are left."""
        with tempfile.TemporaryDirectory(prefix="indextables-fuzz-") as place:
            path = os.path.join(place, "progress")
            with open(path, "wb") as file:
                file.write(PLACE.pack(0, _NOT_BEGUN))
            work = json.dumps(
                {
                    "modules": self._modules,
                    "seed": self.report.seed,
                    "steps": steps,
                    "most_resident_bytes": self._most_resident_bytes,
                }
            )
            with open(os.path.join(place, "errors"), "w+b") as errors:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tests.fuzz.worker", work, path],
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env={
                        **os.environ,
                        "TMPDIR": place,
                        "RUST_BACKTRACE": "0",
                        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                    },
                    start_new_session=True,
                )
                hung = self._watch(process, path)
                errors.seek(0)
                said = errors.read()[-20_000:].decode(errors="replace")
            return self._after(process.returncode, path, steps, hung=hung, said=said)

    def _watch(self, process: subprocess.Popen[bytes], path: str) -> bool:
        """Read what a process says until it ends. Whether it had to be ended."""
        reader = threading.Thread(target=self._read, args=(process,))
        reader.start()
        last, since, hung = b"", time.monotonic(), False
        while process.poll() is None:
            time.sleep(_LOOK_SECONDS)
            with open(path, "rb") as file:
                now = file.read()
            if now != last:
                last, since = now, time.monotonic()
            limit = _START_SECONDS if PLACE.unpack(now)[1] == _NOT_BEGUN else self._seconds_an_input
            if time.monotonic() - since > limit:
                hung = True
                break
        _end_group(process)
        reader.join()
        return hung

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                said = json.loads(line)
                if "violation" in said:
                    self._found(said["target"], said["number"], said["violation"], said["what"], said["kept"])
                else:
                    self._count(said)

    def _count(self, said: dict[str, Any]) -> None:
        report, name = self.report, said["target"]
        for counted, key in ((report.answers, "answer"), (report.documented, "documented")):
            counted[name] = counted.get(name, 0) + said[key]
        report.inputs[name] = report.inputs.get(name, 0) + said["answer"] + said["documented"]

    def _after(
        self, code: int, path: str, steps: list[dict[str, Any]], *, hung: bool, said: str
    ) -> list[dict[str, Any]]:
        if code == 0 and not hung:
            return []
        with open(path, "rb") as file:
            place, number = PLACE.unpack(file.read())
        if number == _NOT_BEGUN:
            raise RuntimeError(f"the process for inputs does not start: {said}")
        step = steps[place]
        if hung:
            why = f"no end within {self._seconds_an_input:g} seconds"
            self._found(step["target"], number, "hang", why, f"{path}{INPUT}")
        elif any(words in said for words in known_targets(self._modules)[step["target"]].known):
            self.report.known_limits[step["target"]] = self.report.known_limits.get(step["target"], 0) + 1
            self.report.inputs[step["target"]] = self.report.inputs.get(step["target"], 0) + 1
        elif code != 3:
            ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            self._found(step["target"], number, "crash", f"{ended}\n{said[-2000:]}", f"{path}{INPUT}")
        lost = number - step["first"]
        self.report.inputs[step["target"]] = self.report.inputs.get(step["target"], 0) + lost
        return [{**step, "first": number + 1}, *steps[place + 1 :]]

    def _found(self, name: str, number: int, kind: str, what: str, input_path: str) -> None:
        violation = Violation(name, number, kind, what)
        self.report.inputs[name] = self.report.inputs.get(name, 0) + 1
        self.report.violations.append(violation)
        if self._keep_in is not None:
            os.makedirs(self._keep_in, exist_ok=True)
            violation.saved = os.path.join(self._keep_in, f"{name}-{self.report.seed}-{number}")
            shutil.copyfile(input_path, violation.saved)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the process with those that it has started: a decoder of its own may still spin."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
