"""`rows`: scattered hits with all columns, from a decoded copy of a split and by pages, beside Lance.

Each side is asked in turn, with everything open. The copy is made before, by the reads that make it pay. A split that
is touched first has none: its pages are read. Every figure is given in time that passes and in time of the processor.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from bench.harness import OURS, Figure, Goal, Setting, alternate, timed_ms
from bench.log_places import shared_peers
from bench.log_rows import MANY, WordSearch, searches
from bench.search_peers import LANCE, OurPeer, Peer
from indextables.split.search.split_rows import wait_for_copies

PAGES = "indextables by pages"

_MOST_READS = 20
_WARM = Goal(max_ratio=0.8)
_FIRST = Goal(max_ratio=2.0)
_AS_BEFORE = Goal(max_ratio=1.0)


def run(setting: Setting) -> list[Figure]:
    lance = next(peer for peer in shared_peers(setting) if peer.name == LANCE)
    place, cache = setting.shared / "logs", setting.directory / "cache"
    decoded = OurPeer(place, cache)
    pages = OurPeer(place, cache, {"search.rows": "pages"})
    _, some, *_ = asked = searches(setting.sizes.num_rows)[:3]
    _make_copy(decoded, some, cache)
    figures = []
    for search in asked:
        figures += _run_one(setting, {OURS: decoded, PAGES: pages, LANCE: lance}, search)
    return figures


def _make_copy(ours: Peer, search: WordSearch, cache: Path) -> None:
    for _ in range(_MOST_READS):
        ours.search(search)
        wait_for_copies()
        if list((cache / "rows").glob("*.rows")):
            return
    raise AssertionError(f"no copy was made by {_MOST_READS} reads")


def _run_one(setting: Setting, peers: dict[str, Peer], search: WordSearch) -> list[Figure]:
    for name, peer in peers.items():
        rows = peer.search(search)
        if not isinstance(rows, pa.Table) or rows.num_rows != search.num_hits:
            raise AssertionError(f"{name} does not find {search.num_hits} rows: {search}")
    wall: dict[str, list[float]] = {name: [] for name in peers}

    def side(name: str) -> Callable[[int], list[float]]:
        return lambda _: [_cpu_ms(lambda: wall[name].append(timed_ms(lambda: peers[name].search(search))))]

    num_rounds = setting.sizes.num_rounds * setting.sizes.num_searches
    cpu = alternate({name: side(name) for name in peers}, num_rounds, setting.say)
    figures = []
    for unit, times in (("", wall), (", CPU", cpu)):
        name = f"rows: {search.name}, all columns"
        first = Goal() if search.required == (MANY,) else _FIRST
        figures += [
            Figure(f"{name}, decoded{unit}", times[OURS], times[LANCE], _WARM, yardstick=LANCE),
            Figure(f"{name}, by pages{unit}", times[PAGES], times[LANCE], first, yardstick=LANCE),
            Figure(f"{name}, decoded{unit}", times[OURS], times[PAGES], _AS_BEFORE, yardstick=PAGES),
        ]
    return figures


def _cpu_ms(work: Callable[[], object]) -> float:
    """How long all threads of this process compute during a call."""
    start = _cpu_seconds()
    work()
    return (_cpu_seconds() - start) * 1000


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
