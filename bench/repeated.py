"""`repeated`: the same question asked again on one handle, which keeps answers or keeps none.

A handle at one version keeps its answers up to `search.answers.maxSize` bytes; 0 keeps none. New words show the cost of
keeping answers that are never asked for again. Every figure is given in time that passes and in time of the processor.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

import indextables as it
from bench.harness import Figure, Goal, Setting, alternate, timed_cpu_ms, timed_ms
from bench.log_places import shared_peers
from bench.log_rows import FEW_COLUMNS, MANY, SOME

KEPT, NOT_KEPT = "answers kept", "ours, no answer kept"
_OPTIONS = {KEPT: "16M", NOT_KEPT: "0"}
_LIMIT = 10
_NUM_ASKED = 20
_QUICK = Goal(below_ms=0.2)
_NO_DEARER = Goal(max_ratio=1.1)

_Ask = Callable[[it.Table], object]
_QUESTIONS: Mapping[str, _Ask] = {
    "count": lambda table: table.count(MANY),
    "terms of level": lambda table: table.aggregate("level", query=MANY),
    "hours": lambda table: table.date_histogram("ts", interval="1h", query=MANY),
    "10 rows, 3 columns": lambda table: table.search(SOME, columns=FEW_COLUMNS, limit=_LIMIT),
    "10 rows, all columns": lambda table: table.search(SOME, limit=_LIMIT),
    "10 best rows, all columns": lambda table: table.search(SOME, limit=_LIMIT, score=True),
}


def run(setting: Setting) -> list[Figure]:
    shared_peers(setting)
    cache = str(setting.shared / "index-cache")
    tables = {
        way: it.Table.open(
            setting.shared / "logs",
            options={"cache.disk.path": cache, "search.cold": "whole", "search.answers.maxSize": max_size},
        )
        for way, max_size in _OPTIONS.items()
    }
    figures = []
    for name, ask in _QUESTIONS.items():
        _check_alike(name, [ask(table) for table in tables.values() for _ in range(2)])
        figures += _compare(setting, f"repeated: {name}", {way: [ask] for way in tables}, tables, _QUICK)
    num_rounds = setting.sizes.num_rounds * setting.sizes.num_searches
    num_new = num_rounds * _NUM_ASKED
    # Words of their own for each side: a plan of a query is kept for the whole process.
    new = {way: [_count(f"unseen{number}{way[0]}") for number in range(num_new)] for way in tables}
    figures += _compare(setting, "repeated: count, a new word each time", new, tables, _NO_DEARER)
    kept = tables[KEPT].answer_stats()
    if kept.hits < len(_QUESTIONS) * num_rounds or kept.misses != len(_QUESTIONS) + num_new:
        raise AssertionError(f"answers were not kept, or kept for other questions: {kept}")
    return figures


def _count(word: str) -> _Ask:
    return lambda table: table.count(word)


def _compare(
    setting: Setting, name: str, asked: Mapping[str, Sequence[_Ask]], tables: Mapping[str, it.Table], goal: Goal
) -> list[Figure]:
    """Figures of one call; each sample is the mean of some of them, since one is too short for the clock."""
    wall: dict[str, list[float]] = {way: [] for way in tables}

    def side(way: str, number: int) -> list[float]:
        questions = [asked[way][at % len(asked[way])] for at in range(number * _NUM_ASKED, (number + 1) * _NUM_ASKED)]

        def work() -> None:
            for ask in questions:
                ask(tables[way])

        cpu = timed_cpu_ms(lambda: wall[way].append(timed_ms(work) / _NUM_ASKED))
        return [cpu / _NUM_ASKED]

    num_rounds = setting.sizes.num_rounds * setting.sizes.num_searches
    cpu = alternate({way: functools.partial(side, way) for way in tables}, num_rounds, setting.say)
    return [
        Figure(f"{name}{unit}", times[KEPT], times[NOT_KEPT], goal, yardstick=NOT_KEPT)
        for unit, times in (("", wall), (", CPU", cpu))
    ]


def _check_alike(name: str, answers: Sequence[object]) -> None:
    """Refuse to measure answers that differ."""
    first = answers[0]
    for answer in answers[1:]:
        same = first.equals(answer) if isinstance(first, pa.Table) else first == answer
        if not same:
            raise AssertionError(f"the answers to `{name}` differ")
