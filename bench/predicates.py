"""`predicates`: counts of rows by a predicate on one column, beside DuckDB over the same rows as Parquet.

Every question has values of its own. Ours answers with its index on local disk, and without, by the rows alone. Every
figure is given in time that passes and in time of the processor. The peak memory is that of a new process, its imports
included, which counts once.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

import indextables as it
from bench.harness import Figure, Goal, Setting, Unit, alternate, timed_cpu_ms, timed_ms
from bench.log_places import shared_peers, shared_rows
from bench.log_rows import MANY, WordSearch
from bench.predicate_counts import duckdb_count, duckdb_question, our_count
from bench.processes import cost_in_new_process
from bench.search_peers import OurPeer

DUCKDB = "DuckDB over Parquet"
INDEXED, BY_ROWS = "index at hand", "by rows"
_GOAL = Goal(max_ratio=2.0)
_MEMORY = Goal(below_mb=400)
_SEED = 29

_Where = Callable[[random.Random, pa.Table], str]


def run(setting: Setting) -> list[Figure]:
    shared_peers(setting)
    path, parquet = setting.shared / "logs", setting.shared / "logs.parquet"
    tables = {INDEXED: _with_index(path, setting.shared / "index-cache"), BY_ROWS: _opened(path, setting.directory)}
    connection = duckdb.connect()
    rows = shared_rows(setting.sizes.num_rows)
    choose = random.Random(_SEED)
    figures = []
    for name, make in _PREDICATES.items():
        num_asked = setting.sizes.num_rounds * setting.sizes.num_searches + 1
        wheres = [make(choose, rows) for _ in range(num_asked)]
        sides: dict[str, Callable[[str], int]] = {
            **{way: functools.partial(_count, table) for way, table in tables.items()},
            DUCKDB: functools.partial(_duckdb_count, connection, parquet),
        }
        figures += _compare(setting, f"predicates: {name}", sides, wheres)
        figures.append(_memory(setting, f"predicates: {name}", path, parquet, wheres[0], sides[DUCKDB](wheres[0])))
    return figures


def _opened(path: Path, cache: Path) -> it.Table:
    return it.Table.open(path, options={"cache.disk.path": str(cache / "cache"), "search.answers.maxSize": "0"})


def _with_index(path: Path, cache: Path) -> it.Table:
    """A table whose index is whole in the cache."""
    options = {"cache.disk.path": str(cache), "search.cold": "whole"}
    OurPeer(path, cache, options).count(WordSearch("", (MANY,), (), 0))
    return it.Table.open(path, options={**options, "search.answers.maxSize": "0"})


def _compare(
    setting: Setting, name: str, sides: Mapping[str, Callable[[str], int]], wheres: Sequence[str]
) -> list[Figure]:
    """The first predicate opens everything, and is not timed."""
    wall: dict[str, list[float]] = {side: [] for side in sides}
    found: dict[str, list[int]] = {side: [count(wheres[0])] for side, count in sides.items()}

    def ask(side: str, number: int) -> list[float]:
        def work() -> None:
            found[side].append(sides[side](wheres[number + 1]))

        return [timed_cpu_ms(lambda: wall[side].append(timed_ms(work)))]

    cpu = alternate({side: functools.partial(ask, side) for side in sides}, len(wheres) - 1, setting.say)
    if len({tuple(counts) for counts in found.values()}) > 1:
        raise AssertionError(f"counts differ for {name}: {found}")
    return [
        Figure(f"{name}, {way}{unit}", times[way], times[DUCKDB], _GOAL, yardstick=DUCKDB)
        for unit, times in (("", wall), (", CPU", cpu))
        for way in (INDEXED, BY_ROWS)
    ]


def _memory(setting: Setting, name: str, path: Path, parquet: Path, where: str, expected: int) -> Figure:
    setting.say(f"memory: {where}")
    ours = cost_in_new_process(expected, our_count, path, setting.directory / "cache", where).peak_mb
    theirs = cost_in_new_process(expected, duckdb_count, parquet, where).peak_mb
    return Figure(f"{name}, peak memory", [ours], [theirs], _MEMORY, yardstick=DUCKDB, unit=Unit.MB)


def _count(table: it.Table, where: str) -> int:
    return table.count(where=where)


def _duckdb_count(connection: duckdb.DuckDBPyConnection, parquet: Path, where: str) -> int:
    found = connection.execute(duckdb_question(parquet, where)).fetchone()
    return int(found[0]) if found else 0


def _number_range(choose: random.Random, rows: pa.Table) -> str:
    low = round(choose.uniform(1, 60), 3)
    return f"latency_ms >= {low} AND latency_ms < {round(low * 1.5, 3)}"


def _number(choose: random.Random, rows: pa.Table) -> str:
    return f"status >= {choose.randint(300, 600)}"


def _keyword(choose: random.Random, rows: pa.Table) -> str:
    return f"host = '{_value(choose, rows, 'host')}'"


def _identity(choose: random.Random, rows: pa.Table) -> str:
    return f"trace_id = '{_value(choose, rows, 'trace_id')}'"


def _time_range(choose: random.Random, rows: pa.Table) -> str:
    first, last = sorted(choose.sample(range(rows.num_rows), 2))
    low, high = (rows["ts"][row].as_py().strftime("%Y-%m-%d %H:%M:%S+00:00") for row in (first, last))
    return f"ts >= TIMESTAMP '{low}' AND ts < TIMESTAMP '{high}'"


def _text(choose: random.Random, rows: pa.Table) -> str:
    return f"message = '{_value(choose, rows, 'message')}'"


def _value(choose: random.Random, rows: pa.Table, column: str) -> str:
    value: str = rows[column][choose.randrange(rows.num_rows)].as_py()
    return value


_PREDICATES: Mapping[str, _Where] = {
    "range of a number": _number_range,
    "bound of a whole number": _number,
    "keyword": _keyword,
    "unique keyword": _identity,
    "range of time": _time_range,
    "text": _text,
}
