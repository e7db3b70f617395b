"""What all tests share."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pyarrow as pa
import pytest
from tests.servers import Running, missing, running

import indextables as it

hypothesis.settings.register_profile("quick", deadline=None, derandomize=True)
hypothesis.settings.register_profile("all", deadline=None, print_blob=True)

SPARK_TESTS = ("tests/spark/", "tests/split/test_other_engines.py")
ONE_SERVER = "tests/store/test_hdfs_store.py"
OTHER_HALF = ("tests/spark/test_s", "tests/spark/test_t", "tests/spark/test_w")
FIRST_SEED = "INDEXTABLES_FIRST_SEED"
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


@pytest.fixture
def log(tmp_path) -> it.TransactionLog:
    """A new table on local disk."""
    log = it.TransactionLog(tmp_path / "table")
    log.initialize(SCHEMA)
    return log


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """All tests of Spark go to two processes at most, each of which has one Java: a start takes seconds, and memory.
    Those of HDFS go to one."""
    from xdist.scheduler import LoadScopeScheduling

    class FewProcessesForSpark(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(ONE_SERVER):
                return nodeid.partition("::")[0]
            if not nodeid.startswith(SPARK_TESTS):
                return nodeid
            return "spark, other half" if nodeid.startswith(OTHER_HALF) else "spark"

    return FewProcessesForSpark(config, log)


def pytest_addoption(parser) -> None:
    parser.addoption("--seed", type=int, default=None, help="run the simulator with this one seed")
    parser.addoption("--all", action="store_true", help="ten times the seeds, most of them random, and random examples")


def pytest_configure(config) -> None:
    """Choose the random seeds once, so that all processes of a run share them."""
    hypothesis.settings.load_profile("all" if config.getoption("--all") else "quick")
    os.environ.setdefault(FIRST_SEED, str(random.randrange(10**6, 10**9)))


def pytest_report_header(config) -> str | None:
    if not config.getoption("--all"):
        return None
    return f"random seeds from {os.environ[FIRST_SEED]}; {FIRST_SEED} sets them"


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
