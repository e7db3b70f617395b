"""Some thousand inputs of every target, the same in every run; and the engine, which must notice what it is for."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.fuzz.engine import input_of, judge
from tests.fuzz.runner import Runner, known_targets

INPUTS = 1000
SEED = 20261116
TARGETS = known_targets()


def shares() -> list[tuple[str, int]]:
    """Few of those that are slow, as each may end a process."""
    return [
        (name, max(3, round(INPUTS * target.weight * min(1.0, target.weight * 2)))) for name, target in TARGETS.items()
    ]


@pytest.mark.slow
def test_every_input_ends_in_a_right_answer_or_the_documented_error(tmp_path) -> None:
    report = Runner(SEED, keep_in=str(tmp_path / "found")).run(shares())
    assert [f"{each.target} {each.number}: {each.kind}\n{each.what}" for each in report.violations] == []
    assert report.inputs == dict(shares())
    assert sum(report.inputs.values()) > 10_000
    many = [name for name, count in report.inputs.items() if count >= 50 and TARGETS[name].errors]
    assert len(many) > 20
    assert all(report.documented[name] > 0 for name in many)


def test_inputs_are_the_same_for_the_same_seed() -> None:
    for name in ("version-bytes", "query", "setting", "json-checkpoint"):
        target = TARGETS[name]
        assert [input_of(target, 1, number) for number in range(20)] == [
            input_of(target, 1, number) for number in range(20)
        ]
        assert len({input_of(target, 1, number) for number in range(20)}) > 15


@pytest.mark.slow
def test_what_goes_wrong_is_noticed_and_kept(tmp_path) -> None:
    wanted = [("planted-error", 60), ("planted-wrong", 1), ("planted-crash", 2), ("planted-hang", 1)]
    runner = Runner(
        1, modules=("tests.fuzz.planted",), keep_in=str(tmp_path), seconds_an_input=10, most_resident_bytes=400 << 20
    )
    report = runner.run([*wanted, ("planted-memory", 1), ("planted-known", 1)])
    kinds = {violation.target: violation.kind for violation in report.violations}
    assert kinds == {
        "planted-error": "KeyError",
        "planted-wrong": "WrongError",
        "planted-crash": "crash",
        "planted-hang": "hang",
        "planted-memory": "memory",
    }
    assert report.inputs == {**dict(wanted), "planted-memory": 1, "planted-known": 1}
    assert report.known_limits == {"planted-known": 1}
    assert report.documented["planted-error"] > 0
    assert report.answers["planted-error"] > 0
    for violation in report.violations:
        with open(violation.saved, "rb") as file:
            data = file.read()
        assert len(data) == 1
    assert sum(violation.target == "planted-crash" for violation in report.violations) == 2


@pytest.mark.slow
def test_the_long_mode_says_what_it_did(tmp_path) -> None:
    arguments = ["--minutes", "0.03", "--seed", "5", "--json", "--keep", str(tmp_path), "--target", "last-checkpoint"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.long", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    said = json.loads(run.stdout)
    assert said["inputs"] == said["documented_errors"] + said["right_answers"] > 0
    assert (said["violations"], said["known_limits"], said["seed"]) == ([], 0, 5)


def test_one_input_is_used_again() -> None:
    target = TARGETS["version-bytes"]
    assert {judge(target, input_of(target, 1, number)) for number in range(40)} == {"answer", "documented"}
