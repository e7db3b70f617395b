"""`far-splits`: a search over many small splits in a store that answers late, by a handle that has seen none of them.

The store is the local one with a pause of thirty milliseconds before every read; that pause is simulated, not measured
anywhere. The other side is allowed one request at a time, and so asks as many splits at once as there are cores.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc

import indextables as it
from bench.harness import Figure, Goal, Setting, alternate, checked_count, timed_ms
from bench.latency import LateStore
from bench.log_rows import TEXT_COLUMN, log_rows
from indextables.config import Config
from indextables.store import open_store

_PAUSE_SECONDS = 0.030
_ROWS_PER_SPLIT = 20
_LEVEL = "INFO"
_ALONE = "ours, as many at once as there are cores"


def run(setting: Setting) -> list[Figure]:
    path, count = setting.directory / "table", setting.sizes.num_splits
    rows = log_rows(count * _ROWS_PER_SPLIT)
    table = it.Table.create(path, rows.schema, indexing={TEXT_COLUMN: "text"})
    for number in range(count):
        table.append(rows.slice(number * _ROWS_PER_SPLIT, _ROWS_PER_SPLIT))
    num_hits = rows.filter(pc.equal(rows["level"], _LEVEL)).num_rows
    calls: list[dict[str, int]] = []
    times = alternate(
        {
            "at once": lambda _: [_search_ms(path, num_hits, {}, calls)],
            "by core": lambda _: [_search_ms(path, num_hits, {"store.parallelism": "1"}, [])],
        },
        setting.sizes.num_rounds,
        setting.say,
    )
    name = f"far-splits: search {count} small splits, each read {_PAUSE_SECONDS * 1000:g} ms late (simulated)"
    return [Figure(name, times["at once"], times["by core"], Goal(), yardstick=_ALONE, store_calls=calls[0])]


def _search_ms(path: Path, num_hits: int, options: dict[str, str], calls: list[dict[str, int]]) -> float:
    store = LateStore(open_store(str(path), Config.resolve()), _PAUSE_SECONDS)
    log = it.TransactionLog(path, store=store, options={**options, "cache.disk.enabled": "false"})
    table = it.Table(log, log.snapshot())
    store.calls.clear()
    elapsed_ms = timed_ms(lambda: checked_count(table.search(f"level:{_LEVEL}", columns=["level"]).num_rows, num_hits))
    calls.append(dict(store.calls))
    return elapsed_ms
