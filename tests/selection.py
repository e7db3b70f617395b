"""Which tests a quick run has, and which of its processes runs which tests.

A quick run has no test that is marked `slow`. A test on a Spark session or on a server, and a test that is marked
`one_case`, runs with one of its cases there. The name of the test decides which, so that every kind of session and of
server is met. A property test takes a fifth of its examples, the same every time. `--all` or a seed brings all of this
back, and so do names of tests with `::`.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable

import hypothesis
import pytest
from tests.servers import KINDS

SPARK, SERVERS = "Spark", "servers"
# Modules of tests that take long and share nothing: each test is given out alone.
_ALONE = ("tests/simulator/", "tests/fuzz/")
_SPARK_UNITS = 6
_SETTINGS = "_hypothesis_internal_use_settings"


def is_quick_run(config: pytest.Config) -> bool:
    """Whether the run leaves tests out."""
    named = all("::" in argument for argument in config.args)
    return not (config.getoption("--all") or config.getoption("--seed") is not None or named)


def quick(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The items of a quick run, in their order."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow") is None:
            one_case = needs(item) or item.get_closest_marker("one_case")
            cases[item.nodeid.partition("[")[0] if one_case else item.nodeid].append(item)
    kept = {id(alike[zlib.crc32(name.encode()) % len(alike)]) for name, alike in cases.items()}
    return [item for item in items if id(item) in kept]


def take_few_examples(items: Iterable[pytest.Item]) -> None:
    """Leave property tests a fifth of their examples: hypothesis reads the settings of a test when it runs."""
    tests = {getattr(test, "__func__", test) for test in (getattr(item, "obj", None) for item in items)}
    for test in tests:
        if isinstance(settings := getattr(test, _SETTINGS, None), hypothesis.settings):
            setattr(test, _SETTINGS, hypothesis.settings(settings, max_examples=-(-settings.max_examples // 5)))


def needs(item: pytest.Item) -> str | None:
    """The costly thing that a test needs; None if it needs none of them."""
    fixtures = getattr(item, "fixturenames", ())
    if not {"spark", "session"}.isdisjoint(fixtures):
        return SPARK
    cases = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return SERVERS if "servers" in fixtures or any(case in KINDS for case in cases if isinstance(case, str)) else None


def share_out(items: list[pytest.Item]) -> dict[str, str]:
    """Order the items for several processes, and return the unit of work of each id.

    The modules with tests on a Spark session are a few units, which come first: every process starts one Java process,
    and ends it after its last unit of them. All tests on servers go to one process, so that each server is started
    once. Other modules are units, whose fixtures are made once. Those that take long come first, so that all processes
    end at about the same time.
    """
    units = {id(item): _unit(item) for item in items}
    items.sort(key=lambda item: units[id(item)][: 1 if units[id(item)][0] else 2])
    return {item.nodeid: units[id(item)][1] for item in items}


def _unit(item: pytest.Item) -> tuple[int, str]:
    module = item.nodeid.partition("::")[0]
    if room := needs(item):
        share = zlib.crc32(module.encode()) % _SPARK_UNITS
        return (0, f"{SPARK} {share}") if room == SPARK else (1, SERVERS)
    if item.nodeid.startswith(_ALONE):
        return 2, item.nodeid
    return (3, module) if item.get_closest_marker("slow") is None else (2, f"slow {module}")
