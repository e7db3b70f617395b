"""What a quick run leaves out: nothing that would leave a part of the code, a session or a server without a test."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies
from tests.selection import SERVERS, SPARK, is_quick_run, needs, quick, share_out
from tests.servers import KINDS

SMALL_MODULES = ("protocol/test_names.py", "runtime/test_turns.py")
SOURCE = Path(__file__).resolve().parents[1] / "src"
_IMPORTS = re.compile(r"^\s*(?:from|import) (indextables[\w.]*)(?: import ([\w, ]+))?", re.MULTILINE)


@pytest.fixture
def items(request) -> list[pytest.Item]:
    """The tests of the whole suite, as far as this run collected them."""
    config = request.config
    if config.args not in (config.getini("testpaths"), [str(config.rootpath)]) or config.option.keyword:
        pytest.skip("only a run of the whole suite knows all tests")
    return request.session.items


def test_a_quick_run_touches_every_package(items) -> None:
    imported = set()
    for module in {item.module for item in quick(items)}:
        for name, members in _IMPORTS.findall(inspect.getsource(module)):
            imported |= {name, *(f"{name}.{member.strip()}" for member in members.split(","))}
    packages = {".".join(path.parent.relative_to(SOURCE).parts) for path in SOURCE.glob("indextables/**/__init__.py")}
    touched = {".".join(name.split(".")[:length]) for name in imported for length in range(1, name.count(".") + 2)}
    assert packages - touched == set()


def test_a_quick_run_meets_every_kind_of_session_and_server(items) -> None:
    cases = [item.callspec.params.values() for item in quick(items) if hasattr(item, "callspec")]
    met = {value for values in cases for value in values if isinstance(value, str)}
    assert {"spark", "enabled", "connect", *KINDS} <= met


def test_a_quick_run_has_one_case_of_what_is_costly(items) -> None:
    kept = quick(items)
    costly = [item.nodeid.partition("[")[0] for item in kept if needs(item) or item.get_closest_marker("one_case")]
    assert len(costly) == len(set(costly)) > 100
    assert not any(item.get_closest_marker("slow") for item in kept)
    assert [item for item in items if item in set(kept)] == kept


_EXAMPLES = []


@hypothesis.settings(max_examples=50)
@hypothesis.given(strategies.integers())
def test_a_quick_run_takes_a_fifth_of_the_examples(number) -> None:
    _EXAMPLES.append(number)


def test_the_examples_before_were_so_many(request) -> None:
    if not _EXAMPLES:
        pytest.skip("the test before runs in another process, or not at all")
    assert len(_EXAMPLES) == (10 if is_quick_run(request.config) else 50)


def test_every_test_has_a_unit_of_work(request) -> None:
    items = list(request.session.items)
    ids = {item.nodeid for item in items}
    found = share_out(items)
    assert found.keys() == ids
    assert len(items) == len(ids)
    units = [found[item.nodeid] for item in items]
    rooms = [unit for unit in units if unit == SERVERS or unit.startswith(SPARK)]
    assert units[: len(rooms)] == rooms == sorted(rooms)


def test_the_tests_of_a_unit_run_in_one_process() -> None:
    """Two modules of real tests, in two processes: each module has all of its tests in one of them."""
    command = [sys.executable, "-m", "pytest", "-n", "2", "-vv", *(f"tests/{name}" for name in SMALL_MODULES)]
    done = subprocess.run(command, cwd=SOURCE.parent, capture_output=True, text=True, timeout=300, check=False)
    ran = set(re.findall(r"\[(gw\d)\].* (tests/[\w/.]+)::", done.stdout))
    assert done.returncode == 0, done.stdout
    assert sorted(module for _, module in ran) == [f"tests/{name}" for name in SMALL_MODULES]
    assert {worker for worker, _ in ran} == {"gw0", "gw1"}
