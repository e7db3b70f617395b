"""What all tests share."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pyarrow as pa
import pytest
from tests.selection import is_quick_run, quick, share_out, take_few_examples
from tests.servers import Running, missing, running

import indextables as it
from indextables.config import settings
from indextables.table import handle
from indextables.table.answers import Answers

hypothesis.settings.register_profile("quick", deadline=None, derandomize=True)
hypothesis.settings.register_profile("all", deadline=None, print_blob=True)

FIRST_SEED = "INDEXTABLES_FIRST_SEED"
UNITS = "INDEXTABLES_UNITS_OF_WORK"
SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string()), ("day", pa.string())])


def make_add(name: str, **fields) -> it.actions.Add:
    """An add action with everything that must be there."""
    values = {
        "path": name,
        "partition_values": {},
        "size": 100,
        "modification_time": 1_700_000_000_000,
        "data_change": True,
        "num_records": 10,
    }
    return it.actions.Add(**{**values, **fields})


def live_paths(log: it.TransactionLog, **at) -> list[str]:
    """The paths of the live files, sorted."""
    return sorted(log.snapshot(**at).files["path"].to_pylist())


@pytest.fixture(scope="session")
def shared(tmp_path_factory) -> Path:
    """A copy of the tables that other writers left beside this checkout. The originals are never opened by a test."""
    place = Path(__file__).resolve().parents[2] / "shared" / "fixtures"
    if not place.is_dir():
        pytest.skip("the tables of other writers are not beside this checkout")
    copy = tmp_path_factory.mktemp("shared")
    shutil.copytree(place, copy / "fixtures", copy_function=shutil.copyfile)
    for directory in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        directory.chmod(0o755)
    return copy


@pytest.fixture(scope="session")
def servers(tmp_path_factory) -> Iterator[Callable[[str], Running]]:
    """Servers by kind, each started when it is first asked for. A test whose server is missing here is skipped."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def started(kind: str) -> Running:
            return stack.enter_context(running(kind, tmp_path_factory.mktemp(kind)))

        def server(kind: str) -> Running:
            if reason := missing(kind):
                pytest.skip(reason)
            return started(kind)

        yield server


@pytest.fixture(scope="session", autouse=True)
def no_answer_is_kept_by_default() -> Iterator[None]:
    """Ask the splits again where a test asks again; tests of kept answers name a size."""
    default = settings.SEARCH_ANSWERS_MAX_SIZE.default
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(handle, "Answers", lambda max_bytes: Answers(0 if max_bytes == default else max_bytes))
        yield


@pytest.fixture
def log(tmp_path) -> it.TransactionLog:
    """A new table on local disk."""
    log = it.TransactionLog(tmp_path / "table")
    log.initialize(SCHEMA)
    return log


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give out the units of work that `selection` made of the tests, in their order.

    The processes have written them to a file before they report their tests.
    """
    from xdist.scheduler import LoadScopeScheduling

    @functools.cache
    def units() -> dict[str, str]:
        return json.loads(Path(os.environ[UNITS]).read_text())

    class UnitsOfWork(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return units()[nodeid]

    config.option.loadscopereorder = False
    return UnitsOfWork(config, log)


def pytest_collection_modifyitems(config, items) -> None:
    if is_quick_run(config):
        kept = quick(items)
        config.hook.pytest_deselected(items=sorted(set(items) - set(kept), key=lambda item: item.nodeid))
        items[:] = kept
        take_few_examples(items)
    if hasattr(config, "workerinput"):
        units = share_out(items)
        if config.workerinput["workerid"] == "gw0":
            Path(os.environ[UNITS]).write_text(json.dumps(units))


def pytest_addoption(parser) -> None:
    parser.addoption("--seed", type=int, default=None, help="run the simulator with this one seed")
    parser.addoption(
        "--all", action="store_true", help="run the slow tests too, with ten times the seeds, most of them random"
    )


def pytest_configure(config) -> None:
    """Choose the random seeds once, so that all processes of a run share them."""
    hypothesis.settings.load_profile("all" if config.getoption("--all") else "quick")
    os.environ.setdefault(FIRST_SEED, str(random.randrange(10**6, 10**9)))
    if not hasattr(config, "workerinput"):
        os.environ[UNITS] = tempfile.mkstemp(prefix="units-of-work-")[1]


def pytest_unconfigure(config) -> None:
    if not hasattr(config, "workerinput"):
        Path(os.environ.pop(UNITS)).unlink(missing_ok=True)


def pytest_report_header(config) -> str | None:
    if not config.getoption("--all"):
        return None
    return f"random seeds from {os.environ[FIRST_SEED]}; {FIRST_SEED} sets them"


@pytest.fixture
def is_full_run(request) -> bool:
    """Whether this run has every test and random seeds."""
    return bool(request.config.getoption("--all"))


@pytest.fixture
def one_seed(request, is_full_run) -> int:
    """The seed of a test that takes one: the same in every quick run, random with --all."""
    if (seed := request.config.getoption("--seed")) is not None:
        return seed
    return int(os.environ[FIRST_SEED]) if is_full_run else 11


@pytest.fixture
def seeds(request) -> Callable[[int, int, int], list[int]]:
    """Seeds for one of several shares of a test: a tenth of them fixed, the others random and only with --all."""
    config = request.config

    def chosen(num_seeds: int, share: int, num_shares: int) -> list[int]:
        if (seed := config.getoption("--seed")) is not None:
            return [seed]
        fixed, first = num_seeds // 10, int(os.environ[FIRST_SEED])
        every = [*range(fixed), *range(first, first + num_seeds - fixed)] if config.getoption("--all") else range(fixed)
        return list(every[share::num_shares])

    return chosen
