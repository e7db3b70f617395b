"""`index`: log rows into a table of their own, beside the bare engine and beside peers, and what it takes on disk.

The bare engine gets the same documents into the same fields by one thread, with as much memory; it writes no rows, no
statistics and no log. Converting Arrow to Python values is counted on both sides. A size is that of all files: ours is
that of the splits, and also with the log.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import tantivy

from bench import search_peers
from bench.harness import OURS, Figure, Goal, Setting, Unit, alternate, timed_cpu_ms, timed_ms
from bench.log_places import BYTES_PER_MB, num_bytes, shared_rows, split_bytes
from bench.log_rows import SCHEMA, TEXT_COLUMN
from bench.search_peers import DUCKDB, LANCE, SQLITE
from indextables.config import Config, settings
from indextables.split.index.analyzers import register
from indextables.split.index.builder import make_schema
from indextables.split.index.fields import map_fields

_BARE = "tantivy, bare loop"
_WITH_LOG = "ours with the log"
_OF_BARE = Goal(max_ratio=1.15)
_OF_LANCE = Goal(max_ratio=1.5)
_SIZE_OF_LANCE = Goal(max_ratio=0.65)
_ROWS_PER_BATCH = 10_000

Build = Callable[[Path, pa.Table], None]


def run(setting: Setting) -> list[Figure]:
    setting.say("making rows")
    rows = shared_rows(setting.sizes.num_rows)
    sizes: dict[str, list[float]] = {}
    cpus: dict[str, list[float]] = {}
    builds: dict[str, Build] = {
        OURS: search_peers.build_ours,
        _BARE: build_bare,
        LANCE: search_peers.build_lance,
        SQLITE: search_peers.build_sqlite,
        DUCKDB: search_peers.build_parquet,
    }
    times = alternate(
        {name: functools.partial(_build, setting, rows, name, build, sizes, cpus) for name, build in builds.items()},
        setting.sizes.num_rounds,
        setting.say,
    )
    name = f"index: {rows.num_rows} rows"
    peers = (LANCE, SQLITE, DUCKDB)
    return [
        Figure(f"{name}, build", times[OURS], times[_BARE], _OF_BARE, yardstick=_BARE),
        *(
            Figure(f"{name}, build", times[OURS], times[peer], goal, yardstick=peer)
            for peer, goal in zip(peers, (_OF_LANCE, Goal(), Goal()), strict=True)
        ),
        Figure(f"{name}, build, CPU", cpus[OURS], cpus[_BARE], _OF_BARE, yardstick=_BARE),
        Figure(f"{name}, build, CPU", cpus[OURS], cpus[LANCE], _OF_LANCE, yardstick=LANCE),
        *(
            Figure(f"{name}, size", sizes[OURS], sizes[peer], goal, yardstick=peer, unit=Unit.MB)
            for peer, goal in zip(peers, (_SIZE_OF_LANCE, Goal(), Goal()), strict=True)
        ),
        Figure(f"{name}, size with the log", sizes[_WITH_LOG], sizes[LANCE], Goal(), yardstick=LANCE, unit=Unit.MB),
    ]


def build_bare(path: Path, rows: pa.Table) -> None:
    """The index alone, by a loop over the rows."""
    config = Config.resolve(options={f"indexing.typemap.{TEXT_COLUMN}": "text"})
    fields = map_fields(SCHEMA, config)
    path.mkdir()
    index = tantivy.Index(make_schema(fields), path=str(path))
    register(index, fields)
    writer = index.writer(heap_size=config[settings.INDEX_WRITER_HEAP_SIZE], num_threads=1)
    moments = rows.set_column(0, "ts", rows["ts"].cast(pa.int64()))
    ts, level, service, host, status, latency_ms, trace_id, message = (field.name for field in fields.fields)
    number = 0
    for batch in moments.to_batches(max_chunksize=_ROWS_PER_BATCH):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            document = tantivy.Document()
            document.add_unsigned("_row", number)
            document.add_integer(ts, row[0])
            document.add_text(level, row[1])
            document.add_text(service, row[2])
            document.add_text(host, row[3])
            document.add_integer(status, row[4])
            document.add_float(latency_ms, row[5])
            document.add_text(trace_id, row[6])
            document.add_text(message, row[7])
            writer.add_document(document)
            number += 1
    writer.commit()
    writer.wait_merging_threads()


def _build(
    setting: Setting,
    rows: pa.Table,
    name: str,
    build: Build,
    sizes: dict[str, list[float]],
    cpus: dict[str, list[float]],
    _: int,
) -> list[float]:
    path = setting.directory / "built"
    try:
        elapsed: list[float] = []
        cpu_ms = timed_cpu_ms(lambda: elapsed.append(timed_ms(lambda: build(path, rows))))
        cpus.setdefault(name, []).append(cpu_ms)
        sizes.setdefault(name, []).append((split_bytes if name == OURS else num_bytes)(path) / BYTES_PER_MB)
        if name == OURS:
            sizes.setdefault(_WITH_LOG, []).append(num_bytes(path) / BYTES_PER_MB)
        return elapsed
    finally:
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
