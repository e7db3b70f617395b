"""`cold-parts`: searches with an empty index cache, which fetch parts of the indexes or all of them.

The bytes of a search are counted at the store, without footers, which every search reads. Times are of new handles in
one process. The other side is the same search with `search.cold=whole`. Every half a million rows has the planted words
again, and ids of its own. Then a word is sought in many splits of a store with a pause of thirty milliseconds before
every read; that pause is simulated. The splits are slices of the same rows, some of them with a word that the others
lack.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from tests.doubles.metered_store import MeteredStore

import indextables as it
from bench.harness import Figure, Goal, Setting, Unit, alternate, checked_count, timed_ms
from bench.latency import LateStore
from bench.log_places import BYTES_PER_MB, shared_rows
from bench.log_rows import PHRASE, RARE, SCHEMA, TEXT_COLUMN
from bench.rare_term import FetchedStore
from indextables.config import Config
from indextables.store import ObjectStore, open_store

_WHOLE = "indexes fetched whole"
_ID_COLUMN = "trace_id"
_ID_PREFIX = 4
_PAUSE_SECONDS = 0.030
_IN_FLIGHT = 32
_FEW = 10
_PLANTED, _EVERYWHERE = "wombat", RARE


class _IndexStore(FetchedStore):
    """Counts the bytes of indexes, filters and rows, but not of footers."""

    footers: Mapping[str, int] = {}

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        found = MeteredStore.get_ranges(self, key, ranges)
        footer = self.footers.get(key)
        is_footer = footer is not None and all(start >= footer for start, _ in ranges)
        return found if is_footer else self._fetched(found)


class _Question(NamedTuple):
    name: str
    query: str
    num_hits: int
    bytes_goal: Goal
    time_goal: Goal


def run(setting: Setting) -> list[Figure]:
    caches = (str(setting.directory / f"cache-{number}") for number in itertools.count())
    path = setting.directory / "table"
    questions = _build(path, setting)
    figures = []
    for question in questions:
        fetched = {cold: _fetched_mb(path, question, cold, next(caches)) for cold in ("partial", "whole")}
        times = alternate(
            {cold: functools.partial(_near_side, path, question, cold, caches) for cold in ("partial", "whole")},
            setting.sizes.num_rounds,
            setting.say,
        )
        name = f"cold-parts: {question.name}"
        bytes_ = (f"{name}, fetched", [fetched["partial"]], [fetched["whole"]], question.bytes_goal)
        figures += [
            Figure(*bytes_, yardstick=_WHOLE, unit=Unit.MB),
            Figure(f"{name}, first search", times["partial"], times["whole"], question.time_goal, yardstick=_WHOLE),
        ]
    return figures + _far(setting, caches)


def _build(path: Path, setting: Setting) -> list[_Question]:
    rows = shared_rows(setting.sizes.num_rows)
    table = it.Table.create(path, SCHEMA, indexing={TEXT_COLUMN: "text"})
    count = max(1, setting.sizes.num_cold_rows // rows.num_rows)
    column = SCHEMA.get_field_index(_ID_COLUMN)
    for number in range(count):
        setting.say(f"writing {rows.num_rows} rows, {number + 1} of {count}")
        ends = pc.utf8_slice_codeunits(rows[column], _ID_PREFIX)
        ids = pc.binary_join_element_wise(pa.scalar(f"{number:0{_ID_PREFIX}x}"), ends, "")
        table.append(rows.set_column(column, SCHEMA[column], ids))
    some_id = ids[rows.num_rows // 2].as_py()
    num_words = _num_rows_with(rows, RARE) * count
    num_phrases = _num_rows_with(rows, PHRASE) * count
    of = f"{count * rows.num_rows:,} rows"
    return [
        _Question(f"a rare word in {of}", RARE, num_words, Goal(max_ratio=0.15), Goal(max_ratio=0.25)),
        _Question(f"a phrase in {of}", f'"{PHRASE}"', num_phrases, Goal(max_ratio=0.3), Goal()),
        _Question(f"an id in {of}", f"{_ID_COLUMN}:{some_id}", 1, Goal(max_ratio=0.05), Goal()),
    ]


def _num_rows_with(rows: pa.Table, words: str) -> int:
    return int(pc.sum(pc.match_substring(rows[TEXT_COLUMN], words)).as_py() or 0)


def _open(path: Path, store: ObjectStore, options: Mapping[str, str]) -> it.Table:
    log = it.TransactionLog(path, store=store, options=options)
    table = it.Table(log, log.snapshot())
    table.files()
    return table


def _fetched_mb(path: Path, question: _Question, cold: str, cache: str) -> float:
    store = _IndexStore(open_store(str(path), Config.resolve()))
    table = _open(path, store, {"search.cold": cold, "cache.disk.path": cache})
    store.footers = {file["path"]: file["footer_start_offset"] for file in table.files().to_pylist()}
    store.num_bytes = 0
    _find(table, question)
    return store.num_bytes / BYTES_PER_MB


def _near_side(path: Path, question: _Question, cold: str, caches: Iterator[str], _round: int) -> list[float]:
    options = {"search.cold": cold, "cache.disk.path": next(caches)}
    table = _open(path, open_store(str(path), Config.resolve()), options)
    return [timed_ms(lambda: _find(table, question))]


def _find(table: it.Table, question: _Question) -> None:
    """Count a phrase, which has many rows, and fetch the rows of everything else."""
    if question.query.startswith('"'):
        checked_count(table.count(question.query), question.num_hits)
    else:
        checked_count(table.search(question.query, columns=["ts"]).num_rows, question.num_hits)


def _far(setting: Setting, caches: Iterator[str]) -> list[Figure]:
    path = setting.directory / "far"
    num_splits, num_rows = setting.sizes.num_splits, setting.sizes.num_rows_by_split[-1]
    num_few = min(_FEW, num_splits // 2)
    rows = shared_rows(setting.sizes.num_rows)
    table = it.Table.create(path, SCHEMA, indexing={TEXT_COLUMN: "text"})
    column = SCHEMA.get_field_index(TEXT_COLUMN)
    for number in range(num_splits):
        setting.say(f"writing split {number + 1} of {num_splits}")
        part = rows.slice((rows.num_rows - num_rows) * number // (num_splits - 1), num_rows)
        texts = part[column].to_pylist()
        texts[number % num_rows] += f" {_EVERYWHERE}s"
        if number % (num_splits // num_few) == 0 and number // (num_splits // num_few) < num_few:
            texts[-1] += f" {_PLANTED}"
        table.append(part.set_column(column, SCHEMA[column], pa.array(texts)))
    figures = []
    late = f"splits of {num_rows:,} rows, each read {_PAUSE_SECONDS * 1000:g} ms late (simulated)"
    for word, num_hits, goal in ((_PLANTED, num_few, 1_000), (f"{_EVERYWHERE}s", num_splits, 2_000)):
        times = alternate(
            {cold: functools.partial(_far_side, path, word, num_hits, cold, caches) for cold in ("partial", "whole")},
            setting.sizes.num_rounds,
            setting.say,
        )
        name = f"cold-parts: a word in {num_hits} of {num_splits} {late}"
        figures.append(Figure(name, times["partial"], times["whole"], Goal(below_ms=goal), yardstick=_WHOLE))
    return figures


def _far_side(path: Path, word: str, num_hits: int, cold: str, caches: Iterator[str], _round: int) -> list[float]:
    store = LateStore(open_store(str(path), Config.resolve()), _PAUSE_SECONDS)
    options = {"search.cold": cold, "cache.disk.path": next(caches), "store.parallelism": str(_IN_FLIGHT)}
    table = _open(path, store, options)
    return [timed_ms(lambda: checked_count(table.search(word).num_rows, num_hits))]
