"""`search`: five searches in log rows, each giving whole rows, and three of their columns; then words asked once each.

Every handle is open and has answered each question once, so that everything is as warm as it gets. That answer is
counted: all find the same number of rows. SQLite gives tuples of Python values, everyone else Arrow; Lance sorts by
score, the others give rows in the order in which they stand.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pyarrow as pa

from bench.harness import OURS, Figure, Goal, Setting, alternate, timed_ms
from bench.log_places import shared_peers
from bench.log_rows import FEW_COLUMNS, MANY, RARE, SOME, WordSearch, searches
from bench.new_words import ask_new_words
from bench.search_peers import LANCE, Peer

_OF_LANCE: dict[tuple[str, ...], Goal] = {
    (RARE,): Goal(max_ratio=2.0),
    (SOME,): Goal(max_ratio=2.0),
    (MANY,): Goal(max_ratio=1.0),
}


def run(setting: Setting) -> list[Figure]:
    peers = shared_peers(setting)
    figures = []
    for search in searches(setting.sizes.num_rows):
        figures += _run_one(setting, peers, search, None)
    for search in searches(setting.sizes.num_rows):
        figures += _run_one(setting, peers, search, FEW_COLUMNS)
    return figures + ask_new_words(setting, peers)


def _run_one(
    setting: Setting, peers: Sequence[Peer], search: WordSearch, columns: Sequence[str] | None
) -> list[Figure]:
    for peer in peers:
        _check(peer, search, columns)
    sides = {peer.name: functools.partial(_time, peer, search, columns) for peer in peers}
    times = alternate(sides, setting.sizes.num_rounds * setting.sizes.num_searches, setting.say)
    name = f"search: {search.name}, {'all' if columns is None else len(columns)} columns"
    goals = {LANCE: _OF_LANCE.get(search.required, Goal())} if columns is None else {}
    return [
        Figure(name, times[OURS], times[peer.name], goals.get(peer.name, Goal()), yardstick=peer.name)
        for peer in peers
        if peer.name != OURS
    ]


def _check(peer: Peer, search: WordSearch, columns: Sequence[str] | None) -> None:
    rows = peer.search(search, columns)
    num_hits = rows.num_rows if isinstance(rows, pa.Table) else len(rows)
    if num_hits != search.num_hits:
        raise AssertionError(f"{peer.name} finds {num_hits} rows of {search.num_hits}: {search}")


def _time(peer: Peer, search: WordSearch, columns: Sequence[str] | None, _: int) -> list[float]:
    return [timed_ms(lambda: peer.search(search, columns))]
