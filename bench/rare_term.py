"""`rare-term`: a word that one of many splits holds, sought with an empty index cache.

What is fetched of the splits is counted at the store, beside the length of all splits. The log is not counted: it is
read before the search begins. A footer and a term filter are fetched of every split; they take a smaller share of a
larger one.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.doubles.metered_store import MeteredStore

import indextables as it
from bench.harness import Figure, Goal, Setting, Unit, timed_ms
from bench.log_places import BYTES_PER_MB, shared_rows, split_bytes
from bench.log_rows import SCHEMA, TEXT_COLUMN, only_here
from bench.our_files import with_cache
from bench.search_peers import our_query
from indextables.config import Config
from indextables.store import ObjectStore, open_store

_GOAL = Goal(max_ratio=0.03)
_WHOLE = "all splits whole"


class FetchedStore(MeteredStore):
    """Counts the bytes that are read too."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.num_bytes = 0

    def get(self, key: str, *, e_tag: str | None = None) -> bytes:
        return self._fetched([super().get(key, e_tag=e_tag)])[0]

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._fetched([super().get_range(key, start, end)])[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return self._fetched(super().get_ranges(key, ranges))

    def _fetched(self, parts: list[bytes]) -> list[bytes]:
        with self._lock:
            self.num_bytes += sum(map(len, parts))
        return parts


def run(setting: Setting) -> list[Figure]:
    return [figure for num_rows in setting.sizes.num_rows_by_split for figure in _run_one(setting, num_rows)]


def _run_one(setting: Setting, num_rows: int) -> list[Figure]:
    path = setting.directory / f"table-{num_rows}"
    _build(path, setting, num_rows)
    caches = (with_cache(setting.directory / f"cache-{num_rows}-{number}") for number in itertools.count())
    times = []
    for number in range(setting.sizes.num_rounds):
        setting.say(f"round {number + 1} of {setting.sizes.num_rounds}")
        times.append(timed_ms(functools.partial(_find, it.Table.open(path, options=next(caches)))))
    fetched_mb, calls = _fetched(path, next(caches))
    whole_mb = split_bytes(path) / BYTES_PER_MB
    name = f"rare-term: in 1 of {setting.sizes.num_splits} splits of {num_rows} rows"
    return [
        Figure(f"{name}, fetched", [fetched_mb], [whole_mb], _GOAL, calls, yardstick=_WHOLE, unit=Unit.MB),
        Figure(f"{name}, first search", times, [], Goal()),
    ]


def _fetched(path: Path, options: Mapping[str, str]) -> tuple[float, dict[str, int]]:
    """What a search fetches, and by which calls."""
    store = FetchedStore(open_store(str(path), Config.resolve()))
    log = it.TransactionLog(path, store=store, options=options)
    table = it.Table(log, log.snapshot())
    table.files()
    store.calls.clear()
    store.num_bytes = 0
    _find(table)
    return store.num_bytes / BYTES_PER_MB, dict(store.calls)


def _build(path: Path, setting: Setting, num_rows: int) -> None:
    """Splits of so many of the log rows each, evenly spread over them; the last row is in the last split alone."""
    rows = shared_rows(setting.sizes.num_rows)
    num_splits = setting.sizes.num_splits
    table = it.Table.create(path, SCHEMA, indexing={TEXT_COLUMN: "text"})
    for number in range(num_splits):
        setting.say(f"writing split {number + 1} of {num_splits}")
        table.append(rows.slice((rows.num_rows - num_rows) * number // (num_splits - 1), num_rows))
    if table.num_files != num_splits:
        raise AssertionError(f"{table.num_files} splits were written of {num_splits}")


def _find(table: it.Table) -> None:
    search = only_here()
    found = table.search(our_query(search)).num_rows
    if found != search.num_hits:
        raise AssertionError(f"{found} rows were found of {search.num_hits}: {search}")
