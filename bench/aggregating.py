"""`aggregate`: counts, terms, a histogram of hours and statistics of log rows, of those that a search finds.

Every handle is open and has answered each question once. Ours answers from the index alone. Lance groups nothing
itself: it gives the column, which Arrow groups. What is asked of all rows is shown without a goal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from bench.harness import OURS, Figure, Goal, Setting, alternate, timed_ms
from bench.log_places import shared_peers
from bench.log_rows import MANY, WordSearch, searches
from bench.search_peers import Peer

_AHEAD = Goal(max_ratio=1.0)

TableScan = Callable[[Peer], Any]


def run(setting: Setting) -> list[Figure]:
    peers = shared_peers(setting)
    figures = []
    for search in searches(setting.sizes.num_rows):
        for peer in peers:
            _check_count(peer, search)
        figures += _compare(setting, peers, f"aggregate: count, {search.name}", _count(search), _AHEAD)
    many = next(search for search in searches(setting.sizes.num_rows) if search.required == (MANY,))
    subjects: list[tuple[str, WordSearch | None, Goal]] = [(many.name, many, _AHEAD), ("all rows", None, Goal())]
    for subject, chosen, goal in subjects:
        for name, question in _questions(chosen):
            _check_answers(peers, question)
            figures += _compare(setting, peers, f"aggregate: {name}, {subject}", question, goal)
    return figures


def _questions(search: WordSearch | None) -> list[tuple[str, TableScan]]:
    return [
        ("terms of level", lambda peer: peer.terms("level", search)),
        ("terms of service", lambda peer: peer.terms("service", search)),
        ("hours", lambda peer: peer.by_hour(search)),
        ("statistics of latency_ms", lambda peer: peer.stats("latency_ms", search)),
    ]


def _count(search: WordSearch) -> TableScan:
    return lambda peer: peer.count(search)


def _compare(setting: Setting, peers: Sequence[Peer], name: str, question: TableScan, goal: Goal) -> list[Figure]:
    times = alternate(
        {peer.name: _timed(peer, question) for peer in peers},
        setting.sizes.num_rounds * setting.sizes.num_searches,
        setting.say,
    )
    return [
        Figure(name, times[OURS], times[peer.name], goal, yardstick=peer.name) for peer in peers if peer.name != OURS
    ]


def _timed(peer: Peer, question: TableScan) -> Callable[[int], list[float]]:
    return lambda _: [timed_ms(lambda: question(peer))]


def _check_count(peer: Peer, search: WordSearch) -> None:
    found = peer.count(search)
    if found != search.num_hits:
        raise AssertionError(f"{peer.name} counts {found} rows of {search.num_hits}: {search}")


def _check_answers(peers: Sequence[Peer], question: TableScan) -> None:
    """Refuse to measure where groups differ in number; an answer that is one row has none."""
    answers = {peer.name: question(peer) for peer in peers}
    found = {name: answer.num_rows for name, answer in answers.items() if isinstance(answer, pa.Table)}
    if len(set(found.values())) > 1:
        raise AssertionError(f"groups differ in number: {found}")
